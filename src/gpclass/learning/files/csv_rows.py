"""The rows of a text file as numbers and labels, with errors that name the line."""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple, NoReturn

import numpy as np
import pandas as pd

from ...tables import EXACT, TableError, looks_like_data

BLOCK = 1 << 18  # bytes that are read from a file at once
# text that pandas, and so `read_table`, treats as an empty cell
MISSING = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA"),
    *("NULL", "NaN", "None", "n/a", "nan", "null"),
)


class Record(NamedTuple):
    """One row of a text file: a line, or several if a quoted cell contains line breaks."""

    data: bytes
    line: int  # number of its first line, from 1
    offset: int  # number of bytes before it
    blank: bool


def records_of(file: BinaryIO, path: Any, delimiter: str, line: int = 1) -> Iterator[Record]:
    """Yield the rows of a text file; the first line has the number `line`."""
    space = b" \t\r\n".replace(delimiter.encode(), b"")
    lines, offset = lines_of(file), 0
    for data in lines:
        count = 1
        if b'"' in data:
            data, count = _quoted(data, lines, path, delimiter, line)
        yield Record(data, line, offset, not data.strip(space))
        line, offset = line + count, offset + len(data)


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file with their ends: line feeds, carriage returns, or both, as in pandas."""
    rest = b""
    while block := file.read(BLOCK):
        *lines, rest = (rest + block).splitlines(keepends=True)  # a line feed may follow a return at the end
        yield from lines
    if rest:
        yield rest


def _quoted(data, file, path, delimiter, line):
    """Return all lines of a row whose first line contains quotes, and their number."""
    lines = [data]

    def following():
        yield data.decode("utf-8", "replace")
        for more in file:
            lines.append(more)
            yield more.decode("utf-8", "replace")

    _split(following(), path, delimiter, line)
    return b"".join(lines), len(lines)


def _split(lines: Iterator[str], path: Any, delimiter: str, line: int) -> list[str]:
    try:
        return next(csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=True), [])
    except csv.Error as error:
        raise TableError(f"line {line} of {path}: quotes do not match, or a cell is too long ({error})") from error


def cells_of(record: Record, path: Any, delimiter: str) -> list[str]:
    """Return the cells of a row without surrounding spaces."""
    try:
        text = record.data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = record.line + record.data[: error.start].count(b"\n")
        raise TableError(f"line {line} of {path} is not UTF-8 text; save the file as UTF-8") from error
    return [cell.strip() for cell in _split(io.StringIO(text, newline=""), path, delimiter, record.line)]


def names_of(cells: list[str], header: bool, path: Any) -> tuple[str, ...]:
    """Return the names of the columns; without a header "1", "2", … Raise an error if a header looks like data."""
    if not header:
        return tuple(str(j + 1) for j in range(len(cells)))
    if looks_like_data(cells):
        raise TableError(f"the first line of {path} has numbers where the names of columns should be; set header=False")
    return tuple(cells)


class Piece(NamedTuple):
    """Consecutive rows of a text file."""

    data: bytes
    line: int  # number of the first line
    rows: int


@dataclass(frozen=True)
class Layout:
    """The properties that all rows of a text file share."""

    path: Any
    delimiter: str
    names: tuple[str, ...]  # of the columns
    place: int  # index of the column of labels
    drop: frozenset[int] = frozenset()  # indices of columns that are left out

    @property
    def n_inputs(self) -> int:
        """Number of columns of numbers."""
        return len(self.names) - 1 - len(self.drop)

    def parse(self, pieces: Sequence[Piece]) -> tuple[np.ndarray, np.ndarray]:
        """Return X, and the labels as text."""
        width, no_inputs = len(self.names), {self.place, *self.drop}
        # A first row of zeros fixes the number of cells and their type. Without it, pandas silently accepts longer rows and
        # columns of true and false.
        zeros = self.delimiter.join("0" * width).encode()
        data = b"\n".join([zeros, *(piece.data for piece in pieces)])
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", pd.errors.ParserWarning)
                frame = pd.read_csv(
                    io.BytesIO(data),
                    sep=self.delimiter,
                    header=None,
                    names=range(width),
                    index_col=False,
                    skipinitialspace=True,
                    keep_default_na=False,
                    na_values=list(MISSING),
                    dtype={j: str if j in no_inputs else float for j in range(width)},
                    low_memory=False,
                    **EXACT,
                )
        except (ValueError, OverflowError, pd.errors.ParserWarning) as error:
            self._refuse(pieces, " ".join(str(error).split()))
        X = frame.drop(columns=list(no_inputs)).to_numpy(float)[1:]
        labels = frame[self.place].iloc[1:]
        if len(X) != sum(piece.rows for piece in pieces):
            self._refuse(pieces, "rows and lines do not agree")
        if labels.isna().any() or not np.all(np.isfinite(X)):
            self._refuse(pieces, "cells are empty")
        y = np.array([label.strip() for label in labels.tolist()])
        if np.any(y == ""):
            self._refuse(pieces, "labels are empty")
        return X, y

    def _refuse(self, pieces: Sequence[Piece], reason: str) -> NoReturn:
        """Raise an error that names the first invalid row."""
        for piece in pieces:
            for record in records_of(io.BytesIO(piece.data), self.path, self.delimiter, piece.line):
                if not record.blank and (problem := self._problem(cells_of(record, self.path, self.delimiter))):
                    raise TableError(f"line {record.line} of {self.path}: {problem}")
        raise TableError(f"{self.path} cannot be read from line {min(piece.line for piece in pieces)} on: {reason}")

    def _problem(self, cells: list[str]) -> str:
        if len(cells) != len(self.names):
            return f"there are {len(cells)} cells, but the first line has {len(self.names)}"
        for j, (name, cell) in enumerate(zip(self.names, cells, strict=True)):
            if j in self.drop:
                continue
            what = f"the label, column {name!r}," if j == self.place else f"column {name!r}"
            if cell in MISSING:
                return f"{what} is empty or NA; fill the cell or leave the row out"
            if j != self.place and not _is_number(cell):
                return f"{what} holds {cell!r}, but inputs must be finite numbers"
        return ""


def _is_number(cell: str) -> bool:
    try:
        return bool(np.isfinite(float(cell))) and "_" not in cell  # Python accepts 1_000 as a number
    except ValueError:
        return False
