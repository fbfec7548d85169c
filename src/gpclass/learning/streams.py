"""Where rows come from: arrays, memory maps, sequences of batches. `files` adds CSV and Parquet.

A source knows how many rows and columns it has and gives them in minibatches, in an order that its pass number determines,
so that a run can be resumed in the middle of a pass. Rows of arrays and memory maps come in any order. Every other source is
a `Stream`: its rows come in pieces, which a buffer of `BUFFER` rows mixes and cuts into minibatches of one size. A stream
that fits into the buffer gives the same minibatches as arrays do.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import scipy
from scipy.special import rel_entr

BUFFER = 1 << 16  # rows of a stream that are held and mixed
CHUNK = 1 << 6  # neighbouring rows that are read together: few, so that a buffer has rows of many places
ROUNDS, MIX = 6, np.uint64(0xBF58476D1CE4E5B9)  # of a random order's network, and the multiplier of its hash
SAMPLE = 10_000  # rows that stand for all where starting points are looked for
HARM = 0.005  # nats a row that an uneven order of labels may cost without a warning
CHANCE = 1e-6  # probability that rows in random order look uneven


class SortedStreamWarning(UserWarning):
    """A stream brings its labels in an order that its buffer cannot mix."""


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
        """All rows once, `size` at a time (the last minibatch may be smaller), in an order that `seed` determines."""


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
            yield Batch(finite(self.X[at], at), np.asarray(self.y[at]), rows)

    def some(self, rows: np.ndarray) -> Arrays:
        return Arrays(self.X, self.y, rows if self.chosen is None else self.chosen[rows])


# streams ------------------------------------------------------------------------------------------------------------------


class Pool:
    """The rows of a stream that are held, to be drawn at random."""

    def __init__(self) -> None:
        self.parts: list[np.ndarray] = []  # X, y and rows, with room after the first `held`
        self.held = 0

    def add(self, batch: Batch) -> None:
        end = self.held + len(batch.y)
        parts = self.parts or [part[:0] for part in batch]
        self.parts = [_with_room(part, new, end) for part, new in zip(parts, batch, strict=True)]
        for part, new in zip(self.parts, batch, strict=True):
            part[self.held : end] = new
        self.held = end

    def draw(self, size: int, rng: np.random.Generator) -> Batch:
        """Remove `size` rows."""
        at = rng.choice(self.held, size, replace=False)
        X, y, rows = (part[at] for part in self.parts)
        self.held -= size
        # rows at the end that stay move to the places of those that go
        stay = np.setdiff1d(np.arange(self.held, self.held + size), at)
        for part in self.parts:
            part[at[at < self.held]] = part[stay]
        return Batch(X.astype(float, copy=False), y, rows)


def _with_room(part: np.ndarray, new: np.ndarray, length: int) -> np.ndarray:
    """`part`, or a larger copy if it is shorter than `length` or cannot hold `new` (longer texts, more precise numbers)."""
    dtype = np.result_type(part, new)
    if len(part) >= length and part.dtype == dtype:
        return part
    larger = np.empty((max(len(part), length + length // 8), *part.shape[1:]), dtype)
    larger[: len(part)] = part
    return larger


class Stream:
    """A source that is read in pieces and holds at most about `buffer` rows, or a minibatch if that is larger.

    Pieces go into the buffer, and each minibatch is drawn from it at random. Subclasses have `n_rows`, `n_columns` and
    `buffer`, and give pieces in random order if they can.
    """

    n_rows: int
    n_columns: int
    buffer: int

    def pieces(self, rng: np.random.Generator) -> Iterator[Batch]:
        """All rows once, some at a time, in an order that `rng` determines; X may have any floating type."""
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

    def whole(self) -> Arrays:
        """All rows in their own order, whatever the order that they are read in."""
        X, y, rows = (np.concatenate(parts) for parts in zip(*self.pieces(np.random.default_rng(0)), strict=True))
        place = np.argsort(rows)
        return Arrays(X[place], y[place])


@dataclass(frozen=True)
class Batches(Stream):
    """Pairs (X, y) that can be read again and again: a list, or a function that begins anew.

    Chunks of a list are read in random order. What a function brings is read in its own order and mixed by the buffer alone:
    if that leaves the labels uneven, training warns. At most `buffer` rows are held, in 8 × D bytes each.
    """

    make: Callable[[], Iterable[tuple[Any, Any]]] | Sequence[tuple[Any, Any]]
    n_rows: int
    n_columns: int
    buffer: int = BUFFER

    remedy: ClassVar = (
        "Shuffle the rows once, or give arrays, a memory map or a list of batches, which are read in any order, or hold "
        "more rows at a time: Batches.of(…, buffer=…)"
    )

    @staticmethod
    def of(make: Callable[[], Iterable[tuple[Any, Any]]] | Sequence[tuple[Any, Any]], buffer: int = BUFFER) -> Batches:
        """Count and check rows, in one pass."""
        if hasattr(make, "__next__"):
            raise TypeError("an iterator can be read only once: give a list of pairs (X, y), or a function that begins anew")
        check_sizes(buffer=buffer)
        n, D = 0, None
        for X, y in _begin(make):
            D = np.shape(X)[1] if D is None and np.ndim(X) == 2 else D
            n += len(_checked(X, y, D, n).y)
        if D is None or not n:
            raise ValueError("the stream brings no rows")
        return Batches(make, n, D, buffer)

    def pieces(self, rng: np.random.Generator) -> Iterator[Batch]:
        kind = ""
        for start, X, y in self._at_random(rng) if isinstance(self.make, (list, tuple)) else self._in_order():
            piece = _checked(X, y, self.n_columns, start)
            found = KINDS.get(piece.y.dtype.kind, "objects")
            kind = kind or found
            if found != kind:
                raise ValueError(f"labels of the stream are {found} in row {start + 1}, but {kind} in others; use one type")
            yield piece

    def _in_order(self):
        read = 0
        for X, y in _begin(self.make):
            X, y = np.asarray(X), np.asarray(y)
            if read + len(X) > self.n_rows:
                raise ValueError(f"the stream goes on after the {self.n_rows} rows that it had before")
            for i in range(0, max(len(X), len(y)), CHUNK):
                yield read + i, X[i : i + CHUNK], y[i : i + CHUNK]
            read += len(X)
        if read < self.n_rows:
            raise ValueError(f"the stream ended after {read} of {self.n_rows} rows; can it be read more than once?")

    def _at_random(self, rng):
        pairs = [(np.asarray(X), np.asarray(y)) for X, y in _begin(self.make)]
        starts = np.cumsum([0, *(len(X) for X, _ in pairs)])
        if starts[-1] != self.n_rows:
            raise ValueError(f"the list of batches has {starts[-1]} rows, where it had {self.n_rows} before")
        chunks = [(k, i) for k, (X, _) in enumerate(pairs) for i in range(0, len(X), CHUNK)]
        for c in spread_order(len(chunks), self.buffer * len(chunks) // self.n_rows, rng):
            k, i = chunks[c]
            X, y = pairs[k]
            yield int(starts[k]) + i, X[i : i + CHUNK], y[i : i + CHUNK]


KINDS = {"b": "booleans", "i": "numbers", "u": "numbers", "f": "numbers", "U": "texts", "S": "bytes"}


def spread_order(count: int, held: int, rng: np.random.Generator) -> np.ndarray:
    """A random order of chunks 0 … count-1 in which every `held` neighbours come evenly from all over the source.

    The source is divided into `held` strata. Each round takes a random chunk of every stratum, and all rounds visit the
    strata in the same random order. If rows are sorted by label, buffers then differ less than in a plain random order.
    """
    strata = int(np.clip(held, 1, count))
    stratum = np.arange(count) * strata // count
    shuffled = rng.permutation(count)
    grouped = shuffled[np.argsort(stratum[shuffled], kind="stable")]  # in random order within each stratum
    turn = np.arange(count) - np.searchsorted(stratum, stratum)  # place in the stratum
    return grouped[np.lexsort((rng.permutation(strata)[stratum], turn))]


def _begin(make):
    return make() if callable(make) else iter(make)


def _checked(X: Any, y: Any, n_columns: int | None, start: int) -> Batch:
    """A piece of a stream that begins at row `start`."""
    X, y = np.asarray(X), np.asarray(y)
    if X.ndim != 2 or X.shape[1] != n_columns or y.shape != (len(X),):
        raise ValueError(
            f"a batch of the stream has X {X.shape} and y {y.shape} from row {start + 1} on, where "
            f"X (m, {n_columns or 'D'}) and y (m,) were expected"
        )
    rows = np.arange(start, start + len(X))
    X = X if X.dtype in (np.float16, np.float32) else _as_float(X, rows)
    _refuse_missing(X, rows)
    return Batch(X, _labels(y, start), rows)


def _labels(y: np.ndarray, start: int) -> np.ndarray:
    """Labels of one type, none of them missing."""
    import pandas as pd  # here, since only streams need it

    missing = pd.isna(y)
    if missing.any():
        row = start + int(np.argmax(missing)) + 1
        raise ValueError(f"the label of row {row} of the stream is missing; leave the row out")
    if y.dtype != object or not len(y):
        return y
    if len({type(label) for label in y}) > 1:
        first = next(i for i, label in enumerate(y) if type(label) is not type(y[0]))
        raise ValueError(
            f"labels of the stream are of different types: {y[0]!r} in row {start + 1}, but {y[first]!r} in row "
            f"{start + first + 1}"
        )
    return np.array(y.tolist())


def check_sizes(**sizes: int) -> None:
    """Numbers of rows that must be positive."""
    for name, size in sizes.items():
        if not isinstance(size, (int, np.integer)) or size < 1:
            raise ValueError(f"{name} must be a number of rows of at least 1, but is {size!r}")


# some rows of any source --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Without:
    """The rows of a source except some, numbered anew from 0 in the same order."""

    source: Source
    rows: np.ndarray  # to leave out, sorted

    @property
    def n_rows(self) -> int:
        return self.source.n_rows - len(self.rows)

    @property
    def n_columns(self) -> int:
        return self.source.n_columns

    def batches(self, size: int, seed: Sequence[int]) -> Iterator[Batch]:
        waiting: list[Batch] = []
        for batch in self.source.batches(size, seed):
            kept = ~np.isin(batch.rows, self.rows)
            X, y, rows = (part[kept] for part in batch)
            waiting.append(Batch(X, y, rows - np.searchsorted(self.rows, rows)))
            if sum(len(some.y) for some in waiting) >= size:
                whole = _joined(waiting)
                yield Batch(*(part[:size] for part in whole))
                waiting = [Batch(*(part[size:] for part in whole))]
        if waiting and len((rest := _joined(waiting)).y):
            yield rest


def _joined(batches: Sequence[Batch]) -> Batch:
    return Batch(*(np.concatenate(parts) for parts in zip(*batches, strict=True)))


def take_out(source: Source, rows: np.ndarray, seed: Sequence[int]) -> tuple[Source, Batch]:
    """The source without some rows (sorted), and these, read in one pass over a stream.

    A stream that fits into its buffer is read now and kept, so that its minibatches are those of arrays.
    """
    if isinstance(source, Stream) and source.n_rows <= source.buffer:
        source = source.whole()
    if isinstance(source, Arrays):
        others = np.delete(np.arange(source.n_rows), rows)
        return source.some(others), next(source.some(rows).batches(len(rows), seed))
    found = []
    for batch in source.batches(_at_once(source), seed):
        inside = np.isin(batch.rows, rows)
        found.append(Batch(*(part[inside] for part in batch)))
    taken = _joined(found)
    place = np.argsort(taken.rows)
    return Without(source, rows), Batch(*(part[place] for part in taken))


def _at_once(source: Source) -> int:
    """Rows to read at a time where the whole source is read through."""
    return max(1, min(getattr(source, "buffer", BUFFER), BUFFER, source.n_rows))


# what users have ----------------------------------------------------------------------------------------------------------


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
    """What one pass over all rows finds."""

    labels: np.ndarray  # sorted
    counts: np.ndarray  # rows of each
    X: np.ndarray  # (s, D) rows that stand for all, drawn without regard to labels
    y: np.ndarray  # (s,) their labels
    unevenness: float = 0.0  # of the labels along the pass, see `unevenness`

    @property
    def spread(self) -> np.ndarray:
        """(D,) standard deviations, 1 for a constant column."""
        spread = np.std(self.X, axis=0)
        return np.where(spread > 0, spread, 1.0)


def look(
    source: Source, seed: Sequence[int], sample: int = SAMPLE, watch: Callable[[Batch], None] | None = None
) -> Summary:
    """Labels, and a sample by one pass: every row has the same chance. `watch` is called with each piece."""
    rng = np.random.default_rng(list(seed))
    keys, kept_X, kept_y = np.empty(0), np.empty((0, source.n_columns)), None
    windows: list[dict[Any, int]] = []
    for X, y, rows in source.batches(_at_once(source), seed):
        if watch is not None:
            watch(Batch(X, y, rows))
        windows.append(dict(zip(*(part.tolist() for part in np.unique(y, return_counts=True)), strict=True)))
        # the rows with the smallest of n random keys are a uniform sample, whatever the order of the rows
        draw = np.concatenate([keys, rng.random(len(y))])
        best = np.argsort(draw, kind="stable")[:sample]
        kept_X = np.concatenate([kept_X, X])[best]
        kept_y = (y if kept_y is None else np.concatenate([kept_y, y]))[best]
        keys = draw[best]
    names = sorted({label for window in windows for label in window})
    counts = np.array([[window.get(name, 0) for name in names] for window in windows])
    return Summary(np.array(names), counts.sum(0), kept_X, np.asarray(kept_y), unevenness(counts))


def unevenness(counts: np.ndarray) -> float:
    """Nats a row by which label frequencies differ between windows of a pass, beyond chance; 0 if chance explains them.

    `counts` (W, C) are the rows of each class in each window. The mean over rows of the divergence KL(window ‖ all) is what
    predictions lose if a model remembers only the window that it saw last. Twice its sum is chi-squared for random orders.
    """
    total, n = counts.sum(0), counts.sum()
    expected = counts.sum(1, keepdims=True) * (total / n)
    divergence = float(rel_entr(counts, expected).sum())
    freedom = (len(counts) - 1) * (len(total) - 1)
    if freedom == 0 or 2 * divergence < scipy.stats.chi2.isf(CHANCE, freedom):
        return 0.0
    return (divergence - freedom / 2) / n


def warn_if_uneven(source: Source, summary: Summary) -> None:
    """Warn if the labels of a stream come in an order that costs accuracy."""
    if summary.unevenness > HARM:
        remedy = getattr(source, "remedy", "Shuffle the rows once, or give arrays or a memory map")
        warnings.warn(
            f"the labels come in an uneven order: their frequencies change along a pass by {summary.unevenness:.2g} nats a "
            f"row, and predictions may be worse by as much. {remedy}.",
            SortedStreamWarning,
            stacklevel=3,
        )


def finite(X: Any, rows: np.ndarray | None = None) -> np.ndarray:
    """Inputs in double precision; an error where some are missing. `rows` are their numbers, from 0."""
    rows = np.arange(len(X)) if rows is None else rows
    X = _as_float(X, rows)
    _refuse_missing(X, rows)
    return X


def _as_float(X: Any, rows: np.ndarray) -> np.ndarray:
    try:
        return np.asarray(X, float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"X has entries that are no numbers in rows {rows[0] + 1} to {rows[-1] + 1}: {error}") from error


def _refuse_missing(X: np.ndarray, rows: np.ndarray) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(X.sum()):
            return
    if not np.all(known := np.isfinite(X)):
        i, j = (int(at[0]) for at in np.nonzero(~known))
        raise ValueError(
            f"X has NaN or infinite entries, such as {X[i, j]} in row {rows[i] + 1}, column {j + 1} (counted from 1); rows "
            "with missing values must be left out or filled in"
        )


def codes(y: np.ndarray, labels: np.ndarray, n_latents: int) -> np.ndarray:
    """Labels as the engines take them: 0 … C-1, or -1 and +1 with one latent function."""
    place = np.minimum(np.searchsorted(labels, y), len(labels) - 1)
    if not np.all(labels[place] == y):
        strange = np.unique(np.asarray(y)[labels[place] != y])[:5]
        raise ValueError(f"labels {strange.tolist()} were never seen before; known are {labels[:10].tolist()}")
    return 2.0 * place - 1.0 if n_latents == 1 else place
