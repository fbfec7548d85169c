"""Lengths of steps, shared by the engines: line searches, and damped and mixed steps of fixed-point iterations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

SHORTEST_STEP = 1e-12  # fraction of a step; a shorter step is lost in rounding
LINEAR_REGIME = 0.5  # below this move sweeps are assumed nearly linear and are mixed
MIXED_SWEEPS = 4  # number of past sweeps that are mixed
SLOW_RUN = 15  # sweeps after which a run is slow; ordinary problems need fewer
STALE_SWEEPS = 8  # sweeps without progress near convergence before damping starts
SMALLEST_PART = 0.05  # smallest fraction of a step under damping

Look = Callable[[float], tuple[float, Any]]


def uphill(look: Look, along: float, negligible: float = 0.0, growth: float = 1.0) -> tuple[float, Any]:
    """Return the fraction of an uphill step to take: the slope along it may change sign, but to at most half its size.

    Slopes are compared, not values of the objective. Near the maximum a value changes by the square of the move, and under
    priors of large scale rounding hides this long before the slope loses its sign.

    Parameters
    ----------
    look : callable
        Function of a length that returns the slope along the step there, and any other result.
    along : float
        The slope at the start of the step. If it is negative, no step is taken.
    negligible : float
        A slope of at most this size is rounding, and the full step is taken.
    growth : float
        Factor by which the slope may grow. More than 1 if the objective is not concave along the step, as in
        class-independent EP: there the slope may grow at first, even for very short steps.

    Returns
    -------
    length : float
        0 if no length is acceptable.
    found : object
        The second result of `look` at the last length tried; None if none was.
    """
    if abs(along) <= negligible:
        return 1.0, look(1.0)[1]
    if not along > 0:
        return 0.0, None
    length = 1.0
    while length > SHORTEST_STEP:
        left, found = look(length)
        if -0.5 * along <= left <= growth * along:
            return length, found
        length *= np.clip(along / (along - left), 0.1, 0.7) if np.isfinite(left) else 0.1
    return 0.0, found


class MixedSteps:
    """The fraction of each step of a fixed-point iteration, and the last steps, to mix near convergence.

    Growing moves cause damping: at once if far from convergence, and near it only if they do not decrease again soon. There
    a mixed sweep can move more than the one before, and the following sweeps correct that. Only if the smallest move so far
    is `STALE_SWEEPS` sweeps old is mixing alone not enough.

    Parameters
    ----------
    damping : float
        Largest fraction; 1 is undamped.
    memory : int
        Number of past sweeps to mix. 0 is for Newton steps, which have their own line search and are not damped.
    """

    def __init__(self, damping: float, memory: int = MIXED_SWEEPS):
        self.largest = self.part = damping  # `part` is the current fraction
        self.memory = memory
        self.change = self.least = np.inf  # the last move and the smallest so far
        self.sweeps = self.stale = 0  # sweeps so far, and sweeps since the smallest move
        self.seen: list[tuple[np.ndarray, np.ndarray]] = []  # a point, and where the iteration goes from there

    def record(self, point: np.ndarray, goal: np.ndarray, change: float) -> None:
        """Remember a sweep whose move is `change`, and choose the fraction of the next step."""
        self.sweeps += 1
        self.stale = 0 if change < self.least else self.stale + 1
        if self.memory and change > 1.5 * self.change and (change > LINEAR_REGIME or self.stale >= STALE_SWEEPS):
            self.shorten()
            self.largest = max(0.75 * self.largest, SMALLEST_PART)  # ends cycles
        else:
            self.part = min(1.3 * self.part, self.largest)
        self.change, self.least = change, min(self.least, change)
        if change > LINEAR_REGIME:
            self.seen.clear()
        depth = self.memory * (2 if self.sweeps > SLOW_RUN else 1)  # slow runs have more directions to learn
        self.seen = [*self.seen, (point, goal)][-depth - 1 :]

    def shorten(self) -> None:
        """Halve the fraction, after a step that failed."""
        self.part = max(0.5 * self.part, SMALLEST_PART)
