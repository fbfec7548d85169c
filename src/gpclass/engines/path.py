"""The path of the site precisions from sweep to sweep."""

from __future__ import annotations

import numpy as np

from ..numerics import anderson, within_reach
from .climb import LINEAR_REGIME, MixedSteps
from .settle import Posterior, with_tau


class SitePath:
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
        """Return a shorter step from the last accepted posterior."""
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

    def jump(self, q: Posterior, tau: np.ndarray, change: float) -> Posterior:
        """Go to `tau`, which was found in another way. Sweeps before and after it cannot be mixed."""
        self.last, self.wanted, self.rejected = q, tau, 0
        self.steps.record(q.sites.tau, tau, change)
        self.steps.seen.clear()
        return with_tau(q, tau)

    @staticmethod
    def _coordinates(pairs):
        taus, goals = np.array([tau for tau, _ in pairs]), np.array([goal for _, goal in pairs])
        if (taus >= 0).all() and (goals >= 0).all():
            return np.log(np.maximum(taus, 1e-200)), np.log(np.maximum(goals, 1e-200)), np.exp
        return taus, goals, lambda x: x

    def _mix(self, points, residuals, weight):
        residual = residuals[-1]
        if len(points) < 2:
            reach = self.reach if self.steps.change > LINEAR_REGIME else np.inf
            return points[-1] + np.clip(self.steps.part * residual, -reach, reach)
        mixed = anderson(points, residuals, self.steps.part, residuals * weight)
        return within_reach(mixed, points[-1], residual, np.maximum(weight, 1e-3), slack=1e-3, most=1.0)
