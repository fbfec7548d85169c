"""Rows that are divided among one or several processes, and sums over all of them.

A *partition* is some consecutive rows of a data set. A *shard* holds the partitions of one process, and what computations
keep with their rows between two calls (`Shard.memory`). A *crew* holds all shards. It sends a function and its arguments to
each shard and returns the sum of the results:

    crew.sum(function, *arguments)  =  Σ function(shard, *arguments)

So an algorithm for rows on several machines is written as functions of a shard and sums of their results. The crew of this
file has all shards in this process. `gpclass.distributed` has a crew on a Dask cluster.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from ..numerics import blocks
from .streams import Batch, codes
from .streams.batch import as_float, joined, refuse_missing

MOST_LOSSES = 10  # losses in a row, without a completed call, after which a computation gives up

Result = TypeVar("Result")


class RowsLost(RuntimeError):
    """A process with some of the rows has ended. The rows have been loaded again, without what was kept with them.

    The results of the call that raised it are unknown: some shards may have executed it.
    """


class LostRowsWarning(UserWarning):
    """A process with some of the rows has ended; the computation goes on."""


class CrewLost(RuntimeError):
    """The processes with the rows cannot be reached, or cannot be used."""


@dataclass(frozen=True)
class Partition:
    """Consecutive rows of a data set.

    Attributes
    ----------
    X : ndarray of shape (m, D)
        Inputs, in single or double precision.
    labels : ndarray of shape (k,)
        The different labels of these rows, sorted.
    place : ndarray of shape (m,)
        Place of the label of each row in `labels`.
    weight : ndarray of shape (m,) or None
        Weights; None means one each.
    name : str
        Name for messages, such as the name of a file.
    first : int
        Number of the first row in the data set.
    start : int
        Number of the first row in what has the name, if these are some of its rows.
    """

    X: np.ndarray
    labels: np.ndarray
    place: np.ndarray
    weight: np.ndarray | None = None
    name: str = "partition 0"
    first: int = 0
    start: int = 0

    @staticmethod
    def of(X: Any, y: Any, weight: Any = None, name: str = "partition 0", first: int = 0) -> Partition:
        """Return a partition of checked rows.

        Raises
        ------
        ValueError
            If rows are invalid. The message names the partition and the row in it.
        """
        X, y = np.asarray(X), np.asarray(y)
        try:
            if X.ndim != 2 or y.shape != (len(X),):
                raise ValueError(f"X must be (m, D) and y (m,), but they are {X.shape} and {y.shape}")
            rows = np.arange(len(X))
            X = X if X.dtype in (np.float32, np.float64) else as_float(X, rows)
            refuse_missing(X, rows)
            labels, place = _labelled(y)
            if weight is not None:
                weight = _weights(weight, len(X))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
        place = place.astype(np.uint8 if len(labels) <= 256 else np.int32)
        return Partition(np.ascontiguousarray(X), labels, place, weight, name, first)

    def __len__(self) -> int:
        return len(self.X)

    def at(self, first: int, start: int = 0) -> Partition:
        """Return the partition with other numbers of its first row."""
        return replace(self, first=first, start=start)

    def some(self, rows: Any) -> Partition:
        """Return some of the rows; `first` is unchanged."""
        weight = None if self.weight is None else self.weight[rows]
        return replace(self, X=self.X[rows], place=self.place[rows], weight=weight)


def _labelled(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the different labels and the place of each row's label among them; raise a ValueError for missing labels."""
    import pandas as pd  # imported here, since only collections need it

    if np.any(missing := pd.isna(y)):
        raise ValueError(f"the label of row {int(np.argmax(missing)) + 1} is missing; leave the row out")
    if y.dtype == object and len(y):
        kinds = {type(label) for label in y}
        if len(kinds) > 1:
            raise ValueError(f"labels are of different types: {', '.join(sorted(kind.__name__ for kind in kinds))}")
        y = np.array(y.tolist())
    if y.dtype.kind not in "biufUSO":
        raise ValueError(f"labels are of type {y.dtype}; use numbers, texts or booleans")
    labels, place = np.unique(y, return_inverse=True)
    return labels, place.ravel()


