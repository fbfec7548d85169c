"""Quasi-random points, and averages over as many of them as an accuracy needs."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import scipy
from scipy.special import ndtri

from .blocks import blocks

MOST, NETS = 1 << 16, 8  # points at most; parts whose averages are compared
CARRIED = 0.5  # part of an error that is expected to be left when the points are doubled
# Standard error of a probability, and relative to one above FLOOR, that counts as small: a quarter of the stated bounds
ABSOLUTE, RELATIVE, FLOOR = 2.5e-4, 0.0125, 5e-6
BLOCK, CHUNK = 1 << 15, 1 << 12  # numbers in an array, and points at a time: these stay within a core's cache
TINY = 1e-300


@lru_cache(maxsize=64)
def uniform_points(dimension: int, dtype: type = float) -> np.ndarray:
    """(dimension, MOST) quasi-random points in the unit cube, always the same."""
    return np.ascontiguousarray(scipy.stats.qmc.Sobol(dimension, rng=np.random.default_rng(0)).random(MOST).T, dtype)


@lru_cache(maxsize=64)
def normal_points(dimension: int, dtype: type = float) -> np.ndarray:
    """(dimension, MOST) quasi-random standard normal points."""
    return ndtri(uniform_points(dimension)).astype(dtype)


def tolerance(p: np.ndarray) -> np.ndarray:
    """Error that is allowed in probabilities p before they are divided by their sum, which multiplies it by 1 - p."""
    absolute = np.sqrt(0.5) * ABSOLUTE / np.maximum(1 - p, ABSOLUTE)  # of two classes, each gets the errors of both
    return np.minimum(absolute, np.where(p > FLOOR, RELATIVE * p, 1.0))


def averages(values: Callable, n_items: int, shape: tuple[int, int], allowed: Callable, first: int) -> np.ndarray:
    """Averages (P, K) of K functions for each of P items, over as many points as each item needs, and their errors (P, K).

    values(items, at) gives the functions (p, K, n) of some items at the slice `at` of the points; shape is K and the numbers
    that an item needs for a point. The `first` points are doubled until all errors of an item are below allowed(averages).
    The error is the standard error of the averages over `NETS` parts of the points, as if these were independent, and not
    below two floors against agreement by chance: part of the error before the last doubling, and half of range / n, the
    error of a function that jumps along one coordinate.
    """
    K, size = shape

    def over_parts(items, start, stop, parts):
        """(p, K, parts + 1) averages over parts of the points, and the range of the values."""
        out, step = np.empty((len(items), K, parts + 1)), min(stop - start, CHUNK)
        for at in blocks(len(items), size * step, BLOCK):
            got = np.concatenate([values(items[at], slice(i, i + step)) for i in range(start, stop, step)], axis=2)
            out[at, :, :parts], out[at, :, parts] = got.reshape(*got.shape[:2], parts, -1).mean(3), np.ptp(got, axis=2)
        return out

    n, items = first, np.arange(n_items)
    start = over_parts(items, 0, n, NETS)
    nets, jump, error = start[..., :NETS].copy(), start[..., NETS], np.zeros((n_items, K))
    while len(items):
        scatter = nets[items].std(2) / np.sqrt(NETS - 1)
        error[items] = np.maximum.reduce([scatter, 0.5 * jump[items] / n, CARRIED * error[items]])
        items = items[np.any(error[items] > allowed(nets[items].mean(2)), axis=1) & (n < MOST)]
        merged = 0.5 * (nets[items, :, ::2] + nets[items, :, 1::2])
        nets[items] = np.concatenate([merged, over_parts(items, n, 2 * n, NETS // 2)[..., :-1]], axis=2)
        n *= 2
    return np.stack([nets.mean(2), error])
