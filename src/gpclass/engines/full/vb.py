"""Variational bounds: a quadratic lower bound of each log likelihood term, and the exact posterior under these bounds.

[NR] Nickisch & Rasmussen 2008, section 6 and appendix A.1.
Departs from the paper's Newton method in the contact points ς: the conditions for the best ς given the marginals (for logit
ς² = mean² + var, for probit ς = y mean) are iterated like any other rule. The bound must not decrease. The bound is
stationary in ς, so its gradient in K is the explicit one: the implicit term of A.1.5 vanishes at the optimum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...gaussian import FullPosterior
from .. import Engine
from ..fit import Fit, prepare, start_sites
from ..iterate import SiteTarget, iterate, warn_if_unfinished


@dataclass(frozen=True)
class VB(Engine):
    """Local quadratic bounds of the logit or probit likelihood."""

    damping: float = 1.0  # largest fraction of a step; lowered automatically if needed
    tol: float = 1e-7  # largest move of a converged run, in posterior standard deviations
    max_iter: int = 300  # sweeps

    needs: ClassVar = ("bound", "bound_point", "bound_curvature")

    def fit(self, K, y, likelihood, start: Any = None) -> Fit:
        K, y = prepare(self, K, y, likelihood)
        q, status = iterate(
            self,
            FullPosterior.without_sites(K),
            bound_rule(y, likelihood),
            start_sites(start, len(y)),
            value=lambda q: bound_evidence(q, y, likelihood),
        )
        warn_if_unfinished(self, status)
        return Fit(self, q, y, likelihood, status, bound_evidence(q, y, likelihood))

    def evidence_gradient(self, fit: Fit) -> np.ndarray:
        return fit.posterior.gradient()

    def likelihood_gradient(self, fit: Fit) -> np.ndarray:
        touch = fit.likelihood.bound_point(fit.y, fit.mean, fit.var)
        return fit.likelihood.bound_theta(fit.y, touch, fit.mean, fit.var).sum(1)


def bound_rule(y: np.ndarray, likelihood):
    """Return the rule whose sites are the best bounds under the current marginals.

    As a function of the mean, the best bound is less curved than the bound itself; Newton's method needs its curvature.
    """

    def rule(q: FullPosterior) -> SiteTarget:
        touch = likelihood.bound_point(y, q.mean, q.var)
        _, nu, tau = likelihood.bound(y, touch)
        return SiteTarget(q.mean, nu - tau * q.mean, likelihood.bound_curvature(y, q.mean, q.var), precision=tau)

    return rule


def bound_evidence(q: FullPosterior, y: np.ndarray, likelihood) -> float:
    """The best bound under q's marginals: E_q[bound] + E_q[log prior] + entropy, equal to [NR] (13) at the optimum.

    In this form it is a lower bound of the evidence for any q, also if q is not the posterior under the bound.
    """
    constant, nu, tau = likelihood.bound(y, likelihood.bound_point(y, q.mean, q.var))
    expected = np.sum(constant + nu * q.mean - 0.5 * tau * (q.mean**2 + q.var))
    return float(expected) + 0.5 * (len(y) - float(q.alpha @ q.mean) - q.log_det - q.trace_ratio)
