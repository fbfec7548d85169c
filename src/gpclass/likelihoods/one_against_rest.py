"""One against the rest: a separate binary likelihood for each class, of this class against all others.

    p(y | f) ∝ ∏_c sig(s_c (f_c + bias_c)),    s_c = +1 if y = c, else -1

Each factor depends on one f_c, so there are C independent binary problems. Class probabilities are those of the binary
problems, normalised. log p(y | f) is a sum of C binary terms, and so is the log evidence: it can be compared with that of
another one-against-rest model, but not with that of other likelihoods of several classes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from .multiclass import Multiclass
from .probit import Probit
from .sigmoid import Sigmoid
from .tilted import Triple


@dataclass(frozen=True)
class OneAgainstRest(Multiclass):
    """One binary likelihood per class, y in 0 … n_classes - 1.

    Parameters
    ----------
    n_classes : int
        Number of classes, at least 2.
    bias : tuple of float, optional
        One value per class, added to its latent function. None means zero.
    learn_bias : bool, default=False
        Whether all biases are free parameters.
    binary : Sigmoid, default=Probit()
        The binary likelihood that all classes use.
    """

    binary: Sigmoid = field(default_factory=Probit)

    shift_invariant = False

    @property
    def log_concave(self) -> bool:  # type: ignore[override]
        return self.binary.log_concave

    first_free: ClassVar[int] = 0  # a common shift of all latent values changes the likelihood

    # values and derivatives ---------------------------------------------------------------------------------------

    def _signs(self, y, f) -> np.ndarray:
        return np.where(self._own_class(y, f), 1.0, -1.0)

    def log_prob(self, y, f) -> Triple:
        value, slope, curvature = self.binary.log_prob(self._signs(y, f), f + self.offset)
        return value.sum(-1), slope, curvature[..., None] * np.eye(self.n_classes)

    def tilted_moments(self, y, mean, var) -> Triple:
        """Return log E[p(y | f)] (n,) and its first two derivatives (n, C) in the means of independent latent values."""
        value, slope, curvature = self.binary.tilted_moments(self._signs(y, mean), mean + self.offset, var)
        return value.sum(1), slope, curvature

    def tilted_power(self, y, power, mean, var) -> Triple:
        """Return log E[p(y | f)^power] (n,) and its first two derivatives (n, C) in the means: a product over classes."""
        signs, powers = self._signs(y, mean).ravel(), np.repeat(power, self.n_classes)
        found = self.binary.tilted_power(signs, powers, (mean + self.offset).ravel(), var.ravel())
        value, slope, curvature = (part.reshape(mean.shape) for part in found)
        return value.sum(1), slope, curvature

    def tilted_theta(self, y, mean, var) -> np.ndarray:
        """Return the derivatives (p, n) in θ of the value of `tilted_moments`."""
        return self.theta_gradient(self.tilted_moments(y, mean, var)[1].T)

    def expected_log_prob(self, y, mean, var) -> Triple:
        """Return E[log p(y | f)] (n,) and its first two derivatives (n, C) in the means of independent latent values."""
        value, slope, curvature = self.binary.expected_log_prob(self._signs(y, mean), mean + self.offset, var)
        return value.sum(1), slope, curvature

    def class_probabilities(self, f) -> np.ndarray:
        return _normalised(self.binary.log_prob(1.0, f + self.offset)[0])

    def predictive(self, mean, cov) -> np.ndarray:
        """Return class probabilities (m, C) under N(mean, cov): of each class against the rest, normalised."""
        mean, cov = np.asarray(mean, float), np.asarray(cov, float)
        var = np.diagonal(cov, axis1=1, axis2=2) if cov.ndim == 3 else cov
        return _normalised(self.binary.log_predictive(np.ones_like(mean), mean + self.offset, var))


def _normalised(log_p):
    p = np.exp(log_p - log_p.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)
