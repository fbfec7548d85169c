"""Exact results that do not come from an engine: grids, orthant probabilities, one-dimensional integrals; test problems.

`grid_truth` comes from the kit of checks; all of them are tested against each other in test_truth.py.
"""

import numpy as np
from scipy.stats import multivariate_normal

from gpclass.kernels import RBF
from gpclass.testing.problems import grid_truth, ordinary_problem
from tests.problems import linear_classes

__all__ = [
    "ERRATA_K", "ERRATA_Y", "TWO_POINTS", "arcsine", "data", "errors", "frozen", "grid_truth", "one_variable",
    "ordinary_problem", "orthant", "refitted_loo", "several_classes", "step_evidence",
]  # fmt: skip

ERRATA_K = np.array([[3.0, 1.2], [1.2, 2.0]])  # errata item 1
ERRATA_Y = np.array([1.0, -1.0])

# σ_f² = 4 and correlations of an RBF kernel at distances of about 0.5, 1 and 2 lengthscales, equal and opposite labels
TWO_POINTS = [
    (np.array([[4.0, 4 * r], [4 * r, 4.0]]), np.array([1.0, s])) for r in (0.9, np.exp(-0.5), 0.1) for s in (1.0, -1.0)
]


def frozen(*arrays):
    for a in arrays:
        a.flags.writeable = False
    return arrays if len(arrays) > 1 else arrays[0]


frozen(ERRATA_K, ERRATA_Y, *(a for pair in TWO_POINTS for a in pair))


def data(n, seed=0, variance=2.0, nugget=0.0, flips=0.1):
    """K of an RBF kernel with two inputs and lengthscale 1, and labels with some noise; read-only."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    K = variance * np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(-1)) + nugget * np.eye(n)
    y = np.where(np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] > 0, 1.0, -1.0) * np.where(rng.random(n) < flips, -1.0, 1.0)
    return frozen(K, y)


def several_classes(n=12, C=3, variance=4.0, seed=0, nugget=0.0):
    """Inputs, K of an RBF kernel with lengthscale 1 on them, and labels of C noisy linear functions."""
    X, y = linear_classes(n, C, seed)
    return X, RBF(1.0, variance)(X) + nugget * np.eye(n), y


def orthant(K, y, abseps=1e-7):
    """log Z of the probit model: y_i (f_i + noise_i) > 0 for all i, a Gaussian orthant probability."""
    n = len(y)
    cov = y[:, None] * (K + np.eye(n)) * y
    rng = np.random.default_rng(0)
    cdf = multivariate_normal(np.zeros(n), cov, abseps=abseps, releps=abseps, maxpts=4_000_000, seed=rng).cdf
    return float(np.log(cdf(np.zeros(n))))


def one_variable(scale, y, likelihood, width=12.0, m=20001):
    """log Z for K = scale² 11ᵀ: all latents are one variable. [NR] as corrected in errata item 8"""
    t = np.linspace(-width, width, m)
    log_w = -0.5 * t**2 + sum(likelihood.log_prob(np.full(m, label), scale * t)[0] for label in y)
    return float(np.log(np.sum(np.exp(log_w)) * (t[1] - t[0]) / np.sqrt(2 * np.pi)))


def arcsine(K, y):
    """log Z of two points under probit: ¼ + arcsin(ρ)/2π."""
    rho = y[0] * y[1] * K[0, 1] / np.sqrt((1 + K[0, 0]) * (1 + K[1, 1]))
    return float(np.log(0.25 + np.arcsin(rho) / (2 * np.pi)))


def step_evidence(K, y, epsilon):
    """log Z of two points under Heaviside: each of the four sign patterns has a closed-form probability."""
    rho = K[0, 1] / np.sqrt(K[0, 0] * K[1, 1])
    equal, opposite = 0.25 + np.arcsin(rho) / (2 * np.pi), 0.25 - np.arcsin(rho) / (2 * np.pi)
    total = 0.0
    for a in (1.0, -1.0):
        for b in (1.0, -1.0):
            p = (1 - epsilon if a == y[0] else epsilon) * (1 - epsilon if b == y[1] else epsilon)
            total += p * (equal if a == b else opposite)
    return float(np.log(total))


def errors(engine, likelihood, problems=TWO_POINTS):
    """Largest errors over problems small enough for a grid: of log Z, of means (absolute), of variances (relative)."""
    out = []
    for K, y in problems:
        log_z, mean, cov = grid_truth(K, y, likelihood)
        fit, var = engine.fit(K, y, likelihood), np.diagonal(cov)
        out.append((abs(fit.log_evidence - log_z), np.abs(fit.mean - mean).max(), np.abs(fit.var / var - 1).max()))
    return np.max(out, axis=0)


def refitted_loo(engine, K, y, likelihood):
    """Log probability of each label, from a fit to all others."""
    out = np.empty(len(y))
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        fit = engine.fit(K[np.ix_(rest, rest)], y[rest], likelihood)
        out[i] = likelihood.log_predictive(y[[i]], *fit.predict(K[rest][:, [i]], K[[i], [i]]))[0]
    return out
