"""Starting points that suit the scale of the data, for the default kernel and for restarts."""

from __future__ import annotations

import numpy as np
import scipy

from .objective import Objective

ENOUGH = 1000  # maximum number of rows for distances between rows
SHORT, LONG = 0.5, 4.0  # range of starts: shortest in distances between neighbours, longest in typical distances
PLENTY = 100_000  # maximum number of rows, up to a factor of two, for the columns' standard deviations


def typical_distance(X: np.ndarray, rng: np.random.Generator) -> float:
    """Return the median distance between rows, or 1 if all rows are equal. Large X are subsampled with `rng`."""
    if len(X) > ENOUGH:
        X = X[np.sort(rng.choice(len(X), ENOUGH, replace=False))]
    distances, scale = _distances(X)
    distances = distances[distances > 0]
    return scale * float(np.median(distances)) if len(distances) else 1.0


def lengthscale_span(X: np.ndarray) -> tuple[float, float]:
    """Return the shortest and the longest lengthscale that a search should try.

    The shortest is half the median distance from a row to the nearest row that differs from it. The longest is four times
    the median distance between rows. Of many rows, 1000 are used.
    """
    distances, scale = _distances(X[:: 1 + (len(X) - 1) // ENOUGH])
    apart = distances[distances > 0]
    if not len(apart):
        return 1.0, 1.0
    square = scipy.spatial.distance.squareform(distances)
    nearest = np.min(np.where(square > 0, square, np.inf), axis=1)
    return scale * SHORT * float(np.median(nearest)), scale * LONG * float(np.median(apart))


def _distances(X: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the distances between all pairs of rows in units of a scale, and the scale."""
    X = np.asarray(X, float)
    scale = float(np.max(np.abs(X), initial=0.0)) or 1.0  # avoids overflow and underflow of squares
    return scipy.spatial.distance.pdist(X / scale), scale


def column_spread(X: np.ndarray) -> np.ndarray:
    """Return the standard deviation of each column, without overflow or underflow."""
    X = np.asarray(X[:: 1 + len(X) // PLENTY], float)
    scale = np.max(np.abs(X), axis=0, initial=0.0)
    scale[scale == 0] = 1.0
    return scale * np.std(X / scale, axis=0)


def random_start(objective: Objective, distance: float, spread: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw a starting point from ranges that suit the data.

    Lengthscales are between the ends of `lengthscale_span` (for one lengthscale per column, this range is relative to the
    typical distance in the column), variances between 0.3 and 100, and other parameters within a factor of four of their
    current values.

    Parameters
    ----------
    objective : Objective
        The problem, with its current parameters and bounds.
    distance : float
        Typical distance between rows.
    spread : ndarray of shape (D,)
        Standard deviation of each column.
    rng : numpy.random.Generator
        Random numbers.

    Returns
    -------
    ndarray of shape (p,)
    """
    theta = objective.theta.copy()
    span = np.log(np.array(lengthscale_span(objective.X)) / distance)
    free = len(objective.kernel.theta)
    for i, name in enumerate(objective.names):
        draw = rng.uniform(-1, 1)
        if i >= free:
            theta[i] += draw  # likelihood parameters are not logs
        elif "lengthscale" in name:
            theta[i] = np.log(_unit(name, distance, spread)) + np.mean(span) + 0.5 * (span[1] - span[0]) * draw
        elif name.endswith("variance"):
            theta[i] = rng.uniform(np.log(0.3), np.log(100))
        else:
            theta[i] += np.log(4) * draw
    return np.clip(theta, objective.bounds[:, 0], objective.bounds[:, 1])


def _unit(name: str, distance: float, spread: np.ndarray) -> float:
    if "[" not in name:
        return distance
    column = int(name.split("[")[1].rstrip("]"))
    # squared distances add up over columns, so the lengthscale of a column is larger than its spread
    return float(spread[column] or 1.0) * np.sqrt(2 * len(spread))
