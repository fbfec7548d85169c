"""What is being computed: nested phases and their latest figures, reported to the current listener.

    with phase("search for hyperparameters"):
        tell("iteration 3, log evidence -81.20")

By default there is no listener. A listener belongs to the context (`contextvars`) in which it was set: it gets nothing from
other threads and other processes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass
class Phase:
    """A phase of a computation.

    Attributes
    ----------
    name : str
        What is being computed.
    begun : float
        Time at which it began, in seconds of the listener's clock.
    text : str
        The latest figures.
    done : float
        Number of steps that are done.
    total : float or None
        Number of steps in all; None if it is not known.
    exact : bool
        Whether all these steps will be done. Otherwise `total` is a maximum, from which no time is extrapolated.
    """

    name: str
    begun: float
    text: str = ""
    done: float = 0.0
    total: float | None = None
    exact: bool = True


class Listener:
    """Keeps the current phases, the outermost first. Subclasses override `changed`.

    Parameters
    ----------
    clock : callable, default=time.monotonic
        Returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.phases: list[Phase] = []
        self.lock = threading.RLock()  # a display reads the phases in a thread of its own

    @property
    def path(self) -> tuple[str, ...]:
        """Names of the current phases, the outermost first."""
        return tuple(one.name for one in self.phases)

    def enter(self, name: str, total: float | None = None, exact: bool = True) -> None:
        """Begin a phase within the current one."""
        with self.lock:
            self.phases.append(Phase(name, self.clock(), total=total, exact=exact))
        self.changed()

    def leave(self, depth: int) -> None:
        """End all phases but the `depth` outermost ones."""
        with self.lock:
            del self.phases[depth:]

    def tell(self, text: str) -> None:
        """Set the figures of the current phase."""
        with self.lock:
            if not self.phases:
                return
            self.phases[-1].text = text
        self.changed()

    def changed(self) -> None:
        """Called after a phase began and after new figures."""

    def clear(self) -> None:
        """Remove what is on the terminal, so that others can write."""

    def say(self, text: str) -> bool:
        """Write a line that stays, if this listener writes lines. Return whether it did."""
        return False


_LISTENER: ContextVar[Listener | None] = ContextVar("gpclass_listener", default=None)


def current() -> Listener | None:
    """Return the current listener, or None."""
    return _LISTENER.get()


@contextmanager
def listening(listener: Listener) -> Iterator[Listener]:
    """Make `listener` the current one within this context."""
    token = _LISTENER.set(listener)
    try:
        yield listener
    finally:
        _LISTENER.reset(token)


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Name what is computed within this context."""
    listener = current()
    if listener is None or listener.path[-1:] == (name,):  # the same thing, named twice
        yield
        return
    depth = len(listener.phases)
    listener.enter(name)
    try:
        yield
    finally:
        listener.leave(depth)


def begin(name: str) -> None:
    """Name what is computed from now on. All current phases end. For programs, whose phases follow each other."""
    listener = current()
    if listener is not None:
        listener.leave(0)
        listener.enter(name)


def rest() -> None:
    """End all current phases, and leave the terminal to others until the next phase."""
    listener = current()
    if listener is not None:
        listener.leave(0)
        listener.clear()


def tell(text: str) -> None:
    """Report the latest figures of the current phase."""
    listener = current()
    if listener is not None:
        listener.tell(text)


def say(text: str) -> bool:
    """Write a line among the progress, if a listener writes lines. Return whether it did."""
    listener = current()
    return listener is not None and listener.say(text)


class Counter:
    """Counts the steps of a phase, see `counted`."""

    def __init__(self, found: Phase | None) -> None:
        self._phase = found

    def advance(self, amount: float = 1.0) -> None:
        """Count further steps as done."""
        if self._phase is not None:
            self._phase.done += amount


@contextmanager
def counted(name: str, total: float, done: float = 0.0, exact: bool = True) -> Iterator[Counter]:
    """Name a phase whose steps are counted, and yield the counter.

    Parameters
    ----------
    name : str
        What is computed.
    total : float
        Number of steps, from which the remaining time is computed.
    done : float, default=0
        Number of steps that were done before. They do not count for the remaining time.
    exact : bool, default=True
        Whether all steps will be done. If the phase may end earlier, no remaining time is shown.
    """
    listener = current()
    if listener is None:
        yield Counter(None)
        return
    depth = len(listener.phases)
    listener.enter(name, total - done, exact)
    try:
        yield Counter(listener.phases[-1])
    finally:
        listener.leave(depth)


@contextmanager
def shown(verbose: int) -> Iterator[None]:
    """Show progress within this context, on stderr or in a notebook, if `verbose` is not 0 and there is no listener yet."""
    if not verbose or current() is not None:
        yield
        return
    from .display import Display  # imported only if something is shown
    from .notebook import NotebookDisplay, widgets

    bars = widgets()
    display = Display(done=True) if bars is None else NotebookDisplay(bars, done=True)
    with display, listening(display):
        yield
