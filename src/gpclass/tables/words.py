"""Words of messages about tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..spelling import closest

FEW_MARKS = 3  # different texts among numbers or dates up to which they are treated as marks of missing values


def is_number(text: Any) -> bool:
    """Return whether `float` accepts a cell."""
    try:
        float(text)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def listed(names: Iterable[Any]) -> str:
    """Return at most eight names, and how many more there are."""
    names = [str(name) for name in names]
    shown = ", ".join(cut(name) for name in names[:8])
    return f"{shown} and {len(names) - 8} more" if len(names) > 8 else shown or "none"


def cut(thing: Any) -> str:
    """Return `repr`, shortened to 60 characters."""
    text = repr(thing)
    return text if len(text) <= 60 else text[:57] + "..."


def meant(name: str, known: Iterable[str]) -> str:
    """Return a question with the known name that is most similar; empty if there is none."""
    near = closest(name, known)
    return "" if near is None else f" (did you mean {near!r}?)"


def and_more(empty: np.ndarray) -> str:
    """Return how many cells besides the first are empty."""
    more = int(np.sum(empty)) - 1
    return f", and {more} more cell{'s' * (more > 1)}" if more else ""


def one_line(error: BaseException) -> str:
    """Return the message of an error without line breaks."""
    return " ".join(str(error).split()) or type(error).__name__
