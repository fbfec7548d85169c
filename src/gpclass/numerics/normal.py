"""The normal distribution in its far tails, and the logistic function written with it.

The logistic function is an exact scale mixture of probits, sig(f) = ∫ Φ(f/λ) q(λ) dλ with λ/2 of Kolmogorov's
distribution (Stefanski 1991). The trapezoid rule in log λ makes of it a sum of two dozen probits, good to
1e-14 for every f, so that each Gaussian integral of the logistic is a sum of closed forms with positive weights.
"""

from __future__ import annotations

import numpy as np
from scipy.special import erfcx, log_ndtr

LOG_SQRT_2PI = 0.5 * np.log(2 * np.pi)
SQRT_HALF = np.sqrt(0.5)
SQRT_2_OVER_PI = np.sqrt(2 / np.pi)


def normal_density(z):
    """N(z | 0, 1)."""
    return np.exp(-0.5 * z * z - LOG_SQRT_2PI)


def hazard(z):
    """N(z)/Φ(z): about -z far on the left, 0 far on the right."""
    # erfcx(-z/√2) = 2 Φ(z) exp(z²/2) overflows only where the ratio is 0 in double precision
    return SQRT_2_OVER_PI / erfcx(-SQRT_HALF * z)


def kolmogorov_density(x):
    """Density of Kolmogorov's distribution, by whichever of its two theta series converges at once."""
    x = np.asarray(x, float)[:, None]
    j = np.arange(1, 9)
    odd2 = ((2 * j - 1) * np.pi) ** 2
    small = np.sqrt(2 * np.pi) * np.sum((odd2 / (4 * x**4) - x**-2.0) * np.exp(-odd2 / (8 * x**2)), axis=1)
    large = 8 * x[:, 0] * np.sum((-1.0) ** (j + 1) * j**2 * np.exp(-2 * (j * x) ** 2), axis=1)
    return np.where(x[:, 0] < 1, small, large)


def _logistic_mixture(step: float = 0.13):
    # Beyond these limits the weights are under 1e-17; step: the trapezoid rule is off by 1e-15 (tests/numerics).
    scale = np.exp(np.arange(np.log(0.33), np.log(10.0), step))
    return scale**2, kolmogorov_density(scale / 2) / 2 * scale * step


LOGISTIC_SCALES2, LOGISTIC_WEIGHTS = _logistic_mixture()

__all__ = ["LOGISTIC_SCALES2", "LOGISTIC_WEIGHTS", "LOG_SQRT_2PI", "hazard", "log_ndtr", "normal_density"]
