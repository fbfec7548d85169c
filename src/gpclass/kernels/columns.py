"""k(X) for given rows X, computed column by column on demand, as engines with active sets need it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arrays import Array, checked_inputs
from .base import Kernel


class KernelColumns:
    """The covariances k(X), of which columns are computed when requested.

    Checks, centring and features of X are done once, not for each column.

    Parameters
    ----------
    kernel : Kernel
        A kernel whose values are matrices.
    X : array_like of shape (n, D)
        The rows.

    Attributes
    ----------
    diag : ndarray of shape (n,)
        The diagonal of k(X).
    """

    def __init__(self, kernel: Kernel, X: ArrayLike) -> None:
        self.kernel = kernel
        self.X, _ = checked_inputs(X, None, kernel.takes)
        self.diag = kernel.diag(self.X)
        self._evaluate = kernel._evaluator(self.X)

    def __len__(self) -> int:
        return len(self.X)

    def columns(self, indices: NDArray[np.intp], rows: NDArray[np.intp] | None = None) -> Array:
        """Return the covariances of all rows, (n, k), or of some rows, (m, k), with the rows `indices`."""
        indices = np.asarray(indices)
        K = self._evaluate(self.X[indices], rows)
        # A row with itself has White noise, and a distance of exactly zero: both are in `diag`.
        if rows is None:
            K[np.arange(len(indices)), indices] = self.diag[indices]
        else:
            place, same = np.nonzero(indices[:, None] == np.asarray(rows))
            K[place, same] = self.diag[indices[place]]
        return K.T

    def with_inputs(self, Z: Array) -> Array:
        """Return the covariances (n, k) of all rows with other inputs, a C-ordered array."""
        return np.ascontiguousarray(self._evaluate(Z, None).T)

    def take(self, rows: NDArray[np.intp]) -> KernelColumns:
        """Return the covariances among some of the rows."""
        return KernelColumns(self.kernel, self.X[rows])
