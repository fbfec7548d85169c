"""Inducing variables that are latent values at rows, and their covariances, with columns computed on demand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...gaussian import Columns, InducingCovariance, MatrixColumns
from ...gaussian.columns import given_columns
from ...numerics.separable import classes_of, combined, inputs_of


@dataclass(frozen=True)
class InducingSet:
    """Some (row, class) pairs, in the order in which they were chosen."""

    rows: np.ndarray  # (t,) rows of the variables, each once
    inputs: np.ndarray  # (s,) index of each variable's row in `rows`
    classes: np.ndarray  # (s,)

    @classmethod
    def empty(cls) -> InducingSet:
        return cls(*(np.zeros(0, int) for _ in range(3)))

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def pairs(self) -> np.ndarray:
        """(s, 2) row and class of each variable."""
        return np.column_stack([self.rows[self.inputs], self.classes])

    def with_pairs(self, rows: np.ndarray, classes: np.ndarray) -> InducingSet:
        place = {row: i for i, row in enumerate(self.rows.tolist())}
        inputs = [place.setdefault(row, len(place)) for row in np.asarray(rows, int).tolist()]
        return InducingSet(
            np.array(list(place), int),
            np.concatenate([self.inputs, np.array(inputs, int)]),
            np.concatenate([self.classes, np.asarray(classes, int)]),
        )


class RowCovariance:
    """Prior covariances of all latent values of n rows, with columns computed on demand."""

    def __init__(self, columns: Sequence[Columns], n_classes: int, between: np.ndarray | None = None):
        self.columns = columns  # one for all classes, or one for each
        self.n_classes = n_classes
        self.between = between  # (C, C) covariances of the classes; None if they are independent

    @classmethod
    def of(cls, K: Any, n_classes: int) -> RowCovariance:
        """Make from a matrix (n, n) or (C, n, n), columns or a list of them, or Separable with one of these."""
        if isinstance(K, RowCovariance):
            return K
        between = classes_of(K)
        if between is not None:
            return cls(cls.of(inputs_of(K), n_classes).columns, n_classes, np.asarray(between, float))
        given = given_columns(K)
        if given is not None:
            same = all(part is given[0] for part in given)
            return cls(given[:1] if same else given, n_classes)
        K = np.asarray(K, float)
        if K.ndim not in (2, 3) or K.shape[-1] != K.shape[-2] or (K.ndim == 3 and len(K) != n_classes):
            raise ValueError(f"K must be a square matrix, or ({n_classes}, n, n), but has shape {K.shape}")
        return cls([MatrixColumns(k) for k in (K if K.ndim == 3 else K[None])], n_classes)

    def __len__(self) -> int:
        return len(self.columns[0])

    @property
    def diag(self) -> Any:
        return self._joined([part.diag for part in self.columns])

    def cross(self, rows: np.ndarray, data: np.ndarray | None = None) -> Any:
        """Return covariances (n, t) of all rows, or of those in `data`, with `rows`; (C, n, t) if each class has its own."""
        return self._joined([part.columns(rows, rows=data) for part in self.columns])

    def of_class(self, c: int) -> Columns:
        return self.columns[c if len(self.columns) > 1 else 0]

    def inducing(self, chosen: InducingSet, before: Any = None) -> InducingCovariance:
        """Return the covariances of an inducing set for the engine; columns that an earlier fit has are reused."""
        fu = self._columns(chosen, before)
        uu = np.take(inputs_of(fu), chosen.rows, axis=-2)
        uu = combined(0.5 * (uu + np.swapaxes(uu, -1, -2)), self.between)
        return InducingCovariance(uu, fu, self.diag, chosen.inputs, chosen.classes).checked(len(self), self.n_classes)

    def _columns(self, chosen, before):
        if before is None or before.chosen is None:
            return self.cross(chosen.rows)
        t = len(before.chosen.rows)
        known = inputs_of(before.posterior.prior.K.fu)
        if t == len(chosen.rows):
            return combined(known, self.between)
        new = inputs_of(self.cross(chosen.rows[t:]))
        return combined(np.concatenate([known, new], axis=-1), self.between)

    def _joined(self, parts):
        return combined(parts[0] if len(parts) == 1 else np.stack(parts), self.between)
