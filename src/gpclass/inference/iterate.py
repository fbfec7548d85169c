"""The one loop of all engines whose sites follow from the current marginals.

An engine gives a *rule*: from a posterior to the slope and curvature that the log of each site should have, and the point
where it should have them. The curvatures are the site precisions τ, and only they need a new factorisation; for given τ
the mean is settled by a chord Newton iteration of matrix-vector products. So a sweep is: factorise, settle the mean, read
off new τ. The τ are extrapolated (Anderson) while that helps and damped when it does not.

Moves are measured in units of the posterior: a mean step δ by √(δᵀ V⁻¹ δ), the largest number of standard deviations that
any linear function of f moves by; a precision by the relative change of its marginal variance.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..gaussian import FullPosterior, Sites

SETTLE_STEPS = 8  # chord steps on the mean per factorisation, each a few matrix-vector products
NEAR = 0.5
MEMORY = 4  # sweeps that the extrapolation looks back on
SMALLEST_STEP = 0.05  # damping does not go below this part of a step


class Target(NamedTuple):
    """What the log of each site should look like: `slope` and `curvature` at `point`, each (n,)."""

    point: np.ndarray
    slope: np.ndarray
    curvature: np.ndarray


@dataclass(frozen=True)
class Status:
    """How a run ended."""

    converged: bool
    n_iter: int  # sweeps, one factorisation each
    change: float  # last move, in units of the posterior
    message: str = ""


Rule = Callable[[FullPosterior], Target]


def iterate(
    engine,
    K: np.ndarray,
    rule: Rule,
    start: Sites | None = None,
    value: Callable[[FullPosterior], float] | None = None,
    scale: Callable[[FullPosterior], np.ndarray] = lambda q: q.var,
    memory: int = MEMORY,
) -> tuple[FullPosterior, Status]:
    """Repeat `rule` until the posterior stands still to `engine.tol`, at most `engine.max_iter` sweeps.

    `value`, if given, is an objective that must not fall: a sweep that lowers it is taken back by half.
    `scale` gives the variances that moves of τ are measured with; an upper bound serves where the true ones are dear.
    """
    if start is None or not np.any(start.tau):
        target = rule(FullPosterior(K, Sites.zeros(len(K))))  # the prior's marginals need no factorisation
        tau = -target.curvature
        q = FullPosterior(K, Sites(tau, target.slope + tau * target.point))
    else:
        q = FullPosterior(K, start)
    path = _Path(engine.damping, memory)
    change = np.inf
    for sweep in range(1, engine.max_iter + 1):
        q, target, gap = settle_mean(q, rule, scale, engine.tol)
        if value is not None and not path.improves(value(q), engine.tol):
            q = path.step_back(q)
            continue
        wanted = -target.curvature
        change = max(gap, float(np.max(np.abs(wanted - q.sites.tau) * scale(q), initial=0.0)))
        if not np.isfinite(change):
            break
        if change < engine.tol:
            return q, Status(True, sweep, change)
        q = with_tau(q, path.advance(q, wanted, change))
    return q, Status(False, sweep, change)


def with_tau(q: FullPosterior, tau: np.ndarray) -> FullPosterior:
    """The posterior with the same mean and other site precisions."""
    return FullPosterior(q.K, Sites(tau, q.alpha + tau * q.mean), moments=(q.alpha, q.mean))


def settle_mean(q: FullPosterior, rule: Rule, scale, tol: float) -> tuple[FullPosterior, Target, float]:
    """Move ν, with τ held, until the mean agrees with the rule, or better τ would help more; also how far it still is."""
    target, wanted, step, gap = _mean_step(q, rule)
    for _ in range(SETTLE_STEPS):
        move = np.max(np.abs(target.curvature + q.sites.tau) * scale(q), initial=0.0)
        if gap < max(0.1 * tol, 0.02 * move):
            break
        before = gap
        q, target, wanted, step, gap = _line_search(q, rule, wanted, step)
        if gap > 0.5 * before:
            break
    return q, target, gap


def _mean_step(q, rule):
    """The rule's target, the change of ν that it asks for, the step in (α, mean) that follows, and its length."""
    target = rule(q)
    wanted = target.slope + q.sites.tau * target.point - q.sites.nu
    step = q.covariance_step(wanted)
    return target, wanted, step, float(np.sqrt(max(wanted @ step[1], 0.0)))