def _weights(weight: Any, m: int) -> np.ndarray:
    weight = np.asarray(weight, float)
    if weight.shape != (m,):
        raise ValueError(f"sample_weight must have one entry for each of {m} rows, but has the shape {weight.shape}")
    wrong = ~(np.isfinite(weight) & (weight > 0))
    if np.any(wrong):
        i = int(np.argmax(wrong))
        raise ValueError(f"the weight of row {i + 1} is {weight[i]}; weights must be positive: leave such rows out")
    return weight


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


class Crew(Protocol):
    """All shards of a data set.

    Functions must be defined at the top level of a module, since they are sent to other processes by name. Their results
    must be addable, and should not grow with the number of rows.
    """

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    def n_columns(self) -> int:
        """Number of input columns."""

    @property
    def processes(self) -> int:
        """Number of processes that compute at the same time."""

    def sum(self, function: Callable[..., Any], *arguments: Any, meanwhile: Callable[[], Any] | None = None) -> Any:
        """Return the sum of function(shard, *arguments) over all shards. `meanwhile` is called while they compute.

        Raises
        ------
        RowsLost
            If a process has ended. Its rows have been loaded again; see there.
        """

    def each(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Return function(shard, *arguments) for each shard, in no particular order."""

    def change(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Replace each partition by function(partition, *arguments), which must have the same rows."""

    def close(self) -> None:
        """Release the rows."""


def resumed(call: Callable[[bool], Result]) -> Result:
    """Return the result of a call to a crew, which is repeated if rows are lost. A warning tells of losses.

    `call` is told whether rows have been lost before.
    """
    for losses in range(MOST_LOSSES):
        try:
            return call(losses > 0)
        except RowsLost as lost:
            warnings.warn(f"{lost}. The computation goes on.", LostRowsWarning, stacklevel=3)
    raise CrewLost(f"rows were lost {MOST_LOSSES} times in a row; are the workers killed for lack of memory?")


def persistent(crew: Crew, function: Callable[..., Any], *arguments: Any, meanwhile: Callable[[], Any] | None = None) -> Any:
    """Return `crew.sum(function, *arguments)`, computed again if rows were lost."""
    return resumed(lambda lost: crew.sum(function, *arguments, meanwhile=meanwhile))


@dataclass
class LocalCrew:
    """Shards in this process."""

    shards: list[Shard]

    @property
    def processes(self) -> int:
        return len(self.shards)

    @property
    def n_rows(self) -> int:
        return sum(shard.n_rows for shard in self.shards)

    @property
    def n_columns(self) -> int:
        return next(part.X.shape[1] for shard in self.shards for part in shard.parts)

    def sum(self, function: Callable[..., Any], *arguments: Any, meanwhile: Callable[[], Any] | None = None) -> Any:
        if meanwhile is not None:
            meanwhile()
        return reduce(add, self.each(function, *arguments))

    def each(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        return [function(shard, *arguments) for shard in self.shards]

    def change(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.shards = [Shard([function(part, *arguments) for part in shard.parts]) for shard in self.shards]

    def close(self) -> None:
        self.shards = []


def weighted_by_class(partition: Partition, labels: np.ndarray, factors: np.ndarray) -> Partition:
    """Return a partition whose weights are multiplied by the factor of each row's label."""
    own = factors[codes(partition.labels, labels)][partition.place]
    return replace(partition, weight=own if partition.weight is None else partition.weight * own)


def divided(X: Any, y: Any, sizes: Sequence[int], owners: Sequence[int] | None = None, weight: Any = None) -> LocalCrew:
    """Return arrays as partitions of these sizes in a crew of this process.

    `owners` are the numbers of the shards of the partitions; by default all are in one shard.
    """
    edges = np.cumsum([0, *sizes])
    owners = [0] * len(sizes) if owners is None else owners
    shards: list[list[Partition]] = [[] for _ in range(max(owners) + 1)]
    for k, owner in enumerate(owners):
        some = slice(int(edges[k]), int(edges[k + 1]))
        own = None if weight is None else weight[some]
        shards[owner].append(Partition.of(X[some], y[some], own, f"partition {k}", int(edges[k])))
    return LocalCrew([Shard(parts) for parts in shards])
