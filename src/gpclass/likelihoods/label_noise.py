"""Labels that may be wrong: with probability ε a label is drawn at random, all classes being equally probable.

    p(y | f) = (1 - ε) p0(y | f) + ε/C        p0 the noise-free likelihood, C the number of classes

Let L0 = log p0 with slope s and curvature c, or log E[p0] under a Gaussian with its derivatives in the mean. The mixture has
the same form in both cases, so with w = (1 - ε) p0/p, the probability that the label was not drawn at random,

    L = log((1 - ε) exp L0 + ε/C)     L' = w s     L'' = w c + w (1 - w) s²     w' = w (1 - w) s             (1)
    dL/d log ε = (1 - w) - w ε/(1 - ε)             dw/d log ε = -w (1 - w)/(1 - ε)                             (2)

The term w (1 - w) s² can exceed w |c|: the mixture is not log-concave. A label far on the wrong side costs at most log(ε/C),
and its slope vanishes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ..numerics import gaussian_nodes
from .base import FreeParameter, Likelihood
from .multiclass import positive_variances
from .powers import expected_under_power
from .tilted import Triple

SMALLEST_EPSILON = 1e-8  # lower bound of a learned ε
LARGEST_FRACTION = 0.99  # upper bound of a learned ε, as a fraction of the ε at which labels carry no information
ANALYTIC_DISTANCE = 2.8  # distance from the real line within which `gaussian_nodes` assumes its integrand to be analytic


@dataclass(frozen=True)
class WithEpsilon(Likelihood):
    """Base class of likelihoods with a probability ε of wrong labels. Its free parameter is log ε, after all others.

    Parameters
    ----------
    epsilon : float, default=0.0
        The probability.
    learn_epsilon : bool, default=True
        Whether log ε is a free parameter. Ignored if `epsilon` is 0.
    """

    epsilon: float = 0.0
    learn_epsilon: bool = True

    @property
    def _largest_epsilon(self) -> float:
        """The ε at which labels carry no information."""
        return 1.0

    @property
    def _learns(self) -> bool:
        return self.learn_epsilon and self.epsilon > 0

    def free_parameters(self) -> list[FreeParameter]:
        others = super().free_parameters()
        if not self._learns:
            return others
        value, low, high = np.log([self.epsilon, SMALLEST_EPSILON, LARGEST_FRACTION * self._largest_epsilon])
        return [*others, FreeParameter("epsilon", value, low, high)]

    def _moved(self, theta: np.ndarray) -> Any:
        if not self._learns:
            return super()._moved(theta)
        return replace(super()._moved(theta[:-1]), epsilon=float(np.exp(theta[-1])))


@dataclass(frozen=True)
class LabelNoise(WithEpsilon):
    """Base class that adds label noise to a noise-free likelihood, the next class in the list of base classes.

    With ε = 0 every method is that of the noise-free likelihood.

    Parameters
    ----------
    epsilon : float, default=0.0
        Probability that a label is drawn at random, in [0, 1).
    learn_epsilon : bool, default=True
        Whether log ε is a free parameter. Ignored if `epsilon` is 0.
    """

    noise_free_only: ClassVar[tuple[str, ...]] = ()  # methods that the likelihood offers only with ε = 0

    def __post_init__(self):
        super().__post_init__()  # type: ignore[misc]
        if not 0 <= self.epsilon < 1:
            raise ValueError(f"epsilon must be at least 0 and below 1, but is {self.epsilon}")

    @property
    def log_concave(self) -> bool:  # type: ignore[override]
        return self.epsilon == 0

    def offers(self, question: str) -> bool:
        return super().offers(question) and (self.epsilon == 0 or question not in self.noise_free_only)

    @property
    def display_name(self) -> str:
        return f"{super().display_name} with epsilon > 0" if self.epsilon else super().display_name

    @property
    def clean(self) -> Any:
        """The same likelihood without label noise."""
        return replace(self, epsilon=0.0)

    # values and derivatives ---------------------------------------------------------------------------------------

    @property
    def _log_floor(self) -> float:
        return float(np.log(self.epsilon / len(self.class_targets)))

    def _log_mixture(self, log_p0):
        return np.logaddexp(np.log1p(-self.epsilon) + log_p0, self._log_floor)

    def _mixture(self, log_p0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return log p, w and 1 - w."""
        value = self._log_mixture(log_p0)
        return value, np.exp(np.log1p(-self.epsilon) + log_p0 - value), np.exp(self._log_floor - value)

    def _per_latent(self, x):
        """Return x with an axis for the latent functions of a datum if there are several."""
        return x if self.n_latents == 1 else x[..., None]

    def _mixed(self, log_p0, slope, curvature) -> Triple:
        """Return value and derivatives of the mixture; with several latent functions only pure second derivatives. (1)"""
        value, right, wrong = self._mixture(log_p0)
        pull = self._per_latent(right) * slope  # in this order the products cannot overflow
        return value, pull, self._per_latent(right) * curvature + pull * slope * self._per_latent(wrong)

    def _in_epsilon(self, log_p0) -> np.ndarray:
        """Return the derivative of the mixture's log in log ε. (2)"""
        _, right, wrong = self._mixture(log_p0)
        return wrong - right * self.epsilon / (1 - self.epsilon)

    def log_prob_value(self, y, f) -> np.ndarray:
        if not self.epsilon:
            return super().log_prob_value(y, f)
        return self._log_mixture(self.clean.log_prob_value(y, f))

    def log_prob_slope(self, y, f) -> tuple[np.ndarray, np.ndarray]:
        if not self.epsilon:
            return super().log_prob_slope(y, f)
        log_p0, slope = self.clean.log_prob_slope(y, f)
        value, right, _ = self._mixture(log_p0)
        return value, self._per_latent(right) * slope

    def tilted_moments(self, y, mean, var) -> Triple:
        if not self.epsilon:
            return super().tilted_moments(y, mean, var)  # type: ignore[misc]
        return self._mixed(*self.clean.tilted_moments(y, mean, var))

    def tilted_slopes(self, y, mean, var) -> tuple[np.ndarray, np.ndarray]:
        if not self.epsilon:
            return super().tilted_slopes(y, mean, var)
        return self.tilted_moments(y, mean, var)[1:]

    def tilted_theta(self, y, mean, var) -> np.ndarray:
        others = super().tilted_theta(y, mean, var)  # type: ignore[misc]
        if not self._learns:
            return others
        return np.vstack([others, self._in_epsilon(self.clean.tilted_moments(y, mean, var)[0])])

    def predictive(self, mean, spread) -> np.ndarray:
        if not self.epsilon:
            return super().predictive(mean, spread)  # type: ignore[misc]
        return self._with_floor(self.clean.predictive(mean, spread))

    def _with_floor(self, p):
        return (1 - self.epsilon) * p + self.epsilon / len(self.class_targets)

    def draw_auxiliary(self, y, f, rng: np.random.Generator) -> np.ndarray:
        """Draw v from N(f, I) p(y | v): restricted by the label with probability w, unrestricted otherwise."""
        if not self.epsilon:
            return super().draw_auxiliary(y, f, rng)  # type: ignore[misc]
        f = np.asarray(f, float)
        right = self._mixture(self.clean.log_prob_value(y, f))[1]
        restricted = self._per_latent(rng.random(right.shape) < right)
        return np.where(restricted, self.clean.draw_auxiliary(y, f, rng), f + rng.standard_normal(f.shape))


