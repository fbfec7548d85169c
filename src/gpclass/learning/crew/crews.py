"""Crews: all shards of a data set, sums over them, and calls that are repeated if rows are lost."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, Protocol, TypeVar

import numpy as np

from .partition import Partition
from .shard import Shard

MOST_LOSSES = 10  # losses in a row, without a completed call, after which a computation gives up
Result = TypeVar("Result")


class RowsLost(RuntimeError):
    """A process with some of the rows has ended. The rows have been loaded again, without the data kept with them.

    The results of the call that raised it are unknown: some shards may have executed it.
    """


class LostRowsWarning(UserWarning):
    """A process with some of the rows has ended; the computation continues."""


class CrewLost(RuntimeError):
    """The processes with the rows cannot be reached, or cannot be used."""


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
            If a process has ended. Its rows have been loaded again; see `RowsLost`.
        """

    def each(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Return function(shard, *arguments) for each shard, in no particular order."""

    def change(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Replace each partition by function(partition, *arguments), which must have the same rows."""

    def close(self) -> None:
        """Release the rows."""


def resumed(call: Callable[[bool], Result]) -> Result:
    """Return the result of a call to a crew, which is repeated if rows are lost, with a warning.

    The argument of `call` is whether rows have been lost before.
    """
    for losses in range(MOST_LOSSES):
        try:
            return call(losses > 0)
        except RowsLost as lost:
            warnings.warn(f"{lost}. The computation continues.", LostRowsWarning, stacklevel=3)
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
