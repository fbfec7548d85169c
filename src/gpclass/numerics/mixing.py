"""Anderson mixing: acceleration of a fixed-point iteration x ← x + r(x) from its last steps.

[WN] Walker & Ni 2011, Anderson acceleration for fixed-point iterations.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg.lapack import dgelsd, dgelsd_lwork

SMALLEST_EIGENVALUE = 1e-13  # of the normalised Gram matrix; smaller ones mean that changes of residuals are dependent


def anderson(
    points: np.ndarray, residuals: np.ndarray, part: float = 1.0, measured: np.ndarray | None = None
) -> np.ndarray:
    """Return the next point: the combination of past points with the smallest residual, plus `part` of that residual.

    For a linear iteration in d dimensions the result is exact after d + 1 steps. With one point it is the damped step.

    Parameters
    ----------
    points, residuals : ndarray of shape (k, ...)
        The last k points, oldest first, and the step r(x) of the iteration at each.
    part : float, default=1.0
        Fraction of the remaining residual that is taken; 1 is undamped.
    measured : ndarray of shape (k, ...), optional
        The residuals in the units of the least-squares fit. By default `residuals`.

    Returns
    -------
    ndarray
        The next point, of the shape of one point.
    """
    if len(points) < 2:
        return points[-1] + part * residuals[-1]
    measured = np.reshape(residuals if measured is None else measured, (len(points), -1))
    return mixed_point(points, residuals, part, NormalEquations.of_residuals(measured).weights())


def mixed_point(points: np.ndarray, residuals: np.ndarray, part: float, mix: np.ndarray) -> np.ndarray:
    """Return the next point for given weights `mix` (k - 1,) of the last changes of residuals. [WN] (2.2)"""
    moves = np.diff(points, axis=0) + part * np.diff(residuals, axis=0)
    return points[-1] + part * residuals[-1] - np.tensordot(mix, moves, axes=1)


@dataclass(frozen=True)
class NormalEquations:
    """Normal equations of least squares: the weights of some vectors whose weighted sum is nearest to a goal.

    Only inner products are stored, since the vectors may have millions of entries. The equations of all entries are the sum
    of the equations of parts of them.
    """

    squares: np.ndarray  # (k,) squared lengths of the vectors
    gram: np.ndarray  # (k, k) inner products of the vectors
    goal: np.ndarray  # (k,) inner products with the goal

    @staticmethod
    def of(rows: np.ndarray, goal: np.ndarray) -> NormalEquations:
        """Return the equations for vectors (k, n) and a goal (n,)."""
        return NormalEquations(np.einsum("ki,ki->k", rows, rows), rows @ rows.T, rows @ goal)

    @staticmethod
    def of_residuals(measured: np.ndarray) -> NormalEquations:
        """Return the equations of Anderson mixing: changes of the residuals (k + 1, n), and the last residual as goal."""
        return NormalEquations.of(np.diff(measured, axis=0), measured[-1])

    def __add__(self, other: NormalEquations) -> NormalEquations:
        return NormalEquations(self.squares + other.squares, self.gram + other.gram, self.goal + other.goal)

    def weights(self) -> np.ndarray:
        """Return the weights (k,).

        Vectors are normalised first: near convergence each change of residuals is smaller than the previous one by orders
        of magnitude, and the last ones are the most important.
        """
        sizes = np.sqrt(self.squares)
        scale = 1 / np.where(sizes > 0, sizes, 1.0)
        return scale * _least_squares(scale[:, None] * self.gram * scale, scale * self.goal)


def _least_squares(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the result of `scipy.linalg.lstsq`, without its checks, which take longer than solving a few equations."""
    if not (np.isfinite(A).all() and np.isfinite(b).all()):
        raise ValueError("changes of residuals are not finite")
    x, _, _, info = dgelsd(A, b, *_work(len(A)), SMALLEST_EIGENVALUE)
    if info:
        raise LinAlgError("the singular values of changes of residuals do not converge")
    return x


@lru_cache
def _work(n: int) -> tuple[int, int]:
    """Return the sizes of the work arrays of `dgelsd` for n unknowns."""
    size, integers, _ = dgelsd_lwork(n, n, 1, SMALLEST_EIGENVALUE)
    return int(size), int(integers)


def within_reach(
    mixed: np.ndarray,
    point: np.ndarray,
    residual: np.ndarray,
    unit: np.ndarray | float,
    slack: float,
    most: float = np.inf,
    largest: float | None = None,
) -> np.ndarray:
    """Return `mixed`, clipped to within a few steps of the iteration around `point`, because extrapolation is unreliable.

    A coordinate with step r may move by the smaller of 4 |r| and |r| + `most`, plus the fraction `slack` of the largest
    step of any coordinate. `unit` makes the coordinates comparable. `largest` is the largest step in these units; it must be
    given if the arrays contain only some of the coordinates.
    """
    own = np.abs(residual)
    largest = np.max(unit * own, initial=0.0) if largest is None else largest
    reach = np.minimum(4 * own, own + most) + slack * largest / unit
    return np.clip(mixed, point - reach, point + reach)
