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


def hazard(z):
    """N(z)/Φ(z): about -z far on the left, 0 far on the right."""
    # erfcx(-z/√2) = 2 Φ(z) exp(z²/2) overflows only where the ratio is 0 in double precision
    return SQRT_2_OVER_PI / erfcx(-SQRT_HALF * z)


def hazard_curvature(z, ratio):
    """ratio (z + ratio) for ratio = hazard(z), the negative curvature of log Φ: between 0 and 1 for every z."""
    # far left z + ratio is the small difference of large numbers; there the series of Mills' ratio, off by 1e-13 at -100
    near, far = ratio * (z + ratio), z < -100
    if not np.any(far):
        return near
    x2 = np.where(far, z, 1.0) ** -2.0
    series = (1 - x2 * (3 - x2 * (15 - 105 * x2))) / (1 - x2 * (1 - x2 * (3 - 15 * x2))) ** 2
    return np.where(far, series, near)


def log_ndtr_and_hazard(z):
    """log Φ(z) and N(z)/Φ(z) from one special function; log Φ is good to 1e-14 absolute (not relative) for z > 5."""
    one = z > 8.3  # Φ is one, and its hazard 4e-16, from here on
    z = np.where(one, 8.3, z)
    scaled = erfcx(-SQRT_HALF * z)
    return np.log(0.5 * scaled) - 0.5 * z * z, np.where(one, 0.0, SQRT_2_OVER_PI / scaled)


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
    weights = kolmogorov_density(scale / 2) * scale
    return scale**2, weights / weights.sum()


LOGISTIC_SCALES2, LOGISTIC_WEIGHTS = _logistic_mixture()

__all__ = [
    "LOGISTIC_SCALES2",
    "LOGISTIC_WEIGHTS",
    "LOG_SQRT_2PI",
    "hazard",
    "hazard_curvature",
    "log_ndtr",
    "log_ndtr_and_hazard",
]
