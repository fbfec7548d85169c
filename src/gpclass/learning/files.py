"""CSV and Parquet files as streams of rows, read in random order however large they are.

For a CSV file one pass counts the rows and notes where each chunk begins; later passes read the chunks in random order. A
Parquet file is read from several places at once. Cells that cannot be used are refused with their place: "line 7 of" a text
file counts the header as line 1, "row 7 of" a Parquet file counts from 1.
"""

from __future__ import annotations

import csv
import io
import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import chain, islice
from typing import Any, ClassVar, NamedTuple, NoReturn

import numpy as np
import pandas as pd

from ..tables import EXACT, TableError
from .streams import BUFFER, CHUNK, Batch, Stream, check_sizes, spread_order

PARTS = 16  # of a buffer; one is read from a CSV file at a time
BOM = b"\xef\xbb\xbf"  # that some programs put at the beginning of UTF-8 text
# what pandas, and so `read_table`, takes for an empty cell
MISSING = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA"),
    *("NULL", "NaN", "None", "n/a", "nan", "null"),
)
BATCH = 1 << 9  # rows read from a Parquet file at a time
LANES = 64  # places at most from which a Parquet file is read at once
GOLDEN = (5**0.5 - 1) / 2
PAGES, HELD = 1 << 21, 1 << 28  # bytes that pyarrow holds for one column of a place, and of all columns and places


# CSV ----------------------------------------------------------------------------------------------------------------------


def csv_file(
    path: str | os.PathLike[str],
    target: str | int = -1,
    chunk: int = CHUNK,
    header: bool = True,
    delimiter: str = ",",
    buffer: int = BUFFER,
) -> CSVFile:
    """A CSV file of numbers with its labels in column `target`, given by name or place (from 0; -1 is the last).

    One pass counts the rows and checks every cell. Training then reads chunks of `chunk` rows in random order and mixes them
    in a buffer of `buffer` rows, so the order of rows in the file does not matter, and no more rows are in memory. Labels
    are integers if all of them are written as such ("7", not "07" or "7.0"), otherwise text.
    """
    check_sizes(chunk=chunk, buffer=buffer)
    if len(delimiter) != 1:
        raise ValueError(f"delimiter must be one character, but is {delimiter!r}")
    with open(path, "rb") as file:
        stamp, offset = _stamp(path), len(BOM) if file.read(len(BOM)) == BOM else 0
        file.seek(offset)
        lines = _records(file, path, delimiter)
        first = next((record for record in lines if not record.blank), None)
        if first is None:
            raise TableError(f"{path} is empty")
        cells = _cells(first, path, delimiter)
        layout = Layout(path, delimiter, _names(cells, header, path), place_of(target, cells, header, path))
        begin = offset + first.offset + (len(first.data) if header else 0)
        return _counted(layout, lines if header else chain([first], lines), begin, chunk, buffer, stamp)


class Record(NamedTuple):
    """One row of a text file: a line, or several if a quoted cell holds line breaks."""

    data: bytes
    line: int  # number of its first line, from 1
    offset: int  # bytes before it
    blank: bool


def _records(file: Iterable[bytes], path: Any, delimiter: str, line: int = 1) -> Iterator[Record]:
    space = b" \t\r\n".replace(delimiter.encode(), b"")
    file, offset = iter(file), 0
    for data in file:
        lines = 1
        if b'"' in data:
            data, lines = _quoted(data, file, path, delimiter, line)
        yield Record(data, line, offset, not data.strip(space))
        line, offset = line + lines, offset + len(data)


def _quoted(data, file, path, delimiter, line):
    """All lines of a row that has quotes in its first, and how many they are."""
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


def _cells(record: Record, path: Any, delimiter: str) -> list[str]:
    try:
        text = record.data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = record.line + record.data[: error.start].count(b"\n")
        raise TableError(f"line {line} of {path} is not UTF-8 text; save the file as UTF-8") from error
    return [cell.strip() for cell in _split(io.StringIO(text, newline=""), path, delimiter, record.line)]


def _names(cells: list[str], header: bool, path: Any) -> tuple[str, ...]:
    """Of the columns."""
    if not header:
        return tuple(str(j + 1) for j in range(len(cells)))
    numbers = [cell for cell in cells if _is_number(cell)]
    counted = any(numbers == [str(j + k) for j in range(len(numbers))] for k in (0, 1))  # programs give such names
    if len(cells) > 1 and len(numbers) >= len(cells) - 1 and not counted:
        raise TableError(f"the first line of {path} has numbers where the names of columns should be; set header=False")
    return tuple(cells)


