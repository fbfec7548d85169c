"""Writing of table files: CSV, TSV and Parquet."""

from __future__ import annotations

import csv
import gzip
import os
from pathlib import Path
from typing import Any

import pandas as pd

from ..files import replacing
from .guards import guarded_frame, text_cells
from .layout import SEPARATORS
from .problems import TableError


def write_table(frame: pd.DataFrame, path: str | os.PathLike[str]) -> None:
    """Write a data frame, without its index, in the format given by the extension of the file name.

    Parameters
    ----------
    frame : DataFrame
        The table.
    path : str or path-like
        A .csv, .tsv or .parquet file; text files may be compressed (.gz). An existing file is replaced.
    """
    path = Path(path)
    kind = kind_of_table(path)
    if kind == ".parquet":
        needs_pyarrow()
        content = frame.to_parquet(None, index=False)
    else:
        content = csv_text(frame, SEPARATORS[kind][0]).encode()
        content = gzip.compress(content, mtime=0) if path.suffix.lower() == ".gz" else content
    with replacing(path) as stream:
        stream.write(content)


def csv_text(frame: pd.DataFrame, separator: str = ",") -> str:
    """Return a data frame as the text of a CSV file, without its index."""
    frame = guarded_frame(frame)
    # a carriage return ends a line, but some versions of Python do not quote it
    returns = any("\r" in cell for name in frame for cell in (name, *text_cells(frame[name])))
    quoting: Any = csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL
    return frame.to_csv(index=False, sep=separator, quoting=quoting, lineterminator="\n")


def check_table_path(path: str | os.PathLike[str]) -> None:
    """Raise TableError if `write_table` does not support the extension of the file name."""
    if kind_of_table(Path(path)) == ".parquet":
        needs_pyarrow()


def kind_of_table(path: Path) -> str:
    """Return the extension that says how a table file is written, or raise a TableError."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = suffixes[-1:] == [".gz"]
    kind = suffixes[-2 if packed else -1] if len(suffixes) > packed else ""
    if kind in SEPARATORS or (kind == ".parquet" and not packed):
        return kind
    hint = " Save the sheet as CSV." if kind in (".xlsx", ".xls", ".ods") else ""
    raise TableError(f"{path}: supported table files are .csv, .tsv (also .gz) and .parquet.{hint}")


def needs_pyarrow() -> None:
    """Raise a TableError if pyarrow is not installed."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise TableError('Parquet files need pyarrow: pip install "gpclass[large]"') from error
