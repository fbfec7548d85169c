"""Dates and times: the format in which a column is written, and its cells as numbers.

A column of dates becomes a few columns of numbers: days since the first date of the training data, and sines and cosines of
the time of the year, of the week and, if there are times, of the day. So the last day of a year is close to the first day of
the next. Years and months follow from these and have no columns of their own. Times without a date become hours, and sine
and cosine of the time of the day. Times with a zone are converted to UTC.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

from .problems import Option, Problem, TableError
from .words import cut

DATE = re.compile(
    r"\s*(\d{4}[-/]\d{1,2}[-/]\d{1,2}([ T].*)?|\d{1,2}[./-]\d{1,2}[./-]\d{2,4}( .*)?|\d{1,2}:\d{2}(:\d{2}.*)?"
    r"|\d{1,2}[ -][A-Z][a-z]{2}[ -]\d{2,4}( .*)?)\s*"
)
ISO, TYPED, SPAN = "ISO8601", "", "span"  # ISO 8601; cells that are dates already; differences of times
DAYS = ("%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%d.%m.%y", "%m/%d/%y", "%d/%m/%y")
NAMED = ("%d-%b-%Y", "%d %b %Y", "%d-%b-%y", "%Y%m%d")
CLOCKS = ("%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p")
FORMATS = (ISO, *DAYS, *NAMED, *(f"{day} {clock}" for day in (*DAYS, *NAMED) for clock in CLOCKS), *CLOCKS)
FEW = 50  # texts that formats are tried on before all are


def is_time(form: str) -> bool:
    """Return whether a format has the time of the day only."""
    return form in CLOCKS


def parsed(texts: Sequence[str], form: str) -> np.ndarray:
    """Return texts as days (n,) since 1970; those without a date as days since midnight. NaN where the format is another."""
    cells = pd.Series([text.strip() for text in texts], dtype=object)
    found = pd.to_datetime(cells, format=form, errors="coerce", utc=True)
    return days(found, "1900-01-01" if is_time(form) else "1970-01-01")


def days(moments: pd.Series, origin: str = "1970-01-01") -> np.ndarray:
    """Return dates as days (n,) since an origin; NaN where there is none."""
    if getattr(moments.dt, "tz", None) is not None:
        moments = moments.dt.tz_convert("UTC").dt.tz_localize(None)
    return ((moments - pd.Timestamp(origin)) / pd.Timedelta(days=1)).to_numpy(dtype=float)


@dataclass(frozen=True)
class Formats:
    """Formats in which all of some texts are dates; those of more texts are their sum."""

    able: tuple[str, ...]
    same: frozenset[tuple[str, str]] = frozenset()  # pairs that give the same dates
    clock: bool = False  # whether there are times besides dates

    @staticmethod
    def of(texts: Sequence[str]) -> Formats:
        """Return the formats in which all texts are dates."""
        few = list(texts[:FEW])
        able: dict[str, np.ndarray] = {}
        for form in FORMATS:
            if np.all(np.isfinite(parsed(few, form))) and np.all(np.isfinite(found := parsed(texts, form))):
                able[form] = found
        same = frozenset((a, b) for a, b in combinations(able, 2) if np.array_equal(able[a], able[b]))
        return Formats(tuple(able), same, any(not is_time(form) and bool(np.any(d % 1)) for form, d in able.items()))

    def __add__(self, other: Formats) -> Formats:
        able = tuple(form for form in self.able if form in other.able)
        return Formats(able, self.same & other.same, self.clock or other.clock)

    @property
    def different(self) -> list[str]:
        """The formats, without those that give the same dates as an earlier one."""
        found: list[str] = []
        for form in self.able:
            if not any((other, form) in self.same for other in found):
                found.append(form)
        return found


def fitting_formats(texts: Sequence[str]) -> list[str]:
    """Return the formats in which all texts are dates. Formats that give the same dates are not repeated."""
    return Formats.of(texts).different


def cell_days(values: pd.Series, name: str, form: str) -> np.ndarray:
    """Return the cells of a column as days (n,); empty cells are NaN.

    Parameters
    ----------
    values : Series
        Dates, or text.
    name : str
        The column.
    form : str
        Its format in the training data.

    Raises
    ------
    TableError
        If a cell is not a date of this format.
    """
    if types.is_timedelta64_dtype(values.dtype):
        if form != SPAN:
            raise _other_dates(name, f"column {name!r} had dates in the training data, but has differences of times")
        return (values / pd.Timedelta(days=1)).to_numpy(dtype=float)
    if types.is_datetime64_any_dtype(values.dtype):
        if form == SPAN or is_time(form):
            raise _other_dates(name, f"column {name!r} had times without a date in the training data, but has dates")
        return days(values)
    found, present = np.full(len(values), np.nan), values.notna().to_numpy()
    texts = [str(value) for value in values[present].tolist()]
    found[present] = parsed(texts, form or ISO)
    bad = present & ~np.isfinite(found)
    if bad.any():
        row = int(np.argmax(bad))
        cell = f"row {values.index[row]} has {cut(values.iloc[row])}"
        raise _other_dates(name, f"column {name!r} has dates in the format {form or ISO}, but {cell}")
    return found


def _other_dates(name: str, text: str) -> TableError:
    return TableError.of(Problem("dates", text, (name,)))


def date_features(at: np.ndarray, first: float, form: str, clock: bool) -> np.ndarray:
    """Return the numbers (n, k) that stand for moments `at` (n,), in the order of `date_names`.

    `first` is the first day of the training data, and `clock` says whether there are times besides dates.
    """
    if form == SPAN:
        return at[:, None]
    if is_time(form):
        return np.column_stack([24 * at, *_circle(at)])
    parts = [at - first, *_circle(_of_year(at)), *_circle((at + 3) / 7)]  # 1970 began on a Thursday
    return np.column_stack([*parts, *(_circle(at) if clock else ())])


def date_names(name: str, form: str, clock: bool) -> list[str]:
    """Return the names of the columns of `date_features`."""
    if form == SPAN:
        return [f"{name} (days)"]
    cycles = ("day",) if is_time(form) else ("year", "week", *(("day",) if clock else ()))
    turns = [f"{name} ({wave} of {cycle})" for cycle in cycles for wave in ("sine", "cosine")]
    return [f"{name} ({'hours' if is_time(form) else 'days'})", *turns]


def _circle(turns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.sin(2 * np.pi * turns), np.cos(2 * np.pi * turns)


def _of_year(at: np.ndarray) -> np.ndarray:
    """Return the part of the year (n,) that has passed, from 0 to 1."""
    years = np.floor(at).astype("datetime64[D]").astype("datetime64[Y]")
    start, end = (y.astype("datetime64[D]").astype(float) for y in (years, years + 1))
    return (at - start) / (end - start)


def problem_of_dates(name: str, texts: Sequence[str], typed: bool = False) -> Problem:
    """Return the problem of a column of dates that was not declared. With `typed` its cells are dates, not text."""
    able = [TYPED] if typed else fitting_formats(texts)
    shown = f", such as {cut(texts[0])}"
    declared, code = name, f"TableEncoder(dates=[{name!r}])"
    if len(able) > 1:
        shown += f"; these may be {' or '.join(able)}"
        declared, code = f"{name}={able[0]}", f"TableEncoder(dates={{{name!r}: {able[0]!r}}})"
    advice = f"; turn them into numbers ({code}; --dates {declared}), or leave the column out (--drop {name})"
    options = (Option("--dates", declared),) if able else (Option("--drop", name),)
    if not able:
        code, advice = f"X.drop(columns={name!r})", f" in more than one format; leave the column out (--drop {name})"
    return Problem("dates", f"column {name!r} contains dates or times{shown}", (name,), advice, options, code)


def example_date(at: float, form: str) -> Any:
    """Return a moment as it is written in a column."""
    if form == SPAN:
        return pd.Timedelta(days=at)
    moment = pd.Timestamp("1900-01-01" if is_time(form) else "1970-01-01") + pd.Timedelta(days=at)
    return moment if form == TYPED else moment.round("ms").isoformat() if form == ISO else moment.strftime(form)
