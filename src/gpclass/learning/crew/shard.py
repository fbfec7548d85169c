"""Shards: the partitions of one process, and what computations keep with their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...numerics import blocks
from ..streams import Batch, codes
from ..streams.batch import joined
from .partition import Partition


class Piece(NamedTuple):
    """Some rows of a shard."""

    at: slice  # their places in the shard
    X: np.ndarray  # (m, D) double precision
    place: np.ndarray  # (m,) class numbers
    weight: np.ndarray | None  # (m,)


class Shard:
    """The rows of one process.

    Rows of a shard are counted from 0 in the order of their numbers in the data set.

    Attributes
    ----------
    parts : list of Partition
        The partitions, in the order of their rows.
    memory : dict
        What computations keep here between two calls. Functions use keys of their own.
    """

    def __init__(self, parts: Sequence[Partition]):
        self.parts = sorted(parts, key=lambda part: part.first)
        self.memory: dict[Any, Any] = {}
        self._starts = np.cumsum([0, *(len(part) for part in self.parts)])

    @property
    def n_rows(self) -> int:
        return int(self._starts[-1])

    @property
    def weighted(self) -> bool:
        """Whether rows have weights."""
        return any(part.weight is not None for part in self.parts)

    def numbers(self) -> np.ndarray:
        """Return the numbers (n_rows,) of the rows in the data set, in ascending order."""
        return np.concatenate([np.arange(0), *(np.arange(part.first, part.first + len(part)) for part in self.parts)])

    def pieces(self, labels: np.ndarray, width: int = 1) -> Iterator[Piece]:
        """Yield all rows in blocks. `labels` are all classes in their order, `width` the numbers that a row needs."""
        for part, start in zip(self.parts, self._starts, strict=False):
            place = codes(part.labels, labels)
            for some in blocks(len(part), width, least=64):
                at = slice(int(start) + some.start, int(start) + some.stop)
                weight = None if part.weight is None else part.weight[some]
                yield Piece(at, np.asarray(part.X[some], float), place[part.place[some]], weight)

    def places(self, numbers: np.ndarray) -> np.ndarray:
        """Return the places in the shard of those of some rows, given by their sorted numbers, that are in it."""
        found = [np.zeros(0, np.int64)]
        for part, start in zip(self.parts, self._starts, strict=False):
            i, j = np.searchsorted(numbers, [part.first, part.first + len(part)])
            found.append(numbers[i:j] - part.first + int(start))
        return np.concatenate(found)

    def take(self, rows: np.ndarray, numbers: np.ndarray | None = None) -> Batch:
        """Return some rows, with their labels. `rows` are sorted places in the shard.

        `numbers` are those of the result, by default the numbers of the rows in the data set.
        """
        edges = np.searchsorted(rows, self._starts)
        found = []
        for part, start, i, j in zip(self.parts, self._starts, edges, edges[1:], strict=False):
            own = rows[i:j] - start
            weight = None if part.weight is None else part.weight[own]
            found.append(Batch(np.asarray(part.X[own], float), part.labels[part.place[own]], part.first + own, weight))
        batch = Batch(*(_joined(some) for some in zip(*found, strict=True)))
        return batch if numbers is None else batch._replace(rows=numbers)


def _joined(parts: Sequence[Any]) -> Any:
    """Return the arrays of several partitions as one; None if they are None."""
    if any(part is None for part in parts):
        return None
    filled = [part for part in parts if len(part)] or list(parts[:1])
    return filled[0] if len(filled) == 1 else np.concatenate(filled)


def rows_in(shard: Shard, numbers: np.ndarray) -> list[Batch]:
    """Return those of some rows, given by their sorted numbers, that are in the shard."""
    places = shard.places(numbers)
    return [shard.take(places)] if len(places) else []


def in_order(parts: list[Batch]) -> Batch:
    """Return the rows of several batches in the order of their numbers."""
    whole = joined(parts)
    return whole.some(np.argsort(whole.rows))
