"""Two ways to compare rows of features F (n, q) and H (m, q): inner products, and squared distances.

Both are one matrix product s_ij = ⟨left_i, right_j⟩, taken tile by tile, and so are their derivatives: with
M_ij = dL/ds_ij they follow from M @ H, Mᵀ @ F and the sums of M. No array here is larger than a tile or the features.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Protocol

import numpy as np

from .base import Array

TILE = 192  # rows and columns of a tile: 0.3 MB, stays in a core's cache; a power of two would make transposing slow
# Multiplications up to which OpenBLAS uses one thread. A tile's work is too short to share: on a machine that is busy
# otherwise, waiting for a second thread takes a thousand times as long as the product.
ONE_THREAD = 2**19 - 1
LARGEST = 1e250  # of a squared feature norm; keeps s, and s over a small parameter, far from overflow
FAR = 1e5  # of a squared feature norm; |f|² + |h|² - 2⟨f, h⟩ loses eps * norm, 1e-11 up to here
NEAR = 1e-4  # times the norm: beyond FAR, squared distances below this are retaken; the others are good to 1e-12


class Comparison(Protocol):
    shift_invariant: bool
    F: Array
    H: Array

    def __init__(self, F: Array, H: Array) -> None: ...

    def tile(self, I: slice, J: slice, out: Array) -> None:
        """s[I, J] into `out`."""

    def add(self, I: slice, J: slice, M: Array) -> None:
        """Take in dL/ds[I, J]."""

    def gradients(self) -> tuple[Array, Array]:
        """dL/dF, dL/dH."""

    def scale_gradient(self) -> Array:
        """(q,), dL/dlog of a lengthscale of each column of F and H."""

    @staticmethod
    def with_self(F: Array) -> Array:
        """The diagonal of s for H = F."""

    @staticmethod
    def with_self_gradient(F: Array, m: Array) -> Array:
        """dL/dF for m_i = dL/ds_ii."""


class Inner:
    """s = ⟨f, h⟩."""

    shift_invariant = False

    def __init__(self, F: Array, H: Array) -> None:
        check_size(F, H)
        self.F, self.H = F, H
        self.dF, self.dH = np.zeros_like(F), np.zeros_like(H)

    def tile(self, I: slice, J: slice, out: Array) -> None:
        multiply(self.F[I], self.H[J].T, out)

    def add(self, I: slice, J: slice, M: Array) -> None:
        self.dF[I] += multiply(M, self.H[J])
        self.dH[J] += multiply(M.T, self.F[I])

    def gradients(self) -> tuple[Array, Array]:
        return self.dF, self.dH

    def scale_gradient(self) -> Array:
        return -np.sum(self.F * self.dF, axis=0) - np.sum(self.H * self.dH, axis=0)

    @staticmethod
    def with_self(F: Array) -> Array:
        return squared_norms(F)

    @staticmethod
    def with_self_gradient(F: Array, m: Array) -> Array:
        return 2 * m[:, None] * F


class Distance:
    """s = -½|f - h|², exactly 0 for a row with itself.

    With left = (f, -½|f|², 1) and right = (h, 1, -½|h|²) their product is s. dL/df_i = Σ_j M_ij (h_j - f_i).
    """

    shift_invariant = True

    def __init__(self, F: Array, H: Array) -> None:
        check_size(F, H)
        self.F, self.H = F, H
        self.f2, self.h2 = squared_norms(F), squared_norms(H)
        self.left = np.column_stack([F, -0.5 * self.f2, np.ones(len(F))])
        self.right = np.column_stack([H, np.ones(len(H)), -0.5 * self.h2])
        self.MH, self.MF = np.zeros_like(F), np.zeros_like(H)  # M @ H and Mᵀ @ F so far
        self.row_sums, self.column_sums = np.zeros(len(F)), np.zeros(len(H))
        self.far = max(self.f2.max(initial=0), self.h2.max(initial=0)) > FAR
        self.spread = np.zeros(F.shape[1])  # Σ_ij M_ij (f_i - h_j)² by column; used if far

    def tile(self, I: slice, J: slice, out: Array) -> None:
        multiply(self.left[I], self.right[J].T, out)
        np.minimum(out, 0, out=out)
        norm = max(self.f2[I].max(), self.h2[J].max())
        if norm > FAR:
            _retake_small(out, self.F[I], self.H[J], NEAR * norm)

    def add(self, I: slice, J: slice, M: Array) -> None:
        self.MH[I] += multiply(M, self.H[J])
        self.MF[J] += multiply(M.T, self.F[I])
        self.row_sums[I] += M.sum(axis=1)
        self.column_sums[J] += M.sum(axis=0)
        if self.far:
            for d in range(self.F.shape[1]):
                difference = np.subtract.outer(self.F[I, d], self.H[J, d])
                difference *= difference
                self.spread[d] += summed_product(M, difference)

    def gradients(self) -> tuple[Array, Array]:
        return self.MH - self.row_sums[:, None] * self.F, self.MF - self.column_sums[:, None] * self.H

    def scale_gradient(self) -> Array:
        if self.far:
            return self.spread
        dF, dH = self.gradients()
        return -np.sum(self.F * dF, axis=0) - np.sum(self.H * dH, axis=0)

    @staticmethod
    def with_self(F: Array) -> Array:
        return np.zeros(len(F))

    @staticmethod
    def with_self_gradient(F: Array, m: Array) -> Array:
        return np.zeros_like(F)


def _retake_small(s: Array, F: Array, H: Array, limit: float) -> None:
    """Where |f - h|² < limit, s from differences: near twins far from the centre have lost all digits."""
    rows, columns = np.nonzero(s > -0.5 * limit)
    step = max(1, 2**17 // max(1, F.shape[1]))  # 1 MB of differences at a time
    for start in range(0, len(rows), step):
        i, j = rows[start : start + step], columns[start : start + step]
        s[i, j] = -0.5 * squared_norms(F[i] - H[j])


def squared_norms(F: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.einsum("ij,ij->i", F, F)


def multiply(A: Array, B: Array, out: Array | None = None) -> Array:
    """A @ B by strips of rows that one thread does; many features also come in parts, or strips would be thin."""
    out = np.empty((len(A), B.shape[1])) if out is None else out
    if len(B) > TILE:
        multiply(A[:, :TILE], B[:TILE], out)
        for part in _strips(len(B), TILE)[1:]:
            out += multiply(A[:, part], B[part])
    elif B.shape[1] > TILE:
        for part in _strips(B.shape[1], TILE):
            out[:, part] = multiply(A, B[:, part])
    else:
        for part in _strips(len(A), ONE_THREAD // max(1, B.size)):
            np.dot(A[part], B, out=out[part])
    return out


def _strips(n: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def summed_product(A: Array, B: Array) -> float:
    """Σ A_ij B_ij; np.vdot would wake threads, see ONE_THREAD."""
    return np.einsum("ij,ij->", A, B)


def check_size(*features: Array) -> None:
    largest = max(squared_norms(F).max(initial=0) for F in features)
    if not largest < LARGEST:
        raise ValueError(
            f"inputs reach {np.sqrt(largest):.3g} lengthscales; squares stay in range up to {np.sqrt(LARGEST):.0g}. "
            "Rescale the inputs or raise the lengthscale."
        )


def tiles(n: int, m: int) -> Iterator[tuple[slice, slice]]:
    return product(_strips(n, TILE), _strips(m, TILE))


def lower_tiles(n: int) -> Iterator[tuple[slice, slice]]:
    return ((I, J) for I, J in tiles(n, n) if J.start <= I.start)


class Buffer:
    """A tile's worth of memory, handed out in the shape asked for."""

    def __init__(self) -> None:
        self.memory = np.empty(TILE * TILE)

    def __call__(self, I: slice, J: slice) -> Array:
        shape = I.stop - I.start, J.stop - J.start
        return self.memory[: shape[0] * shape[1]].reshape(shape)
