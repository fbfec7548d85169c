"""Ordered categories: the latent value plus standard Gaussian noise lies between two thresholds.

    p(y = k | f) = Φ(c_{k+1} - f) - Φ(c_k - f),    -∞ = c_0 < c_1 < … < c_R = ∞

The noise variance is fixed, because the kernel's variance sets the same scale. A Gaussian on f adds to the noise variance,
so integrals of p(y | f) have closed forms; those of log p(y | f) are computed by quadrature (`interval.py`).

[CG] Chu & Ghahramani 2005, Gaussian Processes for Ordinal Regression.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.special import ndtri

from ..numerics.plackett import probit_covariance
from .base import FreeParameter
from .interval import WIDE_INTERVAL, expected_interval, interval, log_interval, third_derivative
from .sigmoid import WithPowers
from .tilted import Triple


@dataclass(frozen=True)
class Ordinal(WithPowers):
    """Likelihood of R ordered categories, p(y = k | f) = Φ(c_{k+1} - f) - Φ(c_k - f), y in 0 … R - 1. [CG] (4)

    All categories share one latent function: large values make the later categories probable.

    Parameters
    ----------
    thresholds : tuple of float, default=(-1.0, 1.0)
        c_1 … c_{R-1} in ascending order. The free parameters are c_1 and the logarithms of the gaps.
    """

    thresholds: tuple[float, ...] = (-1.0, 1.0)

    targets: ClassVar[str] = "ordered categories"
    log_concave = True
    latent_targets = None  # type: ignore[assignment]  # categories are not on the scale of f

    def __post_init__(self):
        cuts = np.asarray(self.thresholds, float)
        if cuts.ndim != 1 or not len(cuts) or not np.all(np.isfinite(cuts)) or np.any(np.diff(cuts) <= 0):
            raise ValueError(f"thresholds must be finite numbers in ascending order, but are {self.thresholds!r}")
        object.__setattr__(self, "thresholds", tuple(cuts.tolist()))

    @classmethod
    def for_targets(cls, targets: str, n_classes: int) -> Ordinal | None:
        """Return an instance with thresholds one apart, or None if the targets are not ordered categories."""
        if targets != cls.targets:
            return None
        return cls(tuple((np.arange(1, n_classes) - 0.5 * n_classes).tolist()))

    def starting_at(self, frequencies, variance: float) -> Ordinal:
        """Return the likelihood with thresholds at which the categories have these frequencies under the prior.

        p(y ≤ k) = Φ(c_{k+1} / √(1 + variance)). Half a row is added to each category, so that none is empty.
        """
        rows = np.asarray(frequencies, float) + 0.5
        share = np.cumsum(rows)[:-1] / rows.sum()
        return replace(self, thresholds=tuple((np.sqrt(1 + variance) * ndtri(share)).tolist()))

    @property
    def n_categories(self) -> int:
        return len(self.thresholds) + 1

    @property
    def class_targets(self) -> np.ndarray:
        return np.arange(float(self.n_categories))

    # parameters ---------------------------------------------------------------------------------------------------

    def free_parameters(self) -> list[FreeParameter]:
        gaps = enumerate(np.log(np.diff(self.thresholds)), start=1)
        others = [FreeParameter(f"gap[{k}]", gap, *np.log([1e-5, 1e3])) for k, gap in gaps]
        return [FreeParameter("threshold", self.thresholds[0], -100.0, 100.0), *others]

    def _moved(self, theta: np.ndarray) -> Ordinal:
        return replace(self, thresholds=tuple(np.cumsum(np.concatenate([theta[:1], np.exp(theta[1:])])).tolist()))

    # values and derivatives ---------------------------------------------------------------------------------------

    def check_targets(self, y) -> np.ndarray:
        """Return y as floats, or raise a ValueError unless they are whole numbers from 0 to R - 1."""
        return check_whole(y, self.n_categories - 1)

    def log_prob(self, y, f) -> Triple:
        """Return log p(y | f) and its first two derivatives in f."""
        return interval(*self._limits(y, f))[:3]

    def log_prob_value(self, y, f) -> np.ndarray:
        return log_interval(*self._limits(y, f))

    def log_prob_third(self, y, f) -> np.ndarray:
        """Return the third derivative of log p(y | f) in f."""
        return third_derivative(*self._limits(y, f))

    def expected_log_prob(self, y, mean, var) -> Triple:
        """Return E[log p(y | f)] under N(mean, var) and its first two derivatives in `mean`."""
        value, slope, curvature = self._expected(lambda low, high: interval(low, high)[:3], y, mean, var)
        return value, slope, curvature

    def tilted_moments(self, y, mean, var) -> Triple:
        """Return log ∫ N(f | mean, var) p(y | f) df and its first two derivatives in `mean`."""
        scale, found = self._tilted(y, mean, var)
        return found.value, found.slope / scale, found.curvature / scale**2

    def centre_of(self, y, mean) -> np.ndarray:
        """Return the middle of each category, or the end nearer to `mean` if the category is wide or open."""
        low, high = self._limits(y, 0.0)
        nearer = np.where(np.abs(low - mean) < np.abs(high - mean), low, high)
        with np.errstate(invalid="ignore"):  # open categories
            return np.where(high - low > WIDE_INTERVAL, nearer, 0.5 * (low + high))

    def _limits(self, y, f):
        """Return the ends of each category, measured from f."""
        cuts = np.concatenate([[-np.inf], self.thresholds, [np.inf]])
        k = np.asarray(y).astype(int)
        return cuts[k] - f, cuts[k + 1] - f

    def _tilted(self, y, mean, var):
        """Return the standard deviation of f + noise, and the `Interval` of each category in units of it."""
        scale = np.sqrt(1 + np.asarray(var, float))
        low, high = self._limits(y, mean)
        return scale, interval(low / scale, high / scale)

    def _expected(self, parts, y, mean, var):
        """Return expectations of functions of the ends of the categories of y. Arguments are broadcast."""
        low, high = self._limits(y, 0.0)
        arrays = np.broadcast_arrays(low, high, np.asarray(mean, float), np.asarray(var, float))
        found = expected_interval(parts, *(x.reshape(-1) for x in arrays))
        return found.reshape(len(found), *arrays[0].shape)

    # derivatives in θ -----------------------------------------------------------------------------------------------

    def log_prob_theta(self, y, f) -> Triple:
        """Return the derivatives in θ of log_prob's value, slope and curvature, each (R - 1, n)."""
        low, high = self._limits(y, f)
        _, slope, curvature, at_low, at_high = interval(low, high)
        # derivatives of the slope and curvature in the ends, from d at_low / df = at_low (low - slope)
        below, above = (np.where(np.isfinite(end), end, 0.0) - slope for end in (low, high))  # at infinity the density is 0
        return (
            self._in_theta(y, -at_low, at_high),
            self._in_theta(y, -at_low * below, at_high * above),
            self._in_theta(y, -at_low * (below**2 - 1 - curvature), at_high * (above**2 - 1 - curvature)),
        )

    def expected_log_prob_theta(self, y, mean, var) -> np.ndarray:
        """Return the derivatives (R - 1, n) in θ of the value of `expected_log_prob`."""
        at_low, at_high = self._expected(lambda low, high: interval(low, high)[3:], y, mean, var)
        return self._in_theta(y, -at_low, at_high)

    def tilted_theta(self, y, mean, var) -> np.ndarray:
        """Return the derivatives (R - 1, n) in θ of the value of `tilted_moments`."""
        scale, found = self._tilted(y, mean, var)
        return self._in_theta(y, -found.at_low / scale, found.at_high / scale)

    def _in_theta(self, y, in_low, in_high) -> np.ndarray:
        """Return derivatives (R - 1, n) in θ, given those in the lower and upper end of each row's category."""
        k = np.asarray(y).astype(int)
        index = np.arange(1, self.n_categories)[:, None]
        in_cuts = np.where(index == k, in_low, 0.0) + np.where(index == k + 1, in_high, 0.0)
        gaps = np.diff(self.thresholds)
        later = np.cumsum(in_cuts[::-1], axis=0)[::-1]  # a gap moves all thresholds above it
        return np.vstack([later[:1], gaps[:, None] * later[1:]])

    # predictions ----------------------------------------------------------------------------------------------------

    def log_predictive(self, y, mean, var) -> np.ndarray:
        """Return log p(y) under f ~ N(mean, var)."""
        scale = np.sqrt(1 + np.asarray(var, float))
        low, high = self._limits(y, mean)
        return log_interval(low / scale, high / scale)

    def predictive(self, mean, var) -> np.ndarray:
        """Return the probabilities (m, R) of all categories under f ~ N(mean, var)."""
        return np.exp(self.log_class_probabilities(mean, var))

    def class_probability_std(self, mean, spread) -> np.ndarray:
        """Return the standard deviation (m, R) of each category's probability under f ~ N(mean, spread)."""
        var = np.asarray(spread, float)[..., None]
        limits = (np.array(self.thresholds) - np.asarray(mean, float)[..., None]) / np.sqrt(1 + var)
        rho = var / (1 + var)
        ends = np.zeros((*np.broadcast_shapes(limits.shape, rho.shape)[:-1], 1))
        own = np.concatenate([ends, probit_covariance(limits, limits, rho), ends], axis=-1)
        between = np.concatenate([ends, probit_covariance(limits[..., :-1], limits[..., 1:], rho), ends], axis=-1)
        return np.sqrt(np.maximum(own[..., :-1] + own[..., 1:] - 2 * between, 0.0))

    def expected_entropy(self, mean, var) -> np.ndarray:
        """Return E[H(y | f)] (m,) in nats under f ~ N(mean, var)."""
        mean = np.asarray(mean, float)
        each = [self._expected(_p_log_p, np.full(mean.shape, k), mean, var)[0] for k in range(self.n_categories)]
        return -np.sum(each, axis=0)


def _p_log_p(low, high):
    log_p = log_interval(low, high)
    return (np.exp(log_p) * np.maximum(log_p, -700.0),)  # zero where p is zero


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
