"""Ordered categories: the latent value plus standard Gaussian noise lies between two thresholds.

    p(y = k | f) = Φ(c_{k+1} - f) - Φ(c_k - f),    -∞ = c_0 < c_1 < … < c_R = ∞

The noise variance is fixed, because the kernel's variance sets the same scale. A Gaussian on f adds to the noise variance,
so all integrals have closed forms. In a difference of two tails, the larger tail is factored out, which keeps all digits at
any distance of the category; only categories narrower than 1e-6 noise standard deviations lose digits. Engines that use only
cavity integrals support this likelihood.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ..numerics import hazard, hazard_curvature, log_ndtr
from .base import Likelihood, Triple


@dataclass(frozen=True)
class Ordinal(Likelihood):
    """Likelihood of R ordered categories, p(y = k | f) = Φ(c_{k+1} - f) - Φ(c_k - f), y in 0 … R - 1.

    Parameters
    ----------
    thresholds : tuple of float, default=(-1.0, 1.0)
        c_1 … c_{R-1} in ascending order. The free parameters are c_1 and the logarithms of the gaps.
    """

    thresholds: tuple[float, ...] = (-1.0, 1.0)

    targets: ClassVar[str] = "ordered categories"
    log_concave = True

    def __post_init__(self):
        cuts = np.asarray(self.thresholds, float)
        if cuts.ndim != 1 or not len(cuts) or not np.all(np.isfinite(cuts)) or np.any(np.diff(cuts) <= 0):
            raise ValueError(f"thresholds must be finite numbers in ascending order, but are {self.thresholds!r}")
        object.__setattr__(self, "thresholds", tuple(cuts.tolist()))

    @property
    def n_categories(self) -> int:
        return len(self.thresholds) + 1

    # parameters ---------------------------------------------------------------------------------------------------

    @property
    def theta(self) -> np.ndarray:
        return np.concatenate([self.thresholds[:1], np.log(np.diff(self.thresholds))])

    @property
    def names(self) -> list[str]:
        return ["threshold", *(f"gap[{k}]" for k in range(1, len(self.thresholds)))]

    @property
    def bounds(self) -> np.ndarray:
        return np.vstack([[-100.0, 100.0], np.tile(np.log([1e-5, 1e3]), (len(self.thresholds) - 1, 1))])

    def with_theta(self, theta) -> Ordinal:
        theta = np.asarray(theta, float).ravel()
        if len(theta) != len(self.thresholds):
            raise ValueError(f"Ordinal has {len(self.thresholds)} free parameters, but got {len(theta)}")
        return replace(self, thresholds=tuple(np.cumsum(np.concatenate([theta[:1], np.exp(theta[1:])])).tolist()))

    # values and derivatives ---------------------------------------------------------------------------------------

    def check_targets(self, y) -> np.ndarray:
        """Return y as floats, or raise a ValueError unless they are whole numbers from 0 to R - 1."""
        return check_whole(y, self.n_categories - 1)

    def tilted_moments(self, y, mean, var) -> Triple:
        """Return log ∫ N(f | mean, var) p(y | f) df and its first two derivatives in `mean`."""
        scale, near, far, sign = self._limits(y, mean, var)
        log_near, log_far = log_ndtr(-near), log_ndtr(-far)
        ratio = np.exp(log_far - log_near)  # of the smaller tail to the larger one
        left = -np.expm1(log_far - log_near)
        h_near, h_far = hazard(-near), hazard(-far)
        bend_near, bend_far = hazard_curvature(-near, h_near), hazard_curvature(-far, h_far)
        slope = (h_near - ratio * h_far) / left
        curvature = (bend_near - ratio * bend_far) / left + ratio * ((h_near - h_far) / left) ** 2
        return log_near + np.log(left), sign * slope / scale, -curvature / scale**2

    def _limits(self, y, mean, var):
        """Return the category's limits in standard deviations from the mean, mirrored (sign -1) if most of it is below."""
        cuts = np.concatenate([[-np.inf], self.thresholds, [np.inf]])
        k = np.asarray(y).astype(int)
        scale = np.sqrt(1 + np.asarray(var, float))
        low, high = (cuts[k] - mean) / scale, (cuts[k + 1] - mean) / scale
        above = low >= -high
        # 1e8 replaces infinity: all functions of the tail are zero there
        near = np.clip(np.where(above, low, -high), -1e8, 1e8)
        far = np.clip(np.where(above, high, -low), -1e8, 1e8)
        return scale, near, far, np.where(above, 1.0, -1.0)

    def tilted_theta(self, y, mean, var) -> np.ndarray:
        """Return the derivatives (R - 1, n) in θ of the value of `tilted_moments`."""
        scale, near, far, sign = self._limits(y, mean, var)
        log_near, log_far = log_ndtr(-near), log_ndtr(-far)
        left = -np.expm1(log_far - log_near) * scale
        at_near, at_far = hazard(-near) / left, hazard(-far) * np.exp(log_far - log_near) / left  # density / mass
        in_low = np.where(sign > 0, -at_near, -at_far)
        in_high = np.where(sign > 0, at_far, at_near)
        k = np.asarray(y).astype(int)
        index = np.arange(1, self.n_categories)[:, None]
        in_cuts = np.where(index == k, in_low, 0.0) + np.where(index == k + 1, in_high, 0.0)
        gaps = np.diff(self.thresholds)
        later = np.cumsum(in_cuts[::-1], axis=0)[::-1]  # a gap moves all thresholds above it
        return np.vstack([later[:1], gaps[:, None] * later[1:]])

    def log_predictive(self, y, mean, var) -> np.ndarray:
        """Return log p(y) under f ~ N(mean, var)."""
        return self.tilted_moments(y, mean, var)[0]

    def predictive(self, mean, var) -> np.ndarray:
        """Return the probabilities (m, R) of all categories under f ~ N(mean, var)."""
        mean, var = np.asarray(mean, float), np.asarray(var, float)
        categories = range(self.n_categories)
        return np.exp(np.stack([self.log_predictive(np.full(mean.shape, k), mean, var) for k in categories], axis=-1))


def check_whole(y, most: float = np.inf) -> np.ndarray:
    """Return y as floats, or raise a ValueError unless they are whole numbers from 0 to `most`."""
    y = np.asarray(y)
    if y.ndim != 1:
        raise ValueError(f"y must be one-dimensional, but has shape {y.shape}")
    try:
        values = y.astype(float)
    except (ValueError, TypeError) as error:
        raise ValueError(f"targets must be whole numbers, but y is of type {y.dtype}") from error
    if not (np.all(np.isfinite(values)) and np.all(values == np.floor(values)) and np.all((values >= 0) & (values <= most))):
        upper = "" if most == np.inf else f" up to {most:g}"
        raise ValueError(f"targets must be whole numbers from 0{upper}, but y contains {np.unique(values)[:5].tolist()}")
    return values
