"""Independent computations in several processes, by joblib."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

from joblib import Parallel, delayed, effective_n_jobs

from ..progress import interrupted, phase, stops_here, tell


def in_parallel(n_jobs: int | None, function: Callable, arguments: Iterable[tuple]) -> list[Any]:
    """Return the results of a function for several tuples of arguments.

    Parameters
    ----------
    n_jobs : int or None
        Number of processes; -1 uses all processors. None means one, unless a `joblib.parallel_config` says otherwise.
        One is this process, whatever a `joblib.parallel_config` says.
    function : callable
        The function. With several processes it, its arguments and its results are pickled.
    arguments : iterable of tuple
        The arguments of each call.

    Returns
    -------
    list
        Results in the order of the arguments; the number of processes does not change them.
    """
    if n_jobs == 1:  # backends for clusters take no notice of it
        return [function(*given) for given in arguments]
    return Parallel(n_jobs=n_jobs)(delayed(function)(*given) for given in arguments)


def one_by_one(n_jobs: int | None, function: Callable, arguments: Iterable[tuple]) -> Iterator[Any]:
    """Yield the results of `in_parallel`, in their order, as soon as each is known."""
    if n_jobs == 1:
        return (function(*given) for given in arguments)
    return Parallel(n_jobs=n_jobs, return_as="generator")(delayed(function)(*given) for given in arguments)


def until_interrupted(n_jobs: int | None, function: Callable, arguments: Sequence[tuple], what: str) -> list[Any]:
    """Return the results of `in_parallel`; after an interruption that ends learning, those so far.

    Functions name their own phases, which other processes cannot tell. So with several processes the number of results is
    told. `what` is the plural of what the function computes, such as "searches".
    """
    found: list[Any] = []
    processes = 1 if n_jobs == 1 else min(len(arguments), effective_n_jobs(n_jobs))
    with phase(f"{len(arguments)} {what} in {processes} processes") if processes > 1 else nullcontext():
        try:
            for one in one_by_one(n_jobs, function, arguments):
                found.append(one)
                if processes > 1:
                    tell(f"{len(found)} done")
                if interrupted():
                    break
        except KeyboardInterrupt:
            if not (found and stops_here(f"{len(found)} of {len(arguments)} {what}")):
                raise
    return found
