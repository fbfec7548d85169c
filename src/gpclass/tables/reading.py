"""Table files: CSV, TSV and Parquet, read and written."""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import warnings
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

from ..files import replacing
from .guards import guarded_frame, text_cells, unguarded, with_texts
from .summaries import check_columns
from .words import TableError, cut, one_line

SEPARATORS = {".csv": ",;\t", ".tsv": "\t", ".tab": "\t", ".txt": "\t,;"}  # candidates, the first is the default
# read all digits exactly; the default of later versions of pandas
EXACT: Any = {"float_precision": "round_trip"} if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1) else {}
BLANK_LINE = re.compile(r"[\r\n][ \t]*[\r\n](?<!\r\n)|^[ \t]*[\r\n]")


def read_table(path: str | os.PathLike[str], text: Iterable[str] = (), target: str | None = None) -> pd.DataFrame:
    """Read a data frame from a .csv, .tsv or .parquet file; text files may be compressed (.gz).

    Parameters
    ----------
    path : str or path-like
        The file to read.
    text : iterable of str, optional
        Columns to read as text, even if they look like numbers.
    target : str, optional
        Column of labels. Labels that are different texts for one number, such as 01 and 1, raise an error.

    Returns
    -------
    DataFrame
        Its index holds the line of each row in the file, header not counted.

    Raises
    ------
    TableError
        If the file cannot be read; the message says where and why.
    """
    path = Path(path)
    if not path.exists():
        raise TableError(f"there is no file {path}")
    if path.is_dir():
        raise TableError(f"{path} is a folder, not a file")
    kind = _kind(path)
    try:
        frame = _read_parquet(path) if kind == ".parquet" else _read_text(path, kind, set(text), target)
    except TableError:
        raise
    except UnicodeDecodeError as error:
        raise TableError(f"{path} is not UTF-8 text (byte {error.start}); save it as UTF-8") from error
    except (ValueError, EOFError, OSError, zlib.error, csv.Error, OverflowError, pd.errors.ParserWarning) as error:
        raise TableError(f"{path} cannot be read: {one_line(error)}") from error
    if not len(frame):
        raise TableError(f"{path} has a header but no rows")
    return frame


def read_tables(
    paths: Sequence[str | os.PathLike[str]], text: Iterable[str] = (), target: str | None = None
) -> pd.DataFrame:
    """Read several files with the same columns as one table.

    Parameters
    ----------
    paths : sequence of str or path-like
        The files, all text or all Parquet.
    text, target
        As in `read_table`. Labels of text files are read as one column: they are numbers only if they are in all files.

    Returns
    -------
    DataFrame
        Its index names each row by its line and its file: "7 of flights/2024.csv".

    Raises
    ------
    TableError
        If a file cannot be read, or its columns are not those of the first file.
    """
    labels = [] if target is None else [target]
    frames: list[pd.DataFrame] = []
    for path in paths:
        frame = read_table(path, [*text, *labels])
        if frames:
            check_columns(list(frame.columns), str(path), list(frames[0].columns), str(paths[0]))
            frame = frame[list(frames[0].columns)]
        frames.append(frame.set_axis(pd.Index([f"{line} of {path}" for line in frame.index], dtype=object), axis=0))
    whole = pd.concat(frames).infer_objects()
    if target in whole.columns and _kind(Path(paths[0])) != ".parquet":
        whole[target] = _typed(whole[target], Path(paths[0]).parent)
    return whole


def _typed(texts: pd.Series, path: Path) -> pd.Series:
    """Return the cells of a column that was read as text with the type that `read_table` gives them."""
    content = texts.to_csv(index=False, quoting=csv.QUOTE_ALL, lineterminator="\n")
    settings: Any = {"skipinitialspace": True, "low_memory": False, **EXACT}
    cells = pd.read_csv(io.StringIO(content, newline=""), **settings).iloc[:, 0]
    if types.is_integer_dtype(cells.dtype):
        _refuse_merged(cells.rename(texts.name), texts.reset_index(drop=True).str.strip(), path)
    return cells.set_axis(texts.index)


def csv_columns(path: str | os.PathLike[str]) -> list[str]:
    """Return the names of the columns of a text file, as `read_table` does; only its first lines are read."""
    path = Path(path)
    kind = _kind(path)
    with gzip.open(path, "rt", encoding="utf-8-sig", newline="") if path.suffix.lower() == ".gz" else open(
        path, encoding="utf-8-sig", newline=""
    ) as stream:
        first = next((line for line in stream if line.strip()), "")
        if not first:
            raise TableError(f"{path} is empty")
        separator = max(SEPARATORS[kind], key=first.count)
        cells = next(csv.reader(chain([first], stream), delimiter=separator, skipinitialspace=True))
    names = unguarded([name.strip() for name in cells])
    _check_names(names, path)
    return [name for name in names if name]  # row numbers have no name


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
    kind = _kind(path)
    if kind == ".parquet":
        _needs_pyarrow()
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
    if _kind(Path(path)) == ".parquet":
        _needs_pyarrow()


