"""Cholesky factors for prior × sites, computed in place on one triangle.

Arrays are C-ordered with the lower triangle filled. LAPACK receives their transpose, which is Fortran-ordered with the upper
triangle filled, so nothing is copied. The other triangle is never read.

All BLAS calls in the engines' loops go through SciPy. NumPy has a separate BLAS with separate threads, and two thread pools
that busy-wait for each other cost more than all the arithmetic between two factorisations.

A factor and all arrays computed from it have the dtype of the matrix, float64 or float32 (`precision`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from copy import copy
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg.blas import dgemm, dtrmm

from .blocks import even_blocks
from .precision import blas, lapack

TRIANGLE_ROWS = 96  # rows per block: small, because the part of a diagonal block above the diagonal is wasted work
STRIP_ROWS = 8  # rows of a product that BLAS computes together; rows beyond a multiple of it are rounded differently
SUM_LENGTH = 256  # longest sum that BLAS adds up in the same order for any number of rows
TILE_COLUMNS = 480  # most columns of a tile: a strip times a tile of 256 rows is then small enough for quick BLAS kernels
RECURSIVE_SIZE = 120  # size from which triangles are inverted recursively, by halves
ABOVE_DIAGONAL = np.triu(np.ones((TRIANGLE_ROWS, TRIANGLE_ROWS), bool), 1)  # mask for diagonal blocks


class NotPositiveDefinite(LinAlgError):
    """A matrix that must be positive definite is not."""


def row_blocks(n: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges (i, j) of row blocks.

    All code that works on a triangle by blocks must use these ranges, because entries outside of the blocks are undefined.
    """
    for i in range(0, n, TRIANGLE_ROWS):
        yield i, min(i + TRIANGLE_ROWS, n)


