"""Robust-max: the class with the largest latent value, or, with probability ε, any of the others.

    p(y | f) = 1 - ε if f_y is the largest, else ε / (C - 1)

A wrong label costs at most log(ε/(C - 1)), at any distance. The likelihood is not log-concave, so EP sites may have negative
precision. It has no derivative in f: only engines that use cavity integrals support it.

[VC] Villacampa-Calvo 2017, eq. 2.22.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..numerics import largest
from .label_noise import WithEpsilon
from .multiclass import Multiclass, largest_probabilities, own_first, positive_variances, restore_order
from .tilted import Triple


@dataclass(frozen=True)
class RobustMax(WithEpsilon, Multiclass):
    """p(y | f) = 1 - ε if f_y + bias_y is the largest, else ε / (C - 1); y in 0 … n_classes - 1.

    Parameters
    ----------
    n_classes : int
        Number of classes, at least 2.
    bias : tuple of float, optional
        One value per class, added to its latent function. None means zero.
    learn_bias : bool, default=False
        Whether the biases are free parameters, except that of class 0.
    epsilon : float, default=0.05
        Probability that the label is not the class of the largest latent value. EP often fails to converge if `epsilon`
        is much smaller than the default.
    learn_epsilon : bool, default=False
        Whether log ε is a free parameter.
    """

    epsilon: float = 0.05
    learn_epsilon: bool = False

    def __post_init__(self):
        super().__post_init__()
        if not 0 < self.epsilon < self._largest_epsilon:
            raise ValueError(
                f"epsilon must be above 0 and below {self._largest_epsilon:.3g} "
                f"(there, labels carry no information), but is {self.epsilon}"
            )

    sampled_powers = False
    noise: ClassVar[float] = 0.0  # variance of the noise on each latent value

    @property
    def _largest_epsilon(self) -> float:
        return 1 - 1 / self.n_classes

    # values and derivatives ---------------------------------------------------------------------------------------

    @property
    def _wrong(self) -> float:
        """Probability of each class whose latent value is not the largest."""
        return self.epsilon / (self.n_classes - 1)

    @property
    def _gain(self) -> float:
        """Probability of the class with the largest latent value, minus that of any other class."""
        return 1 - self.epsilon - self._wrong

    @property
    def _log_gain(self) -> float:
        """Difference of log p between the class with the largest latent value and any other class."""
        return float(np.log1p(-self.epsilon) - np.log(self._wrong))

    def class_probabilities(self, f) -> np.ndarray:
        f = f + self.offset
        best = f == f.max(-1, keepdims=True)
        return self._wrong + self._gain * best / best.sum(-1, keepdims=True)

    def log_prob_value(self, y, f) -> np.ndarray:
        return np.log(np.sum(self.class_probabilities(f), axis=-1, where=self._own_class(y, f)))

    def tilted_moments(self, y, mean, var) -> Triple:
        """Return log E[p(y | f)] (n,) and its first two derivatives (n, C) in the means of independent latent values."""
        value, won, at = self._tilted(y, mean, var)
        slope = won[:, None] * at.slope
        curvature = won[:, None] * (at.slope * (at.slope - slope) - at.known / self._positive(var, y))
        return value, restore_order(y, slope), restore_order(y, curvature)

    def tilted_theta(self, y, mean, var) -> np.ndarray:
        """Return the derivatives (p, n) in θ of the value of `tilted_moments`."""
        value, won, at = self._tilted(y, mean, var)
        slopes = self.theta_gradient(restore_order(y, won[:, None] * at.slope).T)
        if not self.learn_epsilon:
            return slopes
        # Z = ε/(C-1) + (1 - ε C/(C-1)) P
        C = self.n_classes
        d_log_epsilon = self.epsilon * (1 - C * np.exp(at.log_mass)) / (C - 1) * np.exp(-value)
        return np.vstack([slopes, d_log_epsilon])

    def tilted_power(self, y, power, mean, var) -> Triple:
        """Return log E[p(y | f)^power] (n,) and its first two derivatives (n, C) in the means, exactly: p has two values."""
        value, won, _, at = self._tilted_power(y, power, mean, var)
        slope = won[:, None] * at.slope
        curvature = won[:, None] * (at.slope * (at.slope - slope) - at.known / self._positive(var, y))
        return value, restore_order(y, slope), restore_order(y, curvature)

    def tilted_power_theta(self, y, power, mean, var) -> np.ndarray:
        """Return the derivatives (p, n) in θ of the value of `tilted_power`."""
        value, won, missed, at = self._tilted_power(y, power, mean, var)
        slopes = self.theta_gradient(restore_order(y, won[:, None] * at.slope).T)
        if not self.learn_epsilon:
            return slopes
        right = np.exp(power * np.log1p(-self.epsilon) + at.log_mass - value)  # fraction from f_y being the largest
        return np.vstack([slopes, power * (missed - right * self.epsilon / (1 - self.epsilon))])

    def _tilted_power(self, y, power, mean, var):
        """Return log E[p^power], its fractions from the gain and from f_y not being the largest, and `_largest`."""
        at = self._largest(y, mean, var)
        low, high = power * np.log(self._wrong), power * np.log1p(-self.epsilon)
        log_gain = high + np.log(-np.expm1(low - high)) + at.log_mass
        value = np.logaddexp(low, log_gain)
        return value, np.exp(log_gain - value), -np.expm1(at.log_mass) * np.exp(low - value), at

    def expected_log_prob(self, y, mean, var) -> Triple:
        """Return E[log p(y | f)] (n,) and its first two derivatives (n, C) in the means of independent latent values.

        log p takes two values, so the expectation is linear in the probability of the larger one.
        """
        wrong, gain, at = np.log(self._wrong), self._log_gain, self._largest(y, mean, var)
        p = np.exp(at.log_mass)[:, None]
        curvature = gain * p * (at.slope**2 - at.known / self._positive(var, y))
        return wrong + gain * p[:, 0], restore_order(y, gain * p * at.slope), restore_order(y, curvature)

    def expected_log_prob_theta(self, y, mean, var) -> np.ndarray:
        """Return the derivatives (p, n) in θ of the value of `expected_log_prob`."""
        at = self._largest(y, mean, var)
        p = np.exp(at.log_mass)
        slopes = self.theta_gradient(restore_order(y, self._log_gain * p[:, None] * at.slope).T)
        if not self.learn_epsilon:
            return slopes
        return np.vstack([slopes, 1 - p - p * self.epsilon / (1 - self.epsilon)])  # in log ε

    def _tilted(self, y, mean, var):
        """Return log E[p], its fraction from the gain, and `_largest`."""
        at = self._largest(y, mean, var)
        value = np.logaddexp(np.log(self._wrong), np.log(self._gain) + at.log_mass)
        return value, np.exp(np.log(self._gain) + at.log_mass - value), at

    def _largest(self, y, mean, var):
        """Return log probability and derivatives of the event that f_y is the largest, with class y first."""
        return largest(own_first(y, mean + self.offset), self._positive(var, y))

    @staticmethod
    def _positive(var, y):
        return positive_variances(own_first(y, var))

    def predictive(self, mean, cov) -> np.ndarray:
        """Return class probabilities (m, C) under N(mean, cov); cov (m, C, C), or variances (m, C).

        Exact for up to three classes and for independent latent values. Otherwise the absolute error is below 1e-3, for up
        to ten classes.
        """
        return self._wrong + self._gain * self._largest_probabilities(mean, cov)

    def predictive_std(self, mean, cov) -> np.ndarray:
        """Return the standard deviations (m, C) of the class probabilities, each of which takes two values."""
        p = self._largest_probabilities(mean, cov)
        return self._gain * np.sqrt(p * (1 - p))

    def _largest_probabilities(self, mean, cov):
        """Return the probabilities (m, C) that each latent value is the largest."""
        return largest_probabilities(np.asarray(mean, float) + self.offset, cov, self.noise)
