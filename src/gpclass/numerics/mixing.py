"""Anderson mixing: acceleration of a fixed-point iteration x ← x + r(x) from its last steps.

[WN] Walker & Ni 2011, Anderson acceleration for fixed-point iterations.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lstsq

DEPENDENT = 1e-13  # eigenvalues of the normalised Gram matrix below which changes of residuals are treated as dependent


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
    plain = points[-1] + part * residuals[-1]
    if len(points) < 2:
        return plain
    measured = np.reshape(residuals if measured is None else measured, (len(points), -1))
    mix = least_squares(np.diff(measured, axis=0), measured[-1])  # [WN] (2.2)
    moves = np.diff(points, axis=0) + part * np.diff(residuals, axis=0)
    return plain - np.tensordot(mix, moves, axes=1)


def least_squares(rows: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """Return the weights (k,) of the rows (k, n) whose sum is nearest to `goal`.

    Uses normal equations, since n may be millions. Rows are normalised first: near convergence each change of residuals is
    smaller than the previous one by orders of magnitude, and the last ones matter.
    """
    sizes = np.sqrt(np.einsum("ki,ki->k", rows, rows))
    scale = 1 / np.where(sizes > 0, sizes, 1.0)
    gram = scale[:, None] * (rows @ rows.T) * scale
    return scale * lstsq(gram, scale * (rows @ goal), cond=DEPENDENT)[0]


def within_reach(
    mixed: np.ndarray, point: np.ndarray, residual: np.ndarray, unit: np.ndarray | float, slack: float, most: float = np.inf
) -> np.ndarray:
    """Return `mixed`, clipped to within a few steps of the iteration around `point`, because extrapolation is unreliable.

    A coordinate with step r may move by the smaller of 4 |r| and |r| + `most`, plus the fraction `slack` of the largest
    step of any coordinate. `unit` makes the coordinates comparable.
    """
    own = np.abs(residual)
    reach = np.minimum(4 * own, own + most) + slack * np.max(unit * own, initial=0.0) / unit
    return np.clip(mixed, point - reach, point + reach)
