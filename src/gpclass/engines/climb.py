"""The line search of every engine that climbs an objective: how much of a step uphill to take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

SHORTEST = 1e-12  # part of a step; a shorter one is lost in rounding

Look = Callable[[float], tuple[float, Any]]


def uphill(look: Look, along: float, negligible: float = 0.0, growth: float = 1.0) -> tuple[float, Any]:
    """Take a step if it leads uphill, shortened while it overshoots; see `step_length` for parameters and returns.

    A slope of at most `negligible` is rounding: there is nothing to overshoot, and the whole step is taken. A step that
    leads downhill is not taken; then nothing was found.
    """
    if abs(along) <= negligible:
        return 1.0, look(1.0)[1]
    return step_length(look, along, growth) if along > 0 else (0.0, None)


def step_length(look: Look, along: float, growth: float = 1.0) -> tuple[float, Any]:
    """Return how much of an uphill step to take: the slope along it may change sign, but to at most half its size.

    Slopes are compared, not values of the objective: near the top a value changes by the square of the move, and under
    priors of large scale rounding hides that long before the slope loses its sign.

    Parameters
    ----------
    look : callable
        From a length to the slope along the step at that length, and anything else that was found there.
    along : float
        The slope where the step begins; positive.
    growth : float
        Factor by which the slope may grow. More than 1 where the objective is not concave along the step, as in
        class-independent EP: there the slope may grow at first, however short the step is.

    Returns
    -------
    length : float
        0 if no length is acceptable.
    found : object
        What `look` found at the last length that was tried.
    """
    length = 1.0
    while length > SHORTEST:
        left, found = look(length)
        if -0.5 * along <= left <= growth * along:
            return length, found
        length *= np.clip(along / (along - left), 0.1, 0.7) if np.isfinite(left) else 0.1
    return 0.0, found
