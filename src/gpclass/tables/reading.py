"""Reading of table files: CSV, TSV and Parquet."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import os
import re
import warnings
import zlib
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

from ..spelling import closest
from .beginnings import lines_before_header, refuse_other_formats, with_first_name, without_lines
from .guards import unguarded, with_texts
from .layout import FileRemark, decoded, looks_like_data, names_of, no_header, records, separator_of
from .problems import Findings, Option, Problem, TableError
from .scans import check_columns
from .settings import USUAL, Reading
from .tidying import other_conventions, second_targets, with_numbers, without_unnamed
from .words import cut, is_number, one_line
from .writing import kind_of_table, needs_pyarrow

# read all digits exactly; the default of later versions of pandas
EXACT: Any = {"float_precision": "round_trip"} if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1) else {}
BLANK_LINE = re.compile(r"[\r\n][ \t]*[\r\n](?<!\r\n)|^[ \t]*[\r\n]")
BEGINNING = 1 << 16  # bytes that are read to find the names of the columns


def read_table(
    path: str | os.PathLike[str],
    text: Iterable[str] = (),
    target: str | None = None,
    reading: Reading = USUAL,
    drop: Collection[str] = (),
) -> pd.DataFrame:
    """Read a data frame from a .csv, .tsv or .parquet file; text files may be compressed (.gz).

    Parameters
    ----------
    path : str or path-like
        The file to read.
    text : iterable of str, optional
        Columns to read as text, even if they look like numbers.
    target : str, optional
        Column of labels. Labels that are different texts for one number, such as 01 and 1, raise an error.
    reading : Reading, optional
        How a text file is read: its separator, encoding, decimal character and so on.
    drop : collection of str, optional
        Columns to leave out.

    Returns
    -------
    DataFrame
        Its index holds the line of each row in the file, header not counted.

    Raises
    ------
    TableError
        If the file cannot be read; the message says where and why, and `problems` has the remedies.
    """
    path = Path(path)
    if not path.exists():
        raise TableError(f"there is no file {path}{_similar_file(path)}")
    if path.is_dir():
        raise TableError(f"{path} is a folder, not a file")
    kind = kind_of_table(path)
    try:
        how = (set(text), target, reading, set(drop))
        frame = _read_parquet(path) if kind == ".parquet" else _read_text(path, kind, *how)
    except TableError:
        raise
    except (ValueError, EOFError, OSError, zlib.error, csv.Error, OverflowError, pd.errors.ParserWarning) as error:
        raise TableError(f"{path} cannot be read: {one_line(error)}") from error
    if not len(frame):
        raise TableError(f"{path} has a header but no rows")
    return frame.drop(columns=[name for name in drop if name in frame.columns])


def _similar_file(path: Path) -> str:
    """Return a question with the file of the same folder whose name, without the extension, is most similar."""
    names = {Path(name).stem: name for name in sorted(os.listdir(path.parent))} if path.parent.is_dir() else {}
    near = closest(path.stem, names)
    return "" if near is None else f" (did you mean {names[near]!r}?)"


def read_tables(
    paths: Sequence[str | os.PathLike[str]],
    text: Iterable[str] = (),
    target: str | None = None,
    reading: Reading = USUAL,
    drop: Collection[str] = (),
) -> pd.DataFrame:
    """Read several files with the same columns as one table.

    Parameters
    ----------
    paths : sequence of str or path-like
        The files, all text or all Parquet.
    text, target, reading, drop
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
        frame = read_table(path, [*text, *labels], None, reading, drop)
        if frames:
            check_columns(list(frame.columns), str(path), list(frames[0].columns), str(paths[0]))
            frame = frame[list(frames[0].columns)]
        frames.append(frame.set_axis(pd.Index([f"{line} of {path}" for line in frame.index], dtype=object), axis=0))
    whole = pd.concat(frames).infer_objects()
    if target in whole.columns and kind_of_table(Path(paths[0])) != ".parquet":
        whole[target] = _typed(whole[target], Path(paths[0]).parent)
    return whole


