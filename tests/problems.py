"""Small data sets of several test files."""

import numpy as np


def two_classes(n, seed=0, noise=0.3, labels=(-1.0, 1.0)):
    """Two inputs, and labels by the sign of sin(2 x0) + x1 with normal noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.where(np.sin(2 * X[:, 0]) + X[:, 1] + noise * rng.normal(size=n) > 0, labels[1], labels[0])


def linear_classes(n, C=3, seed=0, noise=0.5, D=2):
    """D inputs, and as labels the largest of C linear functions with normal noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D))
    return X, np.argmax(X @ rng.normal(size=(D, C)) + noise * rng.normal(size=(n, C)), axis=1)


def three_bands(n, seed=1):
    """Two inputs, and labels 0, 1, 2 in bands of the first one, with normal noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.digitize(X[:, 0] + 0.3 * rng.normal(size=n), [-0.5, 0.5])
