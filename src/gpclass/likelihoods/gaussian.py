"""Gaussian likelihood: p(y | f) = N(y | f, variance). With it every engine is exact regression, which the tests use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import ndtr, ndtri

from ..numerics import LOG_SQRT_2PI
from .base import BoundSlopes, FreeParameter, Likelihood
from .tilted import Triple


def check_real(y) -> np.ndarray:
    """Return y as floats, or raise a ValueError if they are not finite numbers."""
    y = np.asarray(y, float)
    if y.ndim != 1 or not np.all(np.isfinite(y)):
        raise ValueError("targets must be a one-dimensional array of finite numbers")
    return y


@dataclass(frozen=True)
class Gaussian(Likelihood):
    """Gaussian likelihood, p(y | f) = N(y | f, variance), y any real number.

    Parameters
    ----------
    variance : float, default=1.0
        Noise variance. The free parameter is its logarithm.
    """

    variance: float = 1.0

    targets: ClassVar[str] = "real numbers"
    log_concave = True
    conjugate = True

    def __post_init__(self):
        if not (np.isfinite(self.variance) and self.variance > 0):
            raise ValueError(f"variance must be a positive number, but is {self.variance}")

    def free_parameters(self) -> list[FreeParameter]:
        return [FreeParameter("noise_variance", *np.log([self.variance, 1e-8, 1e8]))]

    def _moved(self, theta: np.ndarray) -> Gaussian:
        return Gaussian(float(np.exp(theta[0])))

    @property
    def noise_variance(self) -> float:
        return self.variance

    def check_targets(self, y) -> np.ndarray:
        return check_real(y)

    def tilted_moments(self, y, mean, var) -> Triple:
        total = var + self.variance
        residual = y - mean
        value = -0.5 * residual**2 / total - 0.5 * np.log(total) - LOG_SQRT_2PI
        return value, residual / total, -1 / total + 0 * residual

    def tilted_power(self, y, power, mean, var) -> Triple:
        """Return log ∫ N(f | mean, var) p(y | f)^power df and its first two derivatives in `mean`."""
        total = var + self.variance / power
        residual = y - mean
        constant = 0.5 * (1 - power) * (2 * LOG_SQRT_2PI + np.log(self.variance)) - 0.5 * np.log(power)
        value = constant - 0.5 * residual**2 / total - 0.5 * np.log(total) - LOG_SQRT_2PI
        return value, residual / total, -1 / total + 0 * residual

    def tilted_power_theta(self, y, power, mean, var) -> np.ndarray:
        _, d1, d2 = self.tilted_power(y, power, mean, var)
        return np.atleast_2d(0.5 * (1 - power) + 0.5 * self.variance / power * (d1**2 + d2))

    def log_prob(self, y, f) -> Triple:
        return self.tilted_moments(y, f, 0.0)

    def log_prob_third(self, y, f) -> np.ndarray:
        return np.zeros_like(f)

    def expected_log_prob(self, y, mean, var) -> Triple:
        value, slope, curvature = self.log_prob(y, mean)
        return value + 0.5 * var * curvature, slope, curvature

    def bound(self, y, touch) -> Triple:
        """Return constant, ν and τ of the log density. It is quadratic, so the bound is exact everywhere."""
        tau = np.full_like(touch, 1 / self.variance)
        return -0.5 * y**2 * tau - 0.5 * np.log(self.variance) - LOG_SQRT_2PI, y * tau, tau

    def bound_point(self, y, mean, var) -> np.ndarray:
        return np.zeros_like(mean)

    def bound_curvature(self, y, mean, var) -> np.ndarray:
        return np.full_like(mean, -1 / self.variance)

    def bound_slopes(self, y, mean, var) -> BoundSlopes:
        zero = np.zeros_like(mean)
        return BoundSlopes(zero, zero, zero, zero)

    def log_predictive(self, y, mean, var) -> np.ndarray:
        """Return the log density of a new target y under f ~ N(mean, var)."""
        return self.tilted_moments(y, mean, var)[0]

    def predictive(self, mean, var) -> np.ndarray:
        """Return the probability that a new target is positive."""
        return ndtr(mean / np.sqrt(var + self.variance))

    def predictive_cdf(self, y, mean, var) -> np.ndarray:
        """Return the probability that a new target is at most y."""
        return ndtr((y - mean) / np.sqrt(var + self.variance))

    def predictive_quantile(self, p, mean, var) -> np.ndarray:
        """Return the value that a new target does not exceed with probability p."""
        return mean + np.sqrt(var + self.variance) * ndtri(p)

    # derivatives in θ = log variance, each (1, n) ---------------------------------------------------------------

    def tilted_theta(self, y, mean, var) -> np.ndarray:
        _, d1, d2 = self.tilted_moments(y, mean, var)
        return np.atleast_2d(0.5 * self.variance * (d1**2 + d2))

    def log_prob_theta(self, y, f) -> Triple:
        _, slope, curvature = self.log_prob(y, f)
        return self.tilted_theta(y, f, 0.0), np.atleast_2d(-slope), np.atleast_2d(-curvature)

    def expected_log_prob_theta(self, y, mean, var) -> np.ndarray:
        second_moment = (y - mean) ** 2 + var
        return np.atleast_2d(0.5 * second_moment / self.variance - 0.5)

    def bound_theta(self, y, touch, mean, var) -> np.ndarray:
        return self.expected_log_prob_theta(y, mean, var)

    def bound_sites_theta(self, y, mean, var) -> tuple[np.ndarray, np.ndarray]:
        tau = np.full_like(mean, 1 / self.variance)
        return np.atleast_2d(-y * tau), np.atleast_2d(-tau)
