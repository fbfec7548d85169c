"""Actors that hold shards on the workers of a Dask cluster, and calls to them along a tree.

Actors are Dask's objects that stay on a worker. Calls go to them without the scheduler's tasks in between, which halves the
time that a call takes. A call reaches the workers along a tree: each actor passes it on to a few others before it begins
with its own rows, and adds their results to its own.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial, reduce
from operator import add
from typing import Any

from threadpoolctl import ThreadpoolController

from ..learning.crew import Partition, Shard
from .division import Part

KEPT_FREE = 1 << 25  # bytes of freed memory that a worker keeps
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # names of glibc's settings, from malloc.h
FANOUT = 4  # actors to which one call is passed on
WATCHED = 2.0  # seconds between two checks of the state of a call


class ShardActor:
    """A shard on a worker."""

    def __init__(self, loaded: list[Partition], parts: list[Part], changes: list[tuple[Callable[..., Any], tuple]]):
        self.shard = Shard([_cut(partition, part) for partition, part in zip(loaded, parts, strict=True)])
        self._changed = 0  # number of changes that were made
        self.change(changes)
        self._threads = _threads()
        _keep_freed_memory()

    def call(self, function: Callable[..., Any], arguments: tuple, below: list[Node]) -> Any:
        """Return the sum of function(shard, *arguments) over this shard and those of the actors below."""
        waiting = [(worker, actor.call(function, arguments, further)) for worker, actor, further in below]
        with self._threads():
            own = function(self.shard, *arguments)
        return reduce(add, (watched(called, partial(_is_gone, worker)) for worker, called in waiting), own)

    def clear(self) -> None:
        """Release the rows."""
        self.shard = Shard([])

    def change(self, changes: list[tuple[Callable[..., Any], tuple]]) -> None:
        """Replace each partition by function(partition, *arguments), for the changes that were not made before."""
        for function, arguments in changes[self._changed :]:
            self.shard = Shard([function(partition, *arguments) for partition in self.shard.parts])
            self._changed += 1


def _cut(partition: Partition, part: Part) -> Partition:
    whole = part.start == 0 and part.stop == len(partition)
    return (partition if whole else partition.some(slice(part.start, part.stop))).at(part.first, part.start)


def _threads() -> Callable[[], AbstractContextManager]:
    """Return a context for as many BLAS threads as the worker has. Dask lets BLAS use one: it expects several tasks."""
    from distributed import get_worker

    threads = get_worker().state.nthreads
    return nullcontext if threads == 1 else partial(ThreadpoolController().limit, limits=threads, user_api="blas")


def _keep_freed_memory() -> None:
    """Let malloc keep some freed memory, if it is that of glibc.

    Dask makes workers return all freed memory to the system at once. The arrays of each step, of a few megabytes each, would
    then be mapped and cleared again in every step, which takes a third of its time.
    """
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL("libc.so.6").mallopt
        mallopt(M_MMAP_THRESHOLD, KEPT_FREE)
        mallopt(M_TRIM_THRESHOLD, KEPT_FREE)


Node = tuple[str, Any, list]  # a worker, an actor on it, and the nodes below


def tree_of(workers: Sequence[tuple[str, Sequence[Any]]]) -> list[Node]:
    """Return workers and their actors as a tree: up to `FANOUT` nodes, and the trees below them.

    A worker executes one call at a time. So it is one node of the tree, and further actors of the same worker are directly
    below the first: otherwise two workers could wait for each other.
    """
    roots, rest = workers[:FANOUT], workers[FANOUT:]
    below = [tree_of(rest[i :: len(roots)]) for i in range(len(roots))]
    return [
        (worker, first, [*tree, *((worker, more, []) for more in others)])
        for (worker, (first, *others)), tree in zip(roots, below, strict=True)
    ]


def watched(called: Any, lost: Callable[[], Any]) -> Any:
    """Return the result of a call to an actor, or raise an OSError as soon as `lost` says that a worker is lost.

    Dask may try for a long time, or forever, to reach a lost worker.
    """
    while True:
        try:
            return called.result(timeout=WATCHED)
        except (TimeoutError, asyncio.TimeoutError):
            if called.done():
                return called.result()  # the function raised this error, or ended just now
            if lost():
                raise OSError("a worker is lost") from None


def _is_gone(worker: str) -> bool:
    """Return whether the scheduler does not know a worker. Called on another worker."""
    from distributed import get_client

    return worker not in get_client().nthreads()


def any_failed(calls: Iterable[Any]) -> bool:
    """Return whether one of some completed calls raised an error."""
    for called in calls:
        try:
            called.result()
        except (OSError, RuntimeError):
            return True
    return False


def packed_call(function: Callable[..., Any], arguments: tuple) -> bytes:
    """Return a call as bytes, pickled once for all workers. Dask's actors do not report objects that cannot be pickled."""
    from distributed.protocol.pickle import dumps

    try:
        return dumps((function, arguments))
    except Exception as error:  # objects of users raise errors of any kind
        raise TypeError(
            f"the kernel, the likelihood or the engine cannot be sent to the workers: {type(error).__name__}: {error}"
        ) from error


def unpacked_call(shard: Shard, sent: bytes) -> Any:
    """Return the result of a function that was sent by `packed_call`."""
    from distributed.protocol.pickle import loads

    try:
        function, arguments = loads(sent)
    except Exception as error:
        raise TypeError(
            f"a worker cannot read the kernel, the likelihood or the engine ({type(error).__name__}: {error}): modules that "
            "define them must be installed on all workers"
        ) from error
    return function(shard, *arguments)


def alone(function: Callable[..., Any], shard: Shard, *arguments: Any) -> list[Any]:
    """Return function(shard, *arguments) in a list, so that the results of shards can be added."""
    return [function(shard, *arguments)]


def rows_on(shard: Shard) -> int:
    """Return the number of rows of a shard."""
    return shard.n_rows
