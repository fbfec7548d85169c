"""Maximisation of Chai's bound for all rows: the climb of VariationalMNL.

[C] Chai 2012, Variational multinomial logit Gaussian process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...gaussian import DenseCoupledPosterior, precision_root
from ...likelihoods.mnl_bound import BoundOptimum
from ...numerics import anderson, conjugate_gradients
from ..class_precisions import is_moderate, precision_move
from ..climb import MixedSteps, uphill
from ..iterate import Status, ending, require_finite, stands_still

SETTLE_STEPS = 8  # Newton steps of the mean per factorisation
MEAN_TOL = 0.3  # tolerance of the mean as a fraction of the next move of W
CONJUGATE_STEPS, CONJUGATE_TOL = 30, 1e-4  # conjugate gradients for one Newton step
MAX_HALVINGS = 20  # of a step; after these rounding hides any increase


@dataclass(frozen=True)
class BoundPoint:
    """A Gaussian and the bound there."""

    q: DenseCoupledPosterior
    bound: BoundOptimum
    value: float  # log Z_h


class BoundClimb:
    """Maximises log Z_h, starting from a Gaussian."""

    def __init__(self, votes: np.ndarray, likelihood, tol: float, q: DenseCoupledPosterior, log_b: np.ndarray | None):
        self.votes, self.likelihood, self.tol = votes, likelihood, tol  # (n, C) weights of the labels at each place
        self.count = votes.sum(1, keepdims=True)
        self.at = self.point(q, log_b)

    def point(self, q, log_b) -> BoundPoint:
        bound = self.likelihood.expected_log_prob_bound(q.mean, q.contrast_cov, log_b, self.tol)
        value = np.sum(self.votes * bound.of_classes)
        return BoundPoint(q, bound, float(value) - q.divergence)  # [C] (21)

    def maximise(self, engine) -> tuple[Status, tuple[float, ...]]:
        path, history, change = _PrecisionPath(engine.damping), [], np.inf
        for sweep in range(1, engine.max_iter + 1):
            gap, move = self.settle_mean(engine.tol)
            if not path.accepts(self.at):
                if sweep == engine.max_iter or path.rejected == MAX_HALVINGS:
                    self.at = path.last
                    break
                self.at = self.moved(*path.step_back())
                continue
            history.append(self.at.value)
            change = max(gap, move)
            require_finite(engine, change, self.at.q.prior_cov)
            if stands_still(self.at.q, change, engine.tol):
                break
            if sweep < engine.max_iter:
                self.at = self.moved(*path.advance(self.at, self.precision, change))
        return ending(self.at.q, sweep, change, engine.tol), tuple(history)

    def moved(self, last: BoundPoint, precision: np.ndarray) -> BoundPoint:
        """Return the point with the same mean and new precisions."""
        q = DenseCoupledPosterior(last.q.K, precision_root(precision), last.q.alpha, mean=last.q.mean)
        return self.point(q, last.bound.log_b)

    def settle_mean(self, tol: float) -> tuple[float, float]:
        """Take Newton steps of the mean at fixed V; return its remaining distance and the next move of W."""
        for _ in range(SETTLE_STEPS + 1):
            slope = self.slope(self.at)
            chord = self.at.q.system.solve(slope)
            gap, move = float(np.sqrt(abs(np.sum(slope * chord[1])))), precision_move(self.at.q, self.precision)
            if gap < max(0.1 * tol, MEAN_TOL * move) or gap <= self.at.q.rounding:
                break
            if not self.take(*self.newton_step(slope, chord), slope):
                break
        return gap, move

    def take(self, alpha: np.ndarray, mean: np.ndarray, slope: np.ndarray) -> bool:
        """Take a step of the mean, shortened while it overshoots; return False if it does not lead uphill."""
        bound = self.at.bound
        turn = np.einsum("icd,id->ic", bound.curvature, mean) / np.maximum(bound.b, 1e-300)  # first order of log b

        def look(length):
            start = bound.log_b + np.clip(length * turn, -1.0, 1.0)
            trial = self.point(self.at.q.shifted(length * alpha, length * mean), start)
            return float(np.sum(self.slope(trial) * mean)), trial

        length, trial = uphill(look, float(np.sum(slope * mean)))
        if length:
            self.at = trial
        return length > 0

    def slope(self, at: BoundPoint) -> np.ndarray:
        """Return the slope (n, C) of log Z_h in the mean. [C] (26), with b = ḡ"""
        return self.votes - self.count * at.bound.b - at.q.alpha

    def newton_step(self, slope, chord) -> tuple[np.ndarray, np.ndarray]:
        """Return (δα, Kδα) with (K⁻¹ + N) Kδα = slope, by conjugate gradients.

        N is the bound's curvature. The preconditioner is V = (K⁻¹ + W)⁻¹, W ⪰ N; `chord` is its solution.
        """
        q, N = self.at.q, self.count[:, :, None] * self.at.bound.curvature
        step, left = conjugate_gradients(
            slope,
            lambda pair: pair[0] + np.einsum("icd,id->ic", N, pair[1]),
            lambda missing: np.stack(q.system.solve(missing)),
            CONJUGATE_TOL,
            CONJUGATE_STEPS,
            np.stack(chord),
            lambda missing, pair: float(np.sum(missing * pair[1])),
        )
        # α of equal rows can diverge in opposite directions while the mean, and so this iteration, does not change: a last
        # chord step of length one removes the remaining `slope` in such directions
        return step[0] + left[0], step[1] + left[1]

    @property
    def precision(self) -> np.ndarray:
        """(n, C, C) new W."""
        return self.count[:, :, None] * self.at.bound.precision


class _PrecisionPath:
    """Chooses the next W: far from convergence a damped step to the bound's W, near it a mix of past sweeps."""

    def __init__(self, damping: float):
        self.steps = MixedSteps(damping)  # from W to the new W of the bound
        self.rejected = 0
        self.last: Any = None
        self.best = -np.inf  # largest log Z_h so far

    def accepts(self, at: BoundPoint) -> bool:
        if at.value < self.best - 1e-11 * (1 + abs(at.value)) - at.q.rounding:
            return False
        self.best = max(self.best, at.value)
        return True

    def step_back(self) -> tuple[BoundPoint, np.ndarray]:
        """Return a shorter step from the last point towards its new W: uphill if short enough."""
        steps, mixed = self.steps, len(self.steps.seen) > 1
        steps.seen = steps.seen[-1:]
        self.rejected += 1
        if not mixed or self.rejected > 1:
            steps.part *= 0.5
        W, wanted = steps.seen[0]
        return self.last, W + steps.part * (wanted - W)

    def advance(self, at: BoundPoint, wanted: np.ndarray, change: float) -> tuple[BoundPoint, np.ndarray]:
        self.last, self.rejected = at, 0
        self.steps.record(at.q.precision, wanted, change)
        return at, self._mixed(at)

    def _mixed(self, at):
        points, goals = np.moveaxis(np.array(self.steps.seen), 1, 0)
        residuals = goals - points
        plain = points[-1] + self.steps.part * residuals[-1]
        if len(points) < 2:
            return plain
        # changes of W approximately in units of the posterior
        width = np.sqrt(np.einsum("icc->ic", at.q.contrast_cov))
        mixed = anderson(points, residuals, self.steps.part, residuals * width[:, :, None] * width[:, None, :])
        # a datum whose precision the extrapolation would change by a large factor keeps its plain step
        return np.where(is_moderate(mixed, plain), mixed, plain)
