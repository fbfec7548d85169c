"""Columns of a table: what kind each is, and their cells as numbers."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

from .advice import odd_writing, on_odd_cells
from .conversions import converted
from .dates import date_features, date_names, example_date, problem_of_dates
from .numerals import Measure, measure
from .problems import Option, Problem, TableError
from .words import FEW_MARKS, cut, is_number, listed

LARGEST = 1e150  # larger numbers may have infinite squares


class UnseenLevelWarning(UserWarning):
    """A categorical column has a level that the training data did not have."""


@dataclass(frozen=True)
class Column:
    """Description of a column of the training data."""

    name: str
    kind: str  # "number", "boolean", "category" or "date"
    levels: tuple[str, ...] = ()  # of a category, sorted
    fill: float | str | None = None  # for empty cells: the median, or the most frequent boolean or level
    median: float = 0.0  # of numbers and booleans
    indicator: bool = False  # whether a column of 0 and 1 says where cells are empty
    unit: str = ""  # of numbers that are written with one
    form: str = ""  # of dates: their format, see `dates`
    first: float = 0.0  # of dates: the first one, in days since 1970
    clock: bool = False  # of dates: whether they have times

    @property
    def names(self) -> list[str]:
        """Names of the encoded columns."""
        own = [f"{self.name}={level}" for level in self.levels] or [self.name]
        if self.kind == "date":
            own = date_names(self.name, self.form, self.clock)
        return [*own, f"{self.name} missing"] if self.indicator else own

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return len(self.names)

    @property
    def is_text(self) -> bool:
        """Whether files have text in this column."""
        return self.kind in ("category", "date") or bool(self.unit)

    @property
    def example(self) -> Any:
        """A cell as in the training data."""
        if self.kind == "category":
            return self.levels[0]
        if self.kind == "date":
            return example_date(self.median, self.form)
        return Measure(repr(self.median), self.unit).written() if self.unit else self.median


def kind_of(values: pd.Series) -> str:
    """Return the kind of a column: "number", "boolean", "category" or "date"."""
    if types.is_datetime64_any_dtype(values.dtype) or types.is_timedelta64_dtype(values.dtype):
        return "date"
    if types.is_bool_dtype(values.dtype) or (
        types.is_object_dtype(values.dtype) and all(isinstance(v, (bool, np.bool_)) for v in values.dropna())
    ):
        return "boolean"
    if types.is_numeric_dtype(values.dtype) and not types.is_complex_dtype(values.dtype):
        return "number"
    return "category"


def numbers_of(values: pd.Series, column: Column, comma: bool = False) -> np.ndarray:
    """Return the cells (n,) of a column that is not a category as numbers; empty cells have the fill of the column.

    With `comma`, other columns have decimal commas. Messages only depend on it.
    """
    found = np.full(len(values), np.nan if column.fill is None else float(column.fill))
    empty = values.isna().to_numpy()
    if not empty.all():
        cells = converted(values[~empty], column)
        boolean = column.kind == "boolean"
        found[~empty] = as_booleans(cells, column.name) if boolean else as_numbers(cells, column.name, comma)
    return found


def dated(values: pd.Series, column: Column) -> np.ndarray:
    """Return the numbers (n, k) that stand for the dates of a column."""
    return date_features(numbers_of(values, column), column.first, column.form, column.clock)


def as_numbers(values: pd.Series, name: str, comma: bool = False) -> np.ndarray:
    """Return the numbers in a column without empty cells; with `comma`, other columns have decimal commas."""
    if types.is_datetime64_any_dtype(values.dtype):
        raise TableError.of(problem_of_dates(name, [str(values.iloc[0])], typed=True))
    if types.is_complex_dtype(values.dtype):
        raise TableError.of(_of_no_use("complex", f"column {name!r} contains complex numbers", name))
    try:
        numbers = values.to_numpy(dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise TableError.of(_no_number(values, name, comma)) from None
    large = ~(np.abs(numbers) <= LARGEST)
    if large.any():
        raise TableError.of(_too_large(values, numbers, large, name))
    return numbers


def _no_number(values: pd.Series, name: str, comma: bool) -> Problem:
    """Return the problem of a cell that is not a number, in a column that had numbers in the training data."""
    things = values.tolist()
    bad = next((i for i, thing in enumerate(things) if not is_number(thing)), 0)
    text = f"column {name!r} had numbers in the training data, but row {values.index[bad]} has {cut(things[bad])}"
    odd = list(dict.fromkeys(str(thing) for thing in things if not is_number(thing)))
    writing = odd_writing(Counter(str(thing) for thing in things), comma)
    if writing is not None:
        return Problem("numbers", text, (name,), *writing.later_advice(name, len(odd)))
    units = {found.unit if (found := measure(cell)) is not None else "" for cell in odd}
    if len(units) == 1 and "" not in units:
        told = f"; remove the unit, or fit the model again to numbers with a unit (--units {name})"
        return Problem("units", text, (name,), told)
    advice = on_odd_cells(odd, name)
    few = tuple(option for option in advice.options if option.name != "--drop")  # the model needs the column
    return Problem("mixed", text, (name,), "" if advice.options else advice.text, few)


def _too_large(values: pd.Series, numbers: np.ndarray, large: np.ndarray, name: str) -> Problem:
    """Return the problem of infinite numbers, and of others whose squares may be."""
    first = int(np.argmax(large))
    marks = [f"{number:g}" for number in np.unique(numbers[large]).tolist()]
    few = len(marks) <= FEW_MARKS
    text = f"row {values.index[first]}, column {name!r} is {numbers[first]:g}; the limit is ±{LARGEST:g}"
    options = tuple(Option("--missing-values", mark) for mark in marks) if few else (Option("--drop", name),)
    advice = f". If it is a missing value, use --missing-values {','.join(marks)}" if few else ""
    code = f"X.replace({{{name!r}: {marks[0]}}}, numpy.nan)"
    return Problem("infinite", text, (name,), advice, options, code, code)


def _of_no_use(kind: str, text: str, name: str) -> Problem:
    return Problem(kind, text, (name,), "", (Option("--drop", name),), f"X.drop(columns={name!r})")


def as_booleans(values: pd.Series, name: str) -> np.ndarray:
    """Return 0 and 1 from a column of booleans without empty cells."""
    known = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0, "1.0": 1.0, "0.0": 0.0}
    numbers = [known.get(str(value).strip().lower()) for value in values.tolist()]
    if None in numbers:
        bad = numbers.index(None)
        raise TableError.of(
            Problem(
                "mixed",
                f"column {name!r} had true and false in the training data, but row {values.index[bad]} has "
                f"{cut(values.tolist()[bad])}",
                (name,),
            )
        )
    return np.array(numbers, dtype=float)


def as_texts(values: pd.Series, name: str) -> list[str]:
    """Return levels as text; whole numbers have no decimal point."""
    texts = []
    for row, value in zip(values.index, values.tolist(), strict=True):
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, (str, bool, int, float, np.generic)):
            kind = type(value).__name__
            text = f"row {row}, column {name!r} is a {kind}; cells must be numbers, booleans or text"
            raise TableError.of(_of_no_use("objects", text, name))
        texts.append(str(value))
    return texts


def one_hot(values: pd.Series, column: Column) -> np.ndarray:
    """Return one column of 0 and 1 for each level (n, levels)."""
    empty = values.isna().to_numpy()
    texts = np.full(len(values), column.fill or "", dtype=object)
    texts[~empty] = as_texts(values[~empty], column.name)
    encoded = np.array(texts[:, None] == np.array(column.levels, dtype=object), dtype=float)
    strange = encoded.sum(axis=1) == 0
    if strange.any():
        levels = sorted(set(texts[strange].tolist()))
        warnings.warn(
            f"column {column.name!r} has {listed(levels)} in {int(strange.sum())} of {len(values)} rows; training data had "
            f"only {listed(column.levels)}. The new levels are encoded as zeros",
            UnseenLevelWarning,
            stacklevel=5,
        )
    return encoded
