"""A crew on a Dask cluster: each worker holds some partitions in an actor, and computes sums over their rows.

Actors are Dask's objects that stay on a worker. Calls go to them without the scheduler's tasks in between, which halves the
time that a call takes. A call reaches the workers along a tree: each actor passes it on to a few others before it begins
with its own rows, and adds their results to its own.

When a worker is lost, its partitions are loaded again, from the user's collection, on the workers that are left.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial, reduce
from operator import add
from typing import Any

from threadpoolctl import ThreadpoolController

from .._version import __version__
from ..learning.crew import CrewLost, Partition, RowsLost, Shard

KEPT_FREE = 1 << 26  # bytes of freed memory that a worker keeps
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # names of glibc's settings, from malloc.h
FANOUT = 4  # actors to which one call is passed on
BALANCED = 1.2  # rows of a worker, relative to the mean, beyond which its partitions are moved or cut
NOTICED = 15.0  # seconds in which the scheduler must notice that a worker is lost
REPLACED = 5.0  # seconds to wait for another worker in place of a lost one
SOME_WORKER = 60.0  # seconds to wait for a worker if there is none


class ClusterError(CrewLost):
    """The cluster cannot be used: it is lost, has no workers, or has another version of gpclass."""


@dataclass(frozen=True)
class Part:
    """Some rows of a partition of the user's collection."""

    piece: int  # which partition
    start: int  # first row in it
    stop: int
    first: int  # number of its first row in the data set

    def __len__(self) -> int:
        return self.stop - self.start


class ShardActor:
    """A shard on a worker."""

    def __init__(self, loaded: list[Partition], parts: list[Part], changes: list[tuple[Callable[..., Any], tuple]]):
        cut = [_cut(partition, part) for partition, part in zip(loaded, parts, strict=True)]
        for function, arguments in changes:
            cut = [function(partition, *arguments) for partition in cut]
        self.shard = Shard(cut)
        self._threads = _threads()
        _keep_freed_memory()

    def call(self, function: Callable[..., Any], arguments: tuple, below: list[tuple[Any, list]]) -> Any:
        """Return the sum of function(shard, *arguments) over this shard and those of the actors below."""
        waiting = [actor.call(function, arguments, further) for actor, further in below]
        with self._threads():
            own = function(self.shard, *arguments)
        return reduce(add, (called.result() for called in waiting), own)

    def clear(self) -> None:
        """Release the rows."""
        self.shard = Shard([])

    def change(self, function: Callable[..., Any], arguments: tuple) -> int:
        """Replace each partition by function(partition, *arguments)."""
        self.shard = Shard([function(partition, *arguments) for partition in self.shard.parts])
        return self.shard.n_rows


def _cut(partition: Partition, part: Part) -> Partition:
    whole = part.start == 0 and part.stop == len(partition)
    return (partition if whole else partition.some(slice(part.start, part.stop))).at(part.first)


def _threads() -> Callable[[], AbstractContextManager]:
    """Return a context for as many BLAS threads as the worker has. Dask lets BLAS use one: it expects several tasks."""
    from distributed import get_worker

    threads = get_worker().state.nthreads
    return nullcontext if threads == 1 else partial(ThreadpoolController().limit, limits=threads, user_api="blas")


def _keep_freed_memory() -> None:
    """Let malloc keep some freed memory, if it is that of glibc.

    Dask makes workers return all freed memory to the system at once. The arrays of each step, of a few megabytes each, would
    then be mapped and cleared anew in every step, which takes a third of its time.
    """
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL("libc.so.6").mallopt
        mallopt(M_MMAP_THRESHOLD, KEPT_FREE)
        mallopt(M_TRIM_THRESHOLD, KEPT_FREE)


@dataclass
class Holder:
    """An actor and what it holds."""

    worker: str
    parts: list[Part]
    future: Any  # keeps the actor alive
    actor: Any

    @property
    def n_rows(self) -> int:
        return sum(map(len, self.parts))