def _kind(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = suffixes[-1:] == [".gz"]
    kind = suffixes[-2 if packed else -1] if len(suffixes) > packed else ""
    if kind in SEPARATORS or (kind == ".parquet" and not packed):
        return kind
    hint = " Save the sheet as CSV." if kind in (".xlsx", ".xls", ".ods") else ""
    raise TableError(f"{path}: supported table files are .csv, .tsv (also .gz) and .parquet.{hint}")


def _needs_pyarrow() -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise TableError('Parquet files need pyarrow: pip install "gpclass[large]"') from error


def _read_parquet(path: Path) -> pd.DataFrame:
    _needs_pyarrow()
    frame = pd.read_parquet(path)
    _check_names([str(name) for name in frame.columns], path)
    frame.columns = pd.Index([str(name) for name in frame.columns])
    return frame.set_axis(_lines(len(frame)), axis=0)


def _read_text(path: Path, kind: str, text: set[str], target: str | None) -> pd.DataFrame:
    with gzip.open(path) if path.suffix.lower() == ".gz" else open(path, "rb") as stream:
        content = stream.read().decode("utf-8-sig")
    first = next((line for line in content.splitlines() if line.strip()), "")
    if not first:
        raise TableError(f"{path} is empty")
    separator = max(SEPARATORS[kind], key=first.count)
    rows = csv.reader(io.StringIO(content, newline=""), delimiter=separator, skipinitialspace=True)
    header = next(row for row in rows if row)
    names = unguarded([name.strip() for name in header])
    unnamed = [i for i, name in enumerate(names) if not name]
    if len(unnamed) > 1:
        raise TableError(f"{path}: columns {', '.join(str(i + 1) for i in unnamed)} have no name")
    _check_names(names, path)
    settings: Any = {"sep": separator, "header": 0, "names": names, "index_col": False, "skipinitialspace": True, **EXACT}
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # raised for rows longer than the header
        as_text = {name: str for name in names if name in text}
        try:
            frame = pd.read_csv(io.StringIO(content, newline=""), low_memory=False, dtype=as_text, **settings)
        except (pd.errors.ParserError, pd.errors.ParserWarning):
            _refuse_long_rows(content, separator, len(names), path)
            raise
    if target in names and types.is_integer_dtype(frame[target].dtype):
        texts = pd.read_csv(io.StringIO(content, newline=""), usecols=[names.index(target)], dtype=str, **settings)[target]
        _refuse_merged(frame[target], texts.str.strip(), path)
    frame = with_texts(frame, unguarded).set_axis(_numbered(content, separator, len(frame), path), axis=0)
    return _without_row_numbers(frame, path) if unnamed else frame


def _refuse_merged(labels: pd.Series, texts: pd.Series, path: Path) -> None:
    """Raise TableError if two different texts are the same label."""
    different = pd.DataFrame({"label": labels, "text": texts}).drop_duplicates()
    twice = different[different["label"].duplicated(keep=False)].sort_values(["label", "text"])["text"].tolist()
    if twice:
        raise TableError(
            f"{path}: labels {cut(twice[0])} and {cut(twice[1])} of the target {labels.name!r} are the same number. "
            "If they are the same class, write them identically; otherwise add a letter"
        )


def _lines(n: int) -> pd.RangeIndex:
    return pd.RangeIndex(1, n + 1)


def _numbered(content: str, separator: str, n: int, path: Path) -> pd.Index:
    """Return the line (n,) of each row in the file as a spreadsheet counts them: with blank lines, without the header."""
    if not BLANK_LINE.search(content):
        return _lines(n)
    places = [place for place, _ in _records(content, separator)]
    if len(places) != n + 1:
        raise TableError(f"{path} has blank lines, and its rows cannot be counted; remove the blank lines")
    return pd.Index(places[1:], dtype=np.int64)


def _records(content: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the cells of the header, whose number is 0, and of each row."""
    header = None
    for number, cells in enumerate(csv.reader(io.StringIO(content, newline=""), delimiter=separator, skipinitialspace=True)):
        if len(cells) > 1 or (cells and cells[0].strip()):
            header = number if header is None else header
            yield number - header, cells


def _refuse_long_rows(content: str, separator: str, n_names: int, path: Path) -> None:
    for place, cells in _records(content, separator):
        if len(cells) > n_names:
            raise TableError(
                f"{path}: row {place} has {len(cells)} cells, but the header has {n_names}; put quotes around text that "
                f"contains {separator!r}"
            )


def _check_names(names: Sequence[str], path: Path) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise TableError(f"{path} has more than one column called {', '.join(map(repr, twice))}; give each a different name")


def _without_row_numbers(frame: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Drop a column without a name if it contains row numbers, as R and pandas write them; otherwise raise TableError."""
    counts = frame[""].to_numpy()
    if types.is_integer_dtype(frame[""].dtype) and any(np.array_equal(counts, np.arange(len(frame)) + k) for k in (0, 1)):
        return frame.drop(columns="")
    raise TableError(f"{path}: column {list(frame.columns).index('') + 1} has no name")
