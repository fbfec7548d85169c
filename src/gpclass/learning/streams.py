"""Where rows come from: arrays, memory maps, sequences of batches, Parquet and CSV files.

A source knows how many rows and columns it has and gives them in minibatches, in an order that its pass number determines,
so that a run can be taken up in the middle of a pass. Rows of arrays and memory maps come in any order; a sequence of
batches and a file are read from their beginning, chunk by chunk, rows shuffled within each chunk, with no more than a chunk
in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

CHUNK = 1 << 16  # rows read from a file at a time
ROUNDS, MIX = 6, np.uint64(0xBF58476D1CE4E5B9)  # of a random order's network, and the multiplier of its hash
SAMPLE = 10_000  # rows that stand for all where starting points are looked for


class Batch(NamedTuple):
    """Some rows."""

    X: np.ndarray  # (m, D) float64
    y: np.ndarray  # (m,) labels as the source has them
    rows: np.ndarray  # (m,) their numbers among all


class Source(Protocol):
    """What a training loop reads from."""

    @property
    def n_rows(self) -> int: ...

    @property
    def n_columns(self) -> int: ...

    def batches(self, size: int, seed: Sequence[int]) -> Iterator[Batch]:
        """All rows once, `size` at a time, in an order that `seed` determines."""


@dataclass(frozen=True)
class Order:
    """Numbers 0 … n-1 in a random order of which no more than a part is ever in memory.

    A Feistel network takes a number's halves in turns and adds to one what a hash makes of the other, which can be undone:
    a permutation of as many numbers as its bits have. What falls beyond n goes through it again.
    """

    n: int
    bits: int  # of a half
    keys: np.ndarray  # one for each round

    @staticmethod
    def of(n: int, seed: Sequence[int]) -> Order:
        keys = np.random.default_rng(list(seed)).integers(2**63, size=ROUNDS, dtype=np.uint64)
        return Order(n, max(1, -(-(n - 1).bit_length() // 2)), keys)

    def part(self, start: int, stop: int) -> np.ndarray:
        """Those at some places."""
        numbers = self._permuted(np.arange(start, stop, dtype=np.uint64))
        while np.any(beyond := numbers >= self.n):
            numbers[beyond] = self._permuted(numbers[beyond])
        return numbers.astype(np.int64)

    def _permuted(self, numbers):
        half, mask = np.uint64(self.bits), np.uint64((1 << self.bits) - 1)
        left, right = numbers >> half, numbers & mask
        for key in self.keys:
            mixed = (right + key) * MIX  # arithmetic modulo 2^64
            mixed = (mixed ^ (mixed >> np.uint64(29))) * MIX
            left, right = right, left ^ ((mixed >> np.uint64(32)) & mask)
        return (left << half) | right


@dataclass(frozen=True)
class Arrays:
    """Arrays or memory maps X (n, D) and y (n,), or some of their rows."""

    X: Any
    y: Any
    chosen: np.ndarray | None = None  # rows to take; None takes all

    def __post_init__(self):
        if np.ndim(self.X) != 2 or np.shape(self.y) != (len(self.X),):
            raise ValueError(f"X must be (n, D) and y (n,), but they are {np.shape(self.X)} and {np.shape(self.y)}")

    @property
    def n_rows(self) -> int:
        return len(self.X) if self.chosen is None else len(self.chosen)

    @property
    def n_columns(self) -> int:
        return int(self.X.shape[1])

    def batches(self, size: int, seed: Sequence[int]) -> Iterator[Batch]:
        order = Order.of(self.n_rows, seed)
        for i in range(0, self.n_rows, size):
            rows = np.sort(order.part(i, min(i + size, self.n_rows)))  # memory maps are read forwards
            at = rows if self.chosen is None else self.chosen[rows]
            yield Batch(finite(self.X[at]), np.asarray(self.y[at]), rows)

    def some(self, rows: np.ndarray) -> Arrays:
        return Arrays(self.X, self.y, rows if self.chosen is None else self.chosen[rows])


@dataclass(frozen=True)
class Batches:
    """A sequence of pairs (X, y) that can be read again and again: a list, or a function that begins anew."""

    make: Callable[[], Iterable[tuple[Any, Any]]] | Sequence[tuple[Any, Any]]
    n_rows: int
    n_columns: int

    @staticmethod
    def of(make: Callable[[], Iterable[tuple[Any, Any]]] | Sequence[tuple[Any, Any]]) -> Batches:
        """After one pass that counts."""
        n, D = 0, 0
        for X, _ in _begin(make):
            n, D = n + len(X), np.shape(X)[1]
        if not n:
            raise ValueError("the stream brings no rows")
        return Batches(make, n, D)

    def batches(self, size: int, seed: Sequence[int]) -> Iterator[Batch]:
        rng = np.random.default_rng(list(seed))
        read = 0
        for X, y in _begin(self.make):
            if np.ndim(X) != 2 or np.shape(X)[1] != self.n_columns or len(X) != len(y):
                raise ValueError(
                    f"a batch of the stream has X {np.shape(X)} and y {np.shape(y)}, where X (m, {self.n_columns}) and "
                    "y (m,) were expected"
                )
            if read + len(X) > self.n_rows:
                raise ValueError(f"the stream goes on after the {self.n_rows} rows that it had before")
            order = rng.permutation(len(X))
            for i in range(0, len(X), size):
                at = order[i : i + size]
                yield Batch(finite(np.asarray(X)[at]), np.asarray(y)[at], read + at)
            read += len(X)
        if read < self.n_rows:
            raise ValueError(f"the stream ended after {read} of {self.n_rows} rows")


def _begin(make):
    return make() if callable(make) else iter(make)


def csv_file(path: Any, target: str | int = -1, chunk: int = CHUNK, header: bool = True, delimiter: str = ",") -> Batches:
    """A CSV file of numbers with its labels in column `target`, by name or place, read `chunk` lines at a time."""
    place, names = _csv_target(path, target, header, delimiter)

    def make():
        with open(path, encoding="utf-8") as file:
            if header:
                next(file)
            while True:
                lines = [line for _, line in zip(range(chunk), file, strict=False) if line.strip()]
                if not lines:
                    return
                cells = [line.rstrip("\r\n").split(delimiter) for line in lines]
                yield _numbers([c[:place] + c[place + 1 :] for c in cells], path), _labels([c[place] for c in cells])

    return Batches.of(make) if names else _raise(f"{path} has no columns")


def _csv_target(path, target, header, delimiter):
    with open(path, encoding="utf-8") as file:
        first = file.readline().rstrip("\r\n").split(delimiter)
    names = [name.strip().strip('"') for name in first]
    if isinstance(target, str):
        if not header or target not in names:
            known = ", ".join(names) if header else "without names"
            raise ValueError(f"{path} has no column {target!r}; its columns are {known}")
        return names.index(target), names
    return int(target) % len(names), names


def _numbers(cells, path):
    try:
        return np.array(cells, float)
    except ValueError as error:
        raise ValueError(f"{path} has cells that are no numbers, or lines of different length: {error}") from error


def _labels(cells):
    labels = np.array([cell.strip().strip('"') for cell in cells])
    try:
        return labels.astype(np.int64)
    except ValueError:
        return labels


def parquet_file(path: Any, target: str, chunk: int = CHUNK) -> Batches:
    """A Parquet file with its labels in column `target`, read `chunk` rows at a time; needs pyarrow."""
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise ImportError("reading Parquet needs pyarrow: pip install gpclass[large]") from error
    file = parquet.ParquetFile(path)
    names = [name for name in file.schema_arrow.names if name != target]
    if len(names) == len(file.schema_arrow.names):
        raise ValueError(f"{path} has no column {target!r}; its columns are {', '.join(names)}")

    def make():
        for batch in parquet.ParquetFile(path).iter_batches(batch_size=chunk, columns=[*names, target]):
            X = np.column_stack([batch.column(name).to_numpy(zero_copy_only=False).astype(float) for name in names])
            yield X, batch.column(target).to_numpy(zero_copy_only=False)

    return Batches(make, file.metadata.num_rows, len(names))


def as_source(X: Any, y: Any = None) -> Source:
    """A source of what a user has: arrays, or a source, or a sequence of batches."""
    if y is not None:
        return Arrays(X if hasattr(X, "shape") else np.asarray(X), y if hasattr(y, "shape") else np.asarray(y))
    return X if hasattr(X, "batches") else Batches.of(X)


def is_stream(X: Any) -> bool:
    """Whether X brings rows and labels: a source, a function that begins one, or pairs (X, y)."""
    pairs = isinstance(X, (list, tuple)) and len(X) > 0 and all(isinstance(x, tuple) and len(x) == 2 for x in X)
    return hasattr(X, "batches") or callable(X) or (pairs and all(np.ndim(x) == 2 for x, _ in X))


@dataclass(frozen=True)
class Summary:
    """What one look at all rows tells."""

    labels: np.ndarray  # sorted
    counts: np.ndarray  # rows of each
    X: np.ndarray  # (s, D) rows that stand for all, drawn without regard to labels
    y: np.ndarray  # (s,) their labels

    @property
    def spread(self) -> np.ndarray:
        """(D,) standard deviations, 1 for a constant column."""
        spread = np.std(self.X, axis=0)
        return np.where(spread > 0, spread, 1.0)


def look(source: Source, seed: Sequence[int], sample: int = SAMPLE) -> Summary:
    """Labels, and a sample by one pass: every row has the same chance."""
    rng = np.random.default_rng(list(seed))
    keys, kept_X, kept_y = np.empty(0), np.empty((0, source.n_columns)), None
    counts: dict[Any, int] = {}
    for X, y, _ in source.batches(min(CHUNK, max(1, source.n_rows)), seed):
        for label, count in zip(*np.unique(y, return_counts=True), strict=True):
            counts[label] = counts.get(label, 0) + int(count)
        draw = np.concatenate([keys, rng.random(len(y))])
        best = np.argsort(draw, kind="stable")[:sample]
        kept_X = np.concatenate([kept_X, X])[best]
        kept_y = (y if kept_y is None else np.concatenate([kept_y, y]))[best]
        keys = draw[best]
    labels = np.array(sorted(counts))
    return Summary(labels, np.array([counts[label] for label in sorted(counts)]), kept_X, np.asarray(kept_y))


def finite(X: Any) -> np.ndarray:
    """Inputs in double precision; an error where some are missing."""
    X = np.asarray(X, float)
    if not np.isfinite(X.sum()) and not np.all(np.isfinite(X)):
        raise ValueError("X has NaN or infinite entries; rows with missing values must be left out or filled in")
    return X


def codes(y: np.ndarray, labels: np.ndarray, n_latents: int) -> np.ndarray:
    """Labels as the engines take them: 0 … C-1, or -1 and +1 with one latent function."""
    place = np.minimum(np.searchsorted(labels, y), len(labels) - 1)
    if not np.all(labels[place] == y):
        strange = np.unique(np.asarray(y)[labels[place] != y])[:5]
        raise ValueError(f"labels {strange.tolist()} were never seen before; known are {labels[:10].tolist()}")
    return 2.0 * place - 1.0 if n_latents == 1 else place


def _raise(text):
    raise ValueError(text)
