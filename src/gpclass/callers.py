"""Where a warning points to: the line of the user's program that called the package."""

from __future__ import annotations

import sys


def outside() -> int:
    """Return the `stacklevel` of the first caller outside the package, for `warnings.warn` in the calling function."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "gpclass":
        frame, level = frame.f_back, level + 1
    return level
