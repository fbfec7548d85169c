"""Outlines of partitions, which show whether a partition that is computed again has the same rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..learning.crew import Partition
from ..numerics import blocks
from ..numerics.fingerprint import fingerprint


@dataclass(frozen=True)
class Outline:
    """Numbers that almost certainly differ between partitions with different rows, or with another order of the rows."""

    rows: int
    columns: int
    labels: str  # hash of the labels
    sums: np.ndarray  # (D + 1,) of the columns and of the weights, each row multiplied by a number of its own
    scale: np.ndarray  # (D + 1,) the same sums of absolute values
    tol: float  # relative: other processors may round differently

    @staticmethod
    def of(partition: Partition) -> Outline:
        """Return the outline of a partition."""
        X, weight = partition.X, partition.weight
        own = np.random.default_rng(0).uniform(0.5, 1.5, len(X))
        sums, scale = np.zeros((2, X.shape[1] + 1))
        with np.errstate(over="ignore", invalid="ignore"):
            for some in blocks(len(X), X.shape[1] + 1):
                last = np.ones(len(X[some])) if weight is None else weight[some]
                values = np.column_stack([X[some], last])
                sums += own[some] @ values
                scale += own[some] @ np.abs(values)
        labels = fingerprint(partition.labels, partition.place)
        return Outline(len(X), X.shape[1], labels, sums, scale, float(np.sqrt(np.finfo(X.dtype).eps)))

    def agrees(self, other: Outline) -> bool:
        """Return whether two partitions have the same rows."""
        if (self.rows, self.columns, self.labels) != (other.rows, other.columns, other.labels):
            return False
        with np.errstate(invalid="ignore"):
            far = np.abs(self.sums - other.sums) > self.tol * self.scale
        return not np.any(far)
