"""Sources with the rows of another source, some of which add fingerprints of the rows or weights by class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...numerics.fingerprint import single_precision_fingerprints
from .batch import Batch
from .labels import codes
from .source import Source


@dataclass(frozen=True)
class Wrapped(Source):
    """A source with the rows of another one, which may be an object of a user with `n_rows`, `n_columns` and `batches`."""

    source: Any

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        return self.source.n_rows

    @property
    def n_columns(self) -> int:  # type: ignore[override]
        return self.source.n_columns

    @property
    def rows_at_once(self) -> int:  # type: ignore[override]
        return getattr(self.source, "rows_at_once", Source.rows_at_once)

    @property
    def in_random_order(self) -> bool:  # type: ignore[override]
        return getattr(self.source, "in_random_order", Source.in_random_order)

    @property
    def remedy(self) -> str:  # type: ignore[override]
        return getattr(self.source, "remedy", Source.remedy)

    def batches(self, size: int, seed: Sequence[int]) -> Iterator[Batch]:
        yield from map(self.changed, self.source.batches(size, seed))

    def changed(self, batch: Batch) -> Batch:
        """Return the batch with what this source adds."""
        return batch


@dataclass(frozen=True)
class Fingerprinted(Wrapped):
    """A source that computes the fingerprint of each row as it is read."""

    prints: np.ndarray  # (n,)

    def changed(self, batch: Batch) -> Batch:
        self.prints[batch.rows] = single_precision_fingerprints(batch.X)
        return batch


@dataclass(frozen=True)
class ClassWeighted(Wrapped):
    """A source whose rows have the weight of their class, times their own."""

    labels: np.ndarray  # (C,)
    factors: np.ndarray  # (C,) weight of each label

    def changed(self, batch: Batch) -> Batch:
        factors = self.factors[codes(batch.y, self.labels)]
        return batch._replace(weight=factors if batch.weight is None else batch.weight * factors)
