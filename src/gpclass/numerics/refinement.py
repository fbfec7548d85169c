"""Iterative refinement of the solution of a linear system."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError

SMALL_RESIDUAL = 1e-9  # relative to the right-hand side; needs no further refinement
SMALL_RESIDUAL_SINGLE = 1e-6  # the same for solutions by float32 factors
LARGEST_RESIDUAL_SINGLE = 1e-4  # with float32 factors, larger residuals raise an error: eps × condition is not small


def refined(
    right: np.ndarray,
    solve: Callable[[np.ndarray], np.ndarray],
    check: Callable[[np.ndarray], tuple[np.ndarray, Any]],
    most: int = 6,
    dtype: Any = np.float64,
) -> tuple[np.ndarray, Any]:
    """Return a solution x of A x = right, improved by iterative refinement, and the second result of `check` at x.

    Each correction is the solution for the current residual. The iteration stops when the residual is small or a correction
    does not halve it. The x with the smallest residual is returned.

    Parameters
    ----------
    right : ndarray
        The right-hand side.
    solve : callable
        Maps a right-hand side to x, with the rounding error of a factorisation.
    check : callable
        Maps x to (right - A x, any object), with less rounding error.
    most : int, default=6
        Maximum number of corrections.
    dtype : dtype, default=float64
        The dtype of the factorisation.

    Returns
    -------
    x : ndarray
        The solution.
    found : object
        The second result of `check` at x.

    Raises
    ------
    LinAlgError
        If the factorisation is in float32 and the residual stays large.
    """
    single = dtype == np.float32

    def checked(x):
        residual, found = check(x)
        size = float(np.abs(residual).max(initial=0.0))
        return size if math.isfinite(size) else math.inf, x, residual, found

    best = checked(solve(right))
    largest = float(np.abs(right).max(initial=0.0))
    enough = (SMALL_RESIDUAL_SINGLE if single else SMALL_RESIDUAL) * largest
    for _ in range(most):
        size, x, residual, _ = best
        if size <= enough:
            break
        trial = checked(x + solve(residual))
        if trial[0] < size:
            best = trial
        if not trial[0] < 0.5 * size:
            break
    if single and best[0] > LARGEST_RESIDUAL_SINGLE * largest:
        raise LinAlgError(f"a float32 factor solves a linear system only to a residual of {best[0] / largest:.0e}")
    return best[1], best[3]
