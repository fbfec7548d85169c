"""Laplace noise: p(y | f) = exp(-|y - f|/scale)/(2 scale), for regression with outliers.

With r = y - mean, s² = var and b = scale, the integral under N(f | mean, var) has two parts, f below y and f above y:

    A = exp(-r/b + s²/2b²) Φ(z_A),  z_A = r/s - s/b        B = exp(r/b + s²/2b²) Φ(z_B),  z_B = -r/s - s/b

and Z = (A + B)/2b. Both parts have the same density at f = y, so A h(z_A) = B h(z_B), h = N/Φ. With the fractions w of the
parts in A + B, and δ = z + h > 0, the mean distance of a truncated Gaussian variable from its limit,

    d log Z/d mean = (w_A - w_B)/b    d² log Z/d mean² = -2 w_A w_B (δ_A + δ_B)/(b s)    E|y - f| = s (w_A δ_A + w_B δ_B)

in which nothing cancels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import erfcx, expit, ndtr, ndtri

from ..numerics import LOG_SQRT_2PI, hazard, hazard_curvature, log_ndtr
from .base import FreeParameter, Likelihood
from .gaussian import check_real
from .tilted import Triple

SMALLEST_SD = 1e-150  # replaces zero: its square does not underflow, and |y - mean| divided by it does not overflow
BISECTIONS = 60  # for quantiles: full precision from any bracket


@dataclass(frozen=True)
class LaplaceNoise(Likelihood):
    """Laplace (double exponential) likelihood, p(y | f) = exp(-|y - f|/scale)/(2 scale), y any real number.

    Parameters
    ----------
    scale : float, default=1.0
        Mean absolute deviation of the noise, whose variance is 2 scale². The free parameter is its logarithm.
    """

    scale: float = 1.0

    targets: ClassVar[str] = "real numbers"
    log_concave = True

    def __post_init__(self):
        if not (np.isfinite(self.scale) and self.scale > 0):
            raise ValueError(f"scale must be a positive number, but is {self.scale}")

    @classmethod
    def of_variance(cls, variance: float) -> LaplaceNoise:
        """Return the likelihood with this noise variance."""
        if not (np.isfinite(variance) and variance > 0):
            raise ValueError(f"variance must be a positive number, but is {variance}")
        return cls(float(np.sqrt(0.5 * variance)))

    @property
    def noise_variance(self) -> float:
        return 2 * self.scale**2

    def free_parameters(self) -> list[FreeParameter]:
        return [FreeParameter("noise_scale", *np.log([self.scale, 1e-4, 1e4]))]

    def _moved(self, theta: np.ndarray) -> LaplaceNoise:
        return LaplaceNoise(float(np.exp(theta[0])))

    def check_targets(self, y) -> np.ndarray:
        return check_real(y)

    def corner(self, y) -> np.ndarray:
        return np.asarray(y, float)

    # there is no `log_prob`: the curvature is zero except at f = y, where it does not exist

    def log_prob_value(self, y, f) -> np.ndarray:
        return -np.abs(y - f) / self.scale - np.log(2 * self.scale)

    def log_prob_slope(self, y, f) -> tuple[np.ndarray, np.ndarray]:
        return self.log_prob_value(y, f), np.sign(y - f) / self.scale

    def tilted_moments(self, y, mean, var) -> Triple:
        parts = _parts(y, mean, var, self.scale)
        value = np.logaddexp(parts.log_below, parts.log_above) - np.log(2 * self.scale)
        d2 = -2 * parts.below * parts.above * (parts.gap_below + parts.gap_above) / (self.scale * parts.sd)
        return value, (parts.below - parts.above) / self.scale, d2

    def tilted_theta(self, y, mean, var) -> np.ndarray:
        parts = _parts(y, mean, var, self.scale)
        distance = parts.sd * (parts.below * parts.gap_below + parts.above * parts.gap_above)
        return np.atleast_2d(distance / self.scale - 1)

    def tilted_power(self, y, power, mean, var) -> Triple:
        """Return log ∫ N(f | mean, var) p(y | f)^power df and its first two derivatives in `mean`."""
        # p^power is a Laplace density of scale/power, up to a constant
        value, d1, d2 = _ScalePerDatum(self.scale / power).tilted_moments(y, mean, var)
        return value + (1 - power) * np.log(2 * self.scale) - np.log(power), d1, d2

    def tilted_power_theta(self, y, power, mean, var) -> np.ndarray:
        return _ScalePerDatum(self.scale / power).tilted_theta(y, mean, var) + (1 - power)

    def expected_log_prob(self, y, mean, var) -> Triple:
        """Return E[log p(y | f)] under N(mean, var) and its first two derivatives in `mean`."""
        sd = np.maximum(np.sqrt(var), SMALLEST_SD)
        t = (y - mean) / sd
        bell = np.exp(-0.5 * t * t - LOG_SQRT_2PI)
        inside = 1 - 2 * ndtr(-np.abs(t))
        value = -sd * (2 * bell + np.abs(t) * inside) / self.scale - np.log(2 * self.scale)
        return value, np.sign(t) * inside / self.scale, -2 * bell / (sd * self.scale)

    def expected_log_prob_theta(self, y, mean, var) -> np.ndarray:
        return np.atleast_2d(-self.expected_log_prob(y, mean, var)[0] - np.log(2 * self.scale) - 1)

    # the predictive distribution: a convolution of a Laplace and a normal distribution ------------------------------------

    def log_predictive(self, y, mean, var) -> np.ndarray:
        """Return the log density of a new target y under f ~ N(mean, var)."""
        return self.tilted_moments(y, mean, var)[0]

    def predictive_cdf(self, y, mean, var) -> np.ndarray:
        """Return the probability that a new target is at most y."""
        # Φ(r/s) + (B - A)/2; computed in the lower tail, where it is small
        parts = _parts(-np.abs(y - np.asarray(mean)), 0.0, var, self.scale)
        tail = ndtr(-np.abs(y - np.asarray(mean)) / parts.sd) + 0.5 * (np.exp(parts.log_above) - np.exp(parts.log_below))
        return np.where(np.asarray(y) > mean, 1 - tail, tail)

    def predictive_quantile(self, p, mean, var) -> np.ndarray:
        """Return the value that a new target does not exceed with probability p."""
        tail, mean, sd = np.broadcast_arrays(np.minimum(p, 1 - np.asarray(p)), mean, np.sqrt(var))
        # an upper bound: the normal and the Laplace variable exceed their terms with probability tail/2 each
        far = -sd * ndtri(0.5 * tail) - self.scale * np.log(tail)
        near = np.zeros_like(far)
        for _ in range(BISECTIONS):
            middle = 0.5 * (near + far)
            outside = self.predictive_cdf(-middle, 0.0, sd**2) > tail
            near, far = np.where(outside, middle, near), np.where(outside, far, middle)
        return mean + np.sign(np.asarray(p) - 0.5) * 0.5 * (near + far)

    def predictive(self, mean, var) -> np.ndarray:
        """Return the probability that a new target is positive."""
        return self.predictive_cdf(np.asarray(mean, float), 0.0, var)


class _ScalePerDatum(LaplaceNoise):
    """Laplace noise with a scale (n,) for each datum."""

    def __init__(self, scale: np.ndarray):
        object.__setattr__(self, "scale", scale)


class _Parts(NamedTuple):
    """The parts of N(f | mean, var) × likelihood with f below and above y, each (n,)."""

    sd: np.ndarray
    log_below: np.ndarray  # log A, without the factor 1/2b
    log_above: np.ndarray  # log B
    below: np.ndarray  # share of A in A + B
    above: np.ndarray
    gap_below: np.ndarray  # δ_A
    gap_above: np.ndarray


def _parts(y, mean, var, scale) -> _Parts:
    sd = np.maximum(np.sqrt(var), SMALLEST_SD)
    r, ratio = y - mean, sd / scale
    z_below, z_above = r / sd - ratio, -r / sd - ratio
    # log part = tilt + ½ ratio² + log Φ(z), or -½ (r/sd)² + log ½erfcx(-z/√2) where these terms would cancel: z < 0
    tail_below, tail_above = _log_tail(z_below), _log_tail(z_above)
    bell = -0.5 * (r / sd) ** 2
    half = 0.5 * ratio**2
    log_below = np.where(z_below < 0, bell + tail_below, -r / scale + half + tail_below)
    log_above = np.where(z_above < 0, bell + tail_above, r / scale + half + tail_above)
    lead = np.where((z_below < 0) & (z_above < 0), tail_below - tail_above, log_below - log_above)
    return _Parts(sd, log_below, log_above, expit(lead), expit(-lead), _gap(z_below), _gap(z_above))


def _log_tail(z):
    """Return log Φ(z) for z ≥ 0, and log Φ(z) + ½ z² for z < 0."""
    negative = z < 0
    scaled = np.log(0.5 * erfcx(-np.sqrt(0.5) * np.where(negative, z, 0.0)))
    return np.where(negative, scaled, log_ndtr(np.where(negative, 0.0, z)))


def _gap(z):
    """Return δ = z + N(z)/Φ(z), positive: the mean of a standard Gaussian variable above -z, minus this limit."""
    ratio = hazard(z)
    return np.where(z < 0, hazard_curvature(z, ratio) / np.where(z < 0, ratio, 1.0), z + ratio)
