"""Class probabilities of several classes: errors, and time beside a plain rule of 1024 points that all classes share.

    python benchmarks/shares.py [--rows 40]

Latent values are random Gaussians of a given scale (contrasts of standard deviation √2 scale), and posteriors of Laplace's
method on scikit-learn's tables. The truth is the same integral with other points, up to thirty times as many, three times.
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
from gpclass.numerics import expected_softmax, shares, winner_probabilities


def plain_rule(mean, cov):
    """E[softmax] with 1024 points for all classes."""
    z = ndtri(qmc.Sobol(mean.shape[1], rng=np.random.default_rng(0)).random(1024)).T
    value, vector = np.linalg.eigh(cov)
    f = (vector * np.sqrt(np.maximum(value, 0.0))[:, None]) @ z + mean[..., None]
    f = np.exp(f - f.max(1, keepdims=True))
    return (f / f.sum(1, keepdims=True)).mean(2)


def truth(rule, mean, cov):
    """With other points, and tolerances that ask for nearly all of them."""
    kept = shares.ABSOLUTE, shares.RELATIVE, shares.COMMON, shares.SMALL_STEP, shares.points
    shares.ABSOLUTE, shares.RELATIVE, shares.COMMON = (0.1 * tolerance for tolerance in kept[:3])
    shares.SMALL_STEP = 0.5 * shares.SMALL_STEP  # of the rules for three classes, which have no points
    try:
        out = []
        for seed in (1, 2, 3):
            shares.points = lambda d, seed=seed: qmc.Sobol(d, rng=np.random.default_rng(seed)).random(shares.MOST).T
            shares.normal_points.cache_clear()
            out.append(rule(mean, cov))
    finally:
        shares.normal_points.cache_clear()
        shares.ABSOLUTE, shares.RELATIVE, shares.COMMON, shares.SMALL_STEP, shares.points = kept
    return np.mean(out, axis=0)


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
