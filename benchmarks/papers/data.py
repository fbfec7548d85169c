"""Data sets that may not be there: they come from GPCLASS_DATA or --data."""

from __future__ import annotations

import sys

from gpclass import datasets


class NoData(FileNotFoundError):
    """None of a table's data sets can be loaded."""


def found(names) -> list[str]:
    """Those of some data sets that can be loaded; the others are named."""
    some = []
    for name in names:
        try:
            datasets.load(name)
            some.append(name)
        except FileNotFoundError as error:
            print(f"left out: {error}", file=sys.stderr)
    if not some:
        raise NoData(f"none of {', '.join(names)} is available")
    return some
