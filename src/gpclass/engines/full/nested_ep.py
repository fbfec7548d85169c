"""Nested expectation propagation: fully coupled EP for multinomial probit.

The likelihood of a datum is E_u ∏_j Φ(f_y - f_j + u) over its wrong classes j, and each factor depends on one scalar. So its
"inner" sites are ordinary probit sites on n (C - 1) contrasts. Updating all of them together merges the inner and the outer
loop into binary EP on a structured prior, with the rule, the loop and the evidence of `ep`.

[RJV] Riihimäki, Jylänki & Vehtari 2013, section 3.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...gaussian import ContrastPosterior
from .. import Engine
from ..fit import Fit, prepare, start_sites
from ..iterate import iterate, warn_if_unfinished
from .ep import ep_evidence, moment_rule


@dataclass(frozen=True)
class NestedEP(Engine):
    """Sites α̃, β̃ on the contrasts, matched to the moments of cavity × probit."""

    damping: float = 1.0  # largest fraction of a step; lowered automatically if needed
    tol: float = 1e-8  # largest move of a converged run, in posterior standard deviations
    max_iter: int = 200  # sweeps, C + 1 factorisations each

    needs: ClassVar = ("contrast_factor",)
    latents: ClassVar = "several"

    def fit(self, K, y, likelihood, start: Any = None) -> Fit:
        K, y = prepare(self, K, y, likelihood)
        prior = ContrastPosterior.without_sites(K, y, likelihood.n_classes)
        right = np.ones(len(prior.mean))
        factor = Shifted(likelihood.contrast_factor(), likelihood.contrast_offset(y).ravel())
        rule = moment_rule(right, factor, ContrastPosterior.cavity)
        q, status = iterate(self, prior, rule, start_sites(start, len(right)))
        warn_if_unfinished(self, status)
        return Fit(self, q, y, likelihood, status, ep_evidence(q, right, factor))  # [RJV] (28)

    def restore(self, K, y, likelihood, state) -> Fit:
        return Fit.restored(self, ContrastPosterior.restored(K, y, likelihood.n_classes, state), y, likelihood, state)

    def evidence_gradient(self, fit: Fit) -> np.ndarray:
        """G with d log Z = Σ G_ij dK_ij; (C, n, n) if each class has its own K. Inner and outer sites are stationary."""
        return fit.posterior.gradient()

    def likelihood_gradient(self, fit: Fit) -> np.ndarray:
        return fit.likelihood.theta_gradient(fit.alpha.sum(0))  # a bias shifts the prior mean


@dataclass(frozen=True)
class Shifted:
    """A likelihood with an offset added to each latent value: the effect of class biases on contrasts."""

    likelihood: Any
    offset: np.ndarray

    def tilted_moments(self, y, mean, var):
        return self.likelihood.tilted_moments(y, mean + self.offset, var)
