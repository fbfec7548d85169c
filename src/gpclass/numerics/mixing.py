"""Anderson mixing: a fixed-point iteration x ← x + r(x) that learns from its last steps.

[WN] Walker & Ni 2011, Anderson acceleration for fixed-point iterations.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lstsq

DEPENDENT = 1e-13  # eigenvalues of the normalised Gram matrix below which changes of residuals count as dependent


def anderson(
    points: np.ndarray, residuals: np.ndarray, part: float = 1.0, measured: np.ndarray | None = None
) -> np.ndarray:
    """Return the next point: the combination of past points whose residuals cancel best, plus part of what is left.

    Exact after d + 1 steps of a linear iteration in d dimensions. With a single point it is the plain damped step.

    Parameters
    ----------
    points, residuals : ndarray of shape (k, ...)
        The last k points, oldest first, and the steps r(x) that the iteration wanted to take from each.
    part : float
        Part of the remaining residual that is taken; 1 is undamped.
    measured : ndarray of shape (k, ...), optional
        The residuals in the units that the least-squares fit uses. Default: as they are.
    """
    plain = points[-1] + part * residuals[-1]
    if len(points) < 2:
        return plain
    measured = np.reshape(residuals if measured is None else measured, (len(points), -1))
    mix = least_squares(np.diff(measured, axis=0), measured[-1])  # [WN] (2.2)
    moves = np.diff(points, axis=0) + part * np.diff(residuals, axis=0)
    return plain - np.tensordot(mix, moves, axes=1)


def least_squares(rows: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """Return the weights (k,) of the rows (k, n) whose sum is nearest to `goal`.

    By normal equations, since n may be millions. Rows are normalised first: near the end each change of residuals is smaller
    than the one before by orders of magnitude, and the last ones count.
    """
    sizes = np.sqrt(np.einsum("ki,ki->k", rows, rows))
    scale = 1 / np.where(sizes > 0, sizes, 1.0)
    gram = scale[:, None] * (rows @ rows.T) * scale
    return scale * lstsq(gram, scale * (rows @ goal), cond=DEPENDENT)[0]


def within_reach(
    mixed: np.ndarray, point: np.ndarray, residual: np.ndarray, unit: np.ndarray | float, slack: float, most: float = np.inf
) -> np.ndarray:
    """Return `mixed` no further from `point` than a few of the iteration's own steps: an extrapolation is a guess.

    Each coordinate may move by four times its own step, `most` more than its own step, and in any case by the part `slack`
    of the largest step of any coordinate, where `unit` makes the coordinates comparable.
    """
    own = np.abs(residual)
    reach = np.minimum(4 * own, own + most) + slack * np.max(unit * own, initial=0.0) / unit
    return np.clip(mixed, point - reach, point + reach)
