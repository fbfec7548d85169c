"""The probability that one of several independent Gaussian variables is the largest, and its derivatives.

The variable x_0 of x ~ N(mean, diag(var)) is called the hub. Given x_0 = mean_0 + s_0 t, the events x_0 > x_j are
independent, so all results are integrals over t of a log-concave function, by the trapezoid rule. For dependent x see
`shares`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .blocks import blocks
from .normal import LOG_SQRT_2PI, hazard, hazard_curvature, log_ndtr_and_hazard

HUB_NODES = 96  # nodes of the trapezoid rule over t
NODE_REACH = 8.5  # standard deviations that these nodes cover on each side
LARGEST_SHIFT = 1e7  # differences of means are clipped to this many standard deviations


class Largest(NamedTuple):
    """Log probability that x_0 is the largest, and its derivatives in the means."""

    log_mass: np.ndarray  # (n,)
    slope: np.ndarray  # (n, C)
    known: np.ndarray  # (n, C) fraction by which each variance decreases given the event: minus curvature times var


def largest(mean: np.ndarray, var: np.ndarray) -> Largest:
    """Return the log probability that x_0 is the largest, and its derivatives; mean and var (n, C), var positive."""
    parts = [_largest(mean[some], var[some]) for some in blocks(max(len(mean), 1), HUB_NODES * mean.shape[1])]
    return Largest(*(np.concatenate(p) for p in zip(*parts, strict=True)))


def log_largest(mean: np.ndarray, var: np.ndarray) -> np.ndarray:
    """Return the log probabilities (n, C) that each of independent variables is the largest."""
    out = np.empty(mean.shape)
    for c in range(mean.shape[1]):
        order = np.r_[c, 0:c, c + 1 : mean.shape[1]]
        for some in blocks(len(mean), HUB_NODES * mean.shape[1]):
            out[some, c] = hub_integral(*_standard(mean[some][:, order], var[some][:, order])[:2])[0]
    return out


def _standard(mean, var):
    """Return shift, rate (n, C - 1) and s (n, C): given x_0 = mean_0 + s_0 t, P(x_0 > x_j) is Φ(shift_j + rate_j t)."""
    scale = np.sqrt(var)
    rate = scale[:, :1] / scale[:, 1:]
    limit = LARGEST_SHIFT * (1 + rate)  # beyond it numbers overflow, and results no longer change
    return np.clip((mean[:, :1] - mean[:, 1:]) / scale[:, 1:], -limit, limit), rate, scale


def _largest(mean, var):
    shift, rate, scale = _standard(mean, var)
    log_mass, t, weights, z, ratio = hub_integral(shift, rate)
    bend = np.einsum("iq,iqj->ij", weights, hazard_curvature(z, ratio))
    pull, spread = _moments(ratio, weights[..., None])  # of the slope of each log Φ, in units of its s
    _, t_var = _moments(t, weights)
    total, total_var = _moments(np.einsum("iqj,ij->iq", ratio, rate), weights)  # of the slope of all log Φ in t
    # 1 - (tilted variance)/var, by the form that does not cancel
    own = np.where(t_var < 0.5, 1 - t_var, np.einsum("ij,ij->i", bend, rate**2) - total_var)
    known = np.clip(np.column_stack([own, bend - spread]), 0.0, 1.0)
    return log_mass, np.column_stack([total, -pull]) / scale, known


def hub_integral(shift: np.ndarray, rate: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return log ∫ N(t) ∏_j Φ(shift_j + rate_j t) dt, and the nodes of the integral.

    The trapezoid rule is in u with t = centre + width sinh u: nodes are dense at the steepest edge of the integrand, and
    sparse where it is as wide as N(t).

    Parameters
    ----------
    shift, rate : ndarray of shape (n, C - 1)
        The arguments of Φ at t = 0, and their slopes.

    Returns
    -------
    log_mass : ndarray of shape (n,)
        The log of the integral.
    t, weights : ndarray of shape (n, q)
        The nodes, and their normalised weights under the integrand.
    z, ratio : ndarray of shape (n, q, C - 1)
        The arguments of Φ at the nodes, and their hazards N/Φ.
    """
    low, high, centre, width = _hub_range(shift, rate)
    u_low, u_high = np.arcsinh((low - centre) / width), np.arcsinh((high - centre) / width)
    u = u_low[:, None] + (u_high - u_low)[:, None] * np.linspace(0, 1, HUB_NODES)
    t = centre[:, None] + width[:, None] * np.sinh(u)
    z = shift[:, None] + rate[:, None] * t[..., None]
    log_cdf, ratio = log_ndtr_and_hazard(z)
    log_density = log_cdf.sum(-1) - 0.5 * t * t + np.log(np.cosh(u))
    top = log_density.max(1, keepdims=True)
    weights = np.exp(log_density - top)
    total = weights.sum(1)
    step = width * (u_high - u_low) / (HUB_NODES - 1)
    log_mass = np.minimum(top[:, 0] + np.log(total * step) - LOG_SQRT_2PI, 0.0)
    return log_mass, t, weights / total[:, None], z, ratio


def _hub_range(shift, rate):
    """Return the range in which the integrand is not negligible, and the place and width of its steepest edge."""
    mode, width = _hub_mode(shift, rate)
    z = shift + rate * mode[:, None]
    edge = -shift / rate
    # to the left a log-concave function falls faster than its parabola at the mode, and a factor Φ is negligible if its
    # argument is 9 less than at the mode
    fallen = np.max(edge + (np.minimum(z, 0.0) - 9) / rate, axis=1)
    low, high = np.maximum(mode - NODE_REACH * width, fallen), mode + NODE_REACH
    alive = edge + 9 / rate > low[:, None]
    steepest = np.argmax(np.where(alive, rate, 0.0), axis=1)[:, None]
    r = np.take_along_axis(np.where(alive, rate, 0.0), steepest, axis=1)[:, 0]
    at = np.where(r > 0, np.take_along_axis(edge, steepest, axis=1)[:, 0], mode)
    return low, high, np.minimum(mode, at), np.minimum(width, 1 / np.sqrt(1 + r**2))


def _hub_mode(shift, rate):
    """Return the mode of the integrand and the width of its Laplace approximation, by Newton's method from the left."""
    mode = np.zeros(len(shift))
    for _ in range(100):  # a dozen usually suffice
        z = shift + rate * mode[:, None]
        ratio = hazard(z)
        precision = 1 + np.sum(rate**2 * hazard_curvature(z, ratio), axis=1)
        move = (np.sum(rate * ratio, axis=1) - mode) / precision
        mode = mode + move
        if np.all(np.abs(move) * np.sqrt(precision) <= 1e-2):  # accurate enough to place nodes
            break
    return mode, 1 / np.sqrt(precision)


def _moments(x, weights):
    """Return the mean and variance over axis 1."""
    mean = np.sum(weights * x, axis=1)
    return mean, np.sum(weights * (x - mean[:, None]) ** 2, axis=1)
