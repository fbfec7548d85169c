"""Columns of dates and of numbers with units as columns of plain numbers.

Both are declared by the user (`TableEncoder(dates=..., units=...)`). `written_forms` finds how the cells of a part are
written, and sums of these give the form of the whole column; `converted` turns cells into numbers by that form.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from pandas.api import types

from .advice import on_odd_cells, with_points, writing_of
from .dates import DATE, SPAN, TYPED, Formats, cell_days, is_time, parsed
from .numerals import PLAIN, is_written, measure, plain
from .problems import Option, Problem, TableError
from .words import FEW_MARKS, cut, listed

if TYPE_CHECKING:
    from .parts import Part


class Declared(NamedTuple):
    """The form of a column of dates or of numbers with units, found in the training data."""

    name: str
    kind: str  # "number" or "date"
    unit: str = ""
    form: str = ""
    clock: bool = False


def converted(values: pd.Series, column: Any) -> pd.Series:
    """Return the cells of a column as numbers, if they are dates or have a unit; empty cells stay empty.

    Raises
    ------
    TableError
        If a cell has another unit, or is a date in another format.
    """
    if column.kind == "date":
        return pd.Series(cell_days(values, column.name, column.form), index=values.index)
    return _without_unit(values, column.name, column.unit) if column.unit else values


def _without_unit(values: pd.Series, name: str, unit: str) -> pd.Series:
    found = pd.Series(np.full(len(values), np.nan), index=values.index)
    cells = [(place, str(values.iloc[place])) for place in np.flatnonzero(values.notna().to_numpy()).tolist()]
    for place, cell in cells:
        one, row = measure(cell), str(values.index[place])
        if one is None:
            raise TableError.of(_no_measures(name, unit, [cell for _, cell in cells if measure(cell) is None], row))
        if one.unit != unit:
            raise TableError.of(_other_unit(name, unit, cell, row))
        if not is_written(one.number, PLAIN):
            raise TableError.of(_other_convention(name, unit, [cell for _, cell in cells], cell, row))
        found.iloc[place] = float(plain(one.number, PLAIN))
    return found


def _in_units(name: str, unit: str, cell: str, row: str) -> str:
    return f"column {name!r} has numbers in {unit!r}, but row {row} has {cut(cell)}"


def _no_measures(name: str, unit: str, odd: Sequence[str], row: str) -> Problem:
    """Return the problem of cells that are no numbers in a column of numbers with a unit; the first is in the row."""
    return Problem("units", _in_units(name, unit, odd[0], row), (name,), *on_odd_cells(list(dict.fromkeys(odd)), name))


def _other_unit(name: str, unit: str, cell: str, row: str) -> Problem:
    """Return the problem of a number with another unit than its column."""
    one = measure(cell)
    other = f"in {one.unit!r}" if one is not None and one.unit else "without a unit"
    return Problem("units", f"{_in_units(name, unit, cell, row)}, {other}", (name,), "; convert the numbers to one unit")


def _other_convention(name: str, unit: str, cells: Sequence[str], cell: str, row: str) -> Problem:
    """Return the problem of cells with a unit, one of which is not written with a point."""
    numbers = Counter(one.number for one in map(measure, cells) if one is not None and not is_written(one.number, PLAIN))
    writing = writing_of(numbers, comma=False)
    advice = writing.later_advice(name, len(numbers))
    advice = advice._replace(frame=with_points(writing.convention, name) if advice.frame else "")  # texts keep their units
    return Problem("numbers", _in_units(name, unit, cell, row), (name,), *advice)


# forms of the training data ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DateForms:
    """Formats in which the dates of some rows may be written."""

    dates: Formats | None = None  # of the cells that look like dates; None if there are none
    others: Formats | None = None  # of the other cells
    example: str = ""  # the first cell that looks like a date
    odd: tuple[str, ...] = ()  # the first other cells, one more than marks of missing values may be

    def __add__(self, other: DateForms) -> DateForms:
        odd = tuple(dict.fromkeys([*self.odd, *other.odd]))[: FEW_MARKS + 1]
        dates, others = _both(self.dates, other.dates), _both(self.others, other.others)
        return DateForms(dates, others, self.example or other.example, odd)

    @property
    def marks(self) -> tuple[str, ...]:
        """A few cells that are not dates, in a column of dates."""
        return self.odd if self.dates is not None and len(self.odd) <= FEW_MARKS else ()

    @property
    def formats(self) -> Formats | None:
        """The formats of all cells except the marks; None if there are no cells."""
        return self.dates if self.marks else _both(self.dates, self.others)


def _both(one: Formats | None, other: Formats | None) -> Formats | None:
    return other if one is None else one if other is None else one + other


@dataclass(frozen=True)
class UnitForms:
    """Units of some rows, each with an example and its row."""

    units: dict[str, tuple[int, str, str]] = field(default_factory=dict)  # number of rows, the first cell, its row
    odd: dict[str, str] = field(default_factory=dict)  # the first cells that are no numbers, and their rows

    def __add__(self, other: UnitForms) -> UnitForms:
        units = dict(self.units)
        for unit, (count, cell, row) in other.units.items():
            before = units.get(unit)
            units[unit] = (count, cell, row) if before is None else (before[0] + count, *before[1:])
        return UnitForms(units, _first_odd(self.odd | other.odd | self.odd))  # rows of the first


def _first_odd(cells: dict[str, str]) -> dict[str, str]:
    """Return one cell more than marks of missing values may be."""
    return dict(list(cells.items())[: FEW_MARKS + 1])


@dataclass(frozen=True)
class Forms:
    """Forms of the declared columns of some rows."""

    dates: dict[str, DateForms]
    units: dict[str, UnitForms]

    def __add__(self, other: Forms) -> Forms:
        dates = {name: some + other.dates[name] for name, some in self.dates.items()}
        return Forms(dates, {name: some + other.units[name] for name, some in self.units.items()})


def written_forms(part: Part, dates: Mapping[str, str | None], units: Sequence[str]) -> Forms:
    """Return the forms of columns of dates, whose format may be given, and of columns with units."""
    of_dates = zip(part.columns(list(dates)), dates.items(), strict=True)
    of_units = zip(part.columns(list(units)), units, strict=True)
    found = {name: _date_forms(values, given) for values, (name, given) in of_dates}
    return Forms(found, {name: _unit_forms(part, values) for values, name in of_units})


def _date_forms(values: pd.Series, given: str | None) -> DateForms:
    present = values.dropna()
    if not len(present):
        return DateForms()
    if types.is_timedelta64_dtype(values.dtype):
        return DateForms(Formats((SPAN,)))
    if types.is_datetime64_any_dtype(values.dtype):
        return DateForms(Formats((TYPED,), clock=bool(np.any(cell_days(present, "", TYPED) % 1))))
    texts = list(dict.fromkeys(str(value) for value in present.tolist()))
    if given is not None:
        clock = not is_time(given) and bool(np.nansum(parsed(texts, given) % 1))
        return DateForms(Formats((given,), clock=clock), example=texts[0])
    dates = [text for text in texts if DATE.fullmatch(text)]
    odd = [text for text in texts if not DATE.fullmatch(text)]
    found, others = (Formats.of(some) if some else None for some in (dates, odd))
    return DateForms(found, others, dates[0] if dates else "", tuple(odd[: FEW_MARKS + 1]))


def _unit_forms(part: Part, values: pd.Series) -> UnitForms:
    units: dict[str, tuple[int, str, str]] = {}
    odd: dict[str, str] = {}
    for place in np.flatnonzero(values.notna().to_numpy()).tolist():
        cell = str(values.iloc[place])
        one = measure(cell)
        if one is None:
            odd.setdefault(cell, part.row(place))
            continue
        count, first, row = units[one.unit] if one.unit in units else (0, cell, part.row(place))
        units[one.unit] = (count + 1, first, row)
    return UnitForms(units, _first_odd(odd))


def declared_forms(forms: Forms) -> tuple[dict[str, Declared], list[Problem]]:
    """Return the form of each declared column of the training data, and the problems of those that have none."""
    found: dict[str, Declared] = {}
    problems: list[Problem] = []
    for name, some in forms.dates.items():
        formats = some.formats or Formats(("",))
        able = formats.different
        if some.marks:
            marks = tuple(Option("--missing-values", cell) for cell in some.marks)
            text = f"column {name!r} has dates, but also {listed(some.marks)}"
            advice = f"; if that means a missing value, use --missing-values {','.join(some.marks)!r}"
            problems.append(Problem("dates", text, (name,), advice, marks))
        if len(able) == 1:
            found[name] = Declared(name, "date", form=able[0], clock=formats.clock)
        else:
            problems.append(_no_format(name, able, some.example or some.odd[0]))
    for name, have in forms.units.items():
        unit = max(have.units, key=lambda u: have.units[u][0], default="")
        if unit:
            found[name] = Declared(name, "number", unit)
            others = [(cell, row) for other, (_, cell, row) in have.units.items() if other != unit]
            problems += [_other_unit(name, unit, cell, row) for cell, row in others]
            problems += [_no_measures(name, unit, list(have.odd), next(iter(have.odd.values())))] if have.odd else []
        elif have.units or have.odd:
            cell = have.units[unit][1] if have.units else next(iter(have.odd))
            problems.append(Problem("units", f"column {name!r} has no numbers with a unit: {cut(cell)}", (name,)))
    return found, problems


def _no_format(name: str, able: Sequence[str], example: str) -> Problem:
    if not able:
        text = f"column {name!r} has no dates in one format: {cut(example)}"
        return Problem("dates", text, (name,), f"; leave the column out (--drop {name})", (Option("--drop", name),))
    text = f"dates of column {name!r}, such as {cut(example)}, may be {' or '.join(able)}"
    code, declared = f"TableEncoder(dates={{{name!r}: {able[0]!r}}})", f"{name}={able[0]}"
    return Problem("dates", text, (name,), f"; say which: --dates {declared}", (Option("--dates", declared),), code)


def on_numbers(part: Part, declared: tuple[Declared, ...], function: Any, arguments: tuple[Any, ...]) -> Any:
    """Return function(part, *arguments) for a part whose declared columns are numbers."""
    frame = part.frame.copy(deep=False)
    frame.columns = [str(name) for name in frame.columns]
    for column in declared:
        frame[column.name] = converted(frame[column.name], column)
    return function(part._replace(frame=frame), *arguments)
