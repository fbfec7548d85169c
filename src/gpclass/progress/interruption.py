"""Ctrl-C that ends learning with what was learned so far.

By default KeyboardInterrupt ends a fit, as everywhere in Python. Within `keeping_best` the first one ends only the search:
searches return their best point so far, training on minibatches returns its current state, and the fit is completed from
there. A second one ends the fit. An interruption before anything was learned ends the fit too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from .phases import say


@dataclass
class Interruption:
    """What `keeping_best` yields.

    Attributes
    ----------
    happened : bool
        Whether Ctrl-C ended the search.
    after : str
        What had been done by then, such as "12 evaluations".
    """

    happened: bool = False
    after: str = ""


_WANTED: ContextVar[Interruption | None] = ContextVar("gpclass_interruption", default=None)


@contextmanager
def keeping_best() -> Iterator[Interruption]:
    """Within this context, the first Ctrl-C ends learning with the best result so far instead of an error.

    Examples
    --------
    >>> with keeping_best() as interruption:
    ...     pass  # clf.fit(X, y)
    >>> interruption.happened
    False
    """
    found = Interruption()
    token = _WANTED.set(found)
    try:
        yield found
    finally:
        _WANTED.reset(token)


def stops_here(after: str) -> bool:
    """Return whether a KeyboardInterrupt that was caught ends only the search, and record it.

    Call it where KeyboardInterrupt is caught and there is a result; if it returns False, raise again. `after` is what has
    been done.
    """
    wanted = _WANTED.get()
    if wanted is None or wanted.happened:
        return False
    wanted.happened, wanted.after = True, after
    say(f"interrupted after {after}: finishing with what was learned so far; Ctrl-C again stops at once")
    return True


def interrupted() -> bool:
    """Return whether learning was interrupted and should come to its end."""
    wanted = _WANTED.get()
    return wanted is not None and wanted.happened
