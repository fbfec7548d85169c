"""Exact draws from truncated and tilted Gaussians, vectorised, with a bounded number of iterations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

REJECTION_ROUNDS = 500  # each accepts with probability at least 1/3: the probability that a draw needs more is below 1e-80


def normal_below(limit: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw from the standard normal truncated to values below `limit`. Accurate for limits from -1e6 to +1e6."""
    limit = np.asarray(limit, float)
    # 1 - U is in (0, 1], so its logarithm is finite
    drawn = ndtri_exp(np.log1p(-rng.random(limit.shape)) + log_ndtr(limit))
    return np.minimum(drawn, limit)


def draw_log_concave(
    log_density: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]],
    nodes: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Draw once from each of m log-concave densities on the real line, by rejection from an exponential envelope.

    Parameters
    ----------
    log_density : callable
        Maps (x, rows) to the value and slope, (k, q) each, of the log densities with indices `rows` (k,) at x (k, q).
    nodes : ndarray of shape (m, q)
        Points whose tangents define the envelope, ascending and on both sides of the mode.
    rng : numpy.random.Generator
        Random numbers.

    Returns
    -------
    ndarray of shape (m,)

    Raises
    ------
    FloatingPointError
        If a draw is rejected 500 times.
    """
    m = len(nodes)
    envelope = _Envelope(nodes, *log_density(nodes, np.arange(m)))
    out, left = np.empty(m), np.arange(m)
    for _ in range(REJECTION_ROUNDS):
        x, above = envelope.draw(left, rng)
        accept = np.log1p(-rng.random(len(left))) <= log_density(x[:, None], left)[0][:, 0] - above
        out[left[accept]] = x[accept]
        left = left[~accept]
        if not len(left):
            return out
    raise FloatingPointError("a draw from a log-concave density was rejected too often: the density is not log-concave")


class _Envelope:
    """Piecewise exponential envelopes from tangents: between two edges the log envelope is value + slope (x - node)."""

    def __init__(self, nodes, value, slope):
        self.nodes, self.value, self.slope = nodes, value, slope
        gap, fall = np.diff(nodes), slope[:, :-1] - slope[:, 1:]
        # neighbouring tangents intersect where value_k + s_k t = value_{k+1} + s_{k+1} (t - gap), t in [0, gap]
        with np.errstate(divide="ignore", invalid="ignore"):
            t = (np.diff(value) - slope[:, 1:] * gap) / fall
        t = np.where(fall > 1e-12 * (1 + np.abs(slope[:, 1:])), np.clip(t, 0, gap), 0.5 * gap)
        ends = np.full((len(nodes), 1), np.inf)
        edges = np.concatenate([-ends, nodes[:, :-1] + t, ends], axis=1)
        self.left, self.right = edges[:, :-1], edges[:, 1:]
        top = value.max(axis=1, keepdims=True)
        mass = np.exp(value - top) * _exponential_mass(slope, self.left - nodes, self.right - nodes)
        self.cumulative = np.cumsum(mass, axis=1)
        self.cumulative /= self.cumulative[:, -1:]

    def draw(self, rows, rng):
        """Return a draw x for each of the densities `rows`, and the log envelope there."""
        pick = np.sum(rng.random((len(rows), 1)) > self.cumulative[rows], axis=1)
        pick = np.minimum(pick, self.nodes.shape[1] - 1)
        node, value, slope = (a[rows, pick] for a in (self.nodes, self.value, self.slope))
        x = node + _exponential_draw(slope, self.left[rows, pick] - node, self.right[rows, pick] - node, rng)
        return x, value + slope * (x - node)


def _exponential_mass(slope, a, b):
    """Return ∫_a^b exp(slope t) dt; a may be -inf if slope > 0, b may be inf if slope < 0."""
    rate, share, flat = _pieces(slope, a, b)
    higher = np.where(slope > 0, b, a)
    with np.errstate(invalid="ignore"):  # flat pieces of infinite width, which log-concavity excludes
        return np.where(flat, b - a, np.exp(np.where(flat, 0.0, slope * higher)) * share / rate)


def _exponential_draw(slope, a, b, rng):
    """Draw t with density ∝ exp(slope t) on (a, b); infinite limits as in `_exponential_mass`."""
    rate, share, flat = _pieces(slope, a, b)
    u = rng.random(slope.shape)
    from_higher_end = np.where(flat, u * np.where(flat, b - a, 0.0), -np.log1p(-u * share) / rate)
    return np.where(slope > 0, b - from_higher_end, a + from_higher_end)


def _pieces(slope, a, b):
    """Return |slope|, the fraction of the exponential's mass within b - a, and whether the piece is numerically flat."""
    rate, width = np.abs(slope), b - a
    flat = rate * np.where(np.isfinite(width), width, 1e300) < 1e-10
    rate = np.where(rate > 0, rate, 1.0)
    return rate, -np.expm1(-rate * width), flat
