"""A kernel tied to the rows of X: covariances among them, a column at the price of a matrix-vector product.

`kernel(X, Z)` checks, centres and scales X at every call, many times the work of a single column. Here that is done once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np
from scipy.linalg.blas import dgemm, dgemv

from .base import Array, Kernel, checked_inputs
from .comparisons import FAR, NEAR, Distance, _retake_small, check_size, squared_norms
from .composite import Composite
from .pairwise import Pairwise

STRIP = 1 << 15  # numbers shaped at a time: temporary arrays stay in the cache

Compute = Callable[[np.ndarray, "np.ndarray | None"], Array]  # of indices, and rows or None: (k, m)


class BoundKernel:
    """k(X), in parts."""

    def __init__(self, kernel: Kernel, X: Array):
        self.kernel = kernel
        self.X, _ = checked_inputs(X)
        self.diag = kernel.diag(self.X)
        self._compute = _bind(kernel, self.X)

    def __len__(self) -> int:
        return len(self.X)

    def columns(self, indices: np.ndarray, rows: np.ndarray | None = None) -> Array:
        """(n, k) covariances of all rows with those of `indices`, or (m, k) of some rows."""
        indices = np.asarray(indices)
        K = self._compute(indices, rows)
        # a row with itself: White noise is there and nowhere else, and distances are zero but for rounding
        if rows is None:
            K[np.arange(len(indices)), indices] = self.diag[indices]
        else:
            place, same = np.nonzero(indices[:, None] == np.asarray(rows))
            K[place, same] = self.diag[indices[place]]
        return K.T

    def take(self, rows: np.ndarray) -> BoundKernel:
        """The same with some rows of X only."""
        return BoundKernel(self.kernel, self.X[rows])


def _bind(kernel: Kernel, X: Array) -> Compute:
    if isinstance(kernel, Composite):
        members = [_bind(k, X) for k in kernel.members]
        combine = kernel._combine
        return lambda indices, rows: reduce(combine, (compute(indices, rows) for compute in members))
    if isinstance(kernel, Pairwise):
        return _BoundPairwise(kernel, X)
    return lambda indices, rows: kernel._matrix(X[indices], X if rows is None else X[rows])


class _BoundPairwise:
    def __init__(self, kernel: Pairwise, X: Array):
        self.kernel = kernel
        centred, _ = kernel._centred(X, None)
        self.F = np.ascontiguousarray(kernel._safe_features(centred))
        check_size(self.F)
        self.half = 0.5 * squared_norms(self.F) if kernel._comparison is Distance else None  # of squared norms
        self.largest = 0.0 if self.half is None else 2 * float(self.half.max(initial=0.0))

    def __call__(self, indices: np.ndarray, rows: np.ndarray | None) -> Array:
        F, H = self.F if rows is None else self.F[rows], self.F[indices]
        s = dgemv(1.0, F.T, H[0], trans=1)[None, :] if len(H) == 1 else dgemm(1.0, F.T, H.T, trans_a=1).T
        if self.half is not None:
            half, own = self.half if rows is None else self.half[rows], self.half[indices]
        step = max(1, STRIP // max(1, s.shape[1]))
        for i in range(0, len(s), step):
            strip = s[i : i + step]
            if self.half is not None:
                strip -= half
                strip -= own[i : i + step, None]
                np.minimum(strip, 0.0, out=strip)
                if self.largest > FAR:
                    _retake_small(strip, H[i : i + step], F, NEAR * self.largest)
            self.kernel._shape(strip)
            strip *= self.kernel.variance
        return s
