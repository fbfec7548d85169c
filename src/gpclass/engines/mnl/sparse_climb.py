"""Maximisation of log Z̃_h over Gaussians on inducing variables: mean and covariance move together; see `sparse`.

[C] Chai 2012, sections 4 and 6.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ...gaussian import SMALLER, InducingPosterior
from ...likelihoods.mnl_bound import BoundOptimum
from ...numerics import NotPositiveDefinite, anderson, conjugate_gradients
from ..iterate import MAX_ROUNDING, Status, require_finite
from ..observations import Data

LINEAR_REGIME = 2.0  # below this move sweeps are assumed nearly linear and are mixed
MEAN_TOL = 0.2  # tolerance of a mean updated alone, as a fraction of the covariance's move
SETTLE_STEPS = 4  # such steps before a new covariance is rejected
MIXED_SWEEPS = 6  # number of past sweeps that are mixed
SHORTEST_STEP = 2.0**-40  # shortest step of a line search
ARMIJO = 1e-4  # smallest ratio of the actual to the predicted increase
CONJUGATE_STEPS, CONJUGATE_TOL = 30, 1e-6  # conjugate gradients for one Newton step
EPS = np.finfo(float).eps


@dataclass(frozen=True)
class SparseBoundPoint:
    """A Gaussian, the bound there, and its next steps."""

    q: InducingPosterior
    bound: BoundOptimum
    value: float  # log Z̃_h
    slope: np.ndarray  # (s,) its gradient in a
    wanted: np.ndarray  # (s, s) ΦᵀWΦ with the bound's W times weights, the target of M
    curvature: np.ndarray  # (n, C, C) of the bound in the means, times weights

    @property
    def gap(self) -> float:
        """Distance of the mean, in standard deviations."""
        return float(np.sqrt(self.slope @ self.q.times_A(self.slope)))

    @cached_property
    def move(self) -> float:
        """Distance of the covariance: log Z̃_h initially increases at the rate gap² + move² along the step."""
        return float(np.linalg.norm(self.q.in_units(self.wanted - self.q.M))) / np.sqrt(2)

    @property
    def change(self) -> float:
        return float(np.hypot(self.gap, self.move))

    @property
    def noise(self) -> float:
        """Effect of rounding on log Z̃_h, in the sums and in the means."""
        q = self.q
        reach = np.sqrt(np.max(q.prior.prior_cov)) * np.linalg.norm(q.a)
        return 4 * EPS * (abs(self.value) + q.divergence + len(q.mean) * (1 + reach))

    @property
    def rounding(self) -> float:
        """Effect of rounding on q, in standard deviations: eps × condition of I + M."""
        return 8 * EPS * (1 + float(np.trace(self.q.M)))


class SparseBoundClimb:
    """Maximises log Z̃_h, starting from a Gaussian."""

    def __init__(self, data: Data, likelihood: Any, q: InducingPosterior, log_b: np.ndarray | None):
        self.y, self.likelihood = data.y, likelihood
        self.weight = np.broadcast_to(data.weight, len(data.y))
        self.own = np.eye(likelihood.n_classes)[data.y]
        bound, value = self.look(q, log_b)
        self.at = self.point(q, bound, value)
        self.history = [value]  # log Z̃_h after each sweep; it never decreases

    def look(self, q: InducingPosterior, log_b: np.ndarray | None) -> tuple[BoundOptimum, float]:
        bound = self.likelihood.expected_log_prob_bound(q.mean, q.cov, log_b)
        return bound, float(self.weight @ bound.of_class(self.y)) - q.divergence  # [C] (32)

    def point(self, q: InducingPosterior, bound: BoundOptimum, value: float) -> SparseBoundPoint:
        W, root = weighted_precision(bound, self.weight)
        return SparseBoundPoint(q, bound, value, self.slope(q, bound), q.prior.gram(W, root), self.curvature(bound))

    def slope(self, q: InducingPosterior, bound: BoundOptimum) -> np.ndarray:
        return q.prior.transposed(self.weight[:, None] * (self.own - bound.b)) - q.a  # [C] section 4.2, with b = ḡ

    def curvature(self, bound: BoundOptimum) -> np.ndarray:
        return self.weight[:, None, None] * bound.curvature

    def maximise(self, engine: Any) -> Status:
        path = Proposals(engine.damping)
        for sweep in range(1, engine.max_iter + 1):
            change = self.at.change
            require_finite(engine, change, self.at.q.prior.prior_cov)
            if change < engine.tol or change <= self.at.rounding:
                return Status(True, sweep, change)
            if sweep < engine.max_iter and not self.advance(path):
                return _stuck(sweep, change)
        return Status(False, sweep, change)

    def advance(self, path: Proposals) -> bool:
        """Move to the first proposal that does not decrease the bound; return False if there is none."""
        for q, promise in path.proposals(self.at):
            needed = self.at.value + promise - self.at.noise
            q, bound, value = self.settled(q, needed)
            if value >= needed:
                self.at = self.point(q, bound, value)
                self.history.append(value)
                return True
        return False

    def settled(self, q: InducingPosterior, needed: float) -> tuple[InducingPosterior, BoundOptimum, float]:
        """Update the mean for a new covariance: Newton steps until the bound reaches `needed`."""
        bound, value = self.look(q, self.at.bound.log_b)
        for _ in range(SETTLE_STEPS):
            if value >= needed or q.M is self.at.q.M:
                break
            slope = self.slope(q, bound)
            step = mean_step(q, self.curvature(bound), slope)
            next_q = q.shifted(step)
            next_bound, next_value = self.look(next_q, bound.log_b)
            if not next_value > value + ARMIJO * float(slope @ step):
                break
            q, bound, value = next_q, next_bound, next_value
        return q, bound, value


def weighted_precision(bound: BoundOptimum, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return W (n, C, C) times weights, and its root."""
    return weight[:, None, None] * bound.precision, np.sqrt(weight)[:, None, None] * bound.root


