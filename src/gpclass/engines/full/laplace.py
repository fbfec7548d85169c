"""Laplace's approximation: a Gaussian at the posterior mode, with the curvature there.

[RW] Rasmussen & Williams 2006, sections 3.4 and 5.5.1.   [NR] Nickisch & Rasmussen 2008, section 3.
The sign of the log determinant is that of [RW] (3.32); [NR] 3.2 prints the opposite sign.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...gaussian import CoupledPosterior, FullPosterior
from ...numerics import symmetric_product
from .. import Engine
from ..fit import Fit, prepare_data, start_sites
from ..iterate import SiteTarget, iterate, warn_if_unfinished
from ..observations import Data, data_of
from .coupled_laplace import coupled_cavity, coupled_gradient, coupled_mode, coupled_theta_gradient
from .tierney_kadane import corrected_log_probabilities


@dataclass(frozen=True)
class Laplace(Engine):
    """Gaussian at the mode, with the curvature there."""

    tol: float = 1e-8  # largest move of a converged run, in posterior standard deviations
    max_iter: int = 100  # Newton steps with a new factorisation
    damping: float = 1.0  # fraction of each curvature step; 1 is Newton's method
    correction: str | None = None  # "tierney-kadane": class probabilities as ratios of evidences, more accurate but slower

    needs: ClassVar = ("log_prob",)
    latents: ClassVar = "any"
    weights: ClassVar = "places"
    likelihood_names: ClassVar = ("probit",)  # others have better probabilities for softmax

    def __post_init__(self):
        if self.correction not in (None, "tierney-kadane"):
            raise ValueError(f'correction must be None or "tierney-kadane", but is {self.correction!r}')

    def needed(self, likelihood) -> tuple[str, ...]:
        """Return the methods of the likelihood that the engine calls."""
        return self.needs if likelihood.n_latents == 1 else (*self.needs, "curvature_weights")

    def fit(self, K, y, likelihood, start: Any = None) -> Fit:
        K, data = prepare_data(self, K, y, likelihood)
        find = coupled_mode if likelihood.n_latents > 1 else scalar_mode
        fit = find(self, K, data, likelihood, start)
        warn_if_unfinished(self, fit.status)
        return fit

    def log_class_probabilities(self, fit: Fit, Ks, kd) -> np.ndarray:
        if self.correction is None:
            return super().log_class_probabilities(fit, Ks, kd)
        return corrected_log_probabilities(fit, Ks, kd)

    def cavity(self, fit: Fit) -> tuple[np.ndarray, np.ndarray]:
        return coupled_cavity(fit) if fit.likelihood.n_latents > 1 else super().cavity(fit)

    def restore(self, K, y, likelihood, state) -> Fit:
        if likelihood.n_latents > 1:
            return Fit.restored(self, CoupledPosterior.restored(K, state), y, likelihood, state)
        return Fit.restored(self, data_of(self, y, likelihood).restored(K, state), y, likelihood, state)

    def evidence_gradient(self, fit: Fit) -> np.ndarray:
        if fit.likelihood.n_latents > 1:
            return coupled_gradient(fit)
        return fit.posterior.gradient((self._implicit(fit), fit.alpha))

    def likelihood_gradient(self, fit: Fit) -> np.ndarray:
        if fit.likelihood.n_latents > 1:
            return coupled_theta_gradient(fit)
        q, data = fit.posterior, fit.targets
        value, slope, curvature = fit.likelihood.log_prob_theta(data.y, q.mean)
        # the mode moves by V d(slope)/dθ; V s = K u with u as in the gradient in K
        move = data.places.spread(symmetric_product(q.K, self._implicit(fit)))
        return data.total(value + 0.5 * curvature * q.var + slope * move)

    @staticmethod
    def _implicit(fit: Fit) -> np.ndarray:
        """Return u such that the part of d log Z through the mode is uᵀ dK α. [RW] (5.23), (5.24)"""
        q: Any = fit.posterior
        data = fit.targets
        pull = data.at_places(0.5 * q.var * fit.likelihood.log_prob_third(data.y, q.mean))
        return pull - q.apply_residual_precision(symmetric_product(q.K, pull))  # (I + WK)⁻¹ pull


def scalar_mode(engine: Laplace, K: np.ndarray, data: Data, likelihood: Any, start: Any) -> Fit:
    """Fit with the mode of one latent function per datum and the Gaussian approximation there."""
    q, status = iterate(
        engine,
        data.prior(K),
        mode_rule(data.y, likelihood),
        start_sites(start, len(data.y)),
        scale=variance_bound,
        memory=0,
    )
    log_prob = data.total(likelihood.log_prob(data.y, q.mean)[0])
    evidence = log_prob - 0.5 * float(q.alpha @ q.mean) - 0.5 * q.log_det  # [RW] (3.32)
    return Fit(engine, q, data.given, likelihood, status, evidence)


def mode_rule(y: np.ndarray, likelihood):
    def rule(q: FullPosterior) -> SiteTarget:
        _, slope, curvature = likelihood.log_prob(y, q.mean)
        return SiteTarget(q.mean, slope, curvature)

    return rule


def variance_bound(q: FullPosterior) -> np.ndarray:
    """Return upper bounds of the marginal variances, at no extra cost."""
    prior = q.prior_var
    return prior / np.maximum(1.0, np.abs(q.sites.tau) * prior)