def scaled_plus_identity(K: np.ndarray, scale: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
    """Return the lower triangle of I + diag(scale) K diag(scale) in an array of `dtype`."""
    n = len(K)
    out, scale = np.empty((n, n), dtype), scale.astype(dtype, copy=False)
    for i, j in row_blocks(n):
        block = np.multiply.outer(scale[i:j], scale[:j], out=out[i:j, :j])
        block *= K[i:j, :j].astype(dtype, copy=False)
    out.ravel()[:: n + 1] += 1.0
    return out


def symmetric_product(K: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return K x for symmetric K and a vector x. Only the lower triangle is read."""
    return blas("symv", K)(1.0, K.T, x)


def whole_strips(rows: np.ndarray) -> np.ndarray:
    """Return rows (m, n) in Fortran order, padded with copies of the last row to a multiple of `STRIP_ROWS` rows.

    Then BLAS rounds each row of a product in the same way, for any other rows in the product. This holds only for rows of
    the left factor and for short sums (`SUM_LENGTH`), on all x86 processors that OpenBLAS supports. m is at least one.
    """
    more = -len(rows) % STRIP_ROWS
    if not more:
        return np.asfortranarray(rows)
    out = np.empty((len(rows) + more, rows.shape[1]), rows.dtype, order="F")
    out[: len(rows)], out[len(rows) :] = rows, rows[-1]
    return out


class RightFactor:
    """Matrices side by side, (n, q) together, that stand on the right of products with rows.

    They are kept in tiles, each of which is contiguous in memory. A product with a few rows takes as long as reading the
    matrices takes, and BLAS reads tiles up to twice as fast as it reads parts of longer rows.

    Parameters
    ----------
    matrices : iterable of ndarrays of shape (n, q_1), (n, q_2), …
        The matrices. An iterator can make one at a time.
    """

    def __init__(self, matrices: Iterable[np.ndarray]) -> None:
        self._panels = [panel for A in matrices for panel in _panels(A)]
        self._width = sum(tiles[0].shape[1] for tiles in self._panels)

    def times_strips(self, rows: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Return the product (m, q) of `whole_strips` of rows (m, n) with the matrices, in C order or in `out`.

        A row has the same product in any strips, to the last bit.
        """
        out, column = np.empty((len(rows), self._width)) if out is None else out, 0
        for tiles in self._panels:
            part, i = np.zeros((len(rows), tiles[0].shape[1]), order="F"), 0
            for tile in tiles:
                j = i + len(tile)
                dgemm(1.0, rows[:, i:j], tile, beta=1.0, c=part, overwrite_c=1)
                i = j
            out[:, column : column + part.shape[1]] = part
            column += part.shape[1]
        return out


def _panels(A: np.ndarray) -> Iterator[list[np.ndarray]]:
    """Yield some columns of A after others, each time as a list of tiles (in Fortran order) from top to bottom."""
    for columns in even_blocks(A.shape[1], TILE_COLUMNS):
        yield [np.array(A[rows, columns], order="F") for rows in even_blocks(len(A), SUM_LENGTH)]


def strips_times_lower(rows: np.ndarray, L: np.ndarray) -> np.ndarray:
    """Return rows @ L (m, n) in Fortran order, for `whole_strips` of rows and lower triangular L in C order."""
    return dtrmm(1.0, L.T, rows, side=1, lower=0, trans_a=1)


def mirror_lower(A: np.ndarray) -> np.ndarray:
    """Copy the lower triangle onto the upper one, in place."""
    for i, j in row_blocks(len(A)):
        A[:i, i:j] = A[i:j, :i].T
        corner = A[i:j, i:j]
        np.copyto(corner, corner.T, where=ABOVE_DIAGONAL[: j - i, : j - i])
    return A


def scale_lower(A: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Replace the lower triangle of A by that of diag(scale) A diag(scale), in place."""
    scale = scale.astype(A.dtype, copy=False)  # products of mixed precision are slow
    for i, j in row_blocks(len(A)):
        A[i:j, :j] *= scale[:j]
        A[i:j, :j] *= scale[i:j, None]
    return A


def invert_upper(U: np.ndarray) -> np.ndarray:
    """Invert an upper triangular matrix in Fortran order, in place. Entries below the diagonal are not changed.

    Large matrices are inverted recursively, by halves, which takes a third to a half less time than LAPACK's trtri.
    """
    n = len(U)
    if n < RECURSIVE_SIZE:
        return lapack("trtri", U)(U, lower=0, overwrite_c=1)[0]
    trmm = blas("trmm", U)
    h = n // 2
    first, last = invert_upper(np.asfortranarray(U[:h, :h])), invert_upper(np.asfortranarray(U[h:, h:]))
    corner = trmm(-1.0, first, np.asfortranarray(U[:h, h:]), overwrite_b=1)
    U[:h, :h], U[h:, h:] = first, last
    U[:h, h:] = trmm(1.0, last, corner, side=1, overwrite_b=1)
    return U


class Factor:
    """Cholesky factor L of a symmetric matrix.

    The first method that needs L⁻¹ replaces L by it in place, so that one n×n array suffices for both.

    Parameters
    ----------
    A : ndarray of shape (n, n)
        The matrix, of which the lower triangle is read. It is overwritten.
    what : str, default="the matrix"
        Name of the matrix in error messages.

    Attributes
    ----------
    log_det : float
        Log-determinant of A.

    Raises
    ------
    NotPositiveDefinite
        If A is not positive definite, or has entries that are not finite.
    """

    def __init__(self, A: np.ndarray, what: str = "the matrix"):
        upper, info = lapack("potrf", A)(A.T, lower=0, overwrite_a=1)  # with zeros in the other triangle
        if info != 0:
            raise NotPositiveDefinite(
                f"{what} is not positive definite (leading minor {info} of {len(A)} fails). "
                "Is the kernel valid for these inputs, and are all entries finite?"
            )
        self._lower = upper.T
        self._inverted = False
        self.log_det = 2.0 * float(np.log(self._lower.diagonal().astype(float)).sum())
        if not math.isfinite(self.log_det):
            raise NotPositiveDefinite(f"{what} has entries that are not finite")

    def rounded(self, dtype: Any) -> Factor:
        """Return the factor with L rounded to `dtype`, or the factor itself if it has this dtype."""
        if self._lower.dtype == dtype:
            return self
        new = copy(self)
        new._lower = self._lower.astype(dtype)
        return new

    def invert(self) -> None:
        """Replace L by L⁻¹. Products with L⁻¹ take a third of the time of triangular solves, so it pays for many columns."""
        if not self._inverted:
            self._lower, self._inverted = invert_upper(self._lower.T).T, True

    def whiten(self, X: np.ndarray, transpose: bool = False) -> np.ndarray:
        """Return L⁻¹ X, or L⁻ᵀ X if `transpose`, for X (n,) or (n, m)."""
        trans = 0 if transpose else 1  # LAPACK sees U = Lᵀ
        if not self._inverted:
            return lapack("trtrs", self._lower)(self._lower.T, X, lower=0, trans=trans)[0]
        if X.ndim == 1:
            return blas("trmv", self._lower)(self._lower.T, X, lower=0, trans=trans)
        return blas("trmm", self._lower)(1.0, self._lower.T, X, lower=0, trans_a=trans)

    def whiten_rows(self, X: np.ndarray) -> None:
        """Replace X (m, n), in C order and of the factor's dtype, by (L⁻¹ Xᵀ)ᵀ, in place."""
        if X.dtype != self._lower.dtype or not X.flags.c_contiguous:
            raise TypeError(f"X must be a C-ordered array of {self._lower.dtype}: BLAS would change a copy of it")
        apply = blas("trmm" if self._inverted else "trsm", self._lower)
        apply(1.0, self._lower.T, X.T, lower=0, trans_a=1, overwrite_b=1)

    def whiten_strips(self, X: np.ndarray) -> None:
        """Replace X (m, n), `whole_strips` of the factor's dtype, by (L⁻¹ Xᵀ)ᵀ, in place."""
        if X.dtype != self._lower.dtype or not X.flags.f_contiguous:
            raise TypeError(f"X must be a Fortran-ordered array of {self._lower.dtype}: BLAS would change a copy of it")
        apply = blas("trmm" if self._inverted else "trsm", self._lower)
        apply(1.0, self._lower.T, X, side=1, lower=0, overwrite_b=1)

    def solve(self, X: np.ndarray) -> np.ndarray:
        """Return A⁻¹ X for X (n,) or (n, m)."""
        return self.whiten(self.whiten(X), transpose=True)

    def diag_inverse(self) -> np.ndarray:
        """Return the diagonal of A⁻¹: the squared column norms of L⁻¹."""
        self.invert()
        out = np.zeros(len(self._lower))
        for i, j in row_blocks(len(out)):
            rows = self._lower[i:j, :j]
            out[:j] += np.einsum("ij,ij->j", rows, rows)
        return out

    def inverse_lower(self) -> np.ndarray:
        """Return the lower triangle of A⁻¹ in a new array. The factor stays usable."""
        self.invert()
        return lapack("lauum", self._lower)(self._lower.T.copy(order="F"), lower=0, overwrite_c=1)[0].T

    def into_inverse(self) -> np.ndarray:
        """Return the lower triangle of A⁻¹ in the factor's array, without a copy. The factor becomes unusable."""
        self.invert()
        spent, self._lower = self._lower, np.empty((0, 0))
        return lapack("lauum", spent)(spent.T, lower=0, overwrite_c=1)[0].T

    def root(self) -> np.ndarray:
        """Return L, with zeros above the diagonal, in a new array."""
        L = self._lower.copy()
        return invert_upper(L.T).T if self._inverted else L

    def inverse_root(self) -> np.ndarray:
        """Return L⁻¹, with zeros above the diagonal, in a new array."""
        self.invert()
        return self._lower.copy()