def _typed(texts: pd.Series, path: Path) -> pd.Series:
    """Return the cells of a column that was read as text with the type that `read_table` gives them."""
    content = texts.to_csv(index=False, quoting=csv.QUOTE_ALL, lineterminator="\n")
    settings: Any = {"skipinitialspace": True, "low_memory": False, **EXACT}
    cells = pd.read_csv(io.StringIO(content, newline=""), **settings).iloc[:, 0]
    if _are_whole_numbers(cells):
        _refuse_merged(cells.rename(texts.name), texts.reset_index(drop=True).str.strip(), path)
    return cells.set_axis(texts.index)


def csv_columns(path: str | os.PathLike[str], reading: Reading = USUAL, unnamed: bool = False) -> list[str]:
    """Return the names of the columns of a text file, as `read_table` does; only its first lines are read.

    Columns without a name are row numbers and left out, or called "Unnamed: 0" by their place with `unnamed`.
    """
    path = Path(path)
    kind = kind_of_table(path)
    with _opened(path) as stream:
        content = stream.read(BEGINNING)
        whole = len(content) < BEGINNING
    if not whole and (reading.encoding is None or codecs.lookup(reading.encoding).name == "utf-8"):
        content = content[: max(content.rfind(b"\n"), content.rfind(b"\r")) + 1] or content  # not within a character
    beginning = without_lines(_decoded(content, reading, path), reading.skip_lines)
    separator = separator_of(beginning, kind, reading.sep, path)
    if not beginning.strip():
        raise TableError(f"{path} is empty")
    beginning = with_first_name(beginning, separator, path) if reading.header else beginning
    cells = next(cells for _, cells in records(beginning, separator))
    names = names_of(cells, reading, path)
    return names if unnamed or not reading.header else [n for n, cell in zip(names, cells, strict=True) if cell.strip()]


# Parquet ------------------------------------------------------------------------------------------------------------------


def _read_parquet(path: Path) -> pd.DataFrame:
    needs_pyarrow()
    frame = pd.read_parquet(path)
    frame.columns = pd.Index(names_of([str(name) for name in frame.columns], USUAL, path))
    return frame.set_axis(_lines(len(frame)), axis=0)


def _lines(n: int) -> pd.RangeIndex:
    return pd.RangeIndex(1, n + 1)


# text ---------------------------------------------------------------------------------------------------------------------


def _opened(path: Path) -> Any:
    return gzip.open(path) if path.suffix.lower() == ".gz" else open(path, "rb")


def _read_text(
    path: Path, kind: str, text: set[str], target: str | None, reading: Reading, drop: set[str]
) -> pd.DataFrame:
    with _opened(path) as stream:
        content = without_lines(_decoded(stream.read(), reading, path), reading.skip_lines)
    if not content.strip():
        raise TableError(f"{path} is empty")
    found = Findings()
    before = lines_before_header(content, reading.sep, path) if reading.header else None
    if before is not None:
        raise TableError.of(before)
    separator = separator_of(content, kind, reading.sep, path)
    content = with_first_name(content, separator, path) if reading.header else content
    header = next(cells for _, cells in records(content, separator))
    if reading.header and (looks_like_data(header) or _lacks_names(header, target)):
        raise TableError.of(no_header(path, len(header)))
    names = names_of(header, reading, path)
    settings: Any = {"sep": separator, "header": 0 if reading.header else None, "names": names, "index_col": False}
    settings |= {"skipinitialspace": True, "decimal": reading.decimal, "na_values": list(reading.missing_values), **EXACT}
    content, frame, lines = _parsed(content, separator, names, settings, {n: str for n in names if n in text}, reading, path)
    if target in names and _are_whole_numbers(frame[target]):
        texts = pd.read_csv(io.StringIO(content, newline=""), usecols=[names.index(target)], dtype=str, **settings)[target]
        _refuse_merged(frame[target], texts.str.strip(), path)
    frame = with_texts(frame, unguarded).set_axis(lines, axis=0)
    unnamed = [name for name, cell in zip(names, header, strict=True) if reading.header and not cell.strip()]
    with found.collecting():
        frame = without_unnamed(frame, unnamed, text | drop, path)
    found.add(*other_conventions(frame, reading.convention, {*text, *drop, str(target)}))
    found.add(*second_targets(frame, target, reading, drop))
    found.report()
    return with_numbers(frame, reading.convention, text, target)


def _decoded(content: bytes, reading: Reading, path: Path) -> str:
    refuse_other_formats(content, path)
    return decoded(content, reading.encoding, path)


