"""Streams: sources that are read in pieces, which a buffer mixes and cuts into minibatches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from .batch import Batch, joined
from .source import BUFFER, Arrays, Source


class Stream(Source):
    """Base class of sources that are read in pieces. At most about `buffer` rows, or one minibatch, are in memory.

    Pieces are added to the buffer, and each minibatch is drawn from it at random. A subclass has this attribute and
    the method `pieces`, which yields pieces in random order if possible.

    Attributes
    ----------
    buffer : int
        Number of rows in the buffer.
    """

    buffer: int

    def pieces(self, rng: np.random.Generator) -> Iterator[Batch]:
        """Yield all rows once, some at a time, in an order that `rng` determines. X may have any floating type."""
        raise NotImplementedError

    def batches(self, size: int, seed: Sequence[int]) -> Iterator[Batch]:
        if self.n_rows <= max(self.buffer, size):
            yield from self.whole().batches(size, seed)
            return
        order, draws = (np.random.default_rng([*seed, part]) for part in range(2))
        pool = Pool()
        for piece in self.pieces(order):
            pool.add(piece)
            while pool.held >= max(self.buffer, size):
                yield pool.draw(size, draws)
        while pool.held:
            yield pool.draw(min(size, pool.held), draws)

    @property
    def rows_at_once(self) -> int:  # type: ignore[override]
        return min(self.buffer, BUFFER)

    @property
    def in_random_order(self) -> bool:  # type: ignore[override]
        return self.n_rows <= self.buffer

    def without(self, rows: np.ndarray, seed: Sequence[int]) -> tuple[Source, Batch]:
        """Return a source without some rows, and these rows. A stream that fits into its buffer is replaced by arrays."""
        return self.whole().without(rows, seed) if self.n_rows <= self.buffer else super().without(rows, seed)

    def whole(self) -> Arrays:
        """Return all rows in the order of the source."""
        found = joined(list(self.pieces(np.random.default_rng(0))))
        X, y, _, weight = found.some(np.argsort(found.rows))
        return Arrays(X, y, weight=weight)


class Pool:
    """The rows in the buffer of a stream, from which minibatches are drawn at random."""

    def __init__(self) -> None:
        self.parts: list[np.ndarray] = []  # X, y, rows and weights (or none), with unused space after the first `held` rows
        self.held = 0

    def add(self, batch: Batch) -> None:
        """Add rows."""
        end = self.held + len(batch.y)
        given = [part for part in batch if part is not None]
        parts = self.parts or [part[:0] for part in given]
        self.parts = [_with_room(part, new, end) for part, new in zip(parts, given, strict=True)]
        for part, new in zip(self.parts, given, strict=True):
            part[self.held : end] = new
        self.held = end

    def draw(self, size: int, rng: np.random.Generator) -> Batch:
        """Remove `size` random rows and return them."""
        at = rng.choice(self.held, size, replace=False)
        X, *others = (part[at] for part in self.parts)
        self.held -= size
        # remaining rows at the end fill the positions of the removed ones
        stay = np.setdiff1d(np.arange(self.held, self.held + size), at)
        for part in self.parts:
            part[at[at < self.held]] = part[stay]
        return Batch(X.astype(float, copy=False), *others)


def _with_room(part: np.ndarray, new: np.ndarray, length: int) -> np.ndarray:
    """Return `part`, or a larger copy if it is shorter than `length` or its type cannot hold `new`."""
    dtype = np.result_type(part, new)
    if len(part) >= length and part.dtype == dtype:
        return part
    larger = np.empty((max(len(part), length + length // 8), *part.shape[1:]), dtype)
    larger[: len(part)] = part
    return larger


def check_sizes(**sizes: int) -> None:
    """Raise a ValueError unless all `sizes` are positive integers."""
    for name, size in sizes.items():
        if not isinstance(size, (int, np.integer)) or size < 1:
            raise ValueError(f"{name} must be a number of rows of at least 1, but is {size!r}")
