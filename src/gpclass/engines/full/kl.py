"""KL minimisation: the Gaussian that minimises KL(q‖p), and so maximises the Jensen bound.

[NR] Nickisch & Rasmussen 2008, section 5 and appendix A.2 (with the signs of its stationarity conditions corrected).
Departs from the paper's Newton method in 2n variables, 8 n³ per step: at the optimum α = E[slope] and W = -E[curvature], and
these conditions are iterated like any other rule. The bound must not decrease.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...gaussian import FullPosterior, Sites, newton_sites
from .. import Engine
from ..fit import Fit, jensen_bound, prepare_data, start_sites
from ..iterate import SiteTarget, iterate, warn_if_unfinished
from ..observations import Data


@dataclass(frozen=True)
class KL(Engine):
    """The Gaussian that minimises KL(q‖p)."""

    damping: float = 1.0  # largest fraction of a step; lowered automatically if needed
    tol: float = 1e-7  # largest move of a converged run, in posterior standard deviations
    max_iter: int = 300  # sweeps

    needs: ClassVar = ("expected_log_prob",)
    weights: ClassVar = "places"

    def fit(self, K, y, likelihood, start: Any = None) -> Fit:
        K, data = prepare_data(self, K, y, likelihood)
        prior = data.prior(K)
        sites = start_sites(start, len(data.y)) or unit_sites(prior, data)
        rule = expectation_rule(data.y, likelihood)
        q, status = iterate(self, prior, rule, sites, value=lambda q: jensen_bound(q, data))
        warn_if_unfinished(self, status)
        return Fit(self, q, data.given, likelihood, status, jensen_bound(q, data))

    def evidence_gradient(self, fit: Fit) -> np.ndarray:
        return fit.posterior.gradient()

    def likelihood_gradient(self, fit: Fit) -> np.ndarray:
        data, q = fit.targets, fit.posterior
        return data.total(fit.likelihood.expected_log_prob_theta(data.y, q.mean, q.var))


def expectation_rule(y: np.ndarray, likelihood):
    """Return the rule whose sites have the expected slope and curvature of the log likelihood under the marginals."""

    def rule(q: FullPosterior) -> SiteTarget:
        _, slope, curvature = likelihood.expected_log_prob(y, q.mean, q.var)
        return SiteTarget(q.mean, slope, curvature)

    return rule


def unit_sites(prior: FullPosterior, data: Data) -> Sites:
    """Return first sites, from marginals no wider than the likelihood: under a very wide prior E[curvature] is near 0."""
    var = np.minimum(prior.prior_var, 1.0)
    zero = np.zeros(len(data.y))
    _, slope, curvature = data.likelihood.expected_log_prob(data.y, zero, var)
    return newton_sites(zero, data.weight * slope, data.weight * curvature)