def _lacks_names(header: Sequence[str], target: str | None) -> bool:
    """Return whether a first line without the target, or a name similar to it, has numbers among its cells."""
    cells = [cell.strip() for cell in header]
    return target is not None and closest(target, cells) is None and any(map(is_number, cells))


def _parsed(
    content: str, separator: str, names: list[str], settings: Any, as_text: Any, reading: Reading, path: Path
) -> tuple[str, pd.DataFrame, pd.Index]:
    """Return the content that was read, the table, and the line of each row."""

    def parsed(content: str) -> pd.DataFrame:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # raised for rows longer than the header
            return pd.read_csv(io.StringIO(content, newline=""), low_memory=False, dtype=as_text, **settings)

    try:
        frame = parsed(content)
    except (pd.errors.ParserError, pd.errors.ParserWarning):
        shorter, places = _shortened(content, separator, len(names), reading, path)
        if shorter is None:
            raise
        frame = parsed(shorter)
        return shorter, frame, pd.Index(places if not reading.header else places[1:], dtype=np.int64)
    return content, frame, _numbered(content, separator, len(frame), reading.header, path)


def _numbered(content: str, separator: str, n: int, header: bool, path: Path) -> pd.Index:
    """Return the line (n,) of each row in the file as a spreadsheet counts them: with blank lines, without the header."""
    if not BLANK_LINE.search(content):
        return _lines(n)
    places = [place for place, _ in records(content, separator)]
    places = places[1:] if header else [place + 1 for place in places]
    if len(places) != n:
        raise TableError(f"{path} has blank lines, and its rows cannot be counted; remove the blank lines")
    return pd.Index(places, dtype=np.int64)


def _shortened(content: str, separator: str, n: int, reading: Reading, path: Path) -> tuple[str | None, list[int]]:
    """Return the content without empty cells behind the last column, and the lines of its rows.

    Rows with more cells raise a TableError, or are left out if `Reading.skip_ragged` is set. None is returned if no row is
    too long.
    """
    rows = [(place + (not reading.header), cells) for place, cells in records(content, separator)]
    long = [(place, len(cells)) for place, cells in rows if any(cell.strip() for cell in cells[n:])]
    if all(len(cells) <= n for _, cells in rows):
        return None, []
    if long and not reading.skip_ragged:
        raise TableError.of(_ragged(long, n, separator, path))
    if long:
        rows_of_them = f"{len(long)} row{'s' * (len(long) > 1)}"
        warnings.warn(f"{path}: {rows_of_them} with too many cells left out (--skip-ragged)", FileRemark, stacklevel=5)
    bad = {place for place, _ in long}
    kept = [(place, cells[:n]) for place, cells in rows if place not in bad]
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=separator, lineterminator="\n").writerows(cells for _, cells in kept)
    return text.getvalue(), [place for place, _ in kept]


def _ragged(long: Sequence[tuple[int, int]], n: int, separator: str, path: Path) -> Problem:
    (place, size), more = long[0], len(long) - 1
    text = f"{path}: row {place} has {size} cells, but the header has {n}"
    text += f", and {more} more row{'s' * (more > 1)} too" if more else ""
    advice = f"; put quotes around text that contains {separator!r}, or leave such rows out (--skip-ragged)"
    code = "read_table(path, reading=Reading(skip_ragged=True))"
    return Problem("ragged", text, (), advice, (Option("--skip-ragged"),), code)


def _are_whole_numbers(labels: pd.Series) -> bool:
    """Return whether labels are whole numbers; with empty cells among them their type is float."""
    if types.is_bool_dtype(labels.dtype) or not types.is_numeric_dtype(labels.dtype):
        return False
    present = labels.dropna()
    return bool((present == present.round()).all())


def _refuse_merged(labels: pd.Series, texts: pd.Series, path: Path) -> None:
    """Raise TableError if two different texts are the same label."""
    different = pd.DataFrame({"label": labels, "text": texts}).dropna().drop_duplicates()
    twice = different[different["label"].duplicated(keep=False)].sort_values(["label", "text"])["text"].tolist()
    if twice:
        raise TableError(
            f"{path}: labels {cut(twice[0])} and {cut(twice[1])} of the target {labels.name!r} are the same number. "
            "If they are the same class, write them identically; otherwise add a letter"
        )
