"""Expected softmax by trapezoid rules along the principal axes of the latent values."""

from __future__ import annotations

from functools import lru_cache
from itertools import product

import numpy as np

from .blocks import blocks
from .points import NUMBERS_PER_BLOCK

# The sharpness of an axis is the largest difference by which latent values move apart along one standard deviation.
NODE_REACH = 5.8  # standard deviations that the nodes cover on each side
# Step of a rule times the sharpness. Along a line softmax is analytic within π / sharpness, so the relative error is
# exp(-2π²/1.7) = 1e-5. A step of one standard deviation has an error of exp(-2π²) for the Gaussian
NODE_STEP = 1.7
MIN_NODES, MAX_NODES = 13, 2049
NEGLIGIBLE_SHARPNESS = 0.02  # an axis of less sharpness changes probabilities by at most 2e-5 and gets one node
FACTORED_NODES = 513  # up to this number of nodes exp(b + a t) = exp(b) exp(a t) does not overflow
SINGLE_NODES = 91  # the same in single precision


def node_counts(root: np.ndarray) -> np.ndarray:
    """Return the numbers of nodes (m, C - 1) along each axis of f = mean + root x, root (m, C, C - 1)."""
    sharpness = np.ptp(root, axis=1)
    return np.where(sharpness < NEGLIGIBLE_SHARPNESS, 1, rounded_up(2 * NODE_REACH * sharpness / NODE_STEP))


def rounded_up(count: np.ndarray) -> np.ndarray:
    """Return numbers of nodes of at least `count`, rounded up so that there are only a few different ones."""
    half_octaves = np.ceil(2 * np.log2(np.clip(count, MIN_NODES - 1, MAX_NODES - 1) / (MIN_NODES - 1)) - 1e-9)
    return 1 + np.ceil((MIN_NODES - 1) * 2 ** (0.5 * half_octaves)).astype(int)


def rule(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights (count,) of a trapezoid rule for the standard normal distribution."""
    t = (np.arange(count) - 0.5 * (count - 1)) * (2 * NODE_REACH / max(count - 1, 1))
    return t, np.exp(-0.5 * t * t) / np.exp(-0.5 * t * t).sum()


def softmax_by_grid(mean: np.ndarray, root: np.ndarray) -> np.ndarray:
    """Return E[softmax(mean + root x)] (m, C), x ~ N(0, I), for mean (m, C) and root (m, C, C - 1)."""
    counts, p = node_counts(root), np.empty(mean.shape)
    for size in np.unique(counts, axis=0):
        z, weights = _ball(tuple(size[1:]))
        rows = np.flatnonzero(np.all(counts == size, axis=1))
        for some in blocks(len(rows), size[0] * len(weights), NUMBERS_PER_BLOCK):
            at = rows[some]
            b = np.matmul(root[at, :, 1:], z) + mean[at, :, None]
            p[at] = np.matmul(_along(b - b.max(1, keepdims=True), root[at, :, :1], size[0]), weights)
    return p / p.sum(1, keepdims=True)


def _along(b, a, count):
    """Return E[softmax(b + a t)] (r, C, n), t ~ N(0, 1), for b (r, C, n) and a (r, C, 1)."""
    t, weights = rule(count)
    if count > FACTORED_NODES:
        f = b[..., None] + a[..., None] * t
        f = np.exp(f - f.max(1, keepdims=True))
        return np.matmul(f / f.sum(1, keepdims=True), weights)
    dtype = np.float32 if count <= SINGLE_NODES else float
    a = a - 0.5 * (a.max(1, keepdims=True) + a.min(1, keepdims=True))
    along, base = np.exp((a * t).astype(dtype)), np.exp(b.astype(dtype))  # (r, C, q), (r, C, n)
    total = np.matmul(base.swapaxes(1, 2), along)
    return base * np.matmul(along * weights.astype(dtype), np.reciprocal(total, out=total).swapaxes(1, 2))


@lru_cache(maxsize=64)
def _ball(counts):
    """Return the nodes (d, n) of a product of rules that are within NODE_REACH of the origin, and their weights (n,)."""
    z = np.array(list(product(*(rule(count)[0] for count in counts)))).T
    z = z[:, np.sum(z * z, axis=0) <= NODE_REACH**2 * (1 + 1e-9)]
    weights = np.exp(-0.5 * np.sum(z * z, axis=0))
    return z, weights / weights.sum()
