"""Partitions: some consecutive rows of a data set, checked, with labels and weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..streams import codes, of_one_type
from ..streams.batch import as_float, refuse_missing


@dataclass(frozen=True)
class Partition:
    """Consecutive rows of a data set.

    Attributes
    ----------
    X : ndarray of shape (m, D)
        Inputs, in single or double precision.
    labels : ndarray of shape (k,)
        The different labels of these rows, sorted.
    place : ndarray of shape (m,)
        Place of the label of each row in `labels`.
    weight : ndarray of shape (m,) or None
        Weights; None means one each.
    name : str
        Name for messages, such as the name of a file.
    first : int
        Number of the first row in the data set.
    start : int
        Number of the first row within the object that `name` refers to, such as a file.
    """

    X: np.ndarray
    labels: np.ndarray
    place: np.ndarray
    weight: np.ndarray | None = None
    name: str = "partition 0"
    first: int = 0
    start: int = 0

    @staticmethod
    def of(X: Any, y: Any, weight: Any = None, name: str = "partition 0", first: int = 0) -> Partition:
        """Return a partition of checked rows.

        Raises
        ------
        ValueError
            If rows are invalid. The message names the partition and the row in it.
        """
        X, y = np.asarray(X), np.asarray(y)
        try:
            if X.ndim != 2 or y.shape != (len(X),):
                raise ValueError(f"X must be (m, D) and y (m,), but they are {X.shape} and {y.shape}")
            rows = np.arange(len(X))
            X = X if X.dtype in (np.float32, np.float64) else as_float(X, rows)
            refuse_missing(X, rows)
            labels, place = _labelled(y)
            if weight is not None:
                weight = _weights(weight, len(X))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
        place = place.astype(np.uint8 if len(labels) <= 256 else np.int32)
        return Partition(np.ascontiguousarray(X), labels, place, weight, name, first)

    def __len__(self) -> int:
        return len(self.X)

    def at(self, first: int, start: int = 0) -> Partition:
        """Return the partition with other numbers of its first row."""
        return replace(self, first=first, start=start)

    def some(self, rows: Any) -> Partition:
        """Return some of the rows; `first` is unchanged."""
        weight = None if self.weight is None else self.weight[rows]
        return replace(self, X=self.X[rows], place=self.place[rows], weight=weight)


def _labelled(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the different labels and the place of each row's label among them; raise a ValueError for missing labels."""
    y = of_one_type(y)
    if y.dtype.kind not in "biufUSO":
        raise ValueError(f"labels are of type {y.dtype}; use numbers, texts or booleans")
    labels, place = np.unique(y, return_inverse=True)
    return labels, place.ravel()


def _weights(weight: Any, m: int) -> np.ndarray:
    weight = np.asarray(weight, float)
    if weight.shape != (m,):
        raise ValueError(f"sample_weight must have one entry for each of {m} rows, but has the shape {weight.shape}")
    wrong = ~(np.isfinite(weight) & (weight > 0))
    if np.any(wrong):
        i = int(np.argmax(wrong))
        row = f"row {i + 1} (counted from 1)"
        raise ValueError(f"the weight of {row} is {weight[i]}; weights must be positive: leave such rows out")
    return weight


def weighted_by_class(partition: Partition, labels: np.ndarray, factors: np.ndarray) -> Partition:
    """Return a partition whose weights are multiplied by the factor of each row's label."""
    own = factors[codes(partition.labels, labels)][partition.place]
    return replace(partition, weight=own if partition.weight is None else partition.weight * own)
