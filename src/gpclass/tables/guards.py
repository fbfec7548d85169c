"""Text that a spreadsheet would run as a formula: an apostrophe before it when it is written, removed when it is read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pandas as pd
from pandas.api import types

FORMULA = re.compile(r"'*[=+\-@\t\r]")  # what spreadsheets run, also with leading apostrophes
PLAIN_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


def guarded(text: str) -> str:
    """Return text as it is written to CSV: with a leading apostrophe if a spreadsheet could run it as a formula.

    Such text begins with = + - @, a tab or a carriage return and is not a plain number such as -1. Text with apostrophes
    before one of these characters gets one more, so that `unguarded` restores the original.
    """
    return f"'{text}" if FORMULA.match(text) and not PLAIN_NUMBER.fullmatch(text) else text


def unguarded(texts: Sequence[Any]) -> list[Any]:
    """Return the cells of a column without the apostrophes of `guarded`; cells that are not text are unchanged.

    If any text begins like a formula, `write_table` did not write the column, and it is returned unchanged.
    """
    if any(isinstance(text, str) and guarded(text) != text and not _is_guarded(text) for text in texts):
        return list(texts)
    return [text[1:] if isinstance(text, str) and _is_guarded(text) else text for text in texts]


def _is_guarded(text: str) -> bool:
    return text.startswith("'") and guarded(text[1:]) == text


def guarded_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with guarded names and text."""
    names = [guarded(str(name)) for name in frame.columns]
    return with_texts(frame, lambda cells: [guarded(c) if isinstance(c, str) else c for c in cells]).set_axis(names, axis=1)


def with_texts(frame: pd.DataFrame, change: Any) -> pd.DataFrame:
    """Return the frame with `change` applied to the cells of each text column."""
    changed = {}
    for place, dtype in enumerate(frame.dtypes):
        if not may_hold_text(dtype):
            continue
        cells = frame.iloc[:, place].astype(object).tolist()
        new = change(cells)
        if any(a is not b for a, b in zip(new, cells, strict=True)):
            kind = object if isinstance(dtype, pd.CategoricalDtype) else dtype
            changed[place] = pd.Series(new, index=frame.index, dtype=kind)
    if not changed:
        return frame
    columns = [changed.get(place, frame.iloc[:, place]) for place in range(frame.shape[1])]
    return pd.concat(columns, axis=1).set_axis(frame.columns, axis=1)


def may_hold_text(dtype: Any) -> bool:
    """Return whether a column of this type can contain text."""
    times = types.is_datetime64_any_dtype(dtype) or types.is_timedelta64_dtype(dtype)
    return not (times or types.is_numeric_dtype(dtype))


def text_cells(column: pd.Series) -> list[str]:
    """Return the cells of a column that are text."""
    return [cell for cell in column.tolist() if isinstance(cell, str)] if may_hold_text(column.dtype) else []
