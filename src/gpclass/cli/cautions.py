"""Warnings about training tables that can be used, but probably not as they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pandas.api import types

from .remedies import quoted
from .training import Training

COPIES = 0.05  # share of copied rows above which there is a warning
CODES = (-9, -99, -999, -9999, -99999, 99, 999, 9999, 99999)  # numbers that often mean a missing value
FEW = 10  # other numbers that a column needs before a number is judged by them


def cautions(training: Training) -> Iterator[str]:
    """Yield warnings about copied rows, and about numbers and labels that probably mean missing values."""
    if isinstance(training.rows, pd.DataFrame):
        yield from _copies(training.rows, training.y)
        yield from _codes(training.rows)
    yield from _marks(training.counts)


def _copies(X: pd.DataFrame, y: Any) -> Iterator[str]:
    """Yield a warning if many rows are copies. Rows of few columns, or of a few levels, may be equal by chance."""
    n, numbers = len(X), [name for name in X.columns if types.is_float_dtype(X[name].dtype)]
    if len(X.columns) < 3 or not numbers:
        return
    values = X[max(numbers, key=lambda name: X[name].nunique())]
    copies, equal = int(X.assign(**{"": y}).duplicated().sum()), int(values.duplicated().sum())
    # of rows that are equal by chance in the column with the most different numbers, few are equal in all columns
    if copies > COPIES * n and copies > equal / 2 and values.nunique() > n / 4:
        told = f"{copies} of {n} rows are copies of other rows, so that leave-one-out scores are too good"
        yield f"{told}; remove copies that were made by mistake"


def _codes(X: pd.DataFrame) -> Iterator[str]:
    """Yield a warning for each number such as -999 that is repeated and far from all other numbers of its column."""
    for name in X.columns:
        if not types.is_numeric_dtype(X[name].dtype) or types.is_bool_dtype(X[name].dtype):
            continue
        values = X[name].dropna().to_numpy(dtype=float)
        for code in CODES:
            others, count = values[values != code], int((values == code).sum())
            if count > 1 and len(others) >= FEW:
                gap = min(abs(others.min() - code), abs(others.max() - code))
                if not others.min() < code < others.max() and gap > others.max() - others.min():
                    remedy = quoted(["--missing-values", str(code), "--impute", "median"])
                    yield f"column {name!r} has {code} in {count} rows; if that means a missing value, use {remedy}"


def _marks(counts: dict[Any, int]) -> Iterator[str]:
    """Yield a warning for each label such as "?" among labels with letters or digits."""
    odd = [label for label in counts if not any(character.isalnum() for character in str(label))]
    for label in odd if len(odd) < len(counts) else []:
        remedy = quoted(["--missing-values", str(label), "--skip-unlabelled"])
        rows = f"{counts[label]} row{'s' * (counts[label] > 1)}"
        yield f"class {str(label)!r} has {rows}; if that means a missing label, use {remedy}"
