"""Scales of the columns of a table of inputs, and the typical distance between its rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy

DISTANCE_ROWS = 1000  # maximum number of rows for distances between rows
SHORTEST_LENGTHSCALE = 0.5  # of a search, in distances between neighbours
LONGEST_LENGTHSCALE = 4.0  # of a search, in typical distances between rows
MOMENT_ROWS = 100_000  # maximum number of rows, up to a factor of two, for centres and spreads
RANGE_ROWS = 10_000  # maximum number of rows, up to a factor of two, for the range of the middle rows
TAIL_FRACTION = 0.05  # of the rows, below the middle rows, and above them
OUTLIER_RANGES = 3.0  # values farther from the middle rows than this many times their range are outliers

Seen = Callable[[np.ndarray], np.ndarray]


class Units(NamedTuple):
    """Centre and spread of each column."""

    centre: np.ndarray  # (D,)
    spread: np.ndarray  # (D,) positive


def column_units(X: np.ndarray) -> Units:
    """Return the centre and the spread of each column: mean and standard deviation after clipping outliers.

    Outliers are values that exceed the range of the middle 90 % of the rows by more than three times this range. They are
    clipped, unless this range is zero. A constant column has spread 1. Nothing overflows or underflows.

    Parameters
    ----------
    X : ndarray of shape (n, D)
        Inputs. If there are 100,000 rows or more, every second (third, …) row is used.

    Returns
    -------
    Units
    """
    centre, spread = _moments(_some(X, MOMENT_ROWS), *_limits(_some(X, RANGE_ROWS)))
    return Units(centre, np.where(spread > 0, spread, 1.0))


def common_units(units: Units, X: np.ndarray) -> Units:
    """Return the same centres, with one spread for all columns: the root mean square of those that are not constant."""
    spread = column_spread(X)
    varying = spread[spread > 0]
    largest = np.max(varying, initial=0.0) or 1.0  # avoids overflow and underflow of squares
    common = largest * float(np.sqrt(np.mean((varying / largest) ** 2))) if len(varying) else 1.0
    return Units(units.centre, np.full_like(units.spread, common))


def column_spread(X: np.ndarray, seen: Seen | None = None) -> np.ndarray:
    """Return the spread of each column as in `column_units`, but 0 for constant columns.

    `seen` transforms rows before they are measured, such as `Kernel.seen`.
    """
    X = _some(X, MOMENT_ROWS)
    X = X if seen is None else seen(X)
    return _moments(X, *_limits(_some(X, RANGE_ROWS)))[1]


def compressed(U: np.ndarray, tail: float) -> np.ndarray:
    """Replace values with |u| > tail by ±tail (1 + log(|u| / tail)), in place, and return U. The slope is continuous."""
    if tail < np.inf:
        far = np.abs(U) > tail
        if far.any():
            u = U[far]
            U[far] = np.copysign(tail * (1 + np.log(np.abs(u) / tail)), u)
    return U


def typical_distance(X: np.ndarray, rng: np.random.Generator, seen: Seen | None = None) -> float:
    """Return the median distance between rows, or 1 if all rows are equal. Large X are subsampled with `rng`.

    `seen` transforms rows before they are measured, such as `Kernel.seen`.
    """
    if len(X) > DISTANCE_ROWS:
        X = X[np.sort(rng.choice(len(X), DISTANCE_ROWS, replace=False))]
    distances, scale = _distances(X, seen)
    distances = distances[distances > 0]
    return scale * float(np.median(distances)) if len(distances) else 1.0


def lengthscale_span(X: np.ndarray, seen: Seen | None = None) -> tuple[float, float]:
    """Return the shortest and the longest lengthscale that a search should try.

    The shortest is half the median distance from a row to the nearest row that differs from it. The longest is four times
    the median distance between rows. Of many rows, 1000 are used. `seen` transforms rows before they are measured.
    """
    distances, scale = _distances(X[:: 1 + (len(X) - 1) // DISTANCE_ROWS], seen)
    apart = distances[distances > 0]
    if not len(apart):
        return 1.0, 1.0
    square = scipy.spatial.distance.squareform(distances)
    nearest = np.min(np.where(square > 0, square, np.inf), axis=1)
    return scale * SHORTEST_LENGTHSCALE * float(np.median(nearest)), scale * LONGEST_LENGTHSCALE * float(np.median(apart))


def _distances(X: np.ndarray, seen: Seen | None) -> tuple[np.ndarray, float]:
    """Return the distances between all pairs of rows in units of a scale, and the scale."""
    X = np.asarray(X, float)
    X = X if seen is None else seen(X)
    scale = float(np.max(np.abs(X), initial=0.0)) or 1.0  # avoids overflow and underflow of squares
    return scipy.spatial.distance.pdist(X / scale), scale


def _some(X: np.ndarray, most: int) -> np.ndarray:
    return np.asarray(X[:: 1 + len(X) // most], float)


def _limits(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the values beyond which a column has outliers. They are infinite if the middle rows are all equal."""
    n = len(X)
    k = int(TAIL_FRACTION * n)
    low, high = np.partition(X, (k, n - 1 - k), axis=0)[[k, n - 1 - k]]
    with np.errstate(over="ignore"):  # infinite limits clip nothing
        reach = OUTLIER_RANGES * (high - low)
        reach[reach == 0] = np.inf
        return low - reach, high + reach


def _moments(X: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of each clipped column."""
    X = np.clip(X, low, high)
    least, most = X.min(axis=0), X.max(axis=0)
    scale = np.maximum(np.abs(least), np.abs(most))
    scale[scale == 0] = 1.0
    scaled = X / scale
    constant = least == most  # rounding of the mean must not count as spread
    mean = np.where(constant, least, scale * np.mean(scaled, axis=0))
    return mean, np.where(constant, 0.0, scale * np.std(scaled, axis=0))
