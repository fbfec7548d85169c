"""The probability that a standard Gaussian variable lies in an interval, its derivatives, and their Gaussian expectations.

    log P(low < x < high),    x ~ N(0, 1)

The interval is mirrored so that most of it is on the right of zero, and the tail beyond its nearer end is factored out. This
keeps all digits at any distance; only intervals narrower than 1e-6 lose digits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..numerics import gaussian_nodes, hazard, hazard_curvature, log_ndtr

INFINITE_END = 1e8  # infinite ends are replaced by ends at least this far away, where all functions of the tail are zero
LARGEST_END = 1e100  # larger ends are replaced by it, so that squares are finite
SMALLEST_RATIO = 1 + 1e-15  # of the two ends: they may round to the same number, but the interval must have a width
# Quadrature that resolves one feature resolves both ends of an interval up to this width (1e-12, tests/likelihoods)
WIDE_INTERVAL = 6.0
MOMENT_REACH = 9.0  # standard deviations that the moments of the truncated variable cover: the density falls by 40 nats
LEGENDRE_NODES, LEGENDRE_WEIGHTS = np.polynomial.legendre.leggauss(48)


class Interval(NamedTuple):
    """log P(low < x + shift < high) and its derivatives at shift 0, where x ~ N(0, 1)."""

    value: np.ndarray
    slope: np.ndarray  # in the shift
    curvature: np.ndarray
    at_low: np.ndarray  # density at the end, divided by the probability: minus the derivative in `low`
    at_high: np.ndarray  # the derivative in `high`


def interval(low: np.ndarray, high: np.ndarray) -> Interval:
    """Return the log probability of intervals and its derivatives in a shift of x and in the ends."""
    near, far, above = _mirrored(low, high)
    log_near, log_far = log_ndtr(-near), log_ndtr(-far)
    ratio = np.exp(log_far - log_near)  # of the smaller tail to the larger one
    left = -np.expm1(log_far - log_near)
    h_near, h_far = hazard(-near), hazard(-far)
    bend_near, bend_far = hazard_curvature(-near, h_near), hazard_curvature(-far, h_far)
    slope = (h_near - ratio * h_far) / left
    curvature = (bend_near - ratio * bend_far) / left + ratio * ((h_near - h_far) / left) ** 2
    at_near, at_far = h_near / left, ratio * h_far / left
    return Interval(
        log_near + np.log(left),
        np.where(above, slope, -slope),
        -curvature,
        np.where(above, at_near, at_far),
        np.where(above, at_far, at_near),
    )


def log_interval(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the log probability of intervals."""
    near, far, _ = _mirrored(low, high)
    log_near = log_ndtr(-near)
    return log_near + np.log(-np.expm1(log_ndtr(-far) - log_near))


def third_derivative(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the third derivative of the log probability in the shift.

    It is the third central moment of x, given that x lies in the interval, and is computed by Gauss–Legendre quadrature. A
    closed form would cancel in the tails and in narrow intervals.
    """
    near, far, above = _mirrored(low, high)
    start, top = np.maximum(near, -MOMENT_REACH), np.maximum(near, 0.0)
    # the density is largest at `top` and falls by MOMENT_REACH²/2 nats over this distance
    fallen = MOMENT_REACH**2 / (top + np.hypot(top, MOMENT_REACH))
    width = np.minimum(far - start, top - start + fallen)
    t = 0.5 * width[..., None] * (LEGENDRE_NODES + 1)
    density = np.exp(-t * (start[..., None] + 0.5 * t)) * LEGENDRE_WEIGHTS
    density = density / density.sum(-1, keepdims=True)
    centre = np.sum(density * t, axis=-1, keepdims=True)
    third = np.sum(density * (t - centre) ** 3, axis=-1)
    return np.where(above, third, -third)


def _mirrored(low, high):
    """Return the nearer and farther end, mirrored if most of the interval is below zero, and whether it is above zero."""
    above = low >= -high
    near = np.clip(np.where(above, low, -high), -INFINITE_END, LARGEST_END)
    largest = 2 * np.maximum(near, 0.0) + INFINITE_END
    far = np.clip(np.where(above, high, -low), near * SMALLEST_RATIO, largest)
    return near, far, above


# expectations ---------------------------------------------------------------------------------------------------------

Parts = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, ...]]


def expected_interval(parts: Parts, low: np.ndarray, high: np.ndarray, mean: np.ndarray, var: np.ndarray) -> np.ndarray:
    """Return E[parts(low - f, high - f)] under f ~ N(mean, var), (number of parts, n).

    One quadrature rule cannot resolve both ends of a wide interval. There each part is the sum of that of (low, ∞), that of
    (-∞, high) and a remainder that is negligible except between the ends, and each of the three has one feature. So the
    parts of an interval without ends must be zero.

    Parameters
    ----------
    parts : callable
        Maps the ends of intervals to a tuple of arrays of the same shape.
    low, high : ndarray of shape (n,)
        Ends of the intervals. One of them may be infinite.
    mean, var : ndarray of shape (n,)
        Means and variances of f.

    Returns
    -------
    ndarray of shape (number of parts, n)
    """
    open_below, open_above = ~np.isfinite(low), ~np.isfinite(high)
    with np.errstate(invalid="ignore"):
        centre = np.where(open_below, high, np.where(open_above, low, 0.5 * (low + high)))
    wide = ~open_below & ~open_above & (high - low > WIDE_INTERVAL)
    narrow = _expected(parts, *(x[~wide] for x in (low, high, mean, var, centre)))
    total = np.empty((len(narrow), len(mean)))
    total[:, ~wide] = narrow
    if np.any(wide):
        a, b, m, v, c = (x[wide] for x in (low, high, mean, var, centre))
        infinite = np.full_like(a, np.inf)
        total[:, wide] = _expected(parts, a, infinite, m, v, a) + _expected(parts, -infinite, b, m, v, b)
        total[:, wide] += _expected(_remainder(parts), a, b, m, v, c)
    return total


def _remainder(parts: Parts) -> Parts:
    def rest(low, high):
        infinite = np.full_like(low, np.inf)
        each = zip(parts(low, high), parts(low, infinite), parts(-infinite, high), strict=True)
        return tuple(both - above - below for both, above, below in each)

    return rest


def _expected(parts, low, high, mean, var, centre):
    nodes, weights = gaussian_nodes(mean, var, centre=centre)
    return np.stack([np.einsum("iq,iq->i", weights, x) for x in parts(low[:, None] - nodes, high[:, None] - nodes)])