@dataclass(frozen=True)
class NoisySigmoid(LabelNoise):
    """Label noise with one latent function.

    Parameters
    ----------
    epsilon : float, default=0.0
        Probability that a label is drawn at random, in [0, 1).
    learn_epsilon : bool, default=True
        Whether log ε is a free parameter. Ignored if `epsilon` is 0.
    """

    @property
    def _kink(self) -> tuple[float, float]:
        """z = y (f + bias) at which log p changes from log (1 - ε) p0 to log ε/C, and the slope of log p0 there."""
        raise NotImplementedError

    def log_prob(self, y, f) -> Triple:
        if not self.epsilon:
            return super().log_prob(y, f)  # type: ignore[misc]
        return self._mixed(*self.clean.log_prob(y, f))

    def log_predictive(self, y, mean, var) -> np.ndarray:
        if not self.epsilon:
            return super().log_predictive(y, mean, var)  # type: ignore[misc]
        return self.tilted_moments(y, mean, var)[0]

    def log_prob_third(self, y, f) -> np.ndarray:
        if not self.epsilon:
            return super().log_prob_third(y, f)  # type: ignore[misc]
        (log_p0, slope, curvature), third = self.clean.log_prob(y, f), self.clean.log_prob_third(y, f)
        _, right, wrong = self._mixture(log_p0)
        pull = right * slope  # the derivative of (1)
        return right * third + wrong * (3 * pull * curvature + (wrong - right) * pull * slope * slope)

    def log_prob_theta(self, y, f) -> Triple:
        others = super().log_prob_theta(y, f)  # type: ignore[misc]
        if not self._learns:
            return others
        log_p0, slope, curvature = self.clean.log_prob(y, f)
        _, right, wrong = self._mixture(log_p0)
        turn = -right * wrong / (1 - self.epsilon)  # (2)
        own = self._in_epsilon(log_p0), turn * slope, turn * curvature + (wrong - right) * turn * slope * slope
        return tuple(np.vstack([a, b]) for a, b in zip(others, own, strict=True))  # type: ignore[return-value]

    def expected_log_prob(self, y, mean, var) -> Triple:
        if not self.epsilon:
            return super().expected_log_prob(y, mean, var)  # type: ignore[misc]
        f, weights = self.nodes(y, mean, var)
        parts = self.log_prob(np.asarray(y)[..., None], f)
        return tuple(np.einsum("...q,...q->...", weights, part) for part in parts)

    def expected_log_prob_theta(self, y, mean, var) -> np.ndarray:
        others = super().expected_log_prob_theta(y, mean, var)  # type: ignore[misc]
        if not self._learns:
            return others
        f, weights = self.nodes(y, mean, var)
        slopes = self._in_epsilon(self.clean.log_prob_value(np.asarray(y)[..., None], f))
        return np.vstack([others, np.einsum("...q,...q->...", weights, slopes)])

    def nodes(self, y, mean, var) -> tuple[np.ndarray, np.ndarray]:
        """Return nodes f (…, q) and weights (…, q) for expectations of log p, close enough to resolve its kink.

        log p is singular where p0 = -ε/(C (1 - ε)): at the kink plus iπ divided by the slope of log p0. The rule is applied
        to f × scale, with a scale that moves the singularity as far away as the rule assumes.
        """
        if not self.epsilon:
            return super().nodes(y, mean, var)  # type: ignore[misc]
        kink, slope = self._kink
        scale = max(1.0, ANALYTIC_DISTANCE * slope / np.pi)
        bias = self.bias  # type: ignore[attr-defined]
        nodes, weights = gaussian_nodes(scale * y * (mean + bias), scale**2 * np.asarray(var), centre=scale * kink)
        return np.asarray(y)[..., None] * nodes / scale - bias, weights


