"""Cholesky factors for prior × sites, in place and triangle by triangle.

Arrays are C-ordered with the lower triangle filled; LAPACK sees their transpose, Fortran-ordered with the upper one,
so nothing is copied. What stands in the other triangle is never read.

All BLAS calls of the engines' loops go through SciPy: NumPy brings a BLAS of its own, with threads of its own, and two
sets of threads that wait busily for each other cost more than all the arithmetic between two factorisations.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg.blas import dsymv, dtrmm, dtrmv, dtrsm
from scipy.linalg.lapack import dlauum, dpotrf, dtrtri, dtrtrs

TRIANGLE_ROWS = 96  # rows handled at a time: small, so that little is wasted on the corners of the triangle
HALVED = range(150, 450)  # sizes of triangles that are inverted by halves
ABOVE = np.triu(np.ones((TRIANGLE_ROWS, TRIANGLE_ROWS), bool), 1)  # the part of a corner that is above the diagonal


class NotPositiveDefinite(LinAlgError):
    """A matrix that must be positive definite is not."""


def row_blocks(n: int):
    """(i, j) of rows handled at a time. All who touch a triangle by blocks use these: what is outside of them is garbage."""
    return ((i, min(i + TRIANGLE_ROWS, n)) for i in range(0, n, TRIANGLE_ROWS))


def scaled_plus_identity(K: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Lower triangle of I + diag(scale) K diag(scale)."""
    n = len(K)
    out = np.empty((n, n))
    for i, j in row_blocks(n):
        np.multiply(K[i:j, :j], scale[:j], out=out[i:j, :j])
        out[i:j, :j] *= scale[i:j, None]
    out.ravel()[:: n + 1] += 1.0
    return out


def symmetric_product(K: np.ndarray, x: np.ndarray) -> np.ndarray:
    """K x for symmetric K and a vector x, reading one triangle."""
    return dsymv(1.0, K.T, x)


def mirror_lower(A: np.ndarray) -> np.ndarray:
    """Copy the lower triangle onto the upper one, in place."""
    for i, j in row_blocks(len(A)):
        A[:i, i:j] = A[i:j, :i].T
        corner = A[i:j, i:j]
        np.copyto(corner, corner.T, where=ABOVE[: j - i, : j - i])
    return A


def scale_lower(A: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Lower triangle of diag(scale) A diag(scale), in place."""
    for i, j in row_blocks(len(A)):
        A[i:j, :j] *= scale[:j]
        A[i:j, :j] *= scale[i:j, None]
    return A


def invert_upper(U: np.ndarray) -> np.ndarray:
    """U⁻¹ of an upper triangle in LAPACK's order, in place; what is below it stays as it is.

    By halves at sizes where that runs faster than dtrtri by itself.
    """
    n = len(U)
    if n not in HALVED:
        return dtrtri(U, lower=0, overwrite_c=1)[0]
    h = n // 2
    first, last = (invert_upper(np.asfortranarray(part)) for part in (U[:h, :h], U[h:, h:]))
    corner = dtrmm(-1.0, first, np.asfortranarray(U[:h, h:]), overwrite_b=1)
    U[:h, :h], U[h:, h:] = first, last
    U[:h, h:] = dtrmm(1.0, last, corner, side=1, overwrite_b=1)
    return U


class Factor:
    """Cholesky factor L of a symmetric matrix given by its lower triangle, which is overwritten.

    The first request for the inverse turns L into L⁻¹ in place, so that one n×n array serves both.
    """

    def __init__(self, A: np.ndarray, what: str = "the matrix"):
        upper, info = dpotrf(A.T, lower=0, overwrite_a=1, clean=0)
        if info != 0:
            raise NotPositiveDefinite(
                f"{what} is not positive definite (leading minor {info} of {len(A)} fails). "
                "Is the kernel valid for these inputs, and are all entries finite?"
            )
        self._lower = upper.T
        self._inverted = False
        self.log_det = 2.0 * float(np.sum(np.log(np.diagonal(self._lower))))
        if not np.isfinite(self.log_det):
            raise NotPositiveDefinite(f"{what} has entries that are not finite")

    def _invert(self) -> None:
        if not self._inverted:
            self._lower, self._inverted = invert_upper(self._lower.T).T, True

    def whiten(self, X: np.ndarray) -> np.ndarray:
        """L⁻¹ X for X (n,) or (n, m)."""
        return self._apply(X, transpose=False)

    def whiten_rows(self, X: np.ndarray) -> None:
        """L⁻¹ Xᵀ for X (m, n) in C order, transposed and in place."""
        apply = dtrmm if self._inverted else dtrsm
        apply(1.0, self._lower.T, X.T, lower=0, trans_a=1, overwrite_b=1)

    def unwhiten(self, X: np.ndarray) -> np.ndarray:
        """L⁻ᵀ X for X (n,) or (n, m)."""
        return self._apply(X, transpose=True)

    def solve(self, X: np.ndarray) -> np.ndarray:
        """A⁻¹ X for X (n,) or (n, m)."""
        return self.unwhiten(self.whiten(X))

    def _apply(self, X, transpose):
        # LAPACK holds U = Lᵀ, so applying L⁻¹ means the transpose of what is stored
        trans = 0 if transpose else 1
        if not self._inverted:
            return dtrtrs(self._lower.T, X, lower=0, trans=trans)[0]
        if X.ndim == 1:
            return dtrmv(self._lower.T, X, lower=0, trans=trans)
        return dtrmm(1.0, self._lower.T, X, lower=0, trans_a=trans)

    def diag_inverse(self) -> np.ndarray:
        """Diagonal of A⁻¹: squared column norms of L⁻¹."""
        self._invert()
        out = np.zeros(len(self._lower))
        for i, j in row_blocks(len(out)):
            left, corner = self._lower[i:j, :i], np.where(ABOVE[: j - i, : j - i], 0.0, self._lower[i:j, i:j])
            out[:i] += np.einsum("ij,ij->j", left, left)
            out[i:j] += np.einsum("ij,ij->j", corner, corner)
        return out

    def inverse_lower(self) -> np.ndarray:
        """Lower triangle of A⁻¹, in a new array; the factor stays usable."""
        self._invert()
        return dlauum(self._lower.T.copy(order="F"), lower=0, overwrite_c=1)[0].T

    def into_inverse(self) -> np.ndarray:
        """Lower triangle of A⁻¹ where the factor was: nothing is copied, and the factor is spent."""
        self._invert()
        spent, self._lower = self._lower, np.empty((0, 0))
        return dlauum(spent.T, lower=0, overwrite_c=1)[0].T

    def inverse_root(self) -> np.ndarray:
        """L⁻¹ with zeros above its diagonal, in a new array."""
        self._invert()
        return np.tril(self._lower)
