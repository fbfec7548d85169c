"""Moments of independent Gaussians times softmax, by product Gauss–Hermite rules.

    N(f | mean, diag(var)) softmax_0(f): its mass, and the mean and variance of each f_c

A rule centred on the Gaussian is inaccurate if the product is much narrower or shifted. So the rule is moved twice, in each
dimension, to the mean and variance found so far. On the grid softmax is e_0/(e_0 + … + e_{C-1}), and each e_c takes only a
few values, so few exponentials are needed.
"""

from __future__ import annotations

import numpy as np

from .blocks import blocks
from .quadrature import hermite_nodes

GRID_NODES = {2: 40, 3: 16, 4: 8, 5: 6, 6: 4, 7: 3}  # nodes per dimension, by number of classes: a few thousand points
FIRST_NODES = {2: 20, 3: 8}  # nodes per dimension while the rule is moved; 3 for more classes
MOVES = 2  # how often the rule is moved


def softmax_moments(mean: np.ndarray, var: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return log E[softmax_0(f)] (n,), f ~ N(mean, diag(var)), and its first two derivatives (n, C) in each mean.

    Parameters
    ----------
    mean, var : ndarray of shape (n, C)
        Means and variances. C is at most 7.

    Raises
    ------
    ValueError
        If there are more than 7 classes.
    """
    C = mean.shape[1]
    if C not in GRID_NODES:
        raise ValueError(
            f"softmax under independent Gaussians is integrated by product rules, for at most {max(GRID_NODES)} classes, "
            f"but there are {C}. Use MultinomialProbit, whose integral is one-dimensional for any number of classes."
        )
    parts = [_moments(mean[some], var[some]) for some in blocks(max(len(mean), 1), GRID_NODES[C] ** C)]
    log_mass, slope, curvature = (np.concatenate(p) for p in zip(*parts, strict=True))
    return log_mass, slope, curvature


def _moments(mean, var):
    C = mean.shape[1]
    shift, spread = np.zeros_like(mean), var.copy()  # distance of the rule from the Gaussian's mean, and its variance
    for move in range(MOVES + 1):
        nodes, log_w = hermite_nodes(GRID_NODES[C] if move == MOVES else FIRST_NODES.get(C, 3))
        x = nodes[:, 0]
        step = shift[..., None] + np.sqrt(spread)[..., None] * x  # (n, C, q) distances of f from the mean
        # density of the Gaussian divided by that of the rule; equal where the variance is zero
        share = np.divide(spread, var, out=np.ones_like(var), where=var > 0)
        z2 = np.divide(step**2, var[..., None], out=np.broadcast_to(x**2, step.shape).copy(), where=var[..., None] > 0)
        log_weights = log_w + 0.5 * (x**2 - z2) + 0.5 * np.log(share)[..., None]
        log_mass, first, second = _on_grid(mean[..., None] + step, np.exp(log_weights), step)
        if move < MOVES:
            # 10 % wider than found: a rule that is too narrow misses the tails, a rule that is too wide only wastes nodes
            shift, spread = first, np.minimum(1.1 * np.maximum(second, 1e-4 * var), var)
    safe = np.where(var > 0, var, 1.0)
    slope = np.where(var > 0, first / safe, 0.0)
    curvature = np.where(var > 0, np.minimum(second / safe - 1, 0.0) / safe, 0.0)
    return log_mass, slope, curvature


def _on_grid(f, weights, step):
    """Return the log mass (n,), and the mean and variance (n, C) of each step."""
    n, C, q = f.shape
    top = f.max((1, 2))
    e = np.exp(f - top[:, None, None])
    total, heavy = np.zeros((n,) + (1,) * C), np.ones((n,) + (1,) * C)
    for c in range(C):
        shape = (n, *(q if a == c else 1 for a in range(C)))
        total = total + e[:, c].reshape(shape)
        heavy = heavy * (weights[:, c] * (e[:, c] if c == 0 else 1.0)).reshape(shape)
    heavy = heavy / total
    first, second = np.empty((2, n, C))
    for c in range(C):
        marginal = heavy.sum(axis=tuple(a + 1 for a in range(C) if a != c))
        mass = marginal.sum(1)
        first[:, c] = np.sum(marginal * step[:, c], axis=1) / mass
        second[:, c] = np.sum(marginal * (step[:, c] - first[:, c, None]) ** 2, axis=1) / mass
    return np.log(mass), first, second
