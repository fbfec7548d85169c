"""A source without some of its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .buffered import Stream, rows_at_once
from .source import Arrays, Batch, Source, joined


@dataclass(frozen=True)
class Without:
    """A source without some of its rows. The others are numbered from 0 in the same order."""

    source: Source
    rows: np.ndarray  # the rows to leave out, sorted

    @property
    def n_rows(self) -> int:
        return self.source.n_rows - len(self.rows)

    @property
    def n_columns(self) -> int:
        return self.source.n_columns

    def batches(self, size: int, seed: Sequence[int]) -> Iterator[Batch]:
        waiting: list[Batch] = []
        for batch in self.source.batches(size, seed):
            kept = batch.some(~np.isin(batch.rows, self.rows))
            waiting.append(kept._replace(rows=kept.rows - np.searchsorted(self.rows, kept.rows)))
            if sum(len(some.y) for some in waiting) >= size:
                whole = joined(waiting)
                yield whole.some(slice(size))
                waiting = [whole.some(slice(size, None))]
        if waiting and len((rest := joined(waiting)).y):
            yield rest


def take_out(source: Source, rows: np.ndarray, seed: Sequence[int]) -> tuple[Source, Batch]:
    """Return the source without some rows, and these rows.

    A stream is read once for the rows. If it fits into its buffer, it is replaced by arrays.

    Parameters
    ----------
    source : Source
        The source.
    rows : ndarray of int
        Row numbers, sorted.
    seed : sequence of int
        Seed of the pass that reads the rows.

    Returns
    -------
    source : Source
        The other rows.
    batch : Batch
        The rows, in the order of their numbers.
    """
    if hasattr(source, "without"):  # rows in other processes
        return source.without(rows)
    if isinstance(source, Stream) and source.n_rows <= source.buffer:
        source = source.whole()
    if isinstance(source, Arrays):
        others = np.delete(np.arange(source.n_rows), rows)
        return source.some(others), next(source.some(rows).batches(len(rows), seed))
    found = []
    for batch in source.batches(rows_at_once(source), seed):
        found.append(batch.some(np.isin(batch.rows, rows)))
    taken = joined(found)
    return Without(source, rows), taken.some(np.argsort(taken.rows))
