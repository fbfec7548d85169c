"""The rows of a crew as a source for training on minibatches.

Minibatches are parts of the same random order of all rows as for arrays in one process. So a run depends on the rows and the
size of the minibatches, not on the partitions.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..streams import Batch, RowHashes, Source, Summary, sampled_rows
from ..streams.labels import LabelCounts
from ..streams.summary import SAMPLE_ROWS
from .crews import Crew, persistent
from .order import ROWS_AT_ONCE, CrewBatch
from .shard import Shard, in_order, rows_in
from .store import CrewStore


@dataclass(frozen=True)
class CrewRows(Source):
    """The rows of a crew as a source for training.

    Parameters
    ----------
    crew : Crew
        The crew.
    out : ndarray of int, optional
        Sorted numbers of rows to leave out. The others are numbered from 0 in the same order.
    """

    crew: Crew
    out: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    in_random_order = True

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        return self.crew.n_rows - len(self.out)

    @property
    def n_columns(self) -> int:  # type: ignore[override]
        return self.crew.n_columns

    def batches(self, size: int, seed: Sequence[int]) -> Iterator[Any]:
        """Yield minibatches, as `CrewBatch`."""
        n = self.n_rows
        yield from (CrewBatch(n, tuple(seed), i, min(i + size, n), self.out) for i in range(0, n, size))

    def look(self, seed: Sequence[int], sample: int = SAMPLE_ROWS, hashed: bool = False) -> Summary:
        found = persistent(self.crew, found_in, self.n_rows, tuple(seed), sample, hashed)
        return replace(found.summary(), hashes=found.hashes if hashed else None)

    def places_of(self, labels: Sequence[Any]) -> str:
        """Return where rows with some labels are: the partition and the row in it of the first one of each."""
        found = sorted(persistent(self.crew, label_places, list(labels)))
        return "; ".join(f"{label!r} in {name}, row {row + 1} (counted from 1)" for _, row, name, label in found[:5])

    def without(self, rows: np.ndarray, seed: Sequence[int]) -> tuple[CrewRows, Batch]:
        if len(self.out):
            raise ValueError("rows were already left out")
        return CrewRows(self.crew, rows), in_order(persistent(self.crew, rows_in, rows))

    def store(self, engine: Any, likelihood: Any, labels: np.ndarray) -> CrewStore:
        """Return the store for the sites of a new run."""
        none = engine.row_sites(0, likelihood) if engine.keeps_rows else {}
        return CrewStore(self.crew, labels, self.out, uuid.uuid4().hex, none)


@dataclass(frozen=True)
class Found:
    """The results of one pass over the rows of a shard; those of different shards can be added."""

    labels: LabelCounts
    weight: float | None
    weights: Counter  # sum of the weights of each label; empty if there are no weights
    sample: list[Batch]
    hashes: RowHashes

    def __add__(self, other: Found) -> Found:
        found = [part for part in (self.weight, other.weight) if part is not None]
        weights = sum(found) if found else None, self.weights + other.weights
        return Found(self.labels + other.labels, *weights, [*self.sample, *other.sample], self.hashes + other.hashes)

    def summary(self) -> Summary:
        by_label = self.labels.checked()
        names = list(by_label)
        X, y, numbers, row_weight = in_order(self.sample)
        counts = np.array(list(by_label.values()))
        weights = None if self.weight is None else np.array([self.weights[name] for name in names])
        found = np.array(names), counts, X, y, 0.0, self.weight, weights
        return Summary(*found, row_weight=row_weight, numbers=numbers)


def found_in(shard: Shard, n_rows: int, seed: tuple[int, ...], sample: int, hashed: bool) -> Found:
    """Return labels, weights, the rows of a sample and hashes of all rows of a shard."""
    labels = LabelCounts(Counter(), {})
    weights: Counter = Counter()
    weight, hashes = None, RowHashes(in_random_order=True)
    for part in shard.parts:
        found, number = np.unique(part.place, return_counts=True)
        labels += LabelCounts.of(part.labels[found], number, part.name)
        if part.weight is not None:
            weight = (weight or 0.0) + float(np.sum(part.weight))
            by_label = np.bincount(part.place, part.weight, len(part.labels))[found]
            weights.update(dict(zip(part.labels[found].tolist(), by_label.tolist(), strict=True)))
        if hashed:
            for i in range(0, len(part), ROWS_AT_ONCE):
                some = part.some(slice(i, i + ROWS_AT_ONCE))
                numbers = np.arange(part.first + i, part.first + i + len(some))
                hashes.add(Batch(np.asarray(some.X, float), some.labels[some.place], numbers, some.weight))
    return Found(labels, weight, weights, rows_in(shard, sampled_rows(n_rows, seed, sample)), hashes)


def label_places(shard: Shard, labels: list[Any]) -> list[tuple[int, int, str, Any]]:
    """Return the first place of some labels in each partition: number of its first row, row in it, name, label."""
    found = []
    for part in shard.parts:
        for code, label in enumerate(part.labels.tolist()):
            if label in labels and np.any(rows := part.place == code):
                found.append((part.first, part.start + int(np.argmax(rows)), part.name, label))
    return found
