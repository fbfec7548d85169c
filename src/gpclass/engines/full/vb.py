"""Variational bounds: a quadratic lower bound of each log likelihood term, and the exact posterior under these bounds.

[NR] Nickisch & Rasmussen 2008, section 6 and appendix A.1.
Departs from the paper's Newton method in the contact points ς: the conditions for the best ς given the marginals (for logit
ς² = mean² + var, for probit ς = y mean) are iterated like any other rule. The bound must not decrease. The bound is
stationary in ς, so its gradient in K is the explicit one: the implicit term of A.1.5 vanishes at the optimum.

The Jensen bound of the same posterior is tighter, and in practice it is used for the hyperparameters ([NR] 12.2.4):
`objective="jensen"`. The posterior is the same. The Jensen bound is not stationary there, and its gradient is implicit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...gaussian import FullPosterior
from .. import Engine
from ..fit import Fit, jensen_bound, prepare_data, start_sites
from ..iterate import SiteTarget, iterate, warn_if_unfinished
from ..observations import Data
from .vb_jensen import jensen_gradient, jensen_likelihood_gradient


@dataclass(frozen=True)
class VB(Engine):
    """Local quadratic bounds of the logit or probit likelihood."""

    damping: float = 1.0  # largest fraction of a step; lowered automatically if needed
    tol: float = 1e-7  # largest move of a converged run, in posterior standard deviations
    max_iter: int = 300  # sweeps
    objective: str = "bound"  # or "jensen": the evidence by which hyperparameters are learned; the posterior is the same

    needs: ClassVar = ("bound", "bound_point", "bound_curvature")
    weights: ClassVar = "places"

    def __post_init__(self):
        if self.objective not in ("bound", "jensen"):
            raise ValueError(f"objective must be 'bound' or 'jensen', but is {self.objective!r}")

    def needed(self, likelihood) -> tuple[str, ...]:
        return self.needs if self.objective == "bound" else (*self.needs, "bound_slopes", "expected_log_prob")

    def fit(self, K, y, likelihood, start: Any = None) -> Fit:
        K, data = prepare_data(self, K, y, likelihood)
        q, status = iterate(
            self,
            data.prior(K),
            bound_rule(data.y, likelihood),
            start_sites(start, len(data.y)),
            value=lambda q: bound_evidence(q, data),
        )
        warn_if_unfinished(self, status)
        evidence = bound_evidence if self.objective == "bound" else jensen_bound
        return Fit(self, q, data.given, likelihood, status, evidence(q, data))

    def evidence_gradient(self, fit: Fit) -> np.ndarray:
        return fit.posterior.gradient() if self.objective == "bound" else jensen_gradient(fit)

    def likelihood_gradient(self, fit: Fit) -> np.ndarray:
        if self.objective == "jensen":
            return jensen_likelihood_gradient(fit)
        q, data = fit.posterior, fit.targets
        touch = fit.likelihood.bound_point(data.y, q.mean, q.var)
        return data.total(fit.likelihood.bound_theta(data.y, touch, q.mean, q.var))


def bound_rule(y: np.ndarray, likelihood):
    """Return the rule whose sites are the best bounds under the current marginals.

    As a function of the mean, the best bound is less curved than the bound itself; Newton's method needs its curvature.
    """

    def rule(q: FullPosterior) -> SiteTarget:
        touch = likelihood.bound_point(y, q.mean, q.var)
        _, nu, tau = likelihood.bound(y, touch)
        return SiteTarget(q.mean, nu - tau * q.mean, likelihood.bound_curvature(y, q.mean, q.var), precision=tau)

    return rule


def bound_evidence(q: FullPosterior, data: Data) -> float:
    """Return the best bound under q's marginals: E_q[bound] + E_q[log prior] + entropy; at the optimum it is [NR] (13).

    In this form it is a lower bound of the evidence for any q, also if q is not the posterior under the bound.
    """
    constant, nu, tau = data.likelihood.bound(data.y, data.likelihood.bound_point(data.y, q.mean, q.var))
    # no square of the mean: it may overflow where τ is small
    expected = data.total(constant + (nu - 0.5 * tau * q.mean) * q.mean - 0.5 * tau * q.var)
    return expected + 0.5 * (data.n - float(q.alpha @ q.mean) - q.log_det - q.trace_ratio)
