"""Tiles of a matrix, and matrix products that stay in one thread.

Kernel matrices are evaluated tile by tile, so that temporary arrays stay in a core's cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from ..numerics.blocks import blocks, even_blocks
from .arrays import Array

TILE_SIDE = 192  # rows and columns of a square tile of 0.3 MB; a power of two would make transposing slow
TILE_AREA = TILE_SIDE**2
# OpenBLAS uses one thread up to ONE_THREAD_WORK multiplications. Most products of a tile are too short to share: on a
# busy machine the wait for a second thread takes up to fifty times as long as the product. They are split into small ones.
ONE_THREAD_WORK = 2**19 - 1
SHARED_WORK = 2**24  # multiplications from which several threads cost no more than splitting, even on a busy machine
SHARED_WORK_IF_FEW = 2**22  # the same for a narrow matrix, which has few tiles and so few waits
INNER_LENGTH = 96  # inner dimension of the small products; if it were longer they would have very few rows
LONG_STRIP = 32  # rows of A from which splitting the inner dimension saves time


def tiles(n: int, m: int) -> Iterator[tuple[slice, slice]]:
    """Return row and column ranges of tiles that cover an n × m matrix. Tiles of a narrow or flat matrix are longer."""
    if 0 < n * m <= TILE_AREA:
        return iter([(slice(0, n), slice(0, m))])
    columns = max(1, min(m, max(TILE_SIDE, TILE_AREA // max(n, 1))))
    rows = TILE_AREA // columns
    return product(blocks(n, 1, rows), blocks(m, 1, columns))


def is_narrow(n: int, m: int) -> bool:
    """Return whether an n × m matrix is narrower than a square tile, so that it has few tiles."""
    return min(n, m) < TILE_SIDE


def lower_tiles(n: int) -> Iterator[tuple[slice, slice]]:
    """Return tiles that cover the lower triangle of an n × n matrix. Those on the diagonal are square."""
    if 0 < n <= TILE_SIDE:
        return iter([(slice(0, n), slice(0, n))])
    ranges = list(blocks(n, 1, TILE_SIDE))
    return ((I, J) for I, J in product(ranges, ranges) if J.start <= I.start)


class TileBuffer:
    """Memory for one tile, reused for tiles of all shapes."""

    def __init__(self) -> None:
        self._memory: Array | None = None  # allocated on first use

    def __call__(self, I: slice, J: slice) -> Array:
        """Return an uninitialised C-ordered array with the shape of the tile."""
        if self._memory is None:
            self._memory = np.empty(TILE_AREA)
        shape = I.stop - I.start, J.stop - J.start
        return self._memory[: shape[0] * shape[1]].reshape(shape)


def multiply(A: Array, B: Array, out: Array | None = None, few: bool = False) -> Array:
    """Return A @ B, computed in one thread unless the product is long enough to share.

    Parameters
    ----------
    A, B : ndarray of shape (n, k) and (k, m)
        The factors.
    out : ndarray of shape (n, m), optional
        A C-ordered array for the result.
    few : bool, default=False
        Whether the caller computes only a few products, so that several threads pay off for smaller ones.
    """
    out = np.empty((len(A), B.shape[1])) if out is None else out
    work = len(A) * B.size
    if len(A) == 1 or work <= ONE_THREAD_WORK or work >= (SHARED_WORK_IF_FEW if few else SHARED_WORK):
        np.dot(A, B, out=out)
    elif B.shape[1] > TILE_SIDE:
        for part in even_blocks(B.shape[1], max(TILE_SIDE, ONE_THREAD_WORK // A.size)):
            out[:, part] = multiply(A, B[:, part])
    elif len(B) > 1.5 * INNER_LENGTH and len(A) > LONG_STRIP:
        first, *others = even_blocks(len(B), INNER_LENGTH)
        multiply(A[:, first], B[first], out)
        for part in others:
            out += multiply(A[:, part], B[part])
    else:
        for part in even_blocks(len(A), max(1, ONE_THREAD_WORK // B.size)):
            np.dot(A[part], B, out=out[part])
    return out


def summed_product(A: Array, B: Array) -> float:
    """Return Σ A_ij B_ij. (`np.vdot` would use several threads.)"""
    return np.einsum("ij,ij->", A, B)
