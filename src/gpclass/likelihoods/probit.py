"""Probit: p(y | f) = Φ(y (f + bias)), with label noise if ε > 0.

[RW] Rasmussen & Williams 2006, section 3.6.   [NR] Nickisch & Rasmussen 2008, sections 2 and 6.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from ..numerics import gaussian_nodes, hazard, hazard_curvature, log_ndtr, log_ndtr_and_hazard, normal_below
from .base import BoundSlopes
from .label_noise import NoisySigmoid
from .sigmoid import Sigmoid
from .tilted import Triple


@dataclass(frozen=True)
class NoiseFreeProbit(Sigmoid):
    """p(y | f) = Φ(y (f + bias)), y in {-1, +1}: `Probit` without label noise."""

    def log_prob(self, y, f) -> Triple:
        z = y * (f + self.bias)
        ratio = hazard(z)
        return log_ndtr(z), y * ratio, -hazard_curvature(z, ratio)

    def log_prob_value(self, y, f) -> np.ndarray:
        return log_ndtr(y * (f + self.bias))

    def log_prob_slope(self, y, f) -> tuple[np.ndarray, np.ndarray]:
        value, ratio = log_ndtr_and_hazard(y * (f + self.bias))
        return value, y * ratio

    def draw_auxiliary(self, y, f, rng: np.random.Generator) -> np.ndarray:
        """Draw v ~ N(f, 1) given that v + bias has the sign of y: the auxiliary variable of Gibbs sampling."""
        z = y * (f + self.bias)
        return f - y * normal_below(z, rng)

    def log_prob_third(self, y, f) -> np.ndarray:
        z = y * (f + self.bias)
        ratio = hazard(z)
        # d/dz of -ratio (z + ratio), with the bounded factor kept together. For z << 0 the terms cancel to 2/|z|³, so the
        # series of log Φ is used there: both forms have a relative error of 1e-7 at -30
        far = z < -30
        x = np.where(far, -z, 30.0)
        series = (2 - (24 - (300 - 4144 / x**2) / x**2) / x**2) / x**3
        return y * np.where(far, series, hazard_curvature(z, ratio) * (z + 2 * ratio) - ratio)

    def tilted_moments(self, y, mean, var) -> Triple:
        # [RW] (3.58): a probit under a Gaussian is a wider probit
        return NoiseFreeProbit.log_predictive(self, y, mean, var), *self.tilted_slopes(y, mean, var)

    def log_predictive(self, y, mean, var) -> np.ndarray:
        return log_ndtr(y * (mean + self.bias) / np.sqrt(1 + var))

    def tilted_slopes(self, y, mean, var) -> tuple[np.ndarray, np.ndarray]:
        scale = np.sqrt(1 + var)
        z = y * (mean + self.bias) / scale
        ratio = hazard(z)
        return y * ratio / scale, -hazard_curvature(z, ratio) / scale**2

    def expected_log_prob(self, y, mean, var) -> Triple:
        # the same quadrature as in Sigmoid, but with one special function per node
        z, weights = gaussian_nodes(y * (mean + self.bias), var)
        value, ratio = log_ndtr_and_hazard(z)
        slope = np.einsum("...q,...q->...", weights, ratio)
        curvature = -np.einsum("...q,...q->...", weights, hazard_curvature(z, ratio))
        return np.einsum("...q,...q->...", weights, value), y * slope, curvature

    def predictive(self, mean, var) -> np.ndarray:
        return ndtr((mean + self.bias) / np.sqrt(1 + var))

    def orthant(self, y, K) -> tuple[np.ndarray, np.ndarray]:
        """Return the covariance (n, n) of g and lower limits with p(y) = P(g > lower) under f ~ N(0, K)."""
        return y[:, None] * (K + np.eye(len(y))) * y, -y * self.bias

    def bound(self, y, touch) -> Triple:
        """Return constant, ν and τ of log p(y | f) ≥ constant + ν f - ½ τ f², tight at y (f + bias) = touch. [NR] (14)"""
        # corrected as log Φ(t) ≥ -½ t² + b t + c; the printed equation lacks the log and the y
        b = touch + hazard(touch)
        c = (0.5 * touch - b) * touch + log_ndtr(touch)
        constant = c + b * y * self.bias - 0.5 * self.bias**2
        return constant, b * y - self.bias, np.ones_like(touch)

    def bound_point(self, y, mean, var) -> np.ndarray:
        """Return the `touch` that maximises the expected bound under N(mean, var)."""
        return y * (mean + self.bias)

    def bound_curvature(self, y, mean, var) -> np.ndarray:
        """Return the second derivative in `mean` of the largest expected bound, log Φ(y (mean + bias)) - var/2."""
        return self.log_prob(y, mean)[2]

    def bound_slopes(self, y, mean, var) -> BoundSlopes:
        """Return the derivatives of ν and τ of the best bound in mean and var."""
        touch, zero = self.bound_point(y, mean, var), np.zeros(np.broadcast(y, mean).shape)
        return BoundSlopes(y * (1 - hazard_curvature(touch, hazard(touch))), zero, y + zero, zero)

    def bound_theta(self, y, touch, mean, var) -> np.ndarray:
        """Return the derivative in θ of the expected bound under N(mean, var)."""
        _, nu, tau = self.bound(y, touch)
        return self._per_theta(nu - tau * mean)


@dataclass(frozen=True)
class Probit(NoisySigmoid, NoiseFreeProbit):
    """Probit likelihood, p(y | f) = (1 - ε) Φ(y (f + bias)) + ε/2, y in {-1, +1}.

    Parameters
    ----------
    bias : float, default=0.0
        Intercept, added to the latent function.
    learn_bias : bool, default=False
        Whether `bias` is a free parameter.
    epsilon : float, default=0.0
        Probability that a label is drawn at random, in [0, 1). Half of these labels are wrong. A positive value is the
        start of learning.
    learn_epsilon : bool, default=True
        Whether log ε is a free parameter. Ignored if `epsilon` is 0.
    """

    noise_free_only = (
        "orthant", "bound", "bound_point", "bound_curvature", "bound_slopes", "bound_theta", "bound_sites_theta",
    )  # fmt: skip

    @property
    def _kink(self) -> tuple[float, float]:
        z = float(ndtri(min(0.5, 0.5 * self.epsilon / (1 - self.epsilon))))
        return z, float(hazard(np.array(z)))
