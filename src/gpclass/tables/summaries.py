"""Contents of columns, from sums over the parts of a table: numbers of cells, levels, and what an encoder learns.

First `scanned` finds the kind of each column, then `contents` counts its cells, and `medians` finds exact medians.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from .columns import Column, as_numbers, as_texts, kind_of
from .conversions import Declared
from .dates import problem_of_dates
from .medians import medians
from .parts import Each, Part, Total
from .problems import Problem, TableError
from .scans import Scan
from .suspects import has_decimal_commas, problem_of_texts


class Level(NamedTuple):
    """A text of a column."""

    rows: int  # their number
    first: str  # the first of them


@dataclass(frozen=True)
class Contents:
    """Counts of the cells of a column that are not empty.

    Attributes
    ----------
    count : int
        Number of cells.
    true : int
        Number of true cells of booleans.
    low, high : float
        Smallest and largest number.
    levels : dict of str to Level
        Different texts, in the order of their first rows.
    problems : tuple of Problem
        Problems of the first cell that cannot be used; empty if there is none.
    """

    count: int = 0
    true: int = 0
    low: float = np.inf
    high: float = -np.inf
    levels: dict[str, Level] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    def __add__(self, other: Contents) -> Contents:
        levels = dict(self.levels)
        for text, level in other.levels.items():
            before = levels.get(text)
            levels[text] = level if before is None else Level(before.rows + level.rows, before.first)
        low, high = min(self.low, other.low), max(self.high, other.high)
        return Contents(
            self.count + other.count, self.true + other.true, low, high, levels, self.problems or other.problems
        )


def contents(part: Part, names: Sequence[str], kinds: Sequence[str]) -> Each:
    """Return the `Contents` of each column of a part, given the kinds of the columns."""
    columns = zip(part.columns(names), names, kinds, strict=True)
    return Each(tuple(_contents(part, values, name, kind) for values, name, kind in columns))


def _contents(part: Part, values: pd.Series, name: str, kind: str) -> Contents:
    present = values.dropna()
    try:
        if kind == "date" and len(present):
            raise TableError.of(problem_of_dates(name, [str(present.iloc[0])], typed=True))
        if kind == "boolean":
            return Contents(len(present), sum(bool(value) for value in present))
        if kind == "number":
            numbers = as_numbers(present, name)
            return Contents(len(numbers), low=numbers.min(initial=np.inf), high=numbers.max(initial=-np.inf))
        texts = np.array(as_texts(present, name), dtype=object)
    except TableError as error:
        return Contents(problems=part.problems_of(error))
    place, levels = pd.factorize(texts)
    first = np.flatnonzero(values.notna().to_numpy())[np.unique(place, return_index=True)[1]]
    found = zip(levels.tolist(), np.bincount(place).tolist(), first.tolist(), strict=True)
    return Contents(len(texts), levels={text: Level(count, part.row(row)) for text, count, row in found})


def learned_columns(
    total: Total,
    scan: Scan,
    indicators: bool = False,
    names: Sequence[str] | None = None,
    declared: Mapping[str, Declared] | None = None,
) -> tuple[tuple[Column, ...], list[Problem]]:
    """Return the descriptions of the columns of a table, and the problems of those that cannot be inputs.

    Parameters
    ----------
    total : callable
        `total(function, *arguments)` returns the sum of function(part, *arguments) over all parts, in their order.
    scan : Scan
        total(scanned).
    indicators : bool, default=False
        Whether columns with empty cells get an indicator.
    names : sequence of str, optional
        The columns to describe. By default all.
    declared : mapping of str to Declared, optional
        The forms of dates and of numbers with units, which are plain numbers in the parts.

    Returns
    -------
    tuple of Column, list of Problem
        The former is empty if there are problems.
    """
    which = [j for j, name in enumerate(scan.names) if names is None or name in names]
    names = tuple(scan.names[j] for j in which)
    kinds = tuple(kind_of(scan.columns[j]) for j in which)
    found: tuple[Contents, ...] = total(contents, names, kinds).results
    problems = _problems(names, kinds, found)
    if problems:
        return (), problems
    middle = medians(total, {name: cells for name, kind, cells in zip(names, kinds, found, strict=True) if kind == "number"})
    columns = []
    for name, kind, cells, empty in zip(names, kinds, found, scan.empty[which], strict=True):
        column = _column(name, kind, cells, middle.get(name, 0.0))
        if declared and name in declared:
            form = declared[name]
            column = replace(column, kind=form.kind, unit=form.unit, form=form.form, clock=form.clock)
            column = replace(column, first=cells.low) if form.kind == "date" else column
        columns.append(replace(column, indicator=indicators and bool(empty)))
    return tuple(columns), []


def _problems(names: Sequence[str], kinds: Sequence[str], found: Sequence[Contents]) -> list[Problem]:
    """Return the problems of columns, given the counts of their cells."""
    texts = {name: cells.levels for name, kind, cells in zip(names, kinds, found, strict=True) if kind == "category"}
    comma = any(has_decimal_commas(levels) for levels in texts.values() if levels)
    problems: list[Problem] = []
    for name, cells in zip(names, found, strict=True):
        problems += cells.problems
        if not cells.problems and texts.get(name):
            suspect = problem_of_texts(texts[name], name, comma)
            problems += [] if suspect is None else [suspect]
    return problems


def _column(name: str, kind: str, cells: Contents, median: float) -> Column:
    if kind == "category":
        levels = sorted(cells.levels)
        counts = [cells.levels[level].rows for level in levels]
        return Column(name, kind, tuple(levels), fill=levels[int(np.argmax(counts))])
    median = float(cells.true / cells.count >= 0.5) if kind == "boolean" else median
    return Column(name, kind, fill=median, median=median)
