"""Sources that add something to the batches of another source: fingerprints of the rows, or weights by class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...numerics.fingerprint import single_precision_fingerprints
from .labels import codes
from .source import Batch, Source


@dataclass(frozen=True)
class Wrapped:
    """A source with the rows of another one."""

    source: Source

    @property
    def n_rows(self) -> int:
        return self.source.n_rows

    @property
    def n_columns(self) -> int:
        return self.source.n_columns

    def __getattr__(self, name: str) -> Any:  # optional attributes of sources, such as the buffer size
        if name == "source":  # while it is being unpickled
            raise AttributeError(name)
        return getattr(self.source, name)

    def batches(self, size: int, seed: Sequence[int]) -> Iterator[Batch]:
        yield from map(self.changed, self.source.batches(size, seed))

    def changed(self, batch: Batch) -> Batch:
        """Return the batch with what this source adds."""
        raise NotImplementedError


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
