"""Pairs (X, y) of arrays as a stream, and the source for any input of a user."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .batch import Batch, as_float, refuse_missing
from .buffered import Stream, check_sizes
from .labels import LABEL_KINDS, of_one_type
from .order import spread_order
from .source import BUFFER, Arrays, Source
from .wrapped import Wrapped

CHUNK = 1 << 6  # consecutive rows that are read together: few, so that the buffer has rows from many places


@dataclass(frozen=True)
class Batches(Stream):
    """Pairs (X, y) of arrays as a source; use `Batches.of`.

    A list is read in chunks in random order. Pairs from a function are read in the order of the function, and only the
    buffer mixes them; training warns if the labels remain uneven. At most `buffer` rows of 8 × D bytes are in memory.

    Parameters
    ----------
    make : callable or sequence of pairs
        A sequence of pairs (X, y), or a function that returns an iterable of pairs from the beginning at every call.
    n_rows, n_columns : int
        Numbers of rows and of input columns.
    buffer : int, default=65536
        Number of rows in the buffer.
    """

    make: Callable[[], Iterable[tuple[Any, Any]]] | Sequence[tuple[Any, Any]]
    n_rows: int
    n_columns: int
    buffer: int = BUFFER

    remedy: ClassVar = (
        "Shuffle the rows once; or use arrays, a memory map or a list of batches, which are read in random order; or use a "
        "larger buffer: Batches.of(…, buffer=…)"
    )

    @staticmethod
    def of(make: Callable[[], Iterable[tuple[Any, Any]]] | Sequence[tuple[Any, Any]], buffer: int = BUFFER) -> Batches:
        """Return the source, after one pass that counts and checks the rows.

        Parameters
        ----------
        make : callable or sequence of pairs
            A sequence of pairs (X, y), or a function that returns an iterable of pairs from the beginning at every call.
        buffer : int, default=65536
            Number of rows in the buffer.

        Returns
        -------
        Batches

        Raises
        ------
        TypeError
            If `make` is an iterator, which can be read only once.
        ValueError
            If there are no rows, or rows are invalid.
        """
        if hasattr(make, "__next__"):
            raise TypeError(
                "an iterator can be read only once: use a list of pairs (X, y), or a function that returns a new iterator"
            )
        check_sizes(buffer=buffer)
        n, D = 0, None
        for X, y in _begin(make):
            D = np.shape(X)[1] if D is None and np.ndim(X) == 2 else D
            n += len(_checked(X, y, D, n).y)
        if D is None or not n:
            raise ValueError("the stream has no rows")
        return Batches(make, n, D, buffer)

    def pieces(self, rng: np.random.Generator) -> Iterator[Batch]:
        kind = ""
        for start, X, y in self._at_random(rng) if isinstance(self.make, (list, tuple)) else self._in_order():
            piece = _checked(X, y, self.n_columns, start)
            found = LABEL_KINDS.get(piece.y.dtype.kind, "objects")
            kind = kind or found
            if found != kind:
                row = f"row {start + 1} (counted from 1)"
                raise ValueError(f"labels of the stream are {found} in {row}, but {kind} in others; use one type")
            yield piece

    def _in_order(self):
        read = 0
        for X, y in _begin(self.make):
            X, y = np.asarray(X), np.asarray(y)
            if read + len(X) > self.n_rows:
                raise ValueError(f"the stream has more rows than the {self.n_rows} of the first pass")
            for i in range(0, max(len(X), len(y)), CHUNK):
                yield read + i, X[i : i + CHUNK], y[i : i + CHUNK]
            read += len(X)
        if read < self.n_rows:
            raise ValueError(f"the stream ended after {read} of {self.n_rows} rows; can it be read more than once?")

    def _at_random(self, rng):
        pairs = [(np.asarray(X), np.asarray(y)) for X, y in _begin(self.make)]
        starts = np.cumsum([0, *(len(X) for X, _ in pairs)])
        if starts[-1] != self.n_rows:
            raise ValueError(f"the list of batches has {starts[-1]} rows, but it had {self.n_rows} before")
        chunks = [(k, i) for k, (X, _) in enumerate(pairs) for i in range(0, len(X), CHUNK)]
        for c in spread_order(len(chunks), self.buffer * len(chunks) // self.n_rows, rng):
            k, i = chunks[c]
            X, y = pairs[k]
            yield int(starts[k]) + i, X[i : i + CHUNK], y[i : i + CHUNK]


def _begin(make):
    for pair in make() if callable(make) else iter(make):
        if not (isinstance(pair, (tuple, list)) and len(pair) == 2):
            found = f"{len(pair)} items" if isinstance(pair, (tuple, list)) else type(pair).__name__
            raise ValueError(f"a stream must have pairs (X, y), but has {found}; use arrays for weights")
        yield pair


def _checked(X: Any, y: Any, n_columns: int | None, start: int) -> Batch:
    """Return a piece of a stream that begins at row `start`, or raise a ValueError if it is invalid."""
    X, y = np.asarray(X), np.asarray(y)
    if X.ndim != 2 or X.shape[1] != n_columns or y.shape != (len(X),):
        raise ValueError(
            f"a batch of the stream has X {X.shape} and y {y.shape} from row {start + 1} (counted from 1) on, but "
            f"X (m, {n_columns or 'D'}) and y (m,) are needed"
        )
    rows = np.arange(start, start + len(X))
    X = X if X.dtype in (np.float16, np.float32) else as_float(X, rows)
    refuse_missing(X, rows)
    return Batch(X, of_one_type(y, start, " of the stream"), rows)


def as_source(X: Any, y: Any = None) -> Source:
    """Return a source for a user's input.

    Parameters
    ----------
    X : array-like of shape (n, D), source, callable or sequence of pairs
        Inputs if `y` is given; otherwise a source, or the argument of `Batches.of`.
    y : array-like of shape (n,), optional
        Labels.

    Returns
    -------
    Source
    """
    if y is not None:
        return Arrays(X if hasattr(X, "shape") else np.asarray(X), y if hasattr(y, "shape") else np.asarray(y))
    if not hasattr(X, "batches"):
        return Batches.of(X)
    return X if isinstance(X, Source) else Wrapped(X)  # a source of a user need not be derived from `Source`


def is_stream(X: Any) -> bool:
    """Return whether X contains rows and labels: a source, a function that returns pairs (X, y), or a list of pairs.

    It is also True for iterators and tuples of other lengths, for which `as_source` raises an error with advice.
    """
    tuples = isinstance(X, (list, tuple)) and len(X) > 0 and all(isinstance(x, tuple) and len(x) > 1 for x in X)
    return (
        hasattr(X, "batches") or hasattr(X, "__next__") or callable(X) or (tuples and all(np.ndim(x[0]) == 2 for x in X))
    )
