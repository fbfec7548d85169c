"""The dominant direction of K, treated in float64 where factors are float32.

For a long lengthscale one eigenvalue of K is much larger than all others. Its eigenvector is a nearly constant function.
Along it A⁻¹ = (I + √D K √D)⁻¹ is so small that float32 leaves only a few digits of it, and products with K
multiply the error by this eigenvalue. So the action of A⁻¹ on this direction is computed in float64, by conjugate gradients
with the rounded inverse as preconditioner, and replaces that of the rounded matrices. What remains has the condition of A
without its largest eigenvalue.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg.blas import dsyr2

from ..numerics import symmetric_product

POWER_STEPS = 3  # of the power method for the dominant direction, which starts from a constant function
CG_STEPS = 12  # largest number of steps of conjugate gradients; four are usual
CG_RESIDUAL = 1e-10  # residual at which conjugate gradients stop

Map = Callable[[np.ndarray], np.ndarray]


def dominant_direction(K: np.ndarray) -> np.ndarray:
    """Return an approximation (n,) to the eigenvector of the largest eigenvalue of K, of unit length."""
    u = np.full(len(K), len(K) ** -0.5)
    for _ in range(POWER_STEPS):
        product = symmetric_product(K, u)
        u = product / max(float(np.linalg.norm(product)), np.finfo(float).tiny)
    return u


class Dominant:
    """A_c⁻¹ of several classes, exact on one direction for each.

    Parameters
    ----------
    U : ndarray of shape (n, C)
        Directions of unit length, in terms of the latent values.
    root : ndarray of shape (n, C)
        √D.
    times_A, times_inverse : callable
        Return A_c x_c, and A_c⁻¹ x_c with the rounding of float32, for X (n, C).
    """

    def __init__(self, U: np.ndarray, root: np.ndarray, times_A: Map, times_inverse: Map):
        self.U = U
        scaled = root * U
        size = np.linalg.norm(scaled, axis=0)
        self.v = scaled / size
        first = times_inverse(self.v)
        self.z = _solved(times_A, times_inverse, self.v, first)  # A⁻¹ v
        self.BU = root * self.z * size  # B_c u_c
        self.missing = self.BU - root * first * size  # the error of the rounded B_c u_c

    def times_inverse(self, X: np.ndarray, rounded: Map) -> np.ndarray:
        """Return A_c⁻¹ x_c for X (n, C); `rounded` is the product with the rounding of float32.

        It is not kept here: it belongs to the system that keeps this object, and a cycle of references would delay the
        release of its matrices.
        """
        along = _dots(self.v, X)
        X = X - self.v * along
        Y = rounded(X)
        return Y + self.v * (_dots(self.z, X) - _dots(self.v, Y)) + self.z * along


def correct_symmetric(S: np.ndarray, u: np.ndarray, missing: np.ndarray) -> None:
    """Add to the lower triangle of S the smallest symmetric matrix that adds `missing` to S u; u has unit length."""
    dsyr2(1.0, u, missing - 0.5 * u * float(u @ missing), lower=0, a=S.T, overwrite_a=1)


def _solved(times_A: Map, precondition: Map, B: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Solve A x = b for each column by preconditioned conjugate gradients that start from X."""
    R = B - times_A(X)
    Z = precondition(R)
    P, before = Z, _dots(R, Z)
    for _ in range(CG_STEPS):
        if np.max(np.abs(R)) < CG_RESIDUAL:
            break
        AP = times_A(P)
        length = _over(before, _dots(P, AP))
        X, R = X + length * P, R - length * AP
        Z = precondition(R)
        now = _dots(R, Z)
        P, before = Z + _over(now, before) * P, now
    return X


def _dots(X, Y):
    return np.einsum("ic,ic->c", X, Y)


def _over(x, y):
    return np.divide(x, y, out=np.zeros_like(x), where=y > 0)
