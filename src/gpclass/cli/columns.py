"""Options for the columns of a training table, and problems of columns that only the command line detects."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ..spelling import closest, did_you_mean
from ..tables import USUAL, Option, Problem, Reading, TableEncoder, TableError
from .reading_options import joined, names_in, reading_options, with_reading_option

# names of columns of row numbers
ROWS = re.compile(r"Unnamed: \d+( \(\d+\))?|(row|line)?[ _]?(id|index|nr|no|number|names?)", re.IGNORECASE)
MANY = 10  # a column that counts more rows than these is not an input


@dataclass(frozen=True)
class Columns:
    """Options for the columns of a training table, and for reading it."""

    target: str
    drop: tuple[str, ...] = ()
    id: str | None = None
    impute: str | None = None
    dates: tuple[tuple[str, str | None], ...] = ()  # columns of dates with their formats, if these are given
    units: tuple[str, ...] = ()  # columns of numbers with a unit
    skip_unlabelled: bool = False
    merge_labels: bool | None = None
    reading: Reading = USUAL

    @staticmethod
    def of(
        target: str, drop: str = "", id: str | None = None, dates: str = "", units: str = "", **settings: Any
    ) -> Columns:
        """Return the columns that options name; `drop`, `dates` and `units` are names separated by commas."""
        names = tuple(dict.fromkeys(name.strip() for name in names_in(drop) if name.strip()))
        if target in names:
            raise TableError(f"{target!r} is the target and cannot be dropped")
        if id == target:
            raise TableError(f"{target!r} is the target and cannot be the id column")
        formats = tuple((name, form or None) for name, _, form in (text.partition("=") for text in names_in(dates)))
        dropped = tuple(name for name in names if name != id)
        return Columns(target, dropped, id, dates=formats, units=tuple(names_in(units)), **settings)

    @property
    def no_inputs(self) -> tuple[str, ...]:
        """The columns besides the labels that are not inputs."""
        return self.drop if self.id is None else (*self.drop, self.id)

    @property
    def needs_whole(self) -> bool:
        """Whether the rows must be one table in this process."""
        return bool(self.dates or self.units or self.changes_labels)

    @property
    def changes_labels(self) -> bool:
        """Whether labels are changed, or rows without a label are left out."""
        return self.skip_unlabelled or self.merge_labels is not None

    def encoder(self) -> TableEncoder:
        """Return an encoder, not fitted, for the inputs."""
        formats: Any = dict(self.dates)
        return TableEncoder(self.impute, self.target, self.id, formats or None, list(self.units) or None)

    def options(self) -> dict[str, str | bool]:
        """Return the values of the options of the command line by name. Those that are not set are empty or false."""
        dates = [name if form is None else f"{name}={form}" for name, form in self.dates]
        return {
            "--target": self.target,
            "--drop": joined(self.drop),
            "--id": self.id or "",
            "--impute": self.impute or "",
            "--dates": joined(dates),
            "--units": joined(self.units),
            "--skip-unlabelled": self.skip_unlabelled,
            "--merge-labels": self.merge_labels is True,
            "--keep-labels": self.merge_labels is False,
            **reading_options(self.reading),
        }

    def with_option(self, option: Option) -> Columns:
        """Return these columns with one more option of the command line."""
        name, value, instead = option
        match name:
            case "--target":
                return replace(self, target=value)
            case "--impute":
                return replace(self, impute=value)
            case "--id" if self.id in (None, instead):
                return replace(self, id=value)
            case "--drop" | "--id":  # there is an id column already
                return replace(self, drop=_with(self.drop, value, instead), units=_without(self.units, value))
            case "--units":
                return replace(self, units=_with(self.units, value, instead))
            case "--dates":
                column, _, form = value.partition("=")
                old = [(n, f) for n, f in self.dates if n not in (column, instead)]
                return replace(self, dates=(*old, (column, form or None)))
            case "--skip-unlabelled":
                return replace(self, skip_unlabelled=True)
            case "--merge-labels":
                return replace(self, merge_labels=True)
        return replace(self, reading=with_reading_option(self.reading, option))


def _with(names: tuple[str, ...], name: str, instead: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*(n for n in names if n != instead), name]))


def _without(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return tuple(n for n in names if n != name)


# problems ------------------------------------------------------------------------------------------------------------------


def names_not_there(columns: Columns, frame: pd.DataFrame, header: Sequence[str]) -> list[Problem]:
    """Return a problem for each column to drop that neither a table nor the header of its file has."""
    names = list(frame.columns)
    problems = []
    for name in columns.drop:
        if name not in {*names, *header}:
            near = closest(name, names)
            text = f"there is no column {name!r} to drop.{did_you_mean(name, names)} There are {', '.join(map(repr, names))}"
            options = () if near is None else (Option("--drop", near, instead=name),)
            problems.append(Problem("column", text, options=options))
    return problems


def target_by_number(frame: pd.DataFrame, target: str) -> Problem:
    """Return the problem of a target whose name is not known, since the file has no header."""
    classes = {name: frame[name].nunique() for name in frame.columns}
    ends = [name for name in (frame.columns[-1], frame.columns[0]) if 1 < classes[name] <= max(2, len(frame) // 4)]
    probable = (ends or [frame.columns[-1]])[0]
    text = f"without a header there is no column {target!r}; column {probable} has {classes[probable]} different values"
    advice = f"; is it the target (--target {probable})?"
    return Problem("target", text, advice=advice, options=(Option("--target", probable),))


def row_numbers(inputs: pd.DataFrame, columns: Columns) -> list[Problem]:
    """Return a problem for each input that has a name of row numbers and counts the rows."""
    problems = []
    n, taken = len(inputs), columns.id is not None
    for name in inputs.columns:
        values = inputs[name]
        counts = values.dtype.kind in "iu" and len(np.unique(np.diff(values))) == 1 and values.iloc[0] in (0, 1)
        if ROWS.fullmatch(str(name)) and n > MANY and counts and values.iloc[1] == values.iloc[0] + 1:
            option = Option("--drop" if taken else "--id", name)
            text = f"column {name!r} counts the rows, and would be an input"
            advice = f"; use it as row names (--id {name!r}), or leave it out (--drop {name!r})"
            problems.append(Problem("ids", text, (name,), advice, (option,), f"X.drop(columns={name!r})"))
            taken = True
    return problems
