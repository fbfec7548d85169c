"""The one loop of all engines whose sites follow from the current marginals.

An engine gives a *rule*: from a posterior to the slope and curvature that the log of each site should have, and the point
where it should have them. The curvatures are the site precisions τ, and only they need a new factorisation; for given τ
the mean is settled by a chord Newton iteration of matrix-vector products. So a sweep is: factorise, settle the mean, read
off new τ. The τ are extrapolated where that helps and damped where they do not settle.

Moves are measured in units of the posterior: a mean step δ by √(δᵀ V⁻¹ δ), the largest number of standard deviations that
any linear function of f moves by, and each ν by itself; a precision by the relative change of its marginal variance.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..gaussian import SMALLER, Sites, newton_sites, too_large
from ..numerics import NotPositiveDefinite, anderson, within_reach
from .climb import uphill

SETTLE_STEPS = 8  # chord steps on the mean per factorisation, each a few matrix-vector products
LINEAR_REGIME = 0.5  # a move below which sweeps are taken to be nearly linear, and are mixed
LAGGING = 0.1  # part of the mean's move; when τ moves by less the mean is what lags behind
PATIENCE = 0.02  # see settle_mean; Newton's rules, whose τ depends on the mean alone, settle it all the way
MIXED_SWEEPS = 4  # past sweeps that are mixed
SLOW = 15  # sweeps; ordinary problems take fewer
STALE = 8  # sweeps without progress, near the end, that bring damping
SMALLEST_STEP = 0.05  # damping does not go below this part of a step
COARSE = 1e-3  # rounding, in standard deviations, that a converged posterior may have
HOPELESS = 0.1  # rounding that may outweigh the identity in B = I + √τ K √τ
NOISIER = "Some site precisions are negative: allow more label noise (raise epsilon), lower damping or raise max_iter."


class SiteTarget(NamedTuple):
    """What the log of each site should look like: `slope` and `curvature` at `point`, each (n,).

    A rule whose site precisions are not minus the curvature of what it maximises gives them apart.
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


@dataclass(frozen=True)
class Status:
    """How a run ended."""

    converged: bool
    n_iter: int  # sweeps, one factorisation each
    change: float  # last move, in units of the posterior
    message: str = ""  # of a way that was not the usual one
    advice: str = ""  # why it did not converge and what to do about it


Posterior = Any  # FullPosterior, or another structure with what the loop asks of it
Rule = Callable[[Posterior], SiteTarget]


def iterate(
    engine,
    prior: Posterior,
    rule: Rule,
    start: Sites | None = None,
    value: Callable[[Posterior], float] | None = None,
    scale: Callable[[Posterior], np.ndarray] = lambda q: q.var,
    memory: int = MIXED_SWEEPS,
) -> tuple[Posterior, Status]:
    """Repeat `rule` until the posterior stands still to `engine.tol`, at most `engine.max_iter` sweeps.

    `prior` is a posterior without sites, of whatever structure.

    `value`, if given, is an objective that must not fall: a sweep that lowers it is taken back and shortened.
    `scale` gives the variances that moves of τ are measured with; an upper bound serves where the true ones are dear.
    `memory` is the number of past sweeps to extrapolate from; 0 suits rules that are Newton steps already.
    """
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
    q = path.last or q  # the last one whose mean is settled
    return q, ending(q, sweep, change, engine.tol)


def stands_still(q: Posterior, change: float, tol: float) -> bool:
    """Whether a move is below the tolerance, or lost in the rounding of K."""
    return bool(change < tol or change <= q.rounding)


def require_finite(engine, change: float, prior_var: np.ndarray) -> None:
    if not np.isfinite(change):
        raise FloatingPointError(
            f"{type(engine).__name__}: the likelihood's answers are not finite, or lost in rounding, under prior variances "
            f"of {np.max(prior_var):.0e}: {SMALLER}."
        )


def ending(q: Posterior, n_iter: int, change: float, tol: float = 0.0) -> Status:
    """Return how a run with scalar sites ended; raise where rounding of K leaves no digits."""
    return judged(q, q.K, n_iter, change, tol, NOISIER if np.any(q.sites.tau < 0) else "")


def judged(q: Posterior, K: np.ndarray, n_iter: int, change: float, tol: float, advice: str = "") -> Status:
    """Return how a run ended; raise where rounding of K leaves no digits. `advice` is for runs that did not converge."""
    rounding = q.rounding
    if rounding > HOPELESS:
        raise NotPositiveDefinite(too_large(K))
    if rounding > COARSE:
        return Status(False, n_iter, max(change, rounding), advice=too_large(K))
    if stands_still(q, change, tol):
        return Status(True, n_iter, change)
    return Status(False, n_iter, change, advice=advice)


def with_tau(q: Posterior, tau: np.ndarray) -> Posterior:
    """The posterior with the same mean and other site precisions."""
    return q.renewed(newton_sites(q.mean, q.alpha, -tau), moments=(q.alpha, q.mean))


