"""Expected softmax by trapezoid rules along the principal axes of the latent values."""

from __future__ import annotations

from functools import lru_cache
from itertools import product

import numpy as np

from .blocks import blocks
from .points import BLOCK

REACH = 5.8  # standard deviations that a rule covers on either side of zero
# Softmax along a line is analytic within π / sharpness: this step over the sharpness is off by exp(-2π²/1.7) = 1e-5 of the
# value; a step of one is off by exp(-2π²) of the Gaussian
STEP = 1.7
LEAST_NODES, MOST_NODES = 13, 2049
NEGLIGIBLE = 0.02  # an axis along which values move less far apart, for one standard deviation, changes shares by 2e-5
FACTORED, SINGLE = 513, 91  # nodes up to which exponentials of sums are taken apart without overflow; in single precision


def node_counts(root: np.ndarray) -> np.ndarray:
    """(m, C - 1) nodes for f = mean + root x, root (m, C, C - 1); a single one along axes that do not matter."""
    sharpness = np.ptp(root, axis=1)
    return np.where(sharpness < NEGLIGIBLE, 1, rounded_up(2 * REACH * sharpness / STEP))


def rounded_up(count: np.ndarray) -> np.ndarray:
    """Numbers of nodes above `count`, few different ones."""
    half_octaves = np.ceil(2 * np.log2(np.clip(count, LEAST_NODES - 1, MOST_NODES - 1) / (LEAST_NODES - 1)) - 1e-9)
    return 1 + np.ceil((LEAST_NODES - 1) * 2 ** (0.5 * half_octaves)).astype(int)


def rule(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights (count,) for the standard normal distribution."""
    t = (np.arange(count) - 0.5 * (count - 1)) * (2 * REACH / max(count - 1, 1))
    return t, np.exp(-0.5 * t * t) / np.exp(-0.5 * t * t).sum()


def softmax_by_grid(mean: np.ndarray, root: np.ndarray) -> np.ndarray:
    """(m, C) E[softmax(mean + root x)], x standard normal, from mean (m, C) and root (m, C, C - 1)."""
    counts, p = node_counts(root), np.empty(mean.shape)
    for size in np.unique(counts, axis=0):
        z, weights = _ball(tuple(size[1:]))
        rows = np.flatnonzero(np.all(counts == size, axis=1))
        for some in blocks(len(rows), size[0] * len(weights), BLOCK):
            at = rows[some]
            b = np.matmul(root[at, :, 1:], z) + mean[at, :, None]
            p[at] = np.matmul(_along(b - b.max(1, keepdims=True), root[at, :, :1], size[0]), weights)
    return p / p.sum(1, keepdims=True)


def _along(b, a, count):
    """(r, C, n) E[softmax(b + a t)], t standard normal, from b (r, C, n) and a (r, C, 1); exp(b + a t) = exp(b) exp(a t)."""
    t, weights = rule(count)
    if count > FACTORED:
        f = b[..., None] + a[..., None] * t
        f = np.exp(f - f.max(1, keepdims=True))
        return np.matmul(f / f.sum(1, keepdims=True), weights)
    dtype = np.float32 if count <= SINGLE else float
    a = a - 0.5 * (a.max(1, keepdims=True) + a.min(1, keepdims=True))
    along, base = np.exp((a * t).astype(dtype)), np.exp(b.astype(dtype))  # (r, C, q), (r, C, n)
    total = np.matmul(base.swapaxes(1, 2), along)
    return base * np.matmul(along * weights.astype(dtype), np.reciprocal(total, out=total).swapaxes(1, 2))


@lru_cache(maxsize=64)
def _ball(counts):
    """Nodes (d, n) of a product of trapezoid rules that lie within REACH of the origin, and their weights (n,)."""
    z = np.array(list(product(*(rule(count)[0] for count in counts)))).T
    z = z[:, np.sum(z * z, axis=0) <= REACH**2 * (1 + 1e-9)]
    weights = np.exp(-0.5 * np.sum(z * z, axis=0))
    return z, weights / weights.sum()
