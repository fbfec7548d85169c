"""Products of C-ordered arrays by SciPy's BLAS, called with their transposes; see numerics.linalg.

NumPy's BLAS would start a second thread pool, and the two pools would wait for each other.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dgemm, dtrmm


def times(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Return X Y; Y may be a transposed view."""
    if Y.flags.c_contiguous:
        return dgemm(1.0, Y.T, X.T).T
    return dgemm(1.0, Y, X.T, trans_a=1).T


def transposed_times(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Return Xᵀ Y."""
    return dgemm(1.0, Y.T, X.T, trans_b=1).T


def times_triangle(X: np.ndarray, L: np.ndarray, transposed: bool = False) -> np.ndarray:
    """Return X L or X Lᵀ for lower triangular L, both in C order."""
    return dtrmm(1.0, L.T, X.T, side=0, lower=0, trans_a=int(transposed)).T


def stacked(parts: list[np.ndarray]) -> np.ndarray:
    """Return `np.stack(parts)`, without a copy if there is only one part."""
    return parts[0][None] if len(parts) == 1 else np.stack(parts)