def place_of(target: str | int, names: Sequence[str], named: bool, path: Any) -> int:
    """The place of the column of labels, from 0."""
    if len(names) < 2:
        raise TableError(f"{path} has {len(names)} column; there must be one of labels and at least one of numbers")
    known = f"its columns are {', '.join(names)}" if named else f"it has {len(names)} columns without names"
    if isinstance(target, str):
        if not named or names.count(target) != 1:
            count = "more than one" if named and target in names else "no"
            raise TableError(f"{path} has {count} column {target!r}; {known}")
        return names.index(target)
    if isinstance(target, bool) or not isinstance(target, (int, np.integer)):
        raise TypeError(f"target must be the name or the place of a column, but is {target!r}")
    if not -len(names) <= target < len(names):
        places = f"places are {-len(names)} to {len(names) - 1}"
        raise TableError(f"{path} has no column at place target={target}: {places}; {known}")
    return int(target) % len(names)


class Piece(NamedTuple):
    """Consecutive rows of a text file."""

    data: bytes
    line: int  # number of the first line
    rows: int


@dataclass(frozen=True)
class Layout:
    """What all rows of a text file have in common."""

    path: Any
    delimiter: str
    names: tuple[str, ...]  # of the columns
    place: int  # of the labels among them

    def parse(self, pieces: Sequence[Piece]) -> tuple[np.ndarray, np.ndarray]:
        """X and the labels as text."""
        width = len(self.names)
        # A first row of zeros tells pandas the number of cells and that they hold numbers. Without it pandas takes longer
        # rows and columns of true and false without a word.
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
                    dtype={j: str if j == self.place else float for j in range(width)},
                    low_memory=False,
                    **EXACT,
                )
        except (ValueError, OverflowError, pd.errors.ParserWarning) as error:
            self._refuse(pieces, " ".join(str(error).split()))
        X = frame.drop(columns=self.place).to_numpy(float)[1:]
        labels = frame[self.place].iloc[1:]
        if len(X) != sum(piece.rows for piece in pieces):
            self._refuse(pieces, "its lines do not end with line feeds")
        if labels.isna().any() or not np.all(np.isfinite(X)):
            self._refuse(pieces, "cells are empty")
        y = np.array([label.strip() for label in labels.tolist()])
        if np.any(y == ""):
            self._refuse(pieces, "labels are empty")
        return X, y

    def _refuse(self, pieces: Sequence[Piece], reason: str) -> NoReturn:
        """Find the first row that is wrong, and raise."""
        for piece in pieces:
            for record in _records(io.BytesIO(piece.data), self.path, self.delimiter, piece.line):
                if not record.blank and (problem := self._problem(_cells(record, self.path, self.delimiter))):
                    raise TableError(f"line {record.line} of {self.path}: {problem}")
        raise TableError(f"{self.path} cannot be read from line {min(piece.line for piece in pieces)} on: {reason}")

    def _problem(self, cells: list[str]) -> str:
        if len(cells) != len(self.names):
            return f"there are {len(cells)} cells, but the first line has {len(self.names)}"
        for j, (name, cell) in enumerate(zip(self.names, cells, strict=True)):
            what = f"the label, column {name!r}," if j == self.place else f"column {name!r}"
            if cell in MISSING:
                return f"{what} is empty or NA; fill the cell or leave the row out"
            if j != self.place and not _is_number(cell):
                return f"{what} holds {cell!r}, but inputs must be finite numbers"
        return ""


def _is_number(cell: str) -> bool:
    try:
        return bool(np.isfinite(float(cell))) and "_" not in cell  # Python takes 1_000 for a number
    except ValueError:
        return False


