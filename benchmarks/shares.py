"""Class probabilities of several classes: errors, and time beside a plain rule of 1024 points that all classes share.

    python benchmarks/shares.py [--rows 40]

Latent values are random Gaussians of a given scale (contrasts of standard deviation √2 scale), and posteriors of Laplace's
method on scikit-learn's tables. The truth comes from lines (softmax) and from contrasts drawn in turn (the largest), with a
tenth of the tolerance and other points, three times.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.preprocessing import StandardScaler

from gpclass import GPClassifier
from gpclass.numerics import expected_softmax, orthants, points, shares, winner_probabilities


def plain_rule(mean, cov):
    """E[softmax] with 1024 points for all classes."""
    z = ndtri(qmc.Sobol(mean.shape[1], rng=np.random.default_rng(0)).random(1024)).T
    value, vector = np.linalg.eigh(cov)
    f = (vector * np.sqrt(np.maximum(value, 0.0))[:, None]) @ z + mean[..., None]
    f = np.exp(f - f.max(1, keepdims=True))
    return (f / f.sum(1, keepdims=True)).mean(2)


def truth(rule, mean, cov):
    """With other points, tolerances that ask for nearly all of them, and softmax by lines only."""
    strict = {(shares, "GRID"): 0, (shares, "NARROW"): 0.0, (shares, "COMMON"): 0.1 * shares.COMMON,
              (shares, "RELATIVE"): 0.1 * shares.RELATIVE, (orthants, "ABSOLUTE"): 0.1 * orthants.ABSOLUTE,
              (shares, "SMALL_STEP"): 0.5 * shares.SMALL_STEP}  # fmt: skip
    kept = {(module, name): getattr(module, name) for module, name in (*strict, (points, "SEED"))}
    out = []
    try:
        for seed in (1, 2, 3):
            change({**strict, (points, "SEED"): seed})
            out.append(rule(mean, cov))
    finally:
        change(kept)
    return np.mean(out, axis=0)


def change(settings):
    for (module, name), value in settings.items():
        setattr(module, name, value)
    points.uniform_points.cache_clear()
    points.normal_points.cache_clear()


def random_values(n_classes, scale, rows):
    rng = np.random.default_rng([n_classes, rows])
    A = rng.normal(size=(rows, n_classes, n_classes)) * scale / np.sqrt(n_classes)
    return scale * rng.normal(size=(rows, n_classes)), A @ np.swapaxes(A, 1, 2)


def posterior(load, n_train, rows):
    X, y = load(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = StandardScaler().fit_transform(X)[order], y[order]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = GPClassifier(likelihood="softmax", inference="laplace", max_iter=30).fit(X[:n_train], y[:n_train])
    return model.latent(X[n_train : n_train + rows])


def seconds(rule, mean, cov, least=0.2):
    """Processor time of a row, best of some runs."""
    best, spent = np.inf, 0.0
    rule(mean, cov)  # tables of points are made once
    while spent < least:
        began = time.process_time()
        rule(mean, cov)
        took = time.process_time() - began
        best, spent = min(best, took), spent + took
    return best / len(mean)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=40)
    rows = parser.parse_args().rows
    cases = {f"{C} classes, scale {s:g}": random_values(C, s, rows) for C in (3, 5, 10) for s in (0.5, 2.0, 8.0)}
    for name, load, n_train in (("iris", load_iris, 90), ("wine", load_wine, 100), ("digits", load_digits, 250)):
        cases[f"{name}, Laplace"] = posterior(load, n_train, rows)
    print("softmax: largest absolute error, largest relative error above 1e-5, µs a row, times the plain rule (its error)")
    for name, (mean, cov) in cases.items():
        exact, p = truth(expected_softmax, mean, cov), expected_softmax(mean, cov)
        seen, ours, plain = exact > 1e-5, seconds(expected_softmax, mean, cov), seconds(plain_rule, mean, cov)
        rough = np.abs(plain_rule(mean, cov) - exact).max()
        relative = np.max(np.abs(p / exact - 1)[seen])
        error = np.abs(p - exact).max()
        print(f"{name:24} {error:.1e}  {relative:.3f}  {1e6 * ours:6.0f}  {ours / plain:5.1f} ({rough:.0e})")
    print("largest value, noise of variance one: largest absolute error, µs a row")
    for name, (mean, cov) in cases.items():
        cov = cov + np.eye(mean.shape[1])
        error = np.abs(winner_probabilities(mean, cov) - truth(winner_probabilities, mean, cov)).max()
        print(f"{name:24} {error:.1e}  {1e6 * seconds(winner_probabilities, mean, cov):6.0f}")


if __name__ == "__main__":
    main()
