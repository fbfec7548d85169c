"""Columns of a text file after it was read: those without a name, those of the target's name, and their numbers."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from pandas.api import types

from .guards import may_hold_text
from .numerals import PLAIN, Convention, canonical, is_written
from .problems import Option, Problem, TableError
from .settings import Reading
from .words import is_number

# columns without a name, and those of the target's name -------------------------------------------------------------------


def without_unnamed(frame: pd.DataFrame, unnamed: Sequence[str], known: set[str], path: Path) -> pd.DataFrame:
    """Drop columns without a name that are empty, and one that contains row numbers, as R and pandas write them.

    Other columns without a name, which are not `known`, raise a TableError.
    """
    empty = [name for name in unnamed if frame[name].isna().all()]
    frame = frame.drop(columns=empty)
    strange = [name for name in unnamed if name not in empty and name not in known]
    if len(strange) == 1 and _counts_rows(frame[strange[0]]):
        return frame.drop(columns=strange)
    if not strange:
        return frame
    places = [int(name.split(" ")[1]) + 1 for name in strange]
    several = len(strange) > 1
    text = f"{path}: column{'s' * several} {', '.join(map(str, places))} {'have' if several else 'has'} no name"
    ids = [name for name in strange if frame[name].is_unique and not types.is_float_dtype(frame[name].dtype)][:1]
    options = tuple(Option("--id" if name in ids else "--drop", name) for name in strange)
    advice = f"; name it, or use {' '.join(f'{o.name} {o.value!r}' for o in options)}"
    raise TableError.of(Problem("unnamed", text, tuple(strange), advice, options, "frame.drop(columns=...)"))


def _counts_rows(values: pd.Series) -> bool:
    """Return whether a column contains row numbers from 0 or 1."""
    return types.is_integer_dtype(values.dtype) and any(
        np.array_equal(values.to_numpy(), np.arange(len(values)) + k) for k in (0, 1)
    )


def second_targets(frame: pd.DataFrame, target: str | None, reading: Reading, drop: set[str]) -> list[Problem]:
    """Return the problems of further columns of the target's name: as inputs they would reveal the label."""
    second = re.compile(rf"{re.escape(str(target))} \(\d+\)")
    names = [name for name in frame.columns if second.fullmatch(str(name)) and name not in drop]
    if target is None or not reading.rename_duplicates:
        return []
    text = "column {!r} has the name of the target and would be an input"
    return [Problem("twice", text.format(n), (n,), f"; leave it out (--drop {n!r})", (Option("--drop", n),)) for n in names]


# numbers ------------------------------------------------------------------------------------------------------------------


def with_numbers(frame: pd.DataFrame, convention: Convention, text: set[str], target: str | None) -> pd.DataFrame:
    """Return the frame with the numbers of a convention: columns of them are numbers, and others have decimal points."""
    if convention == PLAIN:
        return frame
    for name in [name for name in frame.columns if may_hold_text(frame[name].dtype) and name != target]:
        cells = canonical(frame[name].tolist(), convention, with_units_only=name in text)
        if cells is not None:
            frame[name] = _as_numbers(pd.Series(cells, index=frame.index, dtype=object), name in text)
    return frame


def _as_numbers(cells: pd.Series, keep_text: bool) -> pd.Series:
    """Return texts as numbers, if all of them are."""
    present = cells.dropna().tolist()
    if keep_text or not all(is_number(cell) for cell in present):
        return cells
    whole = len(present) == len(cells) and all(_fits_integers(str(cell)) for cell in present)
    return cells.map(int if whole else float, na_action="ignore").astype(np.int64 if whole else float)


def _fits_integers(cell: str) -> bool:
    return cell.lstrip("+-").isdigit() and -(2**63) <= int(cell) < 2**63


def other_conventions(frame: pd.DataFrame, convention: Convention, known: Collection[str]) -> list[Problem]:
    """Return the problems of columns with decimal points in a file with decimal commas. `known` columns are not checked."""
    problems: list[Problem] = []
    if convention.decimal == ".":
        return problems  # commas are found when columns are encoded
    for name in [name for name in frame.columns if may_hold_text(frame[name].dtype) and name not in known]:
        cells = [str(cell) for cell in frame[name].dropna()]
        odd = [cell for cell in cells if "." in cell and is_number(cell) and not is_written(cell, convention)]
        if len(odd) <= len(cells) / 2:
            continue
        fits = not convention.thousands and all(is_written(cell, Convention(",", ".")) for cell in odd)
        option = Option("--thousands", ".") if fits else Option("--drop", name)
        text = f"column {name!r} has {'points between thousands' if fits else 'decimal points'}, such as {odd[0]!r}"
        problems.append(Problem("numbers", text, (name,), f"; use {option.name} {option.value}", (option,)))
    return problems
