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
from ..fit import Fit, jensen_bound, prepare, start_sites
from ..iterate import SiteTarget, iterate, warn_if_unfinished


@dataclass(frozen=True)
class KL(Engine):
    """The Gaussian that minimises KL(q‖p)."""

    damping: float = 1.0  # largest fraction of a step; lowered automatically if needed
    tol: float = 1e-7  # largest move of a converged run, in posterior standard deviations
    max_iter: int = 300  # sweeps

    needs: ClassVar = ("expected_log_prob",)

    def fit(self, K, y, likelihood, start: Any = None) -> Fit:
        K, y = prepare(self, K, y, likelihood)
        sites = start_sites(start, len(y)) or unit_sites(K, y, likelihood)
        q, status = iterate(
            self,
            FullPosterior.without_sites(K),
            expectation_rule(y, likelihood),
            sites,
            value=lambda q: jensen_bound(q, y, likelihood),
        )
        warn_if_unfinished(self, status)
        return Fit(self, q, y, likelihood, status, jensen_bound(q, y, likelihood))

    def evidence_gradient(self, fit: Fit) -> np.ndarray:
        return fit.posterior.gradient()

    def likelihood_gradient(self, fit: Fit) -> np.ndarray:
        return fit.likelihood.expected_log_prob_theta(fit.y, fit.mean, fit.var).sum(1)


def expectation_rule(y: np.ndarray, likelihood):
    """Return the rule whose sites have the expected slope and curvature of the log likelihood under the marginals."""

    def rule(q: FullPosterior) -> SiteTarget:
        _, slope, curvature = likelihood.expected_log_prob(y, q.mean, q.var)
        return SiteTarget(q.mean, slope, curvature)

    return rule


def unit_sites(K: np.ndarray, y: np.ndarray, likelihood) -> Sites:
    """First sites, from marginals no wider than the likelihood: under a very wide prior E[curvature] is not informative."""
    var = np.minimum(np.diagonal(K), 1.0)
    zero = np.zeros(len(y))
    return newton_sites(zero, *likelihood.expected_log_prob(y, zero, var)[1:])
