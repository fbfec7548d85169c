"""How many rows a preview uses, so that a person who drags sees ten frames a second; and threads that compute."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from ..numerics.threads import one_thread

SHARES = (1.0, 0.7, 0.5, 0.35, 0.25, 0.18, 0.13, 0.09, 0.06, 0.04)  # of the rows
FEWEST = 40  # rows of a preview
FIRST, SMALL = 0.25, 150  # share of the rows of the first preview, and rows up to which it uses all of them
SLOW, GOAL = 0.085, 0.06  # seconds: above the first fewer rows are used; as many as are expected to take the second
FIXED, POWER = 0.01, 2.3  # seconds that do not depend on the rows, and the power with which the others grow
RECENT = 4  # previews that are remembered: the quickest of them counts, since others were held up by something else


class Pace:
    """The number of rows of previews, by engine, kernel and likelihood, from the time that earlier ones took.

    Parameters
    ----------
    n_rows : int
        Number of all rows.
    """

    def __init__(self, n_rows: int) -> None:
        self.sizes = sorted({max(min(FEWEST, n_rows), round(share * n_rows)) for share in SHARES})
        self._first = max(size for size in self.sizes if size <= max(FIRST * n_rows, SMALL, self.sizes[0]))
        self._rows: dict[Any, int] = {}
        self._seconds: dict[Any, deque[float]] = {}  # of previews with the present number of rows

    def rows(self, key: Any) -> int:
        """Return the number of rows of the next preview."""
        return self._rows.get(key, self._first)

    def took(self, key: Any, seconds: float) -> None:
        """Record the time of a preview. If all recent ones were slow, the next one uses fewer rows."""
        recent = self._seconds.setdefault(key, deque(maxlen=RECENT))
        recent.append(seconds)
        if len(recent) > 1 and min(recent) > SLOW:
            self._change(key, min(self._expected(key), self._below(self.rows(key))))

    def rested(self, key: Any) -> None:
        """Use more rows if recent previews were quick. Called when nobody drags, so that figures do not jump."""
        if self._seconds.get(key):
            self._change(key, max(self._expected(key), self.rows(key)))

    def _change(self, key: Any, rows: int) -> None:
        if rows != self.rows(key):
            self._rows[key] = rows
            self._seconds[key].clear()

    def _below(self, rows: int) -> int:
        return max((size for size in self.sizes if size < rows), default=self.sizes[0])

    def _expected(self, key: Any) -> int:
        """Return the largest number of rows that is expected to take `GOAL` seconds."""
        growing = max(min(self._seconds[key]) - FIXED, 0.2 * FIXED)
        able = [size for size in self.sizes if FIXED + growing * (size / self.rows(key)) ** POWER <= GOAL]
        return max(able, default=self.sizes[0])


class Worker:
    """A thread that computes one thing after the other. It ends with the process, also in the middle of a computation."""

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=self._work, name=f"explore-{name}", daemon=True).start()

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return `function(*arguments)`, computed in the thread."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        self._jobs.put((function, arguments, answer, loop))
        return await answer

    def _work(self) -> None:
        with one_thread():  # for as long as the thread lives: several of them compute at the same time
            while True:
                function, arguments, answer, loop = self._jobs.get()
                if answer.cancelled():
                    continue
                try:
                    result, error = function(*arguments), None
                except Exception as raised:  # it is raised again where `run` was called
                    result, error = None, raised
                try:
                    loop.call_soon_threadsafe(_settle, answer, result, error)
                except RuntimeError:  # the loop has ended, and nothing waits for the result
                    return


def _settle(answer: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if answer.done():
        return
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(result)
