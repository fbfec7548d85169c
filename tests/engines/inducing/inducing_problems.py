"""Labels of smooth functions, and matrices of inducing inputs, for the tests of engines on inducing points."""

import numpy as np

from gpclass.kernels import RBF

C = 3
KERNEL = RBF(lengthscale=1.0, variance=4.0)


def of_rows(sites, rows):
    """Sites of some rows."""
    return {name: part[rows] for name, part in sites.items()}


def problem(n, C=C, seed=0, noise=0.5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    centres = rng.normal(size=(20, 2))
    f = 2 * RBF(1.0, 1.0)(X, centres) @ rng.normal(size=(20, C)) + noise * rng.normal(size=(n, C))
    return X, f.argmax(1) if C > 1 else np.where(f[:, 0] > 0, 1.0, -1.0)


def matrices(kernel, X, Z):
    return kernel(Z), kernel(X, Z), kernel.diag(X)
