"""Progress on stderr: one moving line on a terminal, a few lines in a log file.

A thread keeps the elapsed time moving during long evaluations. No time is extrapolated from a maximum, such as `max_iter`:
a remaining time is shown only where the number of steps is known.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, TextIO

from .phases import Listener, Phase

TICK = 0.25  # seconds between two looks at the phases
LASTING = 1.0  # seconds after which a phase is worth a line in a log file
SELDOM = 30.0  # seconds between two lines on the same phase in a log file
ENOUGH = 3.0  # seconds of a phase before its remaining time is shown


class Display(Listener):
    """Shows the current phases, their figures and the elapsed time. It is a context manager.

    Parameters
    ----------
    stream : file, optional
        Where to write. By default stderr.
    delay : float, default=0
        Seconds before anything is shown.
    done : bool, default=False
        Whether the last line says how long it took.
    clock : callable, default=time.monotonic
        Returns the time in seconds.
    ticking : bool, default=True
        Whether a thread calls `tick`.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        delay: float = 0.0,
        done: bool = False,
        clock: Callable[[], float] = time.monotonic,
        ticking: bool = True,
    ) -> None:
        super().__init__(clock)
        self.stream = sys.stderr if stream is None else stream
        self.terminal = self.stream.isatty()
        self.delay, self.done, self.ticking = delay, done, ticking
        self.begun = clock()
        self.told: set[tuple[str, ...]] = set()  # phases that had their line in a log file
        self.last = -float("inf")  # time of the last line
        self.on_screen = False  # whether there is a line on the terminal that has not ended
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Display:
        if self.ticking:
            self._thread = threading.Thread(target=self._run, name="gpclass progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self._end.set()
        if self._thread is not None:
            self._thread.join()
        self.clear()
        ended = error[0] is None
        if self.done:
            self.finish(f"{_minutes(self.clock() - self.begun)}  {'done' if ended else 'ended'}", ended)

    def finish(self, text: str, ended: bool) -> None:
        """Show the last line. `ended` is False after an error, which has its own text."""
        if ended:
            self._write(f"{text}\n")

    def _run(self) -> None:
        while not self._end.wait(TICK):
            self.tick()

    def changed(self) -> None:
        """Show a phase at once if nothing was shown before."""
        if self.last == -float("inf"):
            self.tick()

    def tick(self) -> None:
        """Show the current phases, if it is time."""
        with self.lock:
            now = self.clock()
            if not self.phases or now - self.begun < self.delay or self._end.is_set():
                return
            if self.terminal:
                self.draw(now)
                self.on_screen, self.last = True, now
            elif self._is_due(now):
                self.told.add(self.path)
                self.last = now
                self._write(f"{self.line(now)}\n")

    def draw(self, now: float) -> None:
        """Replace what is shown on the terminal."""
        width = shutil.get_terminal_size().columns - 1
        self._write(f"\r\x1b[K{self.line(now)[:width]}")

    def _is_due(self, now: float) -> bool:
        """Return whether a log file gets a line: the first, one for each lasting phase, and one every `SELDOM` seconds."""
        lasting = now - self.phases[-1].begun >= LASTING and self.path not in self.told
        return self.last == -float("inf") or lasting or now - self.last >= SELDOM

    def line(self, now: float) -> str:
        """Return the elapsed time, the phases and their figures as text."""
        parts = [part for one in self.phases for part in (one.name, one.text or _count(one)) if part]
        text = f"{_minutes(now - self.begun)}  {': '.join(parts)}"
        left = next((left for one in self.phases if (left := _left(one, now)) is not None), None)
        return text if left is None else f"{text}, {_minutes(left)} left"

    def clear(self) -> None:
        """Remove the line from the terminal, so that others can write."""
        with self.lock:
            if self.on_screen:
                self._write("\r\x1b[K")
                self.on_screen = False

    def say(self, text: str) -> bool:
        with self.lock:
            self.clear()
            self._write(f"{text}\n")
        return True

    def _write(self, text: str) -> None:
        try:
            self.stream.write(text)
            self.stream.flush()
        except (OSError, ValueError):  # the reader has gone, but the computation continues
            self._end.set()


def _minutes(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _count(one: Phase) -> str:
    if one.total is None or not one.done or one.total <= 1:
        return ""
    return f"{one.done:.0f} of {'' if one.exact else 'at most '}{one.total:.0f}"


def _left(one: Phase, now: float) -> float | None:
    """Return the remaining seconds of a phase whose number of steps is known, or None."""
    spent = now - one.begun
    if one.total is None or not one.exact or not one.done or spent < ENOUGH:
        return None
    return max(0.0, spent / one.done * (one.total - one.done))
