"""Minor steps of learning with an active set: quasi-Newton steps in θ with the active rows fixed.

[SLH] Seeger, Lawrence & Herbrich, sections 3.3 and 6.1.1, appendix C.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..sparse import ActiveFit
from .active_evidence import ActiveRows, held_sum
from .curvature import updated_curvature
from .history import Search, Step
from .objective import FAILURES, Evaluation, Objective

MAX_DISTANCE = 5.0  # largest distance of minor steps from their major step, in the log of each parameter
FLAT_SLOPE = 1e-2  # largest gradient entry below which minor steps end
ARMIJO = 1e-4  # smallest accepted increase, relative to the linear prediction
LINE_EVALUATIONS = 8  # evaluations of a line search


@dataclass
class _FixedRows:
    """The objective with a fixed active set, over the rows that were candidates until the end of the selection."""

    objective: Objective
    rows: ActiveRows
    fit: ActiveFit  # with the current sites
    exact: bool  # whether the sites are recomputed at each evaluation

    def settle(self, theta: np.ndarray) -> None:
        """Recompute the sites at θ."""
        self.fit = self.rows.repeat(self.objective, theta, self.fit)

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        if self.exact:
            self.settle(theta)

        def evidence(at):
            return self.rows.evidence(self.objective, theta, self.fit, at, counted=True)

        return held_sum(self.objective, theta, self.fit, evidence)


def minor_steps(objective: Objective, rows: ActiveRows, major: Evaluation, number: int, search: Search) -> np.ndarray:
    """Take minor steps: quasi-Newton steps from a major step, with its active set."""
    engine = objective.engine
    assert isinstance(major.fit, ActiveFit), "the engine is an IVM"
    fixed = _FixedRows(objective, rows, major.fit, engine.strategy == "exact")
    low, high = (np.clip(major.theta + side * MAX_DISTANCE, *objective.bounds.T) for side in (-1, 1))
    theta, H = major.theta, None
    value, gradient = fixed(theta)
    for iteration in range(1, engine.minor + 1):
        if engine.strategy == "hybrid" and iteration > 1:
            fixed.settle(theta)
            value, gradient = fixed(theta)
        direction = _direction(gradient, H, theta, low, high)
        if np.max(np.abs(direction), initial=0.0) == 0 or np.max(np.abs(gradient)) < FLAT_SLOPE:
            break
        found = _line_search(fixed, theta, value, gradient, direction, low, high)
        if found is None:
            break
        new, value, new_gradient = found
        H = updated_curvature(H, new - theta, gradient - new_gradient)
        theta, gradient = new, new_gradient
        used, n = rows.counted(objective, fixed.fit)
        over = "" if used == n else f"over {used} of {n} rows"
        search.history.append(Step(number, iteration, theta.copy(), value, np.nan, 0, over))
    return theta


def _direction(gradient, H, theta, low, high):
    """Return an ascent direction from the curvature estimate, without components that leave the box."""
    free = ~(((theta <= low) & (gradient < 0)) | ((theta >= high) & (gradient > 0)))
    slope = np.where(free, gradient, 0.0)
    direction = np.where(free, H @ slope, 0.0) if H is not None else slope / max(1.0, float(np.linalg.norm(slope)))
    return direction if direction @ slope > 0 else slope / max(1.0, float(np.linalg.norm(slope)))


def _line_search(fixed, theta, value, gradient, direction, low, high):
    """Return a point that satisfies the Armijo condition, with its value and gradient; None if none is found."""
    step = 1.0
    for _ in range(LINE_EVALUATIONS):
        new = np.clip(theta + step * direction, low, high)
        promise = gradient @ (new - theta)
        try:
            there, slope = fixed(new)
        except FAILURES:
            there, slope = -np.inf, gradient
        if there >= value + ARMIJO * promise and promise > 0:
            return new, there, slope
        # the maximum of the parabola through the value and slope here and the value at the new point
        fall = value + promise - there
        step *= float(np.clip(0.5 * promise / fall, 0.1, 0.5)) if np.isfinite(fall) and fall > 0 else 0.25
    return None
