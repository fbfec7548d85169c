"""Checks that CSV and Parquet files share: the column of labels, and whether a file has changed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...tables import TableError


def place_of(target: str | int, names: Sequence[str], named: bool, path: Any) -> int:
    """Return the index of the column of labels, or raise an error if there is no such column."""
    if len(names) < 2:
        raise TableError(f"{path} has {len(names)} column; it needs one column of labels and at least one of numbers")
    known = f"its columns are {', '.join(names)}" if named else f"it has {len(names)} columns without names"
    if isinstance(target, str):
        if not named or names.count(target) != 1:
            count = "more than one" if named and target in names else "no"
            raise TableError(f"{path} has {count} column {target!r}; {known}")
        return names.index(target)
    if isinstance(target, bool) or not isinstance(target, (int, np.integer)):
        raise TypeError(f"target must be the name or the index of a column, but is {target!r}")
    if not -len(names) <= target < len(names):
        places = f"indices are {-len(names)} to {len(names) - 1}"
        raise TableError(f"{path} has no column with index target={target}: {places}; {known}")
    return int(target) % len(names)


def places_without(drop: Sequence[str], names: Sequence[str], place: int, path: Any) -> frozenset[int]:
    """Return the indices of the columns in `drop`, or raise an error if one is unknown; `place` is that of the labels."""
    for name in drop:
        if name not in names:
            raise TableError(f"{path} has no column {name!r}; its columns are {', '.join(names)}")
        if name == names[place]:
            raise TableError(f"{name!r} is the column of labels of {path} and cannot be dropped")
    found = frozenset(names.index(name) for name in drop)
    if len(found) == len(names) - 1:
        raise TableError(f"{path} has no input columns besides the labels {names[place]!r}")
    return found


def stamp_of(path: Any) -> tuple[int, int]:
    """Return size and modification time of a file, which change with its contents."""
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns
