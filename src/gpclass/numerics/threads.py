"""One BLAS thread for small matrices.

If products are small, threads that wait for each other cost more time than they save. On a busy machine they cost many
times as much, because waiting threads spin.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from typing import Any

THREADED_ROWS = 1000  # rows of square matrices from which several threads save time

_lock = threading.Lock()
_own = threading.local()  # depth of nested contexts in this Python thread
_inside = 0  # number of Python threads that are inside a context
_usual: list[int] = []  # numbers of BLAS threads outside of all contexts


@lru_cache(maxsize=1)
def _libraries() -> list[Any]:
    from threadpoolctl import ThreadpoolController  # inspects all loaded libraries, so it is called once

    return ThreadpoolController().select(user_api="blas").lib_controllers


@contextmanager
def one_thread() -> Iterator[None]:
    """Context in which BLAS uses one thread.

    The number of BLAS threads belongs to the process. So a Python thread that leaves the context restores the number from
    before any thread entered, never the limit that another thread has set. Threads that are still inside lose the limit.
    """
    global _inside, _usual
    _own.depth = getattr(_own, "depth", 0) + 1
    try:
        if _own.depth == 1:
            with _lock:
                if _inside == 0:
                    _usual = [library.num_threads for library in _libraries()]
                _inside += 1
                _set([1] * len(_usual))
        yield
    finally:
        _own.depth -= 1
        if _own.depth == 0:
            with _lock:
                _inside -= 1
                _set(_usual)


def _set(numbers: list[int]) -> None:
    for library, number in zip(_libraries(), numbers, strict=True):
        library.set_num_threads(number)


def threads_for(rows: float) -> AbstractContextManager:
    """Return a context that limits BLAS to one thread if matrices have fewer than 1000 rows."""
    return nullcontext() if rows >= THREADED_ROWS else one_thread()
