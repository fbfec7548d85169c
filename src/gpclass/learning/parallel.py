"""Independent computations in several processes, by joblib."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

from joblib import Parallel, delayed, effective_n_jobs

from ..progress import interrupted, phase, stops_here, tell


def in_parallel(n_jobs: int | None, function: Callable, arguments: Iterable[tuple]) -> Iterator[Any]:
    """Yield the results of a function for several tuples of arguments, in their order, as soon as each is known.

    Parameters
    ----------
    n_jobs : int or None
        Number of processes; -1 uses all processors. None means one, unless a `joblib.parallel_config` says otherwise.
        1 always means this process.
    function : callable
        The function. With several processes it, its arguments and its results are pickled.
    arguments : iterable of tuple
        The arguments of each call.

    Returns
    -------
    iterator
        The number of processes does not change the results.
    """
    if n_jobs == 1:  # joblib's backends for clusters ignore n_jobs
        return (function(*given) for given in arguments)
    return Parallel(n_jobs=n_jobs, return_as="generator")(delayed(function)(*given) for given in arguments)


def until_interrupted(n_jobs: int | None, function: Callable, arguments: Sequence[tuple], what: str) -> list[Any]:
    """Return the results of `in_parallel` as a list; after an interruption that ends learning, those so far.

    The phases of other processes are not shown, so with several processes the progress is the number of results. `what` is
    the plural of what the function computes, such as "searches".
    """
    if len(arguments) == 1:
        return [function(*arguments[0])]
    found: list[Any] = []
    processes = 1 if n_jobs == 1 else min(len(arguments), effective_n_jobs(n_jobs))
    with phase(f"{len(arguments)} {what} in {processes} processes") if processes > 1 else nullcontext():
        try:
            for one in in_parallel(n_jobs, function, arguments):
                found.append(one)
                if processes > 1:
                    tell(f"{len(found)} done")
                if interrupted():
                    break
        except KeyboardInterrupt:
            if not (found and stops_here(f"{len(found)} of {len(arguments)} {what}")):
                raise
    return found
