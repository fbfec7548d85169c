"""A crew on a Dask cluster: each worker holds some partitions in an actor, and computes sums over their rows.

When a worker is lost, its partitions are loaded again, from the user's collection, on the workers that are left.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial, reduce
from operator import add
from typing import Any

from ..learning.crew import CrewLost, Partition, RowsLost, resumed
from .actors import WATCHED, ShardActor, alone, any_failed, packed_call, rows_on, tree_of, unpacked_call, watched
from .division import Part, common_columns, divided_evenly, placed
from .outlines import Outline
from .workers import AGAIN, ClusterError, check_versions, direct_client, plain_errors, wait_for_workers, workers_of

NOTICED = 15.0  # seconds to wait until the scheduler notices that a worker is lost
REACHED = 10.0  # seconds to wait for the answer of a worker to a direct call
LOST = ("error", "lost", "cancelled")  # states of the future of an actor that does not exist any more


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
    outlines: list[Outline] = field(default_factory=list)
    direct: Any = None  # a client that talks to workers without the scheduler; None if the user's does
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
        wait_for_workers(client, 1)
        check_versions(client)
        crew = DaskCrew(client, list(pieces), list(names), loader)
        try:
            crew._load_all()
        except BaseException:
            crew.close()
            raise
        return crew

    def _load_all(self) -> None:
        """Load all partitions and divide them among the workers."""
        self.direct = direct_client(self.client)
        loaded = self._loaded(range(len(self.pieces)))
        self.outlines = outlines = self._outlines(loaded)
        self.n_rows = sum(found.rows for found in outlines)
        self.n_columns = common_columns([(found.rows, found.columns) for found in outlines], self.names)
        at = self.client.who_has(list(loaded.values()))
        where = {k: (at.get(future.key) or (None,))[0] for k, future in loaded.items()}
        plan = divided_evenly([found.rows for found in outlines], where, list(self.client.nthreads()))
        self.holders = [self._held(worker, parts, loaded) for worker, parts in plan.items()]

    @property
    def processes(self) -> int:
        return len(self.holders)

    # calls --------------------------------------------------------------------------------------------------------------

    def sum(self, function: Callable[..., Any], *arguments: Any, meanwhile: Callable[[], Any] | None = None) -> Any:
        roots, sent = tree_of(self._by_worker()), packed_call(function, arguments)

        def ask() -> list[Any]:
            return [actor.call(unpacked_call, (sent,), below) for _, actor, below in roots]

        return reduce(add, self._answers(ask, meanwhile))

    def each(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        return self.sum(partial(alone, function), *arguments)

    def change(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Replace each partition by function(partition, *arguments), and also those that are loaded again later."""
        self.changes.append((function, arguments))
        # actors that made the change before a loss do not make it again
        resumed(lambda lost: self._answers(lambda: [holder.actor.change(self.changes) for holder in self.holders]))

    def close(self) -> None:
        """Release the rows on the workers."""
        # clear them now, since Dask may keep the actors for a while; errors are those of lost workers
        calls = []
        for holder in self.holders:
            with suppress(Exception):
                calls.append(holder.actor.clear())
        for called in calls:
            with suppress(Exception):
                called.result(timeout=WATCHED)
        self.holders = []
        if self.direct is not None:
            self.direct.close()
            self.direct = None

    def _answers(self, ask: Callable[[], list[Any]], meanwhile: Callable[[], Any] | None = None) -> list[Any]:
        """Return the results of calls to actors, which `ask` makes. Raises RowsLost if a worker is lost."""
        try:
            calls = ask()
            if meanwhile is not None:
                meanwhile()
            return [watched(called, self._known_lost) for called in calls]
        except (CrewLost, RowsLost):
            raise
        except (OSError, RuntimeError) as error:  # what Dask raises for a lost worker; functions may raise the same
            self._recover(error)
            raise

    def _by_worker(self) -> list[tuple[str, list[Any]]]:
        """Return the workers and the actors on each."""
        found: dict[str, list[Any]] = {}
        for holder in self.holders:
            found.setdefault(holder.worker, []).append(holder.actor)
        return list(found.items())

    # losses -------------------------------------------------------------------------------------------------------------

    def _recover(self, error: BaseException) -> None:
        """Load the partitions of lost workers again and raise RowsLost; return if no worker is lost.

        If this is interrupted, nothing has changed: the next call finds that the workers are lost.
        """
        lost = self._lost()
        if not lost:
            return
        gone = ", ".join(sorted({holder.worker for holder in lost}))
        before = set(workers_of(self.client))
        try:
            self.holders = self._replaced(lost)
        except CrewLost:
            raise
        except Exception as again:
            if before <= set(workers_of(self.client)):
                raise
            raise RowsLost(f"worker {gone} was lost, and another one while its rows were loaded again") from again
        rows = sum(holder.n_rows for holder in lost)
        raise RowsLost(f"worker {gone} was lost; its {rows} rows were loaded again on others") from error

    def _replaced(self, lost: list[Holder]) -> list[Holder]:
        """Return all holders, with new ones for the rows of those that are lost."""
        kept = [holder for holder in self.holders if holder not in lost]
        parts = [part for holder in lost for part in holder.parts]
        wait_for_workers(self.client, len({holder.worker for holder in self.holders}))
        check_versions(self.client)
        loaded = self._loaded({part.piece for part in parts})
        for k, now in zip(loaded, self._outlines(loaded), strict=True):
            if not self.outlines[k].agrees(now):
                raise ClusterError(
                    f"{self.names[k]} has other rows when it is computed again, which was necessary because a worker was "
                    "lost. Partitions must be the same each time: use fixed seeds, and files that do not change"
                )
        rows = dict.fromkeys(workers_of(self.client), 0)
        for holder in kept:
            rows[holder.worker] = rows.get(holder.worker, 0) + holder.n_rows
        return [*kept, *(self._held(worker, some, loaded) for worker, some in placed(parts, rows).items())]

    def _known_lost(self) -> list[Holder]:
        """Return the holders that this process knows to be lost."""
        return [holder for holder in self.holders if holder.future.status in LOST]

    def _lost(self) -> list[Holder]:
        """Return the holders on lost workers, as soon as the scheduler knows of one; an empty list if all actors answer."""
        end, asked = time.monotonic() + NOTICED, None
        while time.monotonic() < end:
            alive = workers_of(self.client)
            lost = [holder for holder in self.holders if holder.worker not in alive or holder.future.status in LOST]
            if lost:
                return lost
            asked = asked or self._asked()
            if asked is not None and all(called.done() for called in asked):
                if not any_failed(asked):
                    return []
                asked = None
            time.sleep(0.1)
        return []

    def _asked(self) -> list[Any] | None:
        """Call each actor to see whether it answers, and return the calls; None if Dask knows that an actor is lost."""
        with suppress(OSError, RuntimeError):
            return [holder.actor.call(rows_on, (), []) for holder in self.holders]
        return None

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
        with plain_errors():
            wait(futures)
        for k, future in zip(which, futures, strict=True):
            if future.status == "error":
                with plain_errors():
                    raise future.exception()
            if future.status != "finished":
                raise ClusterError(f"{self.names[k]} cannot be computed (its task is {future.status}). {AGAIN}")
        return dict(zip(which, futures, strict=True))

    def _outlines(self, loaded: dict[int, Any]) -> list[Outline]:
        """Return sizes and sums of the partitions."""
        keys = [f"gpclass-count-{self.token}-{self.loads}-{k}" for k in loaded]
        futures = [
            self.client.submit(Outline.of, future, key=key) for key, future in zip(keys, loaded.values(), strict=True)
        ]
        with plain_errors():
            return self.client.gather(futures)

    def _held(self, worker: str, parts: list[Part], loaded: dict[int, Any]) -> Holder:
        """Return an actor with some parts on a worker, or on another one if that is lost meanwhile."""
        needed = [loaded[part.piece] for part in parts]
        while True:
            self.loads += 1
            future = self.client.submit(
                ShardActor, needed, parts, self.changes, actor=True, workers=[worker], pure=False,
                key=f"gpclass-rows-{self.token}-{self.loads}",
            )  # fmt: skip
            while not future.done() and worker in workers_of(self.client):
                time.sleep(0.01)
            if future.status == "finished":
                return Holder(worker, parts, future, self._reached(worker, future))
            if future.status == "error" and worker in workers_of(self.client):
                with plain_errors():
                    raise future.exception()
            future.cancel()
            wait_for_workers(self.client, 1)
            worker = workers_of(self.client)[0]

    def _reached(self, worker: str, future: Any) -> Any:
        """Return the actor of a future: one that is called directly, if that is possible."""
        from distributed import Actor

        actor = future.result()
        if self.direct is None:
            return actor
        with self.direct.as_current():
            straight = Actor(ShardActor, worker, future.key)
        try:
            straight.call(rows_on, (), []).result(timeout=REACHED)
        except (OSError, TimeoutError, asyncio.TimeoutError):  # a network in which only the scheduler reaches the workers
            return actor
        return straight
