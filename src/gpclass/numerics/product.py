"""Moments of independent Gaussians tilted by softmax, by product Gauss–Hermite rules.

    N(f | mean, diag(var)) softmax_0(f + …): its mass, and the mean and variance of each f_c

A rule centred on the Gaussian misses a tilted one that is narrower or off; so the rule is moved, class by class, to where
the first try finds the tilted density, twice. On the grid softmax is e_0/(e_0 + … + e_C), and e_c takes few values only.
"""

from __future__ import annotations

import numpy as np

from .blocks import blocks
from .quadrature import hermite_nodes

GRID_NODES = {2: 40, 3: 16, 4: 8, 5: 6, 6: 4, 7: 3}  # in each dimension: some thousand points at most
FIRST_NODES = {2: 20, 3: 8}  # the same while the rule is moved; 3 where there are more classes
MOVES = 2


def softmax_moments(mean: np.ndarray, var: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log E[softmax_0(f)] (n,), f ~ N(mean, diag(var)), and its first two derivatives (n, C) in each mean."""
    C = mean.shape[1]
    if C not in GRID_NODES:
        raise ValueError(
            f"softmax under independent Gaussians is integrated by product rules, for at most {max(GRID_NODES)} classes, "
            f"but there are {C}. Use MultinomialProbit, whose integral is one-dimensional whatever the number of classes."
        )
    parts = [_moments(mean[some], var[some]) for some in blocks(max(len(mean), 1), GRID_NODES[C] ** C)]
    log_mass, slope, curvature = (np.concatenate(p) for p in zip(*parts, strict=True))
    return log_mass, slope, curvature


def _moments(mean, var):
    C = mean.shape[1]
    shift, spread = np.zeros_like(mean), var.copy()  # of the rule from the Gaussian's mean, and its variance
    for move in range(MOVES + 1):
        nodes, log_w = hermite_nodes(GRID_NODES[C] if move == MOVES else FIRST_NODES.get(C, 3))
        x = nodes[:, 0]
        step = shift[..., None] + np.sqrt(spread)[..., None] * x  # (n, C, q) of f from the mean
        # Gaussian over the rule's own density; where a variance is zero they agree
        share = np.divide(spread, var, out=np.ones_like(var), where=var > 0)
        z2 = np.divide(step**2, var[..., None], out=np.broadcast_to(x**2, step.shape).copy(), where=var[..., None] > 0)
        log_weights = log_w + 0.5 * (x**2 - z2) + 0.5 * np.log(share)[..., None]
        log_mass, first, second = _on_grid(mean[..., None] + step, np.exp(log_weights), step)
        if move < MOVES:
            # a little wider than found: a rule that is too narrow misses tails, one too wide only wastes nodes
            shift, spread = first, np.minimum(1.1 * np.maximum(second, 1e-4 * var), var)
    safe = np.where(var > 0, var, 1.0)
    slope = np.where(var > 0, first / safe, 0.0)
    curvature = np.where(var > 0, np.minimum(second / safe - 1, 0.0) / safe, 0.0)
    return log_mass, slope, curvature


def _on_grid(f, weights, step):
    """Log mass, and mean and variance of each step (n, C)."""
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
