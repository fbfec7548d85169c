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
_inside = 0  # number of computations that want one thread
_limit: Any = None


@lru_cache(maxsize=1)
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController  # it inspects all loaded libraries, so only once

    return ThreadpoolController().select(user_api="blas")


@contextmanager
def one_thread() -> Iterator[None]:
    """Context in which BLAS uses one thread.

    The number of threads belongs to the process. So the first computation that enters sets it and the last one that leaves
    restores it, whichever threads they run in.
    """
    global _inside, _limit
    with _lock:
        if _inside == 0:
            _limit = _controller().limit(limits=1)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _limit.restore_original_limits()


def threads_for(rows: float) -> AbstractContextManager:
    """Return a context that limits BLAS to one thread if matrices have fewer than 1000 rows."""
    return nullcontext() if rows >= ENOUGH else one_thread()
