"""Expected softmax of independent latent values: one integral for all classes, over the largest of f_j + Gumbel noise."""

from __future__ import annotations

import numpy as np

from .blocks import blocks
from .grid import MOST_NODES, REACH, rounded_up, rule
from .points import BLOCK, TINY
from .shares import expected_softmax

# Steps of the rules over the largest, in its smallest possible standard deviation, and over one value, in units of f; how
# far the first goes beyond the Gaussians, where Gumbel's tails are exp(-exp(3.5)) and exp(-17)
OUTER_STEP, INNER_STEP, LEFT, RIGHT = 0.9, 0.9, 3.5, 17.0


def independent_softmax(mean: np.ndarray, var: np.ndarray) -> np.ndarray:
    """(m, C) expectation of softmax(f) for independent f ~ N(mean, var), mean and var (m, C); good to 1e-4.

    softmax_c is the probability that f_c + g_c is the largest, g independent Gumbel noise. With G_j the distribution
    function of f_j + g_j, itself an integral over f_j, it is ∫ G_c'(v) ∏_{j≠c} G_j(v) dv; both by trapezoid rules. Rows for
    which these would need too many nodes (standard deviations above 150, or very different ones) are those of
    `expected_softmax`, with its errors.
    """
    mean, sd = np.asarray(mean, float), np.sqrt(np.asarray(var, float))
    start = np.max(mean - REACH * sd, axis=1) - LEFT
    length = np.max(mean + REACH * sd, axis=1) + RIGHT - start
    steps = length / (OUTER_STEP * np.sqrt(1 + np.min(sd, axis=1) ** 2)), 2 * REACH * np.max(sd, axis=1) / INNER_STEP
    needed = np.stack(steps)
    outer, inner = rounded_up(needed)
    p, sharp = np.empty(mean.shape), np.any(needed >= MOST_NODES, axis=0)
    p[sharp] = expected_softmax(mean[sharp], sd[sharp, :, None] ** 2 * np.eye(mean.shape[1]))
    for size in np.unique(np.stack([outer, inner]), axis=1).T:
        rows = np.flatnonzero((outer == size[0]) & (inner == size[1]) & ~sharp)
        for part in blocks(len(rows), size[0] * size[1] * mean.shape[1], BLOCK):
            some = rows[part]
            p[some] = _independent(mean[some], sd[some], start[some], length[some], *size)
    return p / p.sum(1, keepdims=True)


def _independent(mean, sd, start, length, outer, inner):
    v = start[:, None] + length[:, None] * np.linspace(0.0, 1.0, outer)
    e, weights = rule(inner)
    above = v[:, None, :, None] - mean[:, :, None, None] - sd[:, :, None, None] * e  # (m, C, outer, inner)
    rate = np.exp(np.minimum(-above, 30.0))
    cdf = np.exp(-rate)
    G = np.matmul(cdf, weights)
    slope = np.matmul(np.multiply(rate, cdf, out=rate), weights)
    log_G = np.log(np.maximum(G, TINY))
    others = np.exp(log_G.sum(1, keepdims=True) - log_G)
    return np.ascontiguousarray(slope * others).sum(2) * (length / (outer - 1))[:, None]
