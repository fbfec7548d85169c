"""Line search, shared by all engines that maximise an objective."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

SHORTEST = 1e-12  # fraction of a step; a shorter step is lost in rounding

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
    while length > SHORTEST:
        left, found = look(length)
        if -0.5 * along <= left <= growth * along:
            return length, found
        length *= np.clip(along / (along - left), 0.1, 0.7) if np.isfinite(left) else 0.1
    return 0.0, found
