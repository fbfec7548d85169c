"""One BLAS thread for small matrices.

Threads that wait for each other cost more than they save if products are small, and on a busy machine many times as much:
they spin until their turn comes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from typing import Any

ENOUGH = 1000  # rows of square matrices from which threads save time

_lock = threading.Lock()
_own = threading.local()  # depth of nested contexts in this thread
_inside = 0  # number of threads with a context
_usual: list[int] = []  # numbers of BLAS threads while there is none


@lru_cache(maxsize=1)
def _libraries() -> list[Any]:
    from threadpoolctl import ThreadpoolController  # it inspects all loaded libraries, so only once

    return ThreadpoolController().select(user_api="blas").lib_controllers


@contextmanager
def one_thread() -> Iterator[None]:
    """Context in which BLAS uses one thread.

    The number of BLAS threads belongs to the process. So a thread of Python that leaves restores what was usual before any
    of them entered, and never the one thread that another has set. Others that are still inside then only lose the limit.
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
    return nullcontext() if rows >= ENOUGH else one_thread()