def _line_search(q, rule, wanted, step, tries=6):
    """Take the chord step, shortened while it overshoots: the slope along it must not come out larger than it was."""
    along = wanted @ step[1]
    length = 1.0
    for _ in range(tries):
        trial = q.shifted(length * wanted, length * step[0], length * step[1])
        target = rule(trial)
        left = (target.slope + q.sites.tau * target.point - trial.sites.nu) @ step[1]
        if abs(left) <= 0.9 * along or along <= 0:
            break
        length *= np.clip(along / (along - left), 0.1, 0.7) if np.isfinite(left) else 0.1
    wanted = target.slope + q.sites.tau * target.point - trial.sites.nu
    step = q.covariance_step(wanted)
    return trial, target, wanted, step, float(np.sqrt(max(wanted @ step[1], 0.0)))


class _Path:
    """Chooses the next τ: the rule's own, extrapolated from past sweeps, or damped where the sweeps do not settle."""

    def __init__(self, damping: float, memory: int):
        self.memory = memory
        self.largest = damping
        self.part = damping  # of each step that is taken now
        self.changes: list[float] = []
        self.seen: list[tuple[np.ndarray, np.ndarray]] = []  # (τ, what the rule wanted instead)
        self.best_value = -np.inf
        self.last: FullPosterior | None = None  # the last accepted

    def improves(self, value: float, tol: float) -> bool:
        if value < self.best_value - tol * max(1.0, abs(value)):
            return False
        self.best_value = value
        return True

    def step_back(self, q):
        self.seen.clear()
        self.part = max(0.5 * self.part, SMALLEST_STEP)
        return with_tau(self.last, 0.5 * (self.last.sites.tau + q.sites.tau))

    def advance(self, q, wanted, change):
        self.last, tau = q, q.sites.tau
        if self.changes and change > 1.5 * min(self.changes[-2:]):
            self.part = max(0.5 * self.part, SMALLEST_STEP)
            self.seen.clear()
        else:
            self.part = min(1.3 * self.part, self.largest)
        if change > NEAR:
            self.seen.clear()
        self.changes.append(change)
        self.seen = [*self.seen, (tau, wanted)][-self.memory - 1 :]
        if all(np.all(t >= 0) and np.all(w >= 0) for t, w in self.seen):
            return np.exp(self._extrapolate(lambda x: np.log(np.maximum(x, 1e-200))))
        return self._extrapolate(lambda x: x)

    def _extrapolate(self, transform):
        """Anderson's mix of the last sweeps: the combination of them whose residuals cancel best."""
        points = np.array([transform(t) for t, _ in self.seen])
        residuals = np.array([transform(w) for _, w in self.seen]) - points
        plain = points[-1] + self.part * residuals[-1]
        if len(points) < 2:
            return plain
        differences = np.diff(residuals, axis=0)
        weights = np.linalg.lstsq(differences.T, residuals[-1], rcond=1e-8)[0]
        mixed = plain - weights @ (np.diff(points, axis=0) + self.part * differences)
        # no further than a few of the rule's own steps: an extrapolation is a guess
        reach = 4 * np.abs(residuals[-1]) + 1e-3 * np.max(np.abs(residuals[-1]))
        return np.clip(mixed, points[-1] - reach, points[-1] + reach)


def warn_if_unfinished(engine, status: Status) -> None:
    if not status.converged:
        warnings.warn(
            f"{type(engine).__name__} stopped after {status.n_iter} sweeps with the posterior still moving by "
            f"{status.change:.0e} standard deviations (tol={engine.tol:g}). Lower damping (now {engine.damping:g}) "
            "or raise max_iter.",
            ConvergenceWarning,
            stacklevel=3,
        )
