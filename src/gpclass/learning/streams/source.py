"""What a source of rows declares; arrays or memory maps as a source; a source without some of its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...engines.observations import Observed
from .batch import Batch, finite, joined
from .hashes import RowHashes
from .order import Order, sampled_rows
from .summary import SAMPLE_ROWS, Summary, summarised

BUFFER = 1 << 16  # rows that are read at a time in a pass over a whole source; default number of rows in a stream's buffer


class Source:
    """Base class of sources of rows for training.

    A subclass has `n_rows`, `n_columns` and `batches`. A source whose rows are in other processes (`learning.crew.rows`)
    has a `crew`, and its batches only refer to rows.

    Attributes
    ----------
    n_rows, n_columns : int
        Numbers of rows and of input columns.
    rows_at_once : int
        Number of rows that a pass over the whole source reads at a time.
    in_random_order : bool
        Whether minibatches are parts of an `Order` of all rows, which depends on the seed and the number of rows only.
    remedy : str
        What to do if the labels come in an uneven order, for a warning.
    crew : Crew or None
        The processes that have the rows; None if they are read in this process.
    """

    n_rows: int
    n_columns: int
    rows_at_once: int = BUFFER
    in_random_order: bool = False
    remedy: ClassVar[str] = "Shuffle the rows once, or use arrays or a memory map"
    crew: Any = None

    def batches(self, size: int, seed: Sequence[int]) -> Iterator[Any]:
        """Yield all rows once, `size` at a time (the last minibatch may be smaller), in an order that `seed` determines."""
        raise NotImplementedError

    def look(self, seed: Sequence[int], sample: int = SAMPLE_ROWS, hashed: bool = False) -> Summary:
        """Read all rows once and return their labels and a uniform sample.

        Parameters
        ----------
        seed : sequence of int
            Seed of the pass and of the sample.
        sample : int, default=10000
            Number of rows in the sample.
        hashed : bool, default=False
            Whether to compute the hashes of all rows.

        Returns
        -------
        Summary
        """
        hashes = RowHashes(self.in_random_order) if hashed else None
        return summarised(self._all(seed), sampled_rows(self.n_rows, seed, sample), hashes)

    def without(self, rows: np.ndarray, seed: Sequence[int]) -> tuple[Source, Batch]:
        """Return a source without some rows, and these rows.

        Parameters
        ----------
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
        taken = joined([batch.some(np.isin(batch.rows, rows)) for batch in self._all(seed)])
        return Without(self, rows), taken.some(np.argsort(taken.rows))

    def _all(self, seed: Sequence[int]) -> Iterator[Batch]:
        """Yield all rows, `rows_at_once` at a time."""
        return self.batches(max(1, min(self.rows_at_once, self.n_rows)), seed)


@dataclass(frozen=True)
class Without(Source):
    """A source without some of its rows. The others are numbered from 0 in the same order."""

    source: Source
    rows: np.ndarray  # the rows to leave out, sorted

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        return self.source.n_rows - len(self.rows)

    @property
    def n_columns(self) -> int:  # type: ignore[override]
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


@dataclass(frozen=True)
class Arrays(Source):
    """Arrays or memory maps as a source.

    Parameters
    ----------
    X : ndarray of shape (n, D)
        Inputs.
    y : ndarray of shape (n,) or Observed
        Labels; with weights as `Observed`.
    chosen : ndarray of int, optional
        The rows to use. By default all.
    weight : ndarray of shape (n,), optional
        Weights, positive. The default is one each.
    """

    X: Any
    y: Any
    chosen: np.ndarray | None = None
    weight: np.ndarray | None = None

    in_random_order = True

    def __post_init__(self):
        if isinstance(self.y, Observed) or self.weight is not None:
            observed = self.y if isinstance(self.y, Observed) else Observed(self.y, np.asarray(self.weight))
            object.__setattr__(self, "y", observed.y)
            object.__setattr__(self, "weight", observed.weight)
        if np.ndim(self.X) != 2 or np.shape(self.y) != (len(self.X),):
            raise ValueError(f"X must be (n, D) and y (n,), but they are {np.shape(self.X)} and {np.shape(self.y)}")

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        return len(self.X) if self.chosen is None else len(self.chosen)

    @property
    def n_columns(self) -> int:  # type: ignore[override]
        return int(self.X.shape[1])

    def batches(self, size: int, seed: Sequence[int]) -> Iterator[Batch]:
        order = Order.of(self.n_rows, seed)
        for i in range(0, self.n_rows, size):
            rows = np.sort(order.part(i, min(i + size, self.n_rows)))  # memory maps are read forwards
            at = rows if self.chosen is None else self.chosen[rows]
            weight = None if self.weight is None else self.weight[at]
            yield Batch(finite(self.X[at], at), np.asarray(self.y[at]), rows, weight)

    def some(self, rows: np.ndarray) -> Arrays:
        """Return a source of some of the rows."""
        return Arrays(self.X, self.y, rows if self.chosen is None else self.chosen[rows], self.weight)

    def without(self, rows: np.ndarray, seed: Sequence[int]) -> tuple[Source, Batch]:
        others = np.delete(np.arange(self.n_rows), rows)
        return self.some(others), next(self.some(rows).batches(len(rows), seed))