def _counted(layout: Layout, records: Iterator[Record], begin: int, chunk: int, buffer: int, stamp: Any) -> CSVFile:
    """One pass over all rows."""
    offsets, lines, n, width, whole = [begin], [], 0, 1, True
    pieces = _pieces(records, chunk)
    while some := list(islice(pieces, _together(chunk, buffer))):
        y = layout.parse(some)[1]
        n, width, whole = n + len(y), max(width, y.dtype.itemsize // 4), whole and _all_integers(y)
        for piece in some:
            lines.append(piece.line)
            offsets.append(offsets[-1] + len(piece.data))
    if not n:
        raise TableError(f"{layout.path} has a header but no rows")
    kind = np.dtype(np.int64) if whole else np.dtype(f"U{width}")
    return CSVFile(layout, n, len(layout.names) - 1, chunk, buffer, kind, np.array(offsets), np.array(lines), stamp)


def _pieces(records: Iterator[Record], chunk: int) -> Iterator[Piece]:
    some: list[bytes] = []
    line, rows = 0, 0
    for record in records:
        line = line if some else record.line
        some.append(record.data)
        rows += not record.blank
        if rows == chunk:
            yield Piece(b"".join(some), line, rows)
            some, rows = [], 0
    if rows:
        yield Piece(b"".join(some), line, rows)


def _together(chunk: int, buffer: int) -> int:
    """Chunks that are parsed at once: pandas takes longer to begin than to read a few rows."""
    return max(1, buffer // (PARTS * chunk))


def _all_integers(labels: np.ndarray) -> bool:
    """Whether integers stand for these texts one for one: not for "01" and "1"."""
    try:
        return bool(np.all(labels.astype(np.int64).astype(str) == labels))
    except (ValueError, OverflowError):
        return False


@dataclass(frozen=True, eq=False)
class CSVFile(Stream):
    """A CSV file whose chunks are read in random order. Made by `csv_file`."""

    layout: Layout
    n_rows: int
    n_columns: int
    chunk: int
    buffer: int
    labels: np.dtype
    offsets: np.ndarray  # (P + 1,) bytes before each chunk, and at the end
    lines: np.ndarray  # (P,) number of the first line of each
    stamp: tuple[int, int]

    remedy: ClassVar = "Shuffle the lines once, or read smaller chunks or hold more rows: csv_file(…, chunk=…, buffer=…)"

    def pieces(self, rng: np.random.Generator) -> Iterator[Batch]:
        order = spread_order(len(self.lines), self.buffer // self.chunk, rng)
        step = _together(self.chunk, self.buffer)
        with open(self.layout.path, "rb") as file:
            if _stamp(self.layout.path) != self.stamp:
                raise TableError(f"{self.layout.path} has changed since its rows were counted; call csv_file again")
            for i in range(0, len(order), step):
                yield self._read(file, np.sort(order[i : i + step]))

    def _read(self, file: Any, chosen: np.ndarray) -> Batch:
        rows = [np.arange(c * self.chunk, min((c + 1) * self.chunk, self.n_rows)) for c in chosen]
        some = []
        for c, numbers in zip(chosen, rows, strict=True):
            file.seek(self.offsets[c])
            data = file.read(self.offsets[c + 1] - self.offsets[c])
            some.append(Piece(data, int(self.lines[c]), len(numbers)))
        X, y = self.layout.parse(some)
        return Batch(X, y.astype(self.labels), np.concatenate(rows))


def _stamp(path: Any) -> tuple[int, int]:
    """Changes with the contents of a file."""
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


# Parquet ------------------------------------------------------------------------------------------------------------------


def parquet_file(path: str | os.PathLike[str], target: str | int, chunk: int = BATCH, buffer: int = BUFFER) -> ParquetFile:
    """A Parquet file of numbers with its labels in column `target`, given by name or place; needs pyarrow.

    Training reads `chunk` rows at a time, from as many places of the file at once as memory allows, and mixes them in a
    buffer of `buffer` rows. No more rows are in memory, besides up to 256 MB of pages that pyarrow holds. If the file is
    sorted by label and its row groups are many and large, training warns and says what to do.
    """
    check_sizes(chunk=chunk, buffer=buffer)
    stamp = _stamp(path)
    with _opened(path) as file:
        names, metadata = [str(name) for name in file.schema_arrow.names], file.metadata
        if not metadata.num_rows:
            raise TableError(f"{path} has no rows")
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise TableError(f"{path} has more than one column called {', '.join(map(repr, twice))}; give each its own name")
        place = place_of(target, names, True, path)
        for j, field in enumerate(file.schema_arrow):
            _refuse_type(field, j == place, path)
    sizes = metadata.num_rows, len(names) - 1, chunk, buffer
    return ParquetFile(path, tuple(names), place, *sizes, *_lanes(metadata, chunk), stamp)


def _opened(path: Any) -> Any:
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise ImportError("reading Parquet needs pyarrow: pip install gpclass[large]") from error
    try:
        # in pages as they are needed, not whole row groups ahead
        return parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 16)
    except ValueError as error:
        raise TableError(f"{path} cannot be read as a Parquet file: {' '.join(str(error).split())}") from error


def _refuse_type(field: Any, label: bool, path: Any) -> None:
    from pyarrow import types

    kind = field.type.value_type if types.is_dictionary(field.type) else field.type
    number = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
    if label and not (number or types.is_string(kind) or types.is_large_string(kind)):
        raise TableError(f"the labels of {path}, column {field.name!r}, are of type {field.type}; use text or integers")
    if not label and (types.is_dictionary(field.type) or not (number or types.is_decimal(kind))):
        raise TableError(f"column {field.name!r} of {path} is of type {field.type}; use numbers, or leave it out")


class Lane(NamedTuple):
    """Consecutive rows of one row group."""

    group: int
    first: int  # row of the group
    last: int  # row after the last
    start: int  # row of the file where the group begins

    @property
    def rows(self) -> int:
        return self.last - self.first


def _lanes(metadata: Any, chunk: int) -> tuple[int, list[Lane]]:
    """How many lanes to read at once, and all of them: row groups, or parts of them if all can then be read at once."""
    groups = [metadata.row_group(g) for g in range(metadata.num_row_groups)]
    held = min(max(group.total_byte_size for group in groups), PAGES * metadata.num_columns)
    count = int(np.clip(HELD // max(1, held), 1, LANES))
    lanes, start = [], 0
    for g, group in enumerate(groups):
        share = -(-group.num_rows // max(1, count // len(groups)))
        length = max(1, -(-share // chunk) * chunk)
        lanes += [Lane(g, i, min(i + length, group.num_rows), start) for i in range(0, group.num_rows, length)]
        start += group.num_rows
    rounds = -(-len(lanes) // count)
    return -(-len(lanes) // rounds), lanes  # as many in the last round as in others


@dataclass(frozen=True, eq=False)
class ParquetFile(Stream):
    """A Parquet file that is read from several places at once. Made by `parquet_file`."""

    path: Any
    names: tuple[str, ...]
    place: int  # of the labels
    n_rows: int
    n_columns: int
    chunk: int
    buffer: int
    at_once: int  # lanes
    lanes: list[Lane]
    stamp: tuple[int, int]

    remedy: ClassVar = (
        "Shuffle the rows once, or write the file with smaller row groups (row_group_size=… in pyarrow and pandas), or hold "
        "more rows: parquet_file(…, buffer=…)"
    )

    def pieces(self, rng: np.random.Generator) -> Iterator[Batch]:
        waiting = spread_order(len(self.lanes), self.at_once, rng).tolist()
        # multiples of the golden section are even in any part of the file
        phases = (rng.random() + GOLDEN * np.arange(len(self.lanes))) % 1
        if _stamp(self.path) != self.stamp:
            raise TableError(f"{self.path} has changed since it was first opened; call parquet_file again")
        with _opened(self.path) as file:
            # each lane is due in proportion to the part of it that was read, so that those open together end together
            going: list[tuple[float, Lane, Iterator[Batch]]] = []
            now = 0.0
            while waiting or going:
                while waiting and len(going) < self.at_once:
                    lane = self.lanes[k := waiting.pop()]
                    heappush(going, (now + phases[k] * self.chunk / lane.rows, lane, self._along(file, lane)))
                now, lane, pieces = heappop(going)
                if piece := next(pieces, None):
                    yield piece
                    heappush(going, (now + len(piece.y) / lane.rows, lane, pieces))

    def _along(self, file: Any, lane: Lane) -> Iterator[Batch]:
        read = 0
        for batch in file.iter_batches(self.chunk, row_groups=[lane.group], columns=list(self.names), use_threads=False):
            first, last = max(lane.first - read, 0), min(lane.last - read, batch.num_rows)
            if first < last:
                yield self._batch(batch.slice(first, last - first), lane.start + read + first)
            read += batch.num_rows
            if read >= lane.last:
                return

    def _batch(self, batch: Any, start: int) -> Batch:
        for name in self.names:
            if batch.column(name).null_count:
                self._refuse(name, start + int(np.argmax(batch.column(name).is_null().to_numpy(zero_copy_only=False))))
        target = self.names[self.place]
        names = [name for name in self.names if name != target]
        X = np.column_stack([np.asarray(batch.column(name).to_numpy(zero_copy_only=False), float) for name in names])
        if not np.all(known := np.isfinite(X)):
            i, j = (int(at[0]) for at in np.nonzero(~known))
            self._refuse(names[j], start + i)
        return Batch(X, self._labels(batch.column(target), start), np.arange(start, start + len(X)))

    def _labels(self, column: Any, start: int) -> np.ndarray:
        y = np.array(column.to_pylist())
        if y.dtype.kind != "f":
            return y
        odd = ~np.isfinite(y) | (y != np.round(y))
        if np.any(odd):
            i = int(np.argmax(odd))
            raise TableError(
                f"row {start + i + 1} of {self.path}: the label, column {self.names[self.place]!r}, is {y[i]:g}; labels are "
                "text or whole numbers"
            )
        return y.astype(np.int64)

    def _refuse(self, name: str, row: int) -> NoReturn:
        what = "the label, " if name == self.names[self.place] else ""
        raise TableError(
            f"row {row + 1} of {self.path}: {what}column {name!r} is empty, NaN or infinite; fill the cell or leave the row "
            "out"
        )
