"""Independent computations in several processes, by joblib."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from joblib import Parallel, delayed


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