def _stuck(sweep: int, change: float) -> Status:
    """Return the status if no step increases the bound: converged if the last change is below MAX_ROUNDING."""
    advice = f"Rounding hides any further increase of the bound: {SMALLER}, or raise jitter."
    return Status(change < MAX_ROUNDING, sweep, change, message="no step uphill is left", advice=advice)


class Proposals:
    """Proposes steps from a point, the longest first.

    Mean and covariance move together, near convergence mixed with past sweeps. If the mean then lags behind, as under large
    prior variances, it first converges alone: log Z̃_h is concave in it.
    """

    def __init__(self, damping: float):
        self.part = damping
        self.seen: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []  # a, M, and their steps
        self.gap = np.inf  # of the last step
        self.lagging = False

    def proposals(self, at: SparseBoundPoint) -> Iterator[tuple[InducingPosterior, float]]:
        """Yield Gaussians and the increase of the bound that each must reach."""
        step = mean_step(at.q, at.curvature, at.slope)
        self.lagging = at.gap > (MEAN_TOL * at.move if self.lagging else max(at.move, 0.5 * self.gap))
        self.gap = at.gap
        if self.lagging:
            yield from ((at.q.shifted(share * step), ARMIJO * share * at.gap**2) for share in 4.0 ** -np.arange(8))
        yield from self._together(at, step)

    def _together(self, at, step):
        q, dM = at.q, at.wanted - at.q.M
        if at.change > LINEAR_REGIME:
            self.seen.clear()
        self.seen = [*self.seen, (q.a, q.M, step, dM)][-MIXED_SWEEPS - 1 :]
        if len(self.seen) > 1:
            with suppress(NotPositiveDefinite):  # the extrapolation went too far
                yield InducingPosterior(q.prior, *self._mixed(q)), 0.0
            self.seen = self.seen[-1:]  # the mixed step was rejected
        yield InducingPosterior(q.prior, q.a + self.part * step, q.M + self.part * dM), ARMIJO * at.change**2
        share = self.part
        while share > SHORTEST_STEP:
            moved = InducingPosterior(q.prior, q.a, q.M + share * dM)
            yield moved.shifted(share * moved.times_A(at.slope)), ARMIJO * share * at.change**2
            share *= 0.5

    def _mixed(self, q):
        """Return a and M after mixing; moves are measured in standard deviations."""
        points = np.stack([_joined(a, M) for a, M, _, _ in self.seen])
        residuals = np.stack([_joined(step, dM) for _, _, step, dM in self.seen])
        moves = np.stack([_joined(q.length(step), q.in_units(dM) / np.sqrt(2)) for _, _, step, dM in self.seen])
        mixed = anderson(points, residuals, self.part, moves)
        return mixed[: len(q.a)], mixed[len(q.a) :].reshape(q.M.shape)


def _joined(vector: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    return np.concatenate([vector, matrix.ravel()])


def mean_step(q: InducingPosterior, curvature: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """Return Newton's step of a, by conjugate gradients with preconditioner A, since ΦᵀWΦ is above the curvature ΦᵀNΦ."""

    def product(x):
        return x + q.prior.transposed(np.einsum("icd,id->ic", curvature, q.prior.times(x)))

    return conjugate_gradients(slope, product, q.times_A, CONJUGATE_TOL, CONJUGATE_STEPS)[0]
