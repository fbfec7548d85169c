"""Logit: p(y | f) = 1/(1 + exp(-y (f + bias))).

[NR] Nickisch & Rasmussen 2008, sections 2 and 6.1.
Gaussian integrals use the mixture of probits of `numerics.normal`: under N(mean, var) the component of scale λ becomes a
probit of scale √(λ² + var), so each integral is a sum of closed forms. For large negative means, where the mixture has only
its tail, sig(f) = exp(f) sig(-f) maps the integral to positive means: Z(u) = exp(u + var/2) Z(-u - var).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import erfcx, expit, log_expit

from ..numerics import LOG_SQRT_2PI, LOGISTIC_SCALES2, LOGISTIC_WEIGHTS
from .base import BoundSlopes
from .sigmoid import Sigmoid
from .tilted import Triple

SQRT_2PI = np.exp(LOG_SQRT_2PI)


@dataclass(frozen=True)
class Logit(Sigmoid):
    """Logistic likelihood, p(y | f) = 1/(1 + exp(-y (f + bias))), y in {-1, +1}.

    Parameters
    ----------
    bias : float, default=0.0
        Intercept, added to the latent function.
    learn_bias : bool, default=False
        Whether `bias` is a free parameter.
    """

    log_concave = True

    def log_prob(self, y, f) -> Triple:
        z = y * (f + self.bias)
        wrong = expit(-z)
        return -np.logaddexp(0.0, -z), y * wrong, -wrong * expit(z)

    def log_prob_value(self, y, f) -> np.ndarray:
        return log_expit(y * (f + self.bias))

    def log_prob_third(self, y, f) -> np.ndarray:
        z = y * (f + self.bias)
        right, wrong = expit(z), expit(-z)
        return y * right * wrong * (right - wrong)

    def tilted_moments(self, y, mean, var) -> Triple:
        u, var = np.broadcast_arrays(np.asarray(y * (mean + self.bias), float), np.asarray(var, float))
        left = u < -0.5 * var
        value, d1, d2 = _sigmoid_under_gaussian(np.where(left, -u - var, u), var)
        value = np.minimum(np.where(left, u + 0.5 * var + value, value), 0.0)  # the mixture may round to 1 + eps
        return value, y * np.where(left, 1 - d1, d1), d2

    def predictive(self, mean, var) -> np.ndarray:
        return np.exp(self.log_predictive(1.0, mean, var))

    def expected_log_prob(self, y, mean, var) -> Triple:
        u, var = np.broadcast_arrays(np.asarray(y * (mean + self.bias), float), np.asarray(var, float))
        scale = np.sqrt(var[..., None] + LOGISTIC_SCALES2)
        z = u[..., None] / scale
        bell, tail = _bell_and_tail(z)  # √(2π) N(z), and Φ(-|z|)
        positive = z > 0
        wrong = np.where(positive, tail, 1 - tail)  # Φ(-z)
        # E[softplus(-f)] of one component: N(z) - z Φ(-z), from Mills' ratio where the two terms cancel
        mills = erfcx(np.abs(z) * np.sqrt(0.5)) * np.sqrt(np.pi / 2)
        loss = np.where(positive, bell / SQRT_2PI * np.maximum(1 - z * mills, 0.0), bell / SQRT_2PI - z * wrong)
        value = -np.sum(LOGISTIC_WEIGHTS * scale * loss, axis=-1)
        curvature = -np.sum(LOGISTIC_WEIGHTS * bell / scale, axis=-1) / SQRT_2PI
        return value, y * np.sum(LOGISTIC_WEIGHTS * wrong, axis=-1), curvature

    def bound(self, y, touch) -> Triple:
        """Return constant, ν and τ of log p(y | f) ≥ constant + ν f - ½ τ f², tight at f + bias = ±touch. [NR] 6.1"""
        touch = np.abs(touch)
        lam = _bound_width(touch)
        c = touch * (touch * lam) - 0.5 * touch - np.logaddexp(0.0, -touch)
        constant = c + 0.5 * y * self.bias - lam * self.bias**2
        return constant, 0.5 * y - 2 * lam * self.bias, 2 * lam

    def bound_point(self, y, mean, var) -> np.ndarray:
        """Return the `touch` that maximises the expected bound under N(mean, var)."""
        return np.hypot(mean + self.bias, np.sqrt(np.maximum(var, 0.0)))

    def bound_curvature(self, y, mean, var) -> np.ndarray:
        """Return the second derivative in `mean` of the largest expected bound.

        The bound is ½ y g - log 2cosh(½√(g² + var)), g = mean + bias.
        """
        # -2λ - 2 λ'(t) g²/t with t² = g² + var, in terms that do not cancel: sech²(t/2) = 1 - tanh²(t/2)
        g, t = mean + self.bias, self.bound_point(y, mean, var)
        small = t < 1e-2  # uses a series
        t = np.where(small, 1.0, t)
        sech = 1 / np.cosh(np.minimum(0.5 * t, 300.0))
        share = (g / t) ** 2
        curvature = -(2 * _bound_width(t) * (var / t / t) + 0.25 * sech**2 * share)
        g2 = np.where(small, g, 0.0) ** 2  # large values could overflow
        return np.where(small, -0.25 + g2 / 24 + (g2 + var) / 48, curvature)

    def bound_slopes(self, y, mean, var) -> BoundSlopes:
        """Return the derivatives of ν and τ of the best bound in mean and var; they depend on ς² = (mean + bias)² + var."""
        tau = 2 * _bound_width_slope(self.bound_point(y, mean, var))
        return BoundSlopes(-self.bias * tau, tau, 2 * (mean + self.bias), np.ones_like(tau))

    def bound_theta(self, y, touch, mean, var) -> np.ndarray:
        """Return the derivative in θ of the expected bound under N(mean, var)."""
        _, nu, tau = self.bound(y, touch)
        return self._per_theta(nu - tau * mean)


def _bound_width(touch):
    """Return λ(t) = tanh(t/2)/(4t) of [NR] section 6.1, for t ≥ 0."""
    small = touch < 1e-2  # uses a series
    t, s = np.where(small, 1.0, touch), np.where(small, touch, 0.0)  # large values could overflow in the series
    return np.where(small, 0.125 - s**2 / 96 + s**4 / 960, np.tanh(0.5 * t) / (4 * t))


def _bound_width_slope(touch):
    """Return dλ/d(t²) = (t sech²(t/2) - 2 tanh(t/2))/(16 t³), for t ≥ 0."""
    small = touch < 0.1  # uses a series: its next term is below 1e-14, and the closed form loses five digits
    t, t2 = np.where(small, 1.0, touch), touch**2
    sech = 1 / np.cosh(np.minimum(0.5 * t, 300.0))
    # λ = 1/8 - t²/96 + t⁴/960 - 17 t⁶/161280 + 31 t⁸/2903040 - 691 t¹⁰/638668800
    series = -1 / 96 + t2 * (1 / 480 + t2 * (-17 / 53760 + t2 * (31 / 725760 - t2 * 691 / 127733760)))
    return np.where(small, series, (t * sech**2 - 2 * np.tanh(0.5 * t)) / (16 * t**3))


def _bell_and_tail(z):
    bell = np.exp(-0.5 * z * z)
    return bell, 0.5 * erfcx(np.abs(z) * np.sqrt(0.5)) * bell


def _sigmoid_under_gaussian(u, var) -> Triple:
    """Return log ∫ N(f | u, var) sig(f) df and two derivatives in u, for u ≥ -var/2."""
    scale = np.sqrt(var[..., None] + LOGISTIC_SCALES2)
    z = u[..., None] / scale
    # for u < 0 all terms are scaled by exp(+shift), so that none underflows
    negative = u < 0
    shift = np.where(negative, 0.5 * z[..., -1] ** 2, 0.0)
    bell = np.exp(shift[..., None] - 0.5 * z * z)
    tail = 0.5 * erfcx(np.abs(z) * np.sqrt(0.5)) * bell
    mass = np.sum(LOGISTIC_WEIGHTS * np.where(negative[..., None], tail, 1 - tail), axis=-1)
    weighted = LOGISTIC_WEIGHTS * bell / scale
    first = np.sum(weighted, axis=-1) / SQRT_2PI / mass
    second = -np.sum(weighted * z / scale, axis=-1) / SQRT_2PI / mass
    return np.log(mass) - shift, first, second - first**2
