"""Iterative refinement of the solution of a linear system."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

SMALL = 1e-9  # residual, relative to the right side, that needs no refinement


def refined(
    right: np.ndarray,
    solve: Callable[[np.ndarray], np.ndarray],
    check: Callable[[np.ndarray], tuple[np.ndarray, Any]],
    most: int = 6,
) -> tuple[np.ndarray, Any]:
    """Return x with A x = right, as accurately as refinement can see, and what `check` found beside its residual.

    The answer is corrected by the solution for its own residual, until the residual is small or a correction does not halve
    it. The best answer is returned.

    Parameters
    ----------
    right : ndarray
        The right side.
    solve : callable
        right → x, with the rounding of a factorisation.
    check : callable
        x → (right - A x, anything), with less rounding.
    most : int
        Largest number of corrections.
    """

    def checked(x):
        residual, found = check(x)
        size = float(np.max(np.abs(residual), initial=0.0))
        return size if np.isfinite(size) else np.inf, x, residual, found

    best = checked(solve(right))
    enough = SMALL * float(np.max(np.abs(right), initial=0.0))
    for _ in range(most):
        size, x, residual, _ = best
        if size <= enough:
            break
        trial = checked(x + solve(residual))
        if trial[0] < size:
            best = trial
        if not trial[0] < 0.5 * size:
            break
    return best[1], best[3]
