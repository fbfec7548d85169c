"""Covariances that are never stored as a whole: a diagonal, and columns on demand.

Any object with `diag` (n,), `columns(indices, rows=None)` (n or len(rows), k) and a length works. A method `take(rows)`, the
covariances among some rows only, is optional and speeds things up.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np


class Columns(Protocol):
    """Interface of a covariance of n rows that sparse engines use."""

    @property
    def diag(self) -> np.ndarray:
        """(n,) variances."""

    def columns(self, indices: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """(n, k) covariances of all rows, or (m, k) of some, with the rows `indices`."""

    def __len__(self) -> int: ...


class MatrixColumns:
    """Columns of a given matrix."""

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


class Restricted:
    """Some rows of covariances that have no `take` method."""

    def __init__(self, whole: Columns, rows: np.ndarray):
        self._whole, self._rows = whole, rows

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def diag(self) -> np.ndarray:
        return self._whole.diag[self._rows]

    def columns(self, indices: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        down = self._rows if rows is None else self._rows[rows]
        return self._whole.columns(self._rows[indices], rows=down)

    def take(self, rows: np.ndarray) -> Restricted:
        return Restricted(self._whole, self._rows[rows])


def given_columns(K: Any) -> list[Columns] | None:
    """Return covariances with columns on demand as a list: one for all latent functions, or one for each.

    None if K is a matrix or several matrices.
    """
    parts = list(K) if isinstance(K, (list, tuple)) else [K]
    return parts if parts and all(hasattr(part, "columns") for part in parts) else None


def take(covariance: Any, rows: np.ndarray) -> Columns:
    """Covariances among `rows`."""
    return covariance.take(rows) if hasattr(covariance, "take") else Restricted(covariance, rows)


def cross(covariance: Columns, active: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """(d, m) covariances of active rows with other rows, in the column order that LAPACK needs."""
    if not len(active) or not len(rows):
        return np.zeros((len(active), len(rows)))
    return np.ascontiguousarray(covariance.columns(active, rows=rows)).T


def gram(covariance: Columns, active: np.ndarray) -> np.ndarray:
    """(d, d) covariances among active rows, exactly symmetric."""
    K = covariance.columns(active, rows=active)
    return np.ascontiguousarray(0.5 * (K + K.T))


class MatrixGradient:
    """Accumulates a derivative in all covariances as a symmetric matrix. For checks on small problems."""

    def __init__(self, n: int):
        self.total = np.zeros((n, n))

    def gram(self, active: np.ndarray, G: np.ndarray) -> None:
        self.total[np.ix_(active, active)] += G

    def cross(self, active: np.ndarray, rows: np.ndarray, G: np.ndarray, value: np.ndarray) -> None:
        self.total[np.ix_(active, rows)] += 0.5 * G
        self.total[np.ix_(rows, active)] += 0.5 * G.T

    def diag(self, rows: np.ndarray, g: np.ndarray) -> None:
        self.total[rows, rows] += g
