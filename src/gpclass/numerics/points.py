"""Quasi-random points, and averages over as many of them as an accuracy needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np
import scipy
from scipy.special import ndtri

MOST, NETS = 1 << 16, 8  # points at most; parts whose averages are compared
ABSOLUTE, RELATIVE, FLOOR = 4e-4, 0.02, 5e-6  # error of a probability, and relative to one above FLOOR, that counts as small
BLOCK = 1 << 15  # numbers in an array: stays within a core's cache
TINY = 1e-300


@lru_cache(maxsize=64)
def uniform_points(dimension: int, dtype: type = float) -> np.ndarray:
    """(dimension, MOST) quasi-random points in the unit cube, always the same."""
    return np.ascontiguousarray(scipy.stats.qmc.Sobol(dimension, rng=np.random.default_rng(0)).random(MOST).T, dtype)


@lru_cache(maxsize=64)
def normal_points(dimension: int) -> np.ndarray:
    """(dimension, MOST) quasi-random standard normal points."""
    return ndtri(uniform_points(dimension))


def blocks(items: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Parts of `items`, each of which needs arrays of `size` numbers."""
    most = max(1, BLOCK // max(size, 1))
    return (items[i : i + most] for i in range(0, len(items), most))


def tolerance(p: np.ndarray) -> np.ndarray:
    """Error that is allowed in probabilities p before they are divided by their sum, which multiplies it by 1 - p."""
    return np.minimum(ABSOLUTE / np.maximum(1 - p, ABSOLUTE), np.where(p > FLOOR, RELATIVE * p, 1.0))


def averages(values: Callable, sizes: np.ndarray, n_outputs: int, allowed: Callable, first: int) -> np.ndarray:
    """(P, K) averages of K functions for each of P items, over as many points as each item needs.

    The number of points is doubled until all errors of an item are allowed. Two estimates of the error have to be small.
    The first is the standard error of the averages over `NETS` parts of the points, as if the parts were independent. It
    is too large for smooth functions. It can be too small for a function that jumps along one coordinate, since all parts
    may agree by chance; such a function is wrong by up to its jump / n, and jumps by twice its standard deviation or more.

    Parameters
    ----------
    values : callable
        values(items, at) gives the functions (p, K, n) of items of the same size at the slice `at` of the points.
    sizes : ndarray of shape (P,)
        Numbers that an item needs for one point.
    n_outputs : int
        K.
    allowed : callable
        allowed(p) is the largest error (P, K) that counts as small.
    first : int
        Number of points to begin with.
    """

    def over_parts(items, start, stop, parts):
        """(p, K, parts + 1) averages over parts of the points, and standard deviation over all of them."""
        out = np.empty((len(items), n_outputs, parts + 1))
        for size in np.unique(sizes[items]):
            step = min(stop - start, 1 << max(4, int(4 * BLOCK // size).bit_length()))
            for at in blocks(np.flatnonzero(sizes[items] == size), size * step):
                got = np.concatenate([values(items[at], slice(i, i + step)) for i in range(start, stop, step)], axis=2)
                out[at, :, :parts] = got.reshape(*got.shape[:2], parts, -1).mean(3)
                out[at, :, parts] = got.std(2)
        return out

    n, items = first, np.arange(len(sizes))
    start = over_parts(items, 0, n, NETS)
    nets, jump = start[..., :NETS], 2 * start[..., NETS]
    while n < MOST and len(items):
        now = nets[items]
        error = np.maximum(now.std(2) / np.sqrt(NETS - 1), jump[items] / n)
        items = items[np.any(error > allowed(now.mean(2)), axis=1)]
        merged = 0.5 * (nets[items, :, ::2] + nets[items, :, 1::2])
        nets[items] = np.concatenate([merged, over_parts(items, n, 2 * n, NETS // 2)[..., :-1]], axis=2)
        n *= 2
    return np.ascontiguousarray(nets).mean(2)
