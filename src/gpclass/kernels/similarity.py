"""Similarities s_ij of rows f_i of F (n, q) and h_j of H (m, q): inner products, and -½ squared distances.

Both are one matrix product, s = left @ right, and so are their derivatives: for M_ij = dL/ds_ij they follow from Mᵀ F,
M H and the row and column sums of M. All arrays here have the size of a tile or of the features.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from .arrays import Array, squared_norms
from .tiles import is_narrow, multiply, summed_product

LARGEST_NORM = 1e250  # of squared feature norms; s, and s divided by a small parameter, do not overflow
FAR_NORM = 1e5  # |f|² + |h|² - 2⟨f, h⟩ loses eps * norm, which is 1e-11 at this squared norm
NEAR_SHARE = 1e-4  # beyond FAR_NORM, squared distances below this share of the norm are computed from differences

Self = TypeVar("Self", bound="Similarity")


class Similarity(ABC):
    """s = left @ right for the rows of two arrays of features.

    Parameters
    ----------
    F : ndarray of shape (n, q)
        Features of the rows.
    H : ndarray of shape (m, q)
        Features of the columns.
    by_rows : bool, default=False
        Whether to store the right factor by rows, which makes `select` fast. Otherwise matrix products are faster.
    """

    shift_invariant: ClassVar[bool]  # whether s depends on differences of inputs only

    def __init__(self, F: Array, H: Array, by_rows: bool = False) -> None:
        largest = _largest_norm(F) if H is F else max(_largest_norm(F), _largest_norm(H))
        self.far = self.shift_invariant and largest > FAR_NORM  # whether the product loses digits
        self.F, self.H = F, H
        if by_rows:
            points = self._points(H)
            self.right, self.H = points.T, points[:, : H.shape[1]]  # H itself is not kept: rows may be many

    # The factors are computed on first use: a pullback that gets the kernel's value does not need them.

    @cached_property
    def left(self) -> Array:
        """The left factor, (n, k)."""
        return self._left(self._points(self.F))

    @cached_property
    def right(self) -> Array:
        """The right factor, (k, m)."""
        return np.ascontiguousarray(self._points(self.H).T)

    def select(self: Self, F: Array, columns: NDArray[np.intp] | None) -> Self:
        """Return the similarities of other features F with some rows of H, by index, or with all (None)."""
        q = self.H.shape[1]
        chosen = object.__new__(type(self))
        chosen.far = self.far or (self.shift_invariant and _largest_norm(F) > FAR_NORM)
        chosen.left = self._left(self._points(F))
        chosen.right = self.right if columns is None else self.right.T[columns].T
        chosen.F, chosen.H = chosen.left[:, :q], chosen.right[:q].T
        return chosen

    @property
    def shape(self) -> tuple[int, int]:
        """(n, m)"""
        return len(self.F), len(self.H)

    @staticmethod
    @abstractmethod
    def _points(H: Array) -> Array:
        """Return the transpose of right, (m, k), C-ordered."""

    @staticmethod
    @abstractmethod
    def _left(points: Array) -> Array:
        """Return left for the rows whose right factor is `points`. May overwrite it."""

    def tile(self, I: slice, J: slice, out: Array) -> None:
        """Write s[I, J] to `out`, a C-ordered array."""
        self.product(I, J, out)
        self.finish(I, J, out)

    def product(self, I: slice, J: slice, out: Array) -> None:
        """Write left[I] @ right[:, J] to `out`: s[I, J] with rounding errors that `finish` corrects."""
        multiply(self.left[I], self.right[:, J], out, is_narrow(*self.shape))

    @abstractmethod
    def finish(self, I: slice, J: slice, s: Array) -> None:
        """Correct the rounding errors of s[I, J], in place."""

    @abstractmethod
    def feature_gradient(self, features: Array, product: Array, sums: Array) -> Array:
        """Return dL/dF from F, M H and the row sums of M; or dL/dH from H, Mᵀ F and the column sums."""

    @abstractmethod
    def scale_gradient(self, weights: WeightSums) -> Array:
        """Return the derivatives (q,) in the logs of lengthscales that divide the columns of F and H."""

    @staticmethod
    @abstractmethod
    def with_self(F: Array) -> Array:
        """Return the diagonal (n,) of s for H = F."""

    @staticmethod
    @abstractmethod
    def with_self_gradient(F: Array, m: Array) -> Array:
        """Return dL/dF for m_i = dL/ds_ii."""


class Inner(Similarity):
    """s = ⟨f, h⟩."""

    shift_invariant = False

    @staticmethod
    def _points(H: Array) -> Array:
        return np.ascontiguousarray(H)

    @staticmethod
    def _left(points: Array) -> Array:
        return points

    def finish(self, I: slice, J: slice, s: Array) -> None:
        pass

    def feature_gradient(self, features: Array, product: Array, sums: Array) -> Array:
        return product

    def scale_gradient(self, weights: WeightSums) -> Array:
        return -2 * np.einsum("ij,ij->j", self.H, weights.MtF)

    @staticmethod
    def with_self(F: Array) -> Array:
        return squared_norms(F)

    @staticmethod
    def with_self_gradient(F: Array, m: Array) -> Array:
        return 2 * m[:, None] * F


class Distance(Similarity):
    """s = -½|f - h|².

    left = (f, -½|f|², 1) and right = (h, 1, -½|h|²). dL/df_i = Σ_j M_ij (h_j - f_i).
    """

    shift_invariant = True

    @staticmethod
    def _points(H: Array) -> Array:
        points = np.empty((len(H), H.shape[1] + 2))
        points[:, :-2] = H
        points[:, -2] = 1
        points[:, -1] = -0.5 * squared_norms(H)
        return points

    @staticmethod
    def _left(points: Array) -> Array:
        points[:, -2] = points[:, -1]
        points[:, -1] = 1
        return points

    def finish(self, I: slice, J: slice, s: Array) -> None:
        np.minimum(s, 0.0, out=s)
        if self.far:
            norm = -2 * min(self.left[I, -2].min(), self.right[-1, J].min())
            if norm > FAR_NORM:
                self._recompute_small(s, I, J, NEAR_SHARE * norm)

    def _recompute_small(self, s: Array, I: slice, J: slice, limit: float) -> None:
        """Compute s from differences where |f - h|² < limit. The product has lost the digits of such distances."""
        F, H = self.F[I], self.H[J]
        rows, columns = np.nonzero(s > -0.5 * limit)
        step = max(1, 2**17 // max(1, F.shape[1]))  # 1 MB of differences at a time
        for start in range(0, len(rows), step):
            i, j = rows[start : start + step], columns[start : start + step]
            s[i, j] = -0.5 * squared_norms(F[i] - H[j])

    def feature_gradient(self, features: Array, product: Array, sums: Array) -> Array:
        return product - sums[:, None] * features

    def scale_gradient(self, weights: WeightSums) -> Array:
        """Return Σ_ij M_ij (f_i - h_j)², by column."""
        if self.far:
            return weights.spread
        squares = np.einsum("i,ij,ij->j", weights.row_sums, self.F, self.F)
        squares += np.einsum("i,ij,ij->j", weights.column_sums, self.H, self.H)
        return squares - 2 * np.einsum("ij,ij->j", self.H, weights.MtF)

    @staticmethod
    def with_self(F: Array) -> Array:
        return np.zeros(len(F))

    @staticmethod
    def with_self_gradient(F: Array, m: Array) -> Array:
        return np.zeros_like(F)


class WeightSums:
    """Sums over tiles of M_ij = dL/ds_ij, from which all derivatives follow.

    Parameters
    ----------
    similarity : Similarity
        The similarities that M belongs to.
    both_sides : bool
        Whether to compute M H, which only dL/dF needs.
    """

    def __init__(self, similarity: Similarity, both_sides: bool) -> None:
        self._similarity = similarity
        F, H = similarity.F, similarity.H
        self.MtF = np.zeros_like(H)  # Mᵀ F
        self.MH = np.zeros_like(F) if both_sides else None  # M H
        self.row_sums, self.column_sums = np.zeros(len(F)), np.zeros(len(H))
        self.spread = np.zeros(F.shape[1])  # Σ_ij M_ij (f_i - h_j)² by column, if the features are far

    def add(self, I: slice, J: slice, M: Array) -> None:
        """Add the tile M = dL/ds[I, J]."""
        F, H, few = self._similarity.F[I], self._similarity.H[J], is_narrow(*self._similarity.shape)
        self.MtF[J] += multiply(M.T, F, few=few)
        if self.MH is not None:
            self.MH[I] += multiply(M, H, few=few)
        self.row_sums[I] += M.sum(axis=1)
        self.column_sums[J] += M.sum(axis=0)
        if self._similarity.far:
            for d in range(F.shape[1]):
                difference = np.subtract.outer(F[:, d], H[:, d])
                difference *= difference
                self.spread[d] += summed_product(M, difference)


def _largest_norm(F: Array) -> float:
    """Return the largest squared norm of a row, or raise ValueError if s could overflow."""
    largest = squared_norms(F).max(initial=0)
    if not largest < LARGEST_NORM:
        raise ValueError(
            f"inputs reach {np.sqrt(largest):.3g} lengthscales; the limit is {np.sqrt(LARGEST_NORM):.0g}. "
            "Rescale the inputs or raise the lengthscale."
        )
    return largest
