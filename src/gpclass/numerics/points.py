"""Quasi-random points, and averages over as many points as the required accuracy needs."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import scipy
from scipy.special import ndtri

from .blocks import blocks

MAX_POINTS = 1 << 16
N_NETS = 8  # parts of the points whose averages are compared
CARRIED_ERROR = 0.5  # fraction of an error that is assumed to remain when the number of points is doubled
# Allowed standard error of a probability, absolute, and relative for probabilities above RELATIVE_FLOOR: a quarter of the
# error bounds in the docstrings
ABSOLUTE_ERROR, RELATIVE_ERROR, RELATIVE_FLOOR = 2.5e-4, 0.0125, 5e-6
NUMBERS_PER_BLOCK, POINTS_PER_CHUNK = 1 << 15, 1 << 12  # sizes of arrays that fit into a core's cache
TINY = 1e-300  # smallest variance or probability: avoids division by zero


@lru_cache(maxsize=64)
def uniform_points(dimension: int, dtype: type = float) -> np.ndarray:
    """Return quasi-random points (dimension, MAX_POINTS) in the unit cube, the same in every call."""
    return np.ascontiguousarray(scipy.stats.qmc.Sobol(dimension, rng=np.random.default_rng(0)).random(MAX_POINTS).T, dtype)


@lru_cache(maxsize=64)
def normal_points(dimension: int, dtype: type = float) -> np.ndarray:
    """Return quasi-random standard normal points (dimension, MAX_POINTS), the same in every call."""
    return ndtri(uniform_points(dimension)).astype(dtype)


def tolerance(p: np.ndarray) -> np.ndarray:
    """Return the error that is allowed in probabilities p before they are divided by their sum.

    The division multiplies the error by about 1 - p.
    """
    # √½: of two classes, each gets the errors of both
    absolute = np.sqrt(0.5) * ABSOLUTE_ERROR / np.maximum(1 - p, ABSOLUTE_ERROR)
    return np.minimum(absolute, np.where(p > RELATIVE_FLOOR, RELATIVE_ERROR * p, 1.0))


def averages(values: Callable, n_items: int, shape: tuple[int, int], allowed: Callable, first: int) -> np.ndarray:
    """Return averages of K functions for each of P items over quasi-random points, and their errors.

    The number of points is doubled until all errors of an item are allowed. The error of an average is its standard error
    from the averages over `N_NETS` parts of the points, as if these were independent. These can agree by chance, so the
    error is at least `CARRIED_ERROR` times the error before the last doubling, and at least half of range / n, the error of
    a function that jumps along one coordinate.

    Parameters
    ----------
    values : callable
        values(items, at) returns the functions (p, K, n) of some items at the points in the slice `at`.
    n_items : int
        The number P of items.
    shape : tuple of int
        K, and the numbers of memory that an item needs per point.
    allowed : callable
        Maps averages (p, K) to their allowed errors.
    first : int
        Number of points to start with.

    Returns
    -------
    ndarray of shape (2, P, K)
        The averages and their errors.
    """
    K, size = shape

    def over_parts(items, start, stop, parts):
        """Return the averages over parts of the points, and the range of the values, (p, K, parts + 1)."""
        out, step = np.empty((len(items), K, parts + 1)), min(stop - start, POINTS_PER_CHUNK)
        for at in blocks(len(items), size * step, NUMBERS_PER_BLOCK):
            got = np.concatenate([values(items[at], slice(i, i + step)) for i in range(start, stop, step)], axis=2)
            out[at, :, :parts], out[at, :, parts] = got.reshape(*got.shape[:2], parts, -1).mean(3), np.ptp(got, axis=2)
        return out

    n, items = first, np.arange(n_items)
    start = over_parts(items, 0, n, N_NETS)
    nets, jump, error = start[..., :N_NETS].copy(), start[..., N_NETS], np.zeros((n_items, K))
    while len(items):
        scatter = nets[items].std(2) / np.sqrt(N_NETS - 1)
        error[items] = np.maximum.reduce([scatter, 0.5 * jump[items] / n, CARRIED_ERROR * error[items]])
        items = items[np.any(error[items] > allowed(nets[items].mean(2)), axis=1) & (n < MAX_POINTS)]
        merged = 0.5 * (nets[items, :, ::2] + nets[items, :, 1::2])
        nets[items] = np.concatenate([merged, over_parts(items, n, 2 * n, N_NETS // 2)[..., :-1]], axis=2)
        n *= 2
    return np.stack([nets.mean(2), error])
