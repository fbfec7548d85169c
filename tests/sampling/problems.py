"""Small problems with exact results by brute force, without a sampler."""

import numpy as np

from gpclass.kernels import RBF
from gpclass.likelihoods import MultinomialProbit, Softmax
from gpclass.testing.problems import several_truth
from tests.problems import linear_classes

TWO_POINTS = (np.array([[4.0, 2.4], [2.4, 4.0]]), np.array([1.0, -1.0]))
NEW_POINT = (np.array([[1.5], [3.0]]), np.array([4.0]))  # covariances with the two points, and its prior variance


def two_class_problem(n=15, seed=0, variance=4.0, flips=0.15):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.where(X[:, 0] + 0.5 * np.sin(3 * X[:, 1]) > 0, 1.0, -1.0) * np.where(rng.random(n) < flips, -1.0, 1.0)
    return RBF(lengthscale=1.0, variance=variance)(X), y


def three_class_problem(n=12, seed=0, variance=4.0):
    X, y = linear_classes(n, 3, seed, noise=1.0)
    return RBF(lengthscale=1.0, variance=variance)(X), y


def quadrature_truth(K, y, likelihood):
    """log Z, mean (n, C), variance (n, C) on a grid of all latent values of a row."""
    log_z, mean, cov = several_truth(K, y, likelihood)
    return log_z, mean, np.einsum("icc->ic", cov)


SEVERAL = {  # one or two rows: small enough for a grid
    "softmax, two points": (Softmax(2), np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([0, 1])),
    "probit, two points": (MultinomialProbit(2), np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([1, 1])),
    "softmax, three classes": (Softmax(3), np.array([[2.0]]), np.array([2])),
    "probit, a matrix each": (MultinomialProbit(3), np.array([[[2.0]], [[0.5]], [[1.0]]]), np.array([0])),
}
