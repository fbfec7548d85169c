"""The loop shared by all engines whose sites are a function of the current marginals.

An engine provides a *rule*: a function of the posterior that returns the slope and curvature that the log of each site
should have, and the point where it should have them. The curvatures are the site precisions τ, and only a change of τ needs
a new factorisation. For given τ the mean is iterated to convergence by chord Newton steps, which need only matrix-vector
products. So a sweep is: factorise, iterate the mean, compute new τ. The τ are extrapolated near convergence, and damped if
they do not converge.

Moves are measured in units of the posterior: a mean step δ by √(δᵀ V⁻¹ δ), the largest number of standard deviations by
which it moves any linear function of f, and each ν separately; a precision by the relative change of its marginal variance.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..gaussian import SMALLER, Sites, newton_sites, too_large
from ..numerics import NotPositiveDefinite, anderson, within_reach
from ..numerics.separable import inputs_of
from .climb import LINEAR_REGIME, MIXED_SWEEPS, MixedSteps, uphill

SETTLE_STEPS = 8  # chord steps of the mean per factorisation, each a few matrix-vector products
LAGGING = 0.1  # fraction of the mean's move; if τ moves by less, only the mean has not converged
PATIENCE = 0.02  # see settle_mean; for Newton rules, whose τ depend only on the mean, the mean converges fully
COARSE = 1e-3  # largest rounding of a converged posterior, in standard deviations
HOPELESS = 0.1  # rounding that may exceed the identity in B = I + √τ K √τ
NOISIER = "Some site precisions are negative: allow more label noise (raise epsilon), lower damping or raise max_iter."


class SiteTarget(NamedTuple):
    """Slope and curvature that the log of each site should have at `point`, each (n,).

    A rule sets `precision` if its site precisions are not minus the curvature of its objective.
    """

    point: np.ndarray
    slope: np.ndarray
    curvature: np.ndarray
    precision: np.ndarray | None = None

    @property
    def tau(self) -> np.ndarray:
        return -self.curvature if self.precision is None else self.precision

    @property
    def sites(self) -> Sites:
        return newton_sites(self.point, self.slope, -self.tau)

    def times(self, weight: Any) -> SiteTarget:
        """The target of `weight` copies of each site."""
        precision = None if self.precision is None else weight * self.precision
        return SiteTarget(self.point, weight * self.slope, weight * self.curvature, precision)


@dataclass(frozen=True)
class Status:
    """How a run ended."""

    converged: bool
    n_iter: int  # sweeps, one factorisation each
    change: float  # last move, in units of the posterior
    message: str = ""  # set if the run ended in an unusual way
    advice: str = ""  # why it did not converge, and what to do


Posterior = Any  # FullPosterior, or another structure with the same interface
Rule = Callable[[Posterior], SiteTarget]


def iterate(
    engine,
    prior: Posterior,
    rule: Rule,
    start: Sites | None = None,
    value: Callable[[Posterior], float] | None = None,
    scale: Callable[[Posterior], np.ndarray] = attrgetter("var"),
    memory: int = MIXED_SWEEPS,
) -> tuple[Posterior, Status]:
    """Repeat `rule` until the posterior moves by less than `engine.tol`, for at most `engine.max_iter` sweeps.

    `prior` is a posterior without sites, of any structure. `rule` returns targets for one copy of each observation.

    `value`, if given, is an objective that must not decrease: a sweep that decreases it is undone and shortened.
    `scale` returns the variances in which moves of τ are measured; an upper bound is enough if the exact ones are expensive.
    `memory` is the number of past sweeps to extrapolate from; use 0 for rules that are Newton steps already.
    """
    if np.ndim(prior.weight):
        rule = _counted(rule)
    if start is None or not np.any(start.tau):
        start = rule(prior).sites  # the prior's marginals need no factorisation
    q = prior.renewed(start)
    path = _SitePath(engine.damping, memory, np.inf if value is None else 1.0)
    change = np.inf
    for sweep in range(1, engine.max_iter + 1):
        q, target, gap = settle_mean(q, rule, scale, engine.tol, PATIENCE if memory else 0.0)
        if value is not None and not path.accepts(value(q), len(q.mean) * q.rounding):
            q = path.step_back()
            continue
        wanted = target.tau
        change = float(np.maximum(gap, np.max(np.abs(wanted - q.sites.tau) * scale(q), initial=0.0)))
        require_finite(engine, change, q.prior_var)
        if stands_still(q, change, engine.tol):
            return q, ending(q, sweep, change, engine.tol)
        q = path.advance(q, wanted, change, scale(q))
    q = path.last or q  # the last posterior with a converged mean
    return q, ending(q, sweep, change, engine.tol)


def _counted(rule: Rule) -> Rule:
    """The rule for all copies of each observation."""
    return lambda q: rule(q).times(q.weight)


def stands_still(q: Posterior, change: float, tol: float) -> bool:
    """Whether a move is below the tolerance or below the rounding of K."""
    return bool(change < tol or change <= q.rounding)


def require_finite(engine, change: float, prior_var: np.ndarray) -> None:
    if not np.isfinite(change):
        raise FloatingPointError(
            f"{type(engine).__name__}: the results of the likelihood are not finite, or lost in rounding, under prior "
            f"variances of {np.max(prior_var):.0e}: {SMALLER}."
        )


def ending(q: Posterior, n_iter: int, change: float, tol: float = 0.0) -> Status:
    """Return how a run ended; raise if rounding of K leaves no correct digits."""
    rounding = q.rounding
    if rounding > COARSE:
        why = too_large(inputs_of(q.K))
        if rounding > HOPELESS:
            raise NotPositiveDefinite(why)
        return Status(False, n_iter, max(change, rounding), advice=why)
    if stands_still(q, change, tol):
        return Status(True, n_iter, change)
    tau = q.sites.tau
    return Status(False, n_iter, change, advice=NOISIER if tau.ndim == 1 and np.any(tau < 0) else "")


def with_tau(q: Posterior, tau: np.ndarray) -> Posterior:
    """The posterior with the same mean and new site precisions."""
    return q.renewed(newton_sites(q.mean, q.alpha, -tau), moments=(q.alpha, q.mean))


def settle_mean(q: Posterior, rule: Rule, scale, tol: float, patience: float) -> tuple[Posterior, SiteTarget, float]:
    """Change ν at fixed τ until the mean agrees with the rule or new τ would help more. Also return the remaining distance.

    The distance need not be smaller than `patience` times the next move of τ.
    """
    target = rule(q)
    metric = q if target.precision is None else with_tau(q, -target.curvature)
    missing, step, gap = _mean_step(q, target, metric, scale)
    for _ in range(SETTLE_STEPS):
        move = np.max(np.abs(target.tau - q.sites.tau) * scale(q), initial=0.0)
        if gap < max(0.1 * tol, patience * move):
            break
        before = gap
        q, target = _line_search(q, rule, missing, step, tol)
        missing, step, gap = _mean_step(q, target, metric, scale)
        # slow steps need a better metric, which new τ give, unless τ has nearly converged
        if gap > 0.5 * before and (move > LAGGING * gap or np.any(q.sites.tau < 0)):
            break
    return q, target, gap


def _missing(q, target):
    """The change of ν at fixed τ that the target requires."""
    return target.slope + q.sites.tau * target.point - q.sites.nu


def _mean_step(q, target, metric, scale):
    """The missing change of ν, the resulting Newton step in (α, mean), and the length of that step."""
    missing = _missing(q, target)
    step = metric.covariance_step(missing)
    # negative only by rounding; its size then bounds the error, so do not replace it by zero
    joint = np.sqrt(abs(missing @ step[1]))
    # if K is singular (equal rows), α can move without the mean: so each site's own move counts too
    single = np.max(np.abs(missing) * np.sqrt(np.maximum(scale(q), 0.0)), initial=0.0)
    return missing, step, float(max(joint, single))


def _line_search(q, rule, missing, step, tol):
    """Take the step, shortened while it overshoots."""

    def look(length):
        trial = q.shifted(length * step[0], length * step[1])
        target = rule(trial)
        return _missing(trial, target) @ step[1], (trial, target)

    along = max(missing @ step[1], 0.0)  # negative only by rounding
    # with sites of negative precision, a growing slope may diverge
    return uphill(look, along, negligible=tol**2, growth=2.0 if np.all(q.sites.tau >= 0) else 1.0)[1]


class _SitePath:
    """Chooses the next τ, in logarithms if all are positive.

    Far from convergence it takes the rule's own step, limited by `reach` if there is an objective. Near convergence it mixes
    past sweeps (Anderson): the combination with the smallest residual. Steps are damped if moves grow: see `MixedSteps`.
    """

    def __init__(self, damping: float, memory: int, reach: float):
        self.steps = MixedSteps(damping, memory)  # from τ to the new τ of the rule
        self.reach = reach
        self.growth = 1.5  # factor of `reach` after an accepted step
        self.rejected = 0  # steps undone since the last accepted one
        self.value = -np.inf  # objective at the last accepted posterior
        self.last: Posterior | None = None  # the last accepted posterior and the new τ of the rule there
        self.wanted = np.zeros(0)

    def accepts(self, value: float, rounding: float) -> bool:
        # near convergence a mixed sweep may decrease the objective by a term of second order in the move
        near = self.steps.change < LINEAR_REGIME
        slack = 1e-9 * max(1.0, abs(value)) + rounding + (0.5 * self.steps.change**2 if near else 0.0)
        if value < self.value - slack:
            return False
        self.value = value
        return True

    def step_back(self) -> Posterior:
        """A shorter step from the last accepted posterior."""
        assert self.last is not None, "the first posterior is always accepted"
        self.steps.seen.clear()
        self.steps.shorten()
        self.rejected += 1
        self.growth = 1.25
        tau = self.last.sites.tau
        if self.steps.change > LINEAR_REGIME and self.rejected <= 2:
            (point,), (goal,), back = self._coordinates([(tau, self.wanted)])
            self.reach = 0.5 * min(self.reach, np.max(np.abs(goal - point)))
            return with_tau(self.last, back(point + np.clip(goal - point, -self.reach, self.reach)))
        # straight towards the τ of the rule: the objective increases in this direction if the step is short enough
        return with_tau(self.last, tau + 0.5**self.rejected * (self.wanted - tau))

    def advance(self, q: Posterior, wanted: np.ndarray, change: float, var: np.ndarray) -> Posterior:
        self.last, self.wanted, self.rejected = q, wanted, 0
        self.reach *= self.growth
        self.steps.record(q.sites.tau, wanted, change)
        points, goals, back = self._coordinates(self.steps.seen)
        if back is not np.exp:  # negative site precisions: the likelihood is not log-concave, and full steps overshoot
            self.steps.part = min(self.steps.part, 0.5)
        # weight of a site: the effect of a unit step of its coordinate on the marginal variance
        weight = np.abs(q.sites.tau) * var if back is np.exp else var
        return with_tau(q, back(self._mix(points, goals - points, weight)))

    @staticmethod
    def _coordinates(pairs):
        taus, goals = np.moveaxis(np.array(pairs), 1, 0)
        if np.all(taus >= 0) and np.all(goals >= 0):
            return np.log(np.maximum(taus, 1e-200)), np.log(np.maximum(goals, 1e-200)), np.exp
        return taus, goals, lambda x: x

    def _mix(self, points, residuals, weight):
        residual = residuals[-1]
        if len(points) < 2:
            reach = self.reach if self.steps.change > LINEAR_REGIME else np.inf
            return points[-1] + np.clip(self.steps.part * residual, -reach, reach)
        mixed = anderson(points, residuals, self.steps.part, residuals * weight)
        return within_reach(mixed, points[-1], residual, np.maximum(weight, 1e-3), slack=1e-3, most=1.0)


def warn_if_unfinished(engine, status: Status, stacklevel: int = 3) -> None:
    if status.converged:
        return
    advice = status.advice or f"Lower damping (now {engine.damping:g}) or raise max_iter (tol={engine.tol:g})."
    warnings.warn(
        f"{type(engine).__name__} stopped after {status.n_iter} sweeps with the posterior still moving by "
        f"{status.change:.0e} standard deviations. {advice}",
        ConvergenceWarning,
        stacklevel=stacklevel,
    )
