"""Class probabilities of several classes: errors, and time beside a plain rule of 1024 points that all classes share.

    python benchmarks/shares.py [--rows 40]

Latent values are random Gaussians of a given scale (contrasts of standard deviation √2 scale), and posteriors of Laplace's
method on scikit-learn's tables. The truth is made without the code under test: for softmax an average over 2^17 points,
or for rare classes over 2^16 points around the class's mode; for the largest SciPy's orthant probabilities, of ten rows.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, ndtri, softmax
from scipy.stats import multivariate_normal, qmc
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.preprocessing import StandardScaler

from gpclass import GPClassifier
from gpclass.numerics import expected_softmax, winner_probabilities

RARE, FEW = 0.03, 10  # probability below which the truth has points of its own; rows whose largest value has a truth


def plain_rule(mean, cov):
    """E[softmax] with 1024 points for all classes."""
    z = ndtri(qmc.Sobol(mean.shape[1], rng=np.random.default_rng(0)).random(1024)).T
    value, vector = np.linalg.eigh(cov)
    f = (vector * np.sqrt(np.maximum(value, 0.0))[:, None]) @ z + mean[..., None]
    f = np.exp(f - f.max(1, keepdims=True))
    return (f / f.sum(1, keepdims=True)).mean(2)


def true_softmax(mean, cov, z):
    """(C,) averages over standard normal points z (n, C)."""
    value, vector = np.linalg.eigh(cov)
    root = (vector * np.sqrt(np.maximum(value, 0.0)))[:, ::-1]
    p = softmax(mean + z @ root.T, axis=1).mean(0)
    z = z[: len(z) // 2]
    for c in np.flatnonzero(p < RARE):

        def objective(x, c=c):
            log_p = log_softmax(mean + root @ x)
            return 0.5 * x @ x - log_p[c], x - root[c] + np.exp(log_p) @ root

        mode = minimize(objective, np.zeros(len(mean)), jac=True, method="L-BFGS-B").x
        f = mean + (z + mode) @ root.T
        p[c] = np.mean(np.exp(log_softmax(f, axis=1)[:, c] - z @ mode - 0.5 * mode @ mode))
    return p


def true_winner(mean, cov):
    """(C,) orthant probabilities of the contrasts."""
    C, p = len(mean), []
    for c in range(C):
        B = np.delete(np.eye(C)[c] - np.eye(C), c, axis=0)
        exactly = {"maxpts": 50_000, "abseps": 3e-5, "releps": 1e-5, "seed": np.random.default_rng(0)}
        p.append(multivariate_normal(-B @ mean, B @ cov @ B.T, allow_singular=True, **exactly).cdf(np.zeros(C - 1)))
    return p


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


def seconds(rules, mean, cov, least=0.2):
    """Processor times of a row, best of some runs in which the rules take turns."""
    best, spent = np.full(len(rules), np.inf), 0.0
    for rule in rules:
        rule(mean, cov)  # tables of points are made once
    while spent < least * len(rules):
        for i, rule in enumerate(rules):
            began = time.process_time()
            rule(mean, cov)
            took = time.process_time() - began
            best[i], spent = min(best[i], took), spent + took
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
        z = ndtri(qmc.Sobol(mean.shape[1], rng=np.random.default_rng(1)).random(1 << 17))
        exact = np.array([true_softmax(m, V, z) for m, V in zip(mean, cov, strict=True)])
        p, seen = expected_softmax(mean, cov), exact > 1e-5
        ours, plain = seconds([expected_softmax, plain_rule], mean, cov)
        rough = np.abs(plain_rule(mean, cov) - exact).max()
        relative, error = np.max(np.abs(p / exact - 1)[seen]), np.abs(p - exact).max()
        print(f"{name:24} {error:.1e}  {relative:.3f}  {1e6 * ours:6.0f}  {ours / plain:5.1f} ({rough:.0e})", flush=True)
    print("largest value, noise of variance one: largest absolute error, µs a row, times the plain rule for softmax")
    for name, (mean, cov) in cases.items():
        cov = cov + np.eye(mean.shape[1])
        exact = np.array([true_winner(m, V) for m, V in zip(mean[:FEW], cov[:FEW], strict=True)])
        error = np.abs(winner_probabilities(mean[:FEW], cov[:FEW]) - exact).max()
        ours, plain = seconds([winner_probabilities, plain_rule], mean, cov)
        print(f"{name:24} {error:.1e}  {1e6 * ours:6.0f}  {ours / plain:5.1f}", flush=True)


if __name__ == "__main__":
    main()
