"""The largest of Gaussians: by how much does "x_0 is the largest" change what is known of x ~ N(mean, diag(var))?

x_0 is the hub that all else depends on: with x_0 = mean_0 + s_0 t everything is an integral over t, of a log-concave
function that the trapezoid rule does to all digits that matter. For dependent x see `shares`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .normal import LOG_SQRT_2PI, hazard, hazard_curvature, log_ndtr_and_hazard

NODES = 96  # of the rule over the hub
REACH = 8.5  # standard deviations: how far its nodes go
FURTHEST = 1e7  # standard deviations that two means may be apart
BLOCK = 1 << 20  # numbers in an array of nodes


class Largest(NamedTuple):
    """Log probability that x_0 is the largest, and its derivatives in the means."""

    log_mass: np.ndarray  # (n,)
    slope: np.ndarray  # (n, C)
    known: np.ndarray  # (n, C) share of each variance that is lost by knowing it: minus curvature times var


def largest(mean: np.ndarray, var: np.ndarray) -> Largest:
    """For independent x, the candidate in column 0; mean and var are (n, C), var positive."""
    rows = max(1, BLOCK // (NODES * mean.shape[1]))
    parts = [_largest(mean[i : i + rows], var[i : i + rows]) for i in range(0, max(len(mean), 1), rows)]
    return Largest(*(np.concatenate(p) for p in zip(*parts, strict=True)))


def log_largest(mean: np.ndarray, var: np.ndarray) -> np.ndarray:
    """(n, C) log probability that each of independent x is the largest."""
    out = np.empty(mean.shape)
    rows = max(1, BLOCK // (NODES * mean.shape[1]))
    for c in range(mean.shape[1]):
        order = np.r_[c, 0:c, c + 1 : mean.shape[1]]
        for i in range(0, len(mean), rows):
            some = slice(i, i + rows)
            out[some, c] = hub_integral(*_standard(mean[some][:, order], var[some][:, order])[:2])[0]
    return out


def _standard(mean, var):
    """P(x_0 > x_j) given x_0 = mean_0 + s_0 t is Φ(shift_j + rate_j t); also s."""
    scale = np.sqrt(var)
    rate = scale[:, :1] / scale[:, 1:]
    limit = FURTHEST * (1 + rate)  # beyond it numbers overflow and nothing is left to know
    return np.clip((mean[:, :1] - mean[:, 1:]) / scale[:, 1:], -limit, limit), rate, scale


def _largest(mean, var):
    shift, rate, scale = _standard(mean, var)
    log_mass, t, weights, z, ratio = hub_integral(shift, rate)
    bend = np.einsum("iq,iqj->ij", weights, hazard_curvature(z, ratio))
    pull, spread = _moments(ratio, weights[..., None])  # of what each Φ says, in units of its s
    _, t_var = _moments(t, weights)
    said, said_var = _moments(np.einsum("iqj,ij->iq", ratio, rate), weights)
    # 1 - (tilted variance)/var, by the form that does not cancel
    own = np.where(t_var < 0.5, 1 - t_var, np.einsum("ij,ij->i", bend, rate**2) - said_var)
    known = np.clip(np.column_stack([own, bend - spread]), 0.0, 1.0)
    return log_mass, np.column_stack([said, -pull]) / scale, known


def hub_integral(shift: np.ndarray, rate: np.ndarray) -> tuple[np.ndarray, ...]:
    """log ∫ N(t) ∏_j Φ(shift_j + rate_j t) dt (n,); nodes and normalised weights (n, q); arguments, hazards (n, q, C - 1).

    Trapezoid rule in u, t = centre + width sinh u: fine where the integrand has its steepest edge, coarse where it is as
    wide as N(t).
    """
    low, high, centre, width = _hub_range(shift, rate)
    u_low, u_high = np.arcsinh((low - centre) / width), np.arcsinh((high - centre) / width)
    u = u_low[:, None] + (u_high - u_low)[:, None] * np.linspace(0, 1, NODES)
    t = centre[:, None] + width[:, None] * np.sinh(u)
    z = shift[:, None] + rate[:, None] * t[..., None]
    log_cdf, ratio = log_ndtr_and_hazard(z)
    log_density = log_cdf.sum(-1) - 0.5 * t * t + np.log(np.cosh(u))
    top = log_density.max(1, keepdims=True)
    weights = np.exp(log_density - top)
    total = weights.sum(1)
    step = width * (u_high - u_low) / (NODES - 1)
    log_mass = np.minimum(top[:, 0] + np.log(total * step) - LOG_SQRT_2PI, 0.0)
    return log_mass, t, weights / total[:, None], z, ratio


def _hub_range(shift, rate):
    """Where the integrand lives, and the place and width of its steepest edge."""
    mode, width = _hub_mode(shift, rate)
    z = shift + rate * mode[:, None]
    edge = -shift / rate
    # log-concave: to the left it falls faster than its parabola at the mode, and a factor at -9 has fallen for good
    fallen = np.max(edge + (np.minimum(z, 0.0) - 9) / rate, axis=1)
    low, high = np.maximum(mode - REACH * width, fallen), mode + REACH
    alive = edge + 9 / rate > low[:, None]
    steepest = np.argmax(np.where(alive, rate, 0.0), axis=1)[:, None]
    r = np.take_along_axis(np.where(alive, rate, 0.0), steepest, axis=1)[:, 0]
    at = np.where(r > 0, np.take_along_axis(edge, steepest, axis=1)[:, 0], mode)
    return low, high, np.minimum(mode, at), np.minimum(width, 1 / np.sqrt(1 + r**2))


def _hub_mode(shift, rate):
    """Mode of the integrand, and the width of its parabola there. Newton's method climbs to it from the left."""
    mode = np.zeros(len(shift))
    for _ in range(100):  # a dozen suffice
        z = shift + rate * mode[:, None]
        ratio = hazard(z)
        precision = 1 + np.sum(rate**2 * hazard_curvature(z, ratio), axis=1)
        move = (np.sum(rate * ratio, axis=1) - mode) / precision
        mode = mode + move
        if np.all(np.abs(move) * np.sqrt(precision) <= 1e-2):  # a place for the nodes, no more
            break
    return mode, 1 / np.sqrt(precision)


def _moments(x, weights):
    """Mean and variance over axis 1."""
    mean = np.sum(weights * x, axis=1)
    return mean, np.sum(weights * (x - mean[:, None]) ** 2, axis=1)
