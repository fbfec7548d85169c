"""Contents of columns: numbers of cells, levels and problems, as sums over the parts of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pandas as pd

from .columns import as_numbers, as_texts
from .dates import problem_of_dates
from .parts import Each, Part
from .problems import Problem, TableError


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
