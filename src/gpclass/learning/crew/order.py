"""The rows of a minibatch that are in a shard: parts of a random order of all rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..streams import Order
from .shard import Shard

ROWS_AT_ONCE = 1 << 16  # rows whose sites are sent, or whose numbers are computed, at a time


@dataclass(frozen=True)
class CrewBatch:
    """A minibatch: the rows at the positions start … stop-1 of a random order of n rows.

    These are all rows except `out`, whose sorted numbers are given; the others are numbered from 0 in the same order.
    """

    n: int
    seed: tuple[int, ...]
    start: int
    stop: int
    out: np.ndarray

    @property
    def rows(self) -> range:
        """The positions; its length is the number of rows."""
        return range(self.start, self.stop)


@dataclass(frozen=True)
class _Order:
    """The rows of a shard in a random order of all rows."""

    which: tuple[Any, ...]
    positions: np.ndarray  # sorted
    rows: np.ndarray  # the rows at these positions


def order_of(shard: Shard, batch: CrewBatch) -> _Order:
    """Return the order of a pass; a shard keeps the last one."""
    which = batch.n, batch.seed, len(batch.out)
    kept = shard.memory.get("order")
    if kept is None or kept.which != which:
        shard.memory.pop("order", None)
        order = Order.of(batch.n, batch.seed)
        found = []
        for place, some in _numbers(shard):  # in blocks, which need less memory
            own, numbers = _among_all(place, some, batch.out)
            small = order.positions(numbers).astype(_small(batch.n)), own.astype(_small(shard.n_rows))
            found.append(small)
        positions, rows = (np.concatenate(part) for part in zip(*found, strict=True)) if found else (np.zeros(0, int),) * 2
        by_position = np.argsort(positions)
        kept = shard.memory["order"] = _Order(which, positions[by_position], rows[by_position])
    return kept


def _small(n: int) -> Any:
    """Return a type for the numbers below n."""
    return np.uint32 if n <= 2**32 else np.int64


def numbered_rows(shard: Shard, out: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of a shard that are not left out, and their numbers among all such rows."""
    return _among_all(0, shard.numbers(), out)


def _among_all(place: int, numbers: np.ndarray, out: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return those of the rows from `place` on, with these numbers, that are not left out, and their new numbers."""
    before = np.searchsorted(out, numbers)
    gone = np.isin(numbers, out, assume_unique=True)
    return place + np.flatnonzero(~gone), (numbers - before)[~gone]


def _numbers(shard: Shard) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the numbers of the rows of a shard in blocks, with the place of the first."""
    place = 0
    for part in shard.parts:
        for i in range(0, len(part), ROWS_AT_ONCE):
            yield place + i, np.arange(part.first + i, part.first + min(i + ROWS_AT_ONCE, len(part)))
        place += len(part)


def rows_of(shard: Shard, batch: CrewBatch) -> np.ndarray:
    """Return the rows of a minibatch that are in the shard, in the order of their numbers."""
    order = order_of(shard, batch)
    i, j = np.searchsorted(order.positions, [batch.start, batch.stop])
    return np.sort(order.rows[i:j])