@dataclass(frozen=True)
class NoisyMulticlass(LabelNoise):
    """Label noise with one latent function per class.

    Parameters
    ----------
    epsilon : float, default=0.0
        Probability that a label is drawn at random, in [0, 1).
    learn_epsilon : bool, default=True
        Whether log ε is a free parameter. Ignored if `epsilon` is 0.
    """

    def log_prob(self, y, f) -> Triple:
        if not self.epsilon:
            return super().log_prob(y, f)  # type: ignore[misc]
        log_p0, slope, hessian = self.clean.log_prob(y, f)
        value, right, wrong = self._mixture(log_p0)
        pull = right[..., None] * slope
        bent = (wrong[..., None] * pull)[..., None] * slope[..., None, :]  # (1) with s sᵀ in place of s²
        return value, pull, right[..., None, None] * hessian + bent

    def tilted_power_theta(self, y, power, mean, var) -> np.ndarray:
        others = super().tilted_power_theta(y, power, mean, var)  # type: ignore[misc]
        if not self._learns:
            return others
        slopes = expected_under_power(self, y, power, mean, positive_variances(var), self._in_epsilon_at)
        return np.vstack([others, power * slopes])

    def _in_epsilon_at(self, y, f) -> np.ndarray:
        """Return the derivative of log p(y | f) in log ε."""
        return self._in_epsilon(self.clean.log_prob_value(y, f))

    def class_probabilities(self, f) -> np.ndarray:
        if not self.epsilon:
            return super().class_probabilities(f)  # type: ignore[misc]
        return self._with_floor(self.clean.class_probabilities(f))
