"""Counts: p(y | f) = Poisson(y | exp(f + bias)).

The expectation under a Gaussian has no closed form. The integrand is log-concave in f: it is as wide as the Gaussian on the
left, and on the right it falls within one unit or less. The trapezoid rule is in u with f = centre + width sinh u, where
centre is at this edge. It covers the range in which the integrand is above rounding error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import gammaln

from ..numerics import LOG_SQRT_2PI, blocks
from .ordinal import check_whole
from .sigmoid import WithBias
from .tilted import Triple

SINH_NODES = 160  # of the trapezoid rule in u
NEGLIGIBLE_NATS = 38.0  # fall of the log integrand from its mode at which it is negligible: e⁻³⁸ is 3e-17
LARGEST_EXPONENT = 700.0  # exp overflows beyond 709


@dataclass(frozen=True)
class Poisson(WithBias):
    """Poisson likelihood of counts, p(y | f) = exp(y g - exp g)/y!, g = f + bias, y in 0, 1, 2, …

    Parameters
    ----------
    bias : float, default=0.0
        The log rate where f is zero.
    learn_bias : bool, default=False
        Whether `bias` is a free parameter.
    """

    targets: ClassVar[str] = "counts"
    log_concave = True
    latent_targets = None  # type: ignore[assignment]  # counts are not on the scale of f

    def check_targets(self, y) -> np.ndarray:
        """Return y as floats, or raise a ValueError unless they are whole numbers of at least 0."""
        return check_whole(y)

    def log_prob(self, y, f) -> Triple:
        g = f + self.bias
        rate = np.exp(np.minimum(g, LARGEST_EXPONENT))
        return y * g - rate - gammaln(np.asarray(y) + 1.0), y - rate, -rate

    def log_prob_third(self, y, f) -> np.ndarray:
        return -np.exp(np.minimum(f + self.bias, LARGEST_EXPONENT))

    def expected_log_prob(self, y, mean, var) -> Triple:
        """Return E[log p(y | f)] under N(mean, var) and its first two derivatives in `mean`."""
        g = mean + self.bias
        rate = np.exp(np.minimum(g + 0.5 * var, LARGEST_EXPONENT))
        return y * g - rate - gammaln(np.asarray(y) + 1.0), y - rate, -rate

    def tilted_moments(self, y, mean, var) -> Triple:
        """Return log ∫ N(f | mean, var) p(y | f) df and its first two derivatives in `mean`."""
        y, mean, var = np.broadcast_arrays(np.asarray(y, float), np.asarray(mean, float), np.asarray(var, float))
        value, d1, d2 = (np.empty(y.shape) for _ in range(3))
        y, mean, var = (x.reshape(-1) for x in (y, mean, var))
        parts = [_tilted(y[some], mean[some], var[some], self.bias) for some in blocks(y.size, SINH_NODES)]
        for out, part in zip((value, d1, d2), zip(*parts, strict=True), strict=True):
            out.reshape(-1)[:] = np.concatenate(part)
        return value, d1, d2

    def tilted_theta(self, y, mean, var) -> np.ndarray:
        return np.atleast_2d(self.tilted_moments(y, mean, var)[1])[: len(self.theta)]

    def log_prob_theta(self, y, f) -> Triple:
        _, slope, curvature = self.log_prob(y, f)
        p = len(self.theta)
        return tuple(np.atleast_2d(x)[:p] for x in (slope, curvature, self.log_prob_third(y, f)))  # type: ignore[return-value]

    def expected_log_prob_theta(self, y, mean, var) -> np.ndarray:
        return np.atleast_2d(self.expected_log_prob(y, mean, var)[1])[: len(self.theta)]

    def log_predictive(self, y, mean, var) -> np.ndarray:
        """Return log p(y) under f ~ N(mean, var)."""
        return self.tilted_moments(y, mean, var)[0]

    def predictive(self, mean, var) -> np.ndarray:
        """Return the expected count under f ~ N(mean, var)."""
        return np.exp(np.asarray(mean) + 0.5 * np.asarray(var) + self.bias)


def _tilted(y, mean, var, bias):
    """Return log ∫ N(f | mean, var) p(y | f) df and its first two derivatives in `mean`, for vectors of equal length."""
    sd = np.sqrt(var)
    mode = _mode(y, mean + bias, var)  # of f + bias
    rate = np.exp(np.minimum(mode, LARGEST_EXPONENT))
    width = 1 / np.sqrt(rate + 1 / np.maximum(var, 1e-300))
    # the integrand falls at least as fast as N(0, var) on both sides of the mode, and on the right within a few units
    left = mode - np.sqrt(2 * NEGLIGIBLE_NATS) * sd
    steep = np.log1p(NEGLIGIBLE_NATS / np.maximum(rate, 1e-300))  # exp(g) - exp(mode) = NEGLIGIBLE_NATS
    right = mode + np.minimum(np.sqrt(2 * NEGLIGIBLE_NATS) * sd, steep + np.sqrt(2 * NEGLIGIBLE_NATS) * width)
    centre = np.clip(np.maximum(mode, 0.0), left, right)
    unit = np.minimum(width, 1.0)
    unit = np.where(unit > 0, unit, 1.0)
    u_left, u_right = np.arcsinh((left - centre) / unit), np.arcsinh((right - centre) / unit)
    u = u_left[:, None] + (u_right - u_left)[:, None] * np.linspace(0, 1, SINH_NODES)
    from_mode = (centre - mode)[:, None] + unit[:, None] * np.sinh(u)
    # log integrand relative to the mode, written so that no terms cancel there
    g = mode[:, None] + from_mode
    pull = (mode - mean - bias) / np.maximum(var, 1e-300)  # equals y - rate
    fall = -rate[:, None] * _exp_remainder(from_mode) - 0.5 * from_mode**2 / np.maximum(var, 1e-300)[:, None]
    fall += (y - rate - pull)[:, None] * from_mode  # zero if the mode is exact
    log_weights = fall + np.log(np.cosh(u))
    top = log_weights.max(1, keepdims=True)
    weights = np.exp(log_weights - top)
    total = weights.sum(1)
    step = unit * (u_right - u_left) / (SINH_NODES - 1)
    known = sd > 0
    safe = np.where(known, sd, 1.0)
    at_mode = y * mode - rate - gammaln(y + 1) - 0.5 * ((mode - mean - bias) / safe) ** 2
    value = at_mode + top[:, 0] + np.log(total * np.where(known, step, 1.0) / safe) - LOG_SQRT_2PI
    weights /= total[:, None]
    rates = np.exp(np.minimum(g, LARGEST_EXPONENT))
    slope = y[:, None] - rates
    d1 = np.einsum("ij,ij->i", weights, slope)
    d2 = np.einsum("ij,ij->i", weights, (slope - d1[:, None]) ** 2 - rates)
    # where the count determines f more than the Gaussian does, these sums cancel, but those from the moments of f do not
    moved = np.einsum("ij,ij->i", weights, from_mode)
    spread = np.einsum("ij,ij->i", weights, (from_mode - moved[:, None]) ** 2)
    strong = spread < 0.5 * var
    safe_var = np.where(known, var, 1.0)
    d1 = np.where(strong, (mode - mean - bias + moved) / safe_var, d1)
    d2 = np.where(strong, (spread / safe_var - 1) / safe_var, d2)
    plain = y * (mean + bias) - np.exp(np.minimum(mean + bias, LARGEST_EXPONENT)) - gammaln(y + 1)
    point = np.exp(np.minimum(mean + bias, LARGEST_EXPONENT))
    return np.where(known, value, plain), np.where(known, d1, y - point), np.where(known, d2, -point)


def _mode(y, mean, var):
    """Return the g that maximises y g - exp g - (g - mean)²/2 var, by Newton's method on g - mean = var (y - exp g)."""
    # the maximum lies between log y and mean + var y, and the slope is convex: Newton's method from the right does not
    # overshoot
    g = np.minimum(mean + var * y, np.maximum(mean, np.log(np.maximum(y, 1e-300))) + 1.0)
    g = np.minimum(g, LARGEST_EXPONENT)
    for _ in range(200):  # steps have unit length far to the right of the mode; otherwise a dozen suffice
        rate = np.exp(g)
        move = (g - mean - var * (y - rate)) / (1 + var * rate)
        g = g - move
        if np.all(np.abs(move) <= 1e-12 * (1 + np.abs(g))):
            break
    return g


def _exp_remainder(x):
    """Return exp(x) - 1 - x without loss of digits near zero."""
    small = np.abs(x) < 1e-2
    near = np.where(small, x, 0.0)
    series = near**2 / 2 * (1 + near / 3 * (1 + near / 4 * (1 + near / 5 * (1 + near / 6))))
    return np.where(small, series, np.expm1(np.minimum(x, LARGEST_EXPONENT)) - x)
