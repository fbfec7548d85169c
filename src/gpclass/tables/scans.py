"""Scans of the parts of a table, which find the kind of each column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from pandas.api import types

from .parts import Part
from .problems import TableError


class Place(NamedTuple):
    """A row."""

    number: int  # from 0
    row: str  # its name

    def after(self, n_rows: int) -> Place:
        """Return the place of this row after `n_rows` other rows."""
        return Place(n_rows + self.number, self.row)


@dataclass(frozen=True)
class Scan:
    """Types and empty cells of the columns of a table.

    Attributes
    ----------
    names : tuple of str
        The columns.
    part : str
        Name of the first part.
    n_rows : int
        Number of rows.
    empty : ndarray of shape (D,)
        Number of empty cells of each column.
    first_empty : tuple of Place or None
        For each column, the first row in which it is empty.
    samples : tuple of tuple of Series
        For each column, the first cell of each type that occurs in parts of different types.
    """

    names: tuple[str, ...]
    part: str
    n_rows: int
    empty: np.ndarray
    first_empty: tuple[Place | None, ...]
    samples: tuple[tuple[pd.Series, ...], ...]

    def __add__(self, other: Scan) -> Scan:
        other = other._in_order_of(self)
        return Scan(
            self.names,
            self.part,
            self.n_rows + other.n_rows,
            self.empty + other.empty,
            tuple(a or (b and b.after(self.n_rows)) for a, b in zip(self.first_empty, other.first_empty, strict=True)),
            tuple(_different(a + b) for a, b in zip(self.samples, other.samples, strict=True)),
        )

    def _in_order_of(self, first: Scan) -> Scan:
        """Return this scan with columns in the order of another one."""
        if self.names == first.names:
            return self
        check_columns(self.names, self.part, first.names, first.part)
        place = {name: j for j, name in enumerate(self.names)}
        order = [place[name] for name in first.names]
        known = tuple(self.first_empty[j] for j in order)
        samples = tuple(self.samples[j] for j in order)
        return replace(self, names=first.names, empty=self.empty[order], first_empty=known, samples=samples)

    @cached_property
    def columns(self) -> list[pd.Series]:
        """For each column, a few cells with the type that the column of the whole table has."""
        return [_joined(samples) for samples in self.samples]

    def first_hole(self, counts: np.ndarray) -> tuple[str, str]:
        """Return the first row with an empty cell, and its column, among the columns whose `counts` (D,) are not 0."""
        some = [(p.number, j, p.row) for j, p in enumerate(self.first_empty) if p is not None and counts[j]]
        _, j, row = min(some)
        return row, self.names[j]

    @property
    def needs_encoding(self) -> bool:
        """Whether columns are not all numbers, or cells are empty."""
        return not all(types.is_numeric_dtype(column.dtype) for column in self.columns) or bool(self.empty.any())


def scanned(part: Part) -> Scan:
    """Return types and empty cells of the columns of a part."""
    frame = part.frame
    empty = frame.isna().to_numpy()
    rows = [int(np.argmax(column)) if column.any() else None for column in empty.T]
    first = tuple(None if row is None else Place(row, part.row(row)) for row in rows)
    samples = tuple((_sample(frame.iloc[:, j], empty[:, j]),) for j in range(frame.shape[1]))
    return Scan(tuple(map(str, frame.columns)), part.name, len(frame), empty.sum(axis=0), first, samples)


def check_columns(names: Sequence[str], name: str, others: Sequence[str], other: str) -> None:
    """Raise a TableError if two parts of a table, or files, do not have the same columns, or two of the same name.

    `names` are the columns of the part called `name`, and `others` those of the part called `other`.
    """
    for twice in [column for i, column in enumerate(names) if column in names[:i]]:
        raise TableError(f"{name} has two columns {twice!r}; names of columns must be different")
    for missing in [column for column in others if column not in set(names)]:
        raise TableError(f"{name} has no column {missing!r}, but {other} has; all parts of a table need the same columns")
    for more in [column for column in names if column not in set(others)]:
        raise TableError(f"{name} has a column {more!r}, but {other} has not; all parts of a table need the same columns")


def _sample(values: pd.Series, empty: np.ndarray) -> pd.Series:
    """Return the first cell of each type, and the first empty one."""
    categories = getattr(values.dtype, "categories", None)
    if types.is_object_dtype(values.dtype if categories is None else categories.dtype):
        first: dict[Any, int] = {}
        for i, key in enumerate(zip(map(type, values.tolist()), empty.tolist(), strict=True)):
            first.setdefault(key, i)
        few = values.iloc[list(first.values())]
    else:
        few = values.iloc[sorted(int(np.argmax(which)) for which in (empty, ~empty) if which.any())]
    return few if categories is None else few.cat.remove_unused_categories()


def _different(samples: Sequence[pd.Series]) -> tuple[pd.Series, ...]:
    """Return the first of the samples of each type."""
    first: dict[Any, pd.Series] = {}
    for sample in samples:
        kind = "category" if isinstance(sample.dtype, pd.CategoricalDtype) else str(sample.dtype)
        entries = frozenset(zip(map(type, sample.tolist()), sample.isna().tolist(), strict=True))
        first.setdefault((kind, entries), sample)
    return tuple(first.values())


def _joined(samples: Sequence[pd.Series]) -> pd.Series:
    """Return cells with the type of the whole column. Parts of it that have different categories are still categories."""
    if len(samples) == 1:
        return samples[0]
    if all(isinstance(sample.dtype, pd.CategoricalDtype) for sample in samples):
        return pd.concat([sample.astype(object) for sample in samples])
    # frames, since their columns get other types than series: numbers of booleans and integers
    return pd.concat([sample.to_frame("x") for sample in samples]).infer_objects()["x"]
