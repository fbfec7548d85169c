"""Iterative refinement of the solution of a linear system."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError

SMALL = 1e-9  # residual, relative to the right-hand side, that needs no refinement
SMALL_SINGLE = 1e-6  # the same for solutions by factors of float32
COARSE_SINGLE = 1e-4  # largest residual of such solutions; it is not met if eps × condition is not small


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
        right → x, with the rounding error of a factorisation.
    check : callable
        x → (right - A x, anything), with less rounding error.
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
        If the factorisation is of float32 and the residual stays large.
    """
    single = dtype == np.float32

    def checked(x):
        residual, found = check(x)
        size = float(np.abs(residual).max(initial=0.0))
        return size if math.isfinite(size) else math.inf, x, residual, found

    best = checked(solve(right))
    largest = float(np.abs(right).max(initial=0.0))
    enough = (SMALL_SINGLE if single else SMALL) * largest
    for _ in range(most):
        size, x, residual, _ = best
        if size <= enough:
            break
        trial = checked(x + solve(residual))
        if trial[0] < size:
            best = trial
        if not trial[0] < 0.5 * size:
            break
    if single and best[0] > COARSE_SINGLE * largest:
        raise LinAlgError(f"a factor of float32 solves a linear system only to a residual of {best[0] / largest:.0e}")
    return best[1], best[3]
