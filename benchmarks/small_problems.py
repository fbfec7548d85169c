"""Problems of any size that the benchmarks of speed share, with the kernel that made them."""

from __future__ import annotations

import numpy as np

from gpclass.kernels import RBF

D = 5
KERNEL = RBF(lengthscale=np.sqrt(D), variance=4.0)


def two_classes(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (n, 5), and labels of a function from about KERNEL's prior with logistic noise; about half are +1."""
    rng = np.random.default_rng(seed)
    frequencies, phases, weights = rng.normal(size=(200, D)), rng.uniform(0, 2 * np.pi, 200), rng.normal(size=200)
    X = rng.normal(size=(n, D))
    f = np.sqrt(2 * KERNEL.variance / 200) * np.cos(X @ frequencies.T / KERNEL.lengthscale + phases) @ weights
    return X, np.where(f - np.median(f) + rng.logistic(size=n) > 0, 1.0, -1.0)


def several_classes(n: int, C: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (n, 5), and class numbers by the largest of C noisy linear functions."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D))
    return X, np.argmax(2 * X[:, :3] @ rng.normal(size=(3, C)) + rng.normal(size=(n, C)), axis=1)


def evaluate(X, y, engine, likelihood):
    """The fit, and the gradient in log lengthscale and log variance."""
    K = KERNEL(X)
    fit = engine.fit(K, y, likelihood)
    return fit, KERNEL.pullback(X, fit.evidence_gradient(), value=K)
