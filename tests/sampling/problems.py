"""Small problems with truth by product quadrature: no sampler made it."""

from itertools import product

import numpy as np

from gpclass.kernels import RBF
from gpclass.likelihoods import MultinomialProbit, Softmax

TWO_POINTS = (np.array([[4.0, 2.4], [2.4, 4.0]]), np.array([1.0, -1.0]))
NEW_POINT = (np.array([[1.5], [3.0]]), np.array([4.0]))  # covariances with the two points, and its prior variance


def two_class_problem(n=15, seed=0, variance=4.0, flips=0.15):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.where(X[:, 0] + 0.5 * np.sin(3 * X[:, 1]) > 0, 1.0, -1.0) * np.where(rng.random(n) < flips, -1.0, 1.0)
    return RBF(lengthscale=1.0, variance=variance)(X), y


def three_class_problem(n=12, seed=0, variance=4.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.argmax(X @ rng.normal(size=(2, 3)) + rng.normal(size=(n, 3)), axis=1)
    return RBF(lengthscale=1.0, variance=variance)(X), y


def quadrature_truth(K, y, likelihood, nodes=41):
    """log Z, mean (n, C), variance (n, C) by a product Gauss-Hermite rule on the whitened latent values; C n ≤ 4."""
    x, w = np.polynomial.hermite_e.hermegauss(nodes)
    C, n = likelihood.n_latents, len(y)
    roots = [np.linalg.cholesky(k) for k in (K if K.ndim == 3 else [K] * C)]
    z = np.array(list(product(x, repeat=C * n))).reshape(-1, C, n)
    weights = np.prod(np.array(list(product(w / w.sum(), repeat=C * n))), axis=1)
    f = np.stack([z[:, c] @ roots[c].T for c in range(C)], axis=-1)  # (S, n, C)
    log_p = likelihood.log_prob_slope(y, f if C > 1 else f[..., 0])[0].sum(-1)
    mass = weights * np.exp(log_p)
    total = mass.sum()
    mean = np.tensordot(mass, f, (0, 0)) / total
    var = np.tensordot(mass, (f - mean) ** 2, (0, 0)) / total
    return float(np.log(total)), mean, var


SEVERAL = {  # C n is four or three: small enough for the rule above
    "softmax, two points": (Softmax(2), np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([0, 1])),
    "probit, two points": (MultinomialProbit(2), np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([1, 1])),
    "softmax, three classes": (Softmax(3), np.array([[2.0]]), np.array([2])),
    "probit, a matrix each": (MultinomialProbit(3), np.array([[[2.0]], [[0.5]], [[1.0]]]), np.array([0])),
}