def settle_mean(q: Posterior, rule: Rule, scale, tol: float, patience: float) -> tuple[Posterior, SiteTarget, float]:
    """Move ν, with τ held, until the mean agrees with the rule, or better τ would help more; also how far it still is.

    The mean need not be closer than `patience` times the move that τ wants to make.
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
        # slow steps ask for a better metric, which other τ bring, unless τ is all but settled
        if gap > 0.5 * before and (move > LAGGING * gap or np.any(q.sites.tau < 0)):
            break
    return q, target, gap


def _missing(q, target):
    """The change of ν, with τ held, that the target asks for."""
    return target.slope + q.sites.tau * target.point - q.sites.nu


def _mean_step(q, target, metric, scale):
    """What is missing in ν, the Newton step in (α, mean) that it brings about, and the length of that step."""
    missing = _missing(q, target)
    step = metric.covariance_step(missing)
    # negative only by rounding, which then hides as much as this: no reason to take it for zero
    joint = np.sqrt(abs(missing @ step[1]))
    # where K is singular (rows that are equal) α can move without the mean: each site's own move counts too
    single = np.max(np.abs(missing) * np.sqrt(np.maximum(scale(q), 0.0)), initial=0.0)
    return missing, step, float(max(joint, single))


def _line_search(q, rule, missing, step, tol):
    """Take the step, shortened while it overshoots."""

    def look(length):
        trial = q.shifted(length * step[0], length * step[1])
        target = rule(trial)
        return _missing(trial, target) @ step[1], (trial, target)

    along = max(missing @ step[1], 0.0)  # negative only by rounding
    # under sites of negative precision a slope that grows may lead to infinity
    return uphill(look, along, negligible=tol**2, growth=2.0 if np.all(q.sites.tau >= 0) else 1.0)[1]


class _SitePath:
    """Chooses the next τ, in logarithms where all are positive.

    Far from the end the rule's own step is taken, no longer than `reach` where there is an objective to watch. Near the
    end past sweeps are mixed (Anderson): the combination whose residuals cancel best. Moves that grow bring damping: at
    once far from the end, near it only where they do not shrink again soon.
    """

    def __init__(self, damping: float, memory: int, reach: float):
        self.largest, self.memory, self.reach = damping, memory, reach
        self.part = damping  # of each step that is taken now
        self.growth = 1.5  # of `reach` after a step that was accepted
        self.change = self.least = np.inf  # the last move, and the smallest so far
        self.sweeps = self.stale = 0  # sweeps so far, and those since the smallest move
        self.rejected = 0  # steps taken back since the last accepted one
        self.seen: list[tuple[np.ndarray, np.ndarray]] = []  # (τ, what the rule wanted instead)
        self.value = -np.inf  # of the last accepted posterior
        self.last: Posterior | None = None  # the last accepted, and what the rule wanted there
        self.wanted = np.zeros(0)

    def accepts(self, value: float, rounding: float) -> bool:
        # near the end a mixed sweep may cost what is second order in the move
        slack = 1e-9 * max(1.0, abs(value)) + rounding + (0.5 * self.change**2 if self.change < LINEAR_REGIME else 0.0)
        if value < self.value - slack:
            return False
        self.value = value
        return True

    def step_back(self) -> Posterior:
        """A shorter step from the last accepted posterior."""
        assert self.last is not None, "the first posterior is always accepted"
        self.seen.clear()
        self.rejected += 1
        self.part = max(0.5 * self.part, SMALLEST_STEP)
        self.growth = 1.25
        tau = self.last.sites.tau
        if self.change > LINEAR_REGIME and self.rejected <= 2:
            (point,), (goal,), back = self._coordinates([(tau, self.wanted)])
            self.reach = 0.5 * min(self.reach, np.max(np.abs(goal - point)))
            return with_tau(self.last, back(point + np.clip(goal - point, -self.reach, self.reach)))
        # towards the wanted τ in a straight line: the objectives rise that way, if the step is short enough
        return with_tau(self.last, tau + 0.5**self.rejected * (self.wanted - tau))

    def advance(self, q: Posterior, wanted: np.ndarray, change: float, var: np.ndarray) -> Posterior:
        self.last, self.wanted, self.rejected = q, wanted, 0
        self._adapt(change)
        self.reach *= self.growth
        self.change = change
        if change > LINEAR_REGIME:
            self.seen.clear()
        self.seen = [*self.seen, (q.sites.tau, wanted)][-self._depth() - 1 :]
        points, goals, back = self._coordinates(self.seen)
        if back is not np.exp:  # sites of negative precision: the likelihood is not log-concave, full steps overshoot
            self.part = min(self.part, 0.5)
        # a site counts by what a unit step of its coordinate does to the marginal variance
        weight = np.abs(q.sites.tau) * var if back is np.exp else var
        return with_tau(q, back(self._mix(points, goals - points, weight)))

    def _adapt(self, change: float) -> None:
        """Choose how much of a step is taken: less where moves grow.

        Near the end a mixed sweep may well move by more than the one before, and the next ones mend that: only when the
        smallest move so far lies `STALE` sweeps back the mixing is not what it takes.
        """
        self.sweeps += 1
        self.stale = 0 if change < self.least else self.stale + 1
        self.least = min(self.least, change)
        grown = change > 1.5 * self.change and self.memory > 0  # a Newton step has its own line search
        if grown and (change > LINEAR_REGIME or self.stale >= STALE):
            self.part = max(0.5 * self.part, SMALLEST_STEP)
            self.largest = max(0.75 * self.largest, SMALLEST_STEP)  # so that cycles do not go on for ever
        else:
            self.part = min(1.3 * self.part, self.largest)

    def _depth(self) -> int:
        """How many past sweeps are mixed: more where many have gone by, as slow ones have more directions to learn."""
        return self.memory * (2 if self.sweeps > SLOW else 1)

    @staticmethod
    def _coordinates(pairs):
        taus, goals = np.array([t for t, _ in pairs]), np.array([w for _, w in pairs])
        if np.all(taus >= 0) and np.all(goals >= 0):
            return np.log(np.maximum(taus, 1e-200)), np.log(np.maximum(goals, 1e-200)), np.exp
        return taus, goals, lambda x: x

    def _mix(self, points, residuals, weight):
        residual = residuals[-1]
        if len(points) < 2:
            reach = self.reach if self.change > LINEAR_REGIME else np.inf
            return points[-1] + np.clip(self.part * residual, -reach, reach)
        mixed = anderson(points, residuals, self.part, residuals * weight)
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
