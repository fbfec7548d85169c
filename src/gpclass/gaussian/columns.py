"""Covariances that are never stored as a whole: a diagonal, and columns on demand.

Any object with the attributes and methods of `Columns` works.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np


class Columns(Protocol):
    """Covariances of n rows, as engines with active sets use them."""

    @property
    def diag(self) -> np.ndarray:
        """(n,) variances."""

    def columns(self, indices: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """Return the covariances of all rows, (n, k), or of some rows, (m, k), with the rows `indices`."""

    def take(self, rows: np.ndarray) -> Columns:
        """Return the covariances among some of the rows."""

    def __len__(self) -> int: ...


class MatrixColumns:
    """Columns of a given matrix, or of some of its rows."""

    def __init__(self, K: np.ndarray, rows: np.ndarray | None = None):
        self._K = K
        self._rows = np.arange(len(K)) if rows is None else rows

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def diag(self) -> np.ndarray:
        return np.diagonal(self._K)[self._rows]

    def columns(self, indices: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        down = self._rows if rows is None else self._rows[rows]
        return self._K[np.ix_(down, self._rows[indices])]

    def take(self, rows: np.ndarray) -> MatrixColumns:
        return MatrixColumns(self._K, self._rows[rows])


def given_columns(K: Any) -> list[Columns] | None:
    """Return `Columns` as a list: one for all latent functions, or one for each. None if K is an array."""
    parts = list(K) if isinstance(K, (list, tuple)) else [K]
    return parts if parts and all(hasattr(part, "columns") for part in parts) else None


def cross(covariance: Columns, active: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the covariances (d, m) of active rows with other rows, in Fortran order."""
    if not len(active) or not len(rows):
        return np.zeros((len(active), len(rows)))
    return np.ascontiguousarray(covariance.columns(active, rows=rows)).T


def gram(covariance: Columns, active: np.ndarray) -> np.ndarray:
    """Return the covariances (d, d) among active rows, exactly symmetric."""
    K = covariance.columns(active, rows=active)
    return np.ascontiguousarray(0.5 * (K + K.T))


class MatrixGradient:
    """Accumulates a derivative in all covariances as a symmetric matrix, for checks on small problems."""

    def __init__(self, n: int):
        self.total = np.zeros((n, n))

    def gram(self, active: np.ndarray, G: np.ndarray) -> None:
        self.total[np.ix_(active, active)] += G

    def cross(self, active: np.ndarray, rows: np.ndarray, G: np.ndarray, value: np.ndarray) -> None:
        self.total[np.ix_(active, rows)] += 0.5 * G
        self.total[np.ix_(rows, active)] += 0.5 * G.T

    def diag(self, rows: np.ndarray, g: np.ndarray) -> None:
        self.total[rows, rows] += g
