"""Products of C-ordered arrays by SciPy's BLAS, called with their transposes; see numerics.linalg.

NumPy's BLAS would start a second thread pool, and the two pools would wait for each other. Products have the dtype of their
first factor; the other is converted.
"""

from __future__ import annotations

import numpy as np

from ..numerics.precision import blas


def times(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Return X Y; Y may be a transposed view."""
    gemm = blas("gemm", X)
    if Y.flags.c_contiguous:
        return gemm(1.0, Y.T, X.T).T
    return gemm(1.0, Y, X.T, trans_a=1).T


def transposed_times(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Return Xᵀ Y."""
    return blas("gemm", X)(1.0, Y.T, X.T, trans_b=1).T


def times_triangle(X: np.ndarray, L: np.ndarray, transposed: bool = False) -> np.ndarray:
    """Return X L or X Lᵀ for lower triangular L, both in C order."""
    return blas("trmm", X)(1.0, L.T, X.T, side=0, lower=0, trans_a=int(transposed)).T


def stacked(parts: list[np.ndarray]) -> np.ndarray:
    """Return `np.stack(parts)`, without a copy if there is only one part."""
    return parts[0][None] if len(parts) == 1 else np.stack(parts)


def inner_products(rows: np.ndarray, root: np.ndarray) -> np.ndarray:
    """Return the inner products (n, C, C) of rows (n, C, m), each divided by an entry of `root` (n, C), in float64.

    Rows of float32 are centred first: their mean over classes can be so much larger than the differences between classes
    that its rounding error would hide the variances of these differences.
    """
    if rows.dtype == np.float64:
        out = np.matmul(rows, np.swapaxes(rows, 1, 2))
        out /= root[:, :, None] * root[:, None, :]
        return out
    rows = rows / root[:, :, None].astype(rows.dtype)
    common = rows.mean(axis=1, keepdims=True)
    rows = rows - common
    across = np.matmul(rows, np.swapaxes(common, 1, 2)).astype(float)  # (n, C, 1)
    own = np.einsum("ijk,ijk->ij", common, common, dtype=float)[:, :, None]
    return np.matmul(rows, np.swapaxes(rows, 1, 2)) + across + np.swapaxes(across, 1, 2) + own
