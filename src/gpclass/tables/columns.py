"""Columns of a table: what kind each is, and their cells as numbers."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

from .words import TableError, cut, is_number, listed

LARGEST = 1e150  # larger numbers may have infinite squares
MANY_LEVELS = 50  # a text column with more levels, and more than half as many levels as rows, holds names, not categories
DATE = re.compile(r"\s*(\d{4}-\d{1,2}-\d{1,2}([ T].*)?|\d{1,2}[./-]\d{1,2}[./-]\d{2,4}( .*)?|\d{1,2}:\d{2}(:\d{2}.*)?)\s*")
DECIMAL_COMMA = re.compile(r"\s*[-+]?\d+,\d+\s*")


class UnseenLevelWarning(UserWarning):
    """A categorical column has a level that the training data did not have."""


@dataclass(frozen=True)
class Column:
    """Description of a column of the training data."""

    name: str
    kind: str  # "number", "boolean" or "category"
    levels: tuple[str, ...] = ()  # of a category, sorted
    fill: float | str | None = None  # for empty cells: the median, or the most frequent boolean or level
    median: float = 0.0  # of numbers and booleans
    indicator: bool = False  # whether a column of 0 and 1 says where cells are empty

    @property
    def names(self) -> list[str]:
        """Names of the encoded columns."""
        own = [f"{self.name}={level}" for level in self.levels] or [self.name]
        return [*own, f"{self.name} missing"] if self.indicator else own

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return max(1, len(self.levels)) + self.indicator


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


def refuse_what_is_no_category(levels: Mapping[str, tuple[int, str]], name: str) -> None:
    """Raise a TableError if the texts of a column are dates, numbers or names.

    `levels` has the number of rows of each text, and its first row, in the order of these rows.
    """
    texts = list(levels)
    counts = np.array([count for count, _ in levels.values()])
    n = int(counts.sum())

    def share(which: Iterable[bool]) -> float:
        return float(np.dot(counts, np.fromiter(which, bool, len(texts))) / n)

    if share(bool(DATE.fullmatch(text)) for text in texts) > 0.9:
        raise TableError(dates(name, texts[0]))
    if share(bool(DECIMAL_COMMA.fullmatch(text)) for text in texts) > 0.5:
        raise TableError(f"column {name!r} has numbers with decimal commas, such as {texts[0]!r}; write them with points")
    if 0.5 < share(is_number(text) for text in texts) < 1:
        odd = next(text for text in texts if not is_number(text))
        raise TableError(
            f"column {name!r} is mostly numbers, but row {levels[odd][1]} has {cut(odd)}; if that means a missing "
            "value, leave the cell empty"
        )
    if len(texts) > MANY_LEVELS and len(texts) > n / 2:
        raise TableError(
            f"column {name!r} has {len(texts)} different texts in {n} rows, such as {cut(texts[0])}: these are "
            f"names, not categories. Leave the column out (--drop {name}), or use it as row names (--id {name})"
        )


def dates(name: str, first: Any) -> str:
    """Return the message about a column of dates."""
    return (
        f"column {name!r} contains dates or times, such as {str(first)!r}; convert them to meaningful numbers "
        f"(days since a start, month, hour) or leave the column out (--drop {name})"
    )


def as_numbers(values: pd.Series, name: str) -> np.ndarray:
    """Return the numbers in a column without empty cells."""
    if types.is_datetime64_any_dtype(values.dtype):
        raise TableError(dates(name, values.iloc[0]))
    if types.is_complex_dtype(values.dtype):
        raise TableError(f"column {name!r} contains complex numbers")
    try:
        numbers = values.to_numpy(dtype=float)
    except (TypeError, ValueError, OverflowError):
        things = values.tolist()
        bad = next((i for i, thing in enumerate(things) if not is_number(thing)), 0)
        raise TableError(
            f"column {name!r} had numbers in the training data, but row {values.index[bad]} has {cut(things[bad])}"
        ) from None
    large = ~(np.abs(numbers) <= LARGEST)
    if large.any():
        first = int(np.argmax(large))
        raise TableError(f"row {values.index[first]}, column {name!r} is {numbers[first]:g}; the limit is ±{LARGEST:g}")
    return numbers


def as_booleans(values: pd.Series, name: str) -> np.ndarray:
    """Return 0 and 1 from a column of booleans without empty cells."""
    known = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0, "1.0": 1.0, "0.0": 0.0}
    numbers = [known.get(str(value).strip().lower()) for value in values.tolist()]
    if None in numbers:
        bad = numbers.index(None)
        raise TableError(
            f"column {name!r} had true and false in the training data, but row {values.index[bad]} has "
            f"{cut(values.tolist()[bad])}"
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
            raise TableError(f"row {row}, column {name!r} is a {kind}; cells must be numbers, booleans or text")
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
