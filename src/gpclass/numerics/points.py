"""Quasi-random points, and averages over as many of them as an accuracy needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np
import scipy
from scipy.special import ndtri

MOST, SEED = 1 << 16, 0  # points at most; of their scrambling
BLOCK = 1 << 15  # numbers in an array: stays within a core's cache
RARE = 0.02  # probability below which a relative error of 5 % is a smaller absolute one than 1e-3
TOGETHER = 0.005  # probability above which the classes of a row get the same points
CARRIED = 0.5  # part of an error that is expected to be left when the points are doubled
TINY = 1e-300


@lru_cache(maxsize=64)
def uniform_points(dimension: int, dtype: type = float) -> np.ndarray:
    """(dimension, MOST) quasi-random points in the unit cube, always the same."""
    return np.ascontiguousarray(scipy.stats.qmc.Sobol(dimension, rng=np.random.default_rng(SEED)).random(MOST).T, dtype)


@lru_cache(maxsize=64)
def normal_points(dimension: int) -> np.ndarray:
    """(dimension, MOST) quasi-random standard normal points."""
    return ndtri(uniform_points(dimension))


def blocks(items: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Parts of `items`, each of which needs arrays of `size` numbers."""
    most = max(1, BLOCK // max(size, 1))
    return (items[i : i + most] for i in range(0, len(items), most))


def doubled(average: Callable, shape: tuple[int, int], allowed: Callable, first: int, of_sum: bool = True) -> np.ndarray:
    """(m, C) averages that approximate probabilities, with as many points as each row needs.

    The number of points is doubled until the last changes of the probabilities, divided by their sum, are allowed.
    Classes below `TOGETHER` stop on their own; the others of a row go on together, since their errors cancel in the sum.

    Parameters
    ----------
    average : callable
        average(active, at) gives the averages (m, C) over the slice `at` of the points; only entries where the mask
        `active` holds are used.
    shape : tuple of int
        m and C.
    allowed : callable
        allowed(p) is the largest change (m, C) that counts as small.
    first : int
        Number of points to begin with.
    of_sum : bool
        Whether a row's averages are divided by their sum before they are compared.
    """
    share = normalised if of_sum else np.asarray
    n, everything = first, np.ones(shape, bool)
    quarter = average(everything, slice(0, n // 4))
    half = 0.5 * (quarter + average(everything, slice(n // 4, n // 2)))
    p = 0.5 * (half + average(everything, slice(n // 2, n)))
    error = np.maximum(np.abs(share(p) - share(half)), CARRIED * np.abs(share(half) - share(quarter)))
    while n < MOST:
        active = error > allowed(share(p))
        active |= (p >= TOGETHER) & np.any(active, axis=1, keepdims=True)
        if not active.any():
            break
        new = np.where(active, 0.5 * (p + average(active, slice(n, 2 * n))), p)
        error = np.where(active, np.maximum(np.abs(share(new) - share(p)), CARRIED * error), error)
        p, n = new, 2 * n
    return p


def normalised(p: np.ndarray) -> np.ndarray:
    """(m, C) shares of the sums of rows."""
    return p / np.maximum(p.sum(1, keepdims=True), TINY)
