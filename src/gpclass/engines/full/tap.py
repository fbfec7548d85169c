"""The mean-field methods of Opper & Winther: TAP and its naive variant.

[NR] Nickisch & Rasmussen 2008, section 4.3.   [OW] Opper & Winther 2000, Gaussian processes for classification.
Unknowns are (α, W). For given cavity variances s the equations α_i = d log Z_i/dμ_i, μ = (K - Dg(s)) α are solved by
Newton's method. TAP then updates s by (12) until it agrees with W, and so has EP's fixed points. TAPNaive keeps s = K_ii.
The second line of (11) as printed holds only for a step likelihood; in general W⁻¹ = 1/ν - s, ν = -d² log Z_i/dμ_i².
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ...gaussian import FullPosterior, Sites
from ...numerics import NotPositiveDefinite, anderson, within_reach
from .. import Engine
from ..climb import MixedSteps
from ..fit import Fit, prepare_data, start_sites
from ..iterate import ending, iterate, stands_still, warn_if_unfinished
from .ep import ep_evidence, moment_rule
from .laplace import variance_bound

MAX_FIRST_VAR = 1e6  # largest initial cavity variance
FIRST_TOL = 1e-4  # tolerance of the mean under the first cavity variances, in standard deviations
MEAN_TOL = 2e-4  # tolerance of the mean as a fraction of the relative move of the cavity variances
MAX_HALVINGS = 20  # of a step
MIN_RATIO = 1e-10  # smallest factor of a cavity variance in one step
TINY_VAR = 1e-300  # replaces zero in logarithms
NO_CAVITY = (
    "TAP: negative site precisions leave a datum no proper cavity, however short the step. "
    "Allow more label noise (raise epsilon), or try EP, which can update one site at a time."
)


@dataclass(frozen=True)
class TAP(Engine):
    """TAP mean-field equations; the same fixed points as EP."""

    damping: float = 1.0  # fraction of each step of the log cavity variances; lowered automatically if needed
    tol: float = 1e-8  # largest move of a converged run, in posterior standard deviations
    max_iter: int = 200  # updates of the cavity variances

    needs: ClassVar = ("tilted_moments",)
    weights: ClassVar = "places"
    tempers: ClassVar = True

    def fit(self, K, y, likelihood, start: Any = None) -> Fit:
        K, data = prepare_data(self, K, y, likelihood)
        prior, sites = data.prior(K), start_sites(start, len(data.y))
        path = _Renewals(self.damping, first_cavities(prior, sites))
        change, inner_tol, sweep = np.inf, FIRST_TOL, 0
        while sweep < self.max_iter:
            sweep += 1
            # while cavity variances still move, the mean need not be accurate
            engine = replace(self, tol=max(self.tol, inner_tol))
            try:
                q, inner = solve(engine, prior, rule_given_cavities(data.y, data.likelihood, path.var), sites)
                wanted = q.cavity()[1]  # (12)
                if np.any(wanted < 0):
                    raise NotPositiveDefinite(NO_CAVITY)
            except NotPositiveDefinite as error:
                path.step_back(error)
                continue
            change, sites = path.gap(wanted), q.sites
            if stands_still(q, max(change, inner.change), self.tol):
                break
            inner_tol = MEAN_TOL * change
            path.advance(wanted, change)
        status = ending(q, sweep, max(change, inner.change), self.tol)
        warn_if_unfinished(self, status)
        return Fit(self, q, data.given, likelihood, status, ep_evidence(q, data.y, data.likelihood))

    def evidence_gradient(self, fit: Fit) -> np.ndarray:
        return fit.posterior.gradient()

    def likelihood_gradient(self, fit: Fit) -> np.ndarray:
        data = fit.targets
        return data.total(data.likelihood.tilted_theta(data.y, *fit.posterior.cavity()))


@dataclass(frozen=True)
class TAPNaive(Engine):
    """TAP with the cavity variances fixed at the prior's: no determinant and no inverse in the equations.

    The evidence is the free energy whose stationarity conditions are these equations,
    Σ log Z_i(μ_i, K_ii) - ½ αᵀ(K - Dg K)α. It is exact for a diagonal K. It is not a bound and not given in [NR].
    """

    damping: float = 1.0  # fraction of each curvature step; 1 is Newton's method
    tol: float = 1e-8  # largest move of a converged run, in posterior standard deviations
    max_iter: int = 200  # Newton steps with a new factorisation

    needs: ClassVar = ("tilted_moments",)
    weights: ClassVar = "places"
    tempers: ClassVar = True

    def fit(self, K, y, likelihood, start: Any = None) -> Fit:
        K, data = prepare_data(self, K, y, likelihood)
        prior = data.prior(K)
        var = prior.prior_var
        q, status = solve(self, prior, rule_given_cavities(data.y, data.likelihood, var), start_sites(start, len(data.y)))
        warn_if_unfinished(self, status)
        centre = q.mean - var * q.slope
        log_mass, _, _ = data.likelihood.tilted_moments(data.y, centre, var)
        return Fit(self, q, data.given, likelihood, status, data.total(log_mass) - 0.5 * float(q.alpha @ centre))

    def evidence_gradient(self, fit: Fit) -> np.ndarray:
        data = fit.targets
        _, _, d2 = data.likelihood.tilted_moments(data.y, *self._cavity(fit))
        G = 0.5 * np.outer(fit.alpha, fit.alpha)
        np.fill_diagonal(G, 0.5 * (fit.alpha**2 + data.at_places(d2)))
        return G

    def likelihood_gradient(self, fit: Fit) -> np.ndarray:
        data = fit.targets
        return data.total(data.likelihood.tilted_theta(data.y, *self._cavity(fit)))

    @staticmethod
    def _cavity(fit: Fit):
        q: Any = fit.posterior
        return q.mean - q.prior_var * q.slope, q.prior_var


class _Renewals:
    """Chooses the next cavity variances, in logarithms: a damped step to (12), mixed with past ones near convergence."""

    def __init__(self, damping: float, var: np.ndarray):
        self.var = self.last = var  # the next values, and the last ones with proper cavities for all data
        self.steps = MixedSteps(damping)  # from log variances to those of (12)
        self.tries = 0  # steps undone since the last successful one

    def gap(self, wanted: np.ndarray) -> float:
        return float(np.max(np.abs(self._ratio(wanted) - 1), initial=0.0))

    def _ratio(self, wanted):
        return np.divide(wanted, self.var, out=np.ones_like(self.var), where=self.var > 0)  # zero variances stay zero

    def advance(self, wanted: np.ndarray, change: float) -> None:
        self.last, self.tries = self.var, 0
        here, step = np.log(np.maximum(self.var, TINY_VAR)), np.log(np.maximum(self._ratio(wanted), MIN_RATIO))
        self.steps.record(here, here + step, change)
        points, goals = np.moveaxis(np.array(self.steps.seen), 1, 0)
        mixed = anderson(points, goals - points, self.steps.part)
        mixed = within_reach(mixed, here, step, unit=1.0, slack=0.1, most=1.0)
        self.var = self.var * np.exp(mixed - here)

    def step_back(self, error: Exception) -> None:
        """Halve a step that gave an improper posterior or cavity; raise `error` if that does not help."""
        self.tries += 1
        if self.tries > MAX_HALVINGS or np.array_equal(self.var, self.last):
            raise error
        self.steps.seen.clear()
        self.steps.shorten()
        self.var = np.where(self.last > 0, np.sqrt(self.var * self.last), self.var)


def first_cavities(prior: FullPosterior, sites: Sites | None) -> np.ndarray:
    """Return cavity variances of an earlier fit, or the prior's, limited: very wide ones give inaccurate moments."""
    wide = np.minimum(prior.prior_var, MAX_FIRST_VAR)
    if sites is None:
        return wide
    var = prior.renewed(sites).cavity()[1]
    return var if np.all(var >= 0) else wide


def rule_given_cavities(y, likelihood, var: np.ndarray):
    """Return the rule whose α solves α_i = d log Z_i/dμ_i at μ = Kα - var α, with fixed cavity variances `var`."""
    return moment_rule(y, likelihood, cavity=lambda q: (q.mean - var * q.slope, var))


def solve(engine, prior, rule, sites: Sites | None):
    """Iterate by Newton steps: with fixed cavities τ depends only on the mean."""
    return iterate(engine, prior, rule, sites, scale=variance_bound, memory=0)