@dataclass
class DaskCrew:
    """Partitions of a collection on the workers of a Dask cluster; use `DaskCrew.of`.

    Attributes
    ----------
    client : distributed.Client
        The client.
    pieces : list of Delayed or Future
        The partitions of the user's collection.
    names : list of str
        Their names.
    loader : callable
        `loader(raw, name)` turns what a piece gives into a `Partition`.
    n_rows, n_columns : int
        Numbers of rows and columns.
    """

    client: Any
    pieces: list[Any]
    names: list[str]
    loader: Callable[[Any, str], Partition]
    n_rows: int = 0
    n_columns: int = 0
    holders: list[Holder] = field(default_factory=list)
    changes: list[tuple[Callable[..., Any], tuple]] = field(default_factory=list)
    loads: int = 0  # how often partitions were loaded; part of the tasks' names
    token: str = field(default_factory=lambda: f"{time.time_ns():x}")

    @staticmethod
    def of(client: Any, pieces: Sequence[Any], names: Sequence[str], loader: Callable[[Any, str], Partition]) -> DaskCrew:
        """Load all partitions and return the crew.

        Parameters
        ----------
        client : distributed.Client
            The client.
        pieces : sequence of Delayed or Future
            The partitions.
        names : sequence of str
            Their names, for messages.
        loader : callable
            `loader(raw, name)` turns what a piece gives into a `Partition`.

        Raises
        ------
        ClusterError
            If the cluster has no workers, or they have another version of gpclass.
        ValueError
            If partitions are invalid or have no rows; the message names the partition.
        """
        crew = DaskCrew(client, list(pieces), list(names), loader)
        crew._wait_for_workers(1)
        crew._check_versions()
        loaded = crew._loaded(range(len(pieces)))
        sizes = crew._sizes(loaded)
        crew.n_rows = sum(rows for rows, _ in sizes)
        if not crew.n_rows:
            raise ValueError("the collection has no rows")
        crew.n_columns = crew._columns(sizes)
        at = client.who_has(list(loaded.values()))
        where = {k: (at.get(future.key) or (None,))[0] for k, future in loaded.items()}
        plan = divided_evenly([rows for rows, _ in sizes], where, list(client.nthreads()))
        crew.holders = [crew._held(worker, parts, loaded) for worker, parts in plan.items()]
        return crew

    @property
    def processes(self) -> int:
        return len(self.holders)

    # calls --------------------------------------------------------------------------------------------------------------

    def sum(self, function: Callable[..., Any], *arguments: Any, meanwhile: Callable[[], Any] | None = None) -> Any:
        roots = _tree([holder.actor for holder in self.holders])
        calls: list[Any] = []
        try:
            calls = [actor.call(function, arguments, below) for actor, below in roots]
            if meanwhile is not None:
                meanwhile()
            return reduce(add, [called.result() for called in calls])
        except (CrewLost, RowsLost):
            raise
        except (OSError, RuntimeError) as error:  # what Dask raises for a lost worker; functions may raise the same
            self._recover(error)
            raise

    def each(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        return self.sum(partial(_alone, function), *arguments)

    def change(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Replace each partition by function(partition, *arguments), and also those that are loaded again later."""
        self.changes.append((function, arguments))
        for holder in self.holders:
            holder.actor.change(function, arguments).result()

    def close(self) -> None:
        """Release the rows on the workers."""
        for holder in self.holders:
            with suppress(Exception):  # a worker that is lost has no rows
                holder.actor.clear()  # at once: Dask may keep the actor itself for a while
        self.holders = []

    # losses -------------------------------------------------------------------------------------------------------------

    def _recover(self, error: BaseException) -> None:
        """Load the partitions of lost workers again and raise RowsLost; return if no worker is lost."""
        lost = self._lost()
        if not lost:
            return
        self.holders = [holder for holder in self.holders if holder not in lost]
        parts = [part for holder in lost for part in holder.parts]
        self._wait_for_workers(len({holder.worker for holder in [*self.holders, *lost]}))
        self._check_versions()
        loaded = self._loaded({part.piece for part in parts})
        sizes = {k: rows for k, (rows, _) in zip(loaded, self._sizes(loaded), strict=True)}
        for part in parts:
            if part.stop > sizes[part.piece]:
                raise ClusterError(
                    f"{self.names[part.piece]} had at least {part.stop} rows, but has {sizes[part.piece]} when it is "
                    "computed again; partitions must be the same each time"
                ) from error
        for worker, some in self._placed(parts).items():
            self.holders.append(self._held(worker, some, loaded))
        gone = ", ".join(sorted({holder.worker for holder in lost}))
        rows = sum(map(len, parts))
        raise RowsLost(f"worker {gone} was lost; its {rows} rows were loaded again on others") from error

    def _lost(self) -> list[Holder]:
        """Return the holders whose workers are gone, as soon as the scheduler knows of one."""
        end = time.monotonic() + NOTICED
        while time.monotonic() < end:
            alive = self._workers()
            lost = [h for h in self.holders if h.worker not in alive or h.future.status in ("error", "lost", "cancelled")]
            if lost:
                return lost
            if not self._doubtful():
                return []
            time.sleep(0.1)
        return []

    def _doubtful(self) -> bool:
        """Return whether some actor does not answer."""
        try:
            for called in [holder.actor.call(_rows_of, (), []) for holder in self.holders]:
                called.result()
        except (OSError, RuntimeError):
            return True
        return False

    def _placed(self, parts: Iterable[Part]) -> dict[str, list[Part]]:
        """Return the workers for some parts: the largest first, each to the worker with the fewest rows."""
        rows = dict.fromkeys(self._workers(), 0)
        for holder in self.holders:
            rows[holder.worker] = rows.get(holder.worker, 0) + holder.n_rows
        plan: dict[str, list[Part]] = {}
        for part in sorted(parts, key=len, reverse=True):
            least = min(rows, key=lambda worker: rows[worker])
            plan.setdefault(least, []).append(part)
            rows[least] += len(part)
        return plan

    # loading --------------------------------------------------------------------------------------------------------------

    def _loaded(self, which: Iterable[int]) -> dict[int, Any]:
        """Return futures of partitions. Raises the error of a partition that cannot be loaded."""
        from dask.delayed import delayed
        from distributed import wait

        self.loads += 1
        load = delayed(self.loader, pure=False, traverse=False)
        which = sorted(which)
        tasks = [
            load(self.pieces[k], self.names[k], dask_key_name=f"gpclass-load-{self.token}-{self.loads}-{k}") for k in which
        ]
        futures = self.client.compute(tasks)
        try:
            wait(futures)
        except CancelledError as error:
            raise ClusterError(f"loading was cancelled: {' '.join(str(error).split())}") from error
        for k, future in zip(which, futures, strict=True):
            if future.status == "error":
                raise future.exception()
            if future.status != "finished":
                raise ClusterError(
                    f"{self.names[k]} cannot be computed (its task is {future.status}): was it on a worker that is lost? "
                    "Collections that were read from files can be computed again; scattered data cannot"
                )
        return dict(zip(which, futures, strict=True))

    def _sizes(self, loaded: dict[int, Any]) -> list[tuple[int, int]]:
        """Return rows and columns of the partitions."""
        keys = [f"gpclass-count-{self.token}-{self.loads}-{k}" for k in loaded]
        futures = [
            self.client.submit(_shape, future, key=key) for key, future in zip(keys, loaded.values(), strict=True)
        ]
        return self.client.gather(futures)

    def _columns(self, sizes: list[tuple[int, int]]) -> int:
        """Return the number of columns, which all partitions must have; empty ones may have none."""
        filled = [(columns, name) for (rows, columns), name in zip(sizes, self.names, strict=True) if rows]
        for columns, name in filled:
            if columns != filled[0][0]:
                raise ValueError(f"X has {columns} columns in {name}, but {filled[0][0]} in {filled[0][1]}")
        return filled[0][0]

    def _held(self, worker: str, parts: list[Part], loaded: dict[int, Any]) -> Holder:
        """Return an actor with some parts on a worker, or on another one if that is lost meanwhile."""
        needed = [loaded[part.piece] for part in parts]
        while True:
            self.loads += 1
            future = self.client.submit(
                ShardActor, needed, parts, self.changes, actor=True, workers=[worker], pure=False,
                key=f"gpclass-rows-{self.token}-{self.loads}",
            )  # fmt: skip
            while not future.done() and worker in self._workers():
                time.sleep(0.01)
            if worker in self._workers():
                return Holder(worker, parts, future, future.result())
            future.cancel()
            self._wait_for_workers(1)
            worker = next(iter(self._placed(parts)))

    # workers --------------------------------------------------------------------------------------------------------------

    def _workers(self) -> list[str]:
        try:
            return list(self.client.nthreads())
        except Exception as error:  # Dask raises errors of many kinds here
            raise ClusterError(f"the Dask scheduler does not answer ({type(error).__name__}: {error})") from error

    def _wait_for_workers(self, count: int) -> None:
        """Wait a short time for `count` workers, and longer for one."""
        began = time.monotonic()
        while (found := len(self._workers())) < count:
            waited = time.monotonic() - began
            if found and waited > REPLACED:
                return
            if waited > SOME_WORKER:
                raise ClusterError(f"the Dask cluster has no workers (waited {SOME_WORKER:.0f} s)")
            time.sleep(0.1)

    def _check_versions(self) -> None:
        """Raise an error if a worker has another version of gpclass, or none."""

        def found() -> str | None:  # sent by value, since a worker may not have gpclass
            try:
                import gpclass
            except ImportError:
                return None
            return gpclass.__version__

        for worker, version in self.client.run(found).items():
            if version != __version__:
                has = "has no gpclass" if version is None else f"has gpclass {version}"
                raise ClusterError(
                    f"worker {worker} {has}, but this process has gpclass {__version__}: install the same version on all"
                )


def divided_evenly(rows: Sequence[int], where: dict[int, str | None], workers: Sequence[str]) -> dict[str, list[Part]]:
    """Return the parts of each worker.

    Partitions stay on the worker where they are unless it would have more than `BALANCED` times its share of all rows. Then
    they go to the workers with the fewest rows, and large ones are cut.

    Parameters
    ----------
    rows : sequence of int
        Number of rows of each partition.
    where : dict of int to str
        Worker of each partition; None if it is not known.
    workers : sequence of str
        All workers.

    Returns
    -------
    dict of str to list of Part
        Workers without rows are left out.
    """
    even = -(-sum(rows) // len(workers))
    most = BALANCED * even
    plan: dict[str, list[Part]] = {worker: [] for worker in workers}
    load = dict.fromkeys(workers, 0)
    waiting, first = [], 0
    for k, count in enumerate(rows):
        part, home = Part(k, 0, count, first), where.get(k)
        first += count
        if home in load and load[home] + count <= most:
            plan[home].append(part)
            load[home] += count
        elif count:
            waiting.append(part)
    for part in sorted(waiting, key=len, reverse=True):
        while len(part):
            worker = min(workers, key=lambda name: load[name])
            cut = len(part) if load[worker] + len(part) <= most else min(len(part), max(1, even - load[worker]))
            plan[worker].append(Part(part.piece, part.start, part.start + cut, part.first))
            load[worker] += cut
            part = Part(part.piece, part.start + cut, part.stop, part.first + cut)
    return {worker: parts for worker, parts in plan.items() if load[worker]}


def _tree(actors: Sequence[Any]) -> list[tuple[Any, list]]:
    """Return actors as a tree: up to `FANOUT` pairs of an actor and the tree below it."""
    roots, rest = actors[:FANOUT], actors[FANOUT:]
    return [(actor, _tree(rest[i :: len(roots)])) for i, actor in enumerate(roots)]


def _alone(function: Callable[..., Any], shard: Shard, *arguments: Any) -> list[Any]:
    return [function(shard, *arguments)]


def _rows_of(shard: Shard) -> int:
    return shard.n_rows


def _shape(partition: Partition) -> tuple[int, int]:
    return len(partition), partition.X.shape[1]
