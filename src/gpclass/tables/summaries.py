"""Descriptions of columns from sums over the parts of a table.

The rows of a table may be divided into parts, in one process or in several. Functions of this file describe one part, and
their results are added up, in the order of the parts:

    total(function, *arguments)  =  Σ function(part, *arguments)

Results do not grow with the number of rows. The description of a table is the same however its rows are divided. First
`scanned` finds the kind of each column, then `contents` counts its cells, and `medians` finds exact medians by a few passes
that count numbers in ever smaller intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from pandas.api import types

from .columns import Column, as_numbers, as_texts, kind_of
from .conversions import Declared
from .dates import problem_of_dates
from .problems import Problem, TableError
from .suspects import has_decimal_commas, problem_of_texts

Total = Callable[..., Any]

BINS = 1 << 12  # intervals of a pass over the numbers of a column
FEW = 1 << 14  # numbers of an interval that are collected to find the median among them
SIGN = np.uint64(1 << 63)


class Part(NamedTuple):
    """Some consecutive rows of a table."""

    frame: pd.DataFrame
    name: str = ""  # for messages; empty if the part is the whole table

    def row(self, place: int) -> str:
        """Return the name of a row, for messages."""
        return f"{self.frame.index[place]}{f' of {self.name}' if self.name else ''}"

    def columns(self, names: Sequence[str]) -> list[pd.Series]:
        """Return the columns with these names."""
        place = {str(name): j for j, name in enumerate(self.frame.columns)}
        return [self.frame.iloc[:, place[name]] for name in names]

    def problems_of(self, error: TableError) -> tuple[Problem, ...]:
        """Return the problems of an error, with the name of the part."""
        return tuple((error.about(self.name) if self.name else error).problems)


def alone(part: Part) -> Total:
    """Return the function `total` of a table that is one part."""
    return lambda function, *arguments: function(part, *arguments)


@dataclass(frozen=True)
class Each:
    """Results for several columns, which are added column by column."""

    results: tuple[Any, ...]

    def __add__(self, other: Each) -> Each:
        return Each(tuple(a + b for a, b in zip(self.results, other.results, strict=True)))


# kinds of columns ---------------------------------------------------------------------------------------------------------


class Place(NamedTuple):
    """A row."""

    number: int  # from 0
    row: str  # its name

    def after(self, n_rows: int) -> Place:
        """Return the place behind so many other rows."""
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


# contents of columns ------------------------------------------------------------------------------------------------------


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


# medians ------------------------------------------------------------------------------------------------------------------


class Span(NamedTuple):
    """Numbers of a column in an interval of keys, see `_keys`."""

    column: str
    low: int
    high: int  # the last one


@dataclass(frozen=True)
class Search:
    """Search for the number of a given rank among the numbers in a span."""

    span: Span
    rank: int
    count: int

    @property
    def going(self) -> bool:
        """Whether the span has too many different numbers to collect them."""
        return self.count > FEW and self.span.low < self.span.high

    def narrowed(self, counts: np.ndarray) -> Search:
        """Return the search in one of the intervals of the span, given how many numbers each has."""
        column, low, high = self.span
        below = np.cumsum(counts)
        b = int(np.searchsorted(below, self.rank, side="right"))
        start = low + b * _width(self.span)
        span = Span(column, start, min(start + _width(self.span) - 1, high))
        return Search(span, self.rank - int(below[b] - counts[b]), int(counts[b]))


def medians(total: Total, numbers: dict[str, Contents]) -> dict[str, float]:
    """Return the medians of columns of numbers, exactly as `numpy.median` does.

    Parameters
    ----------
    total : callable
        As in `learned_columns`.
    numbers : dict of str to Contents
        The contents of each column.

    Returns
    -------
    dict of str to float
    """
    searches = []
    for name, cells in numbers.items():
        low, high = _keys(np.array([cells.low, cells.high])).tolist()
        middle = sorted({(cells.count - 1) // 2, cells.count // 2})
        searches += [Search(Span(name, low, high), rank, cells.count) for rank in middle]
    while spans := _spans(search for search in searches if search.going):
        counts = dict(zip(spans, total(counted, spans).results, strict=True))
        searches = [search.narrowed(counts[search.span]) if search.going else search for search in searches]
    found: dict[str, list[float]] = {name: [] for name in numbers}
    spans = _spans(search for search in searches if search.span.low < search.span.high)
    values = dict(zip(spans, total(collected, spans).results, strict=True)) if spans else {}
    for search in searches:
        some = values.get(search.span)
        found[search.span.column].append(_number(search.span.low) if some is None else sorted(some)[search.rank])
    return {name: float(np.mean(middle)) for name, middle in found.items()}


def _spans(searches: Any) -> tuple[Span, ...]:
    return tuple(dict.fromkeys(search.span for search in searches))


def counted(part: Part, spans: Sequence[Span]) -> Each:
    """Return how many numbers of a part are in each of `BINS` equal intervals of each span."""
    return Each(tuple(_counts(keys, span) for keys, span in _within(part, spans)))


def _counts(keys: np.ndarray, span: Span) -> np.ndarray:
    return np.bincount(((keys - np.uint64(span.low)) // np.uint64(_width(span))).astype(np.int64), minlength=BINS)


def collected(part: Part, spans: Sequence[Span]) -> Each:
    """Return the numbers of a part in each span."""
    return Each(tuple([_number(key) for key in keys.tolist()] for keys, _ in _within(part, spans)))


def _within(part: Part, spans: Sequence[Span]) -> list[tuple[np.ndarray, Span]]:
    found = []
    for values, span in zip(part.columns([span.column for span in spans]), spans, strict=True):
        keys = _keys(values.dropna().to_numpy(dtype=float))
        found.append((keys[(keys >= np.uint64(span.low)) & (keys <= np.uint64(span.high))], span))
    return found


def _width(span: Span) -> int:
    return (span.high - span.low) // BINS + 1


def _keys(numbers: np.ndarray) -> np.ndarray:
    """Return integers in the order of the numbers, from their bits."""
    bits = (numbers + 0.0).view(np.uint64)  # -0.0 and 0.0 are equal
    return np.where(bits & SIGN, ~bits, bits | SIGN)


def _number(key: int) -> float:
    """Return the number that has this key."""
    bits = np.uint64(key)
    return float((bits ^ SIGN if bits & SIGN else ~bits).view(np.float64))
