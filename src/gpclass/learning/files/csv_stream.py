"""CSV files as streams. One pass counts the rows and finds the chunks; later passes read these in random order."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, ClassVar

import numpy as np

from ...tables import TableError
from ..streams import BUFFER, CHUNK, Batch, Stream, check_sizes, spread_order
from .checks import place_of, places_without, stamp_of
from .csv_rows import Layout, Piece, Record, cells_of, names_of, records_of

READ_PARTS = 16  # a read from the file fills this fraction of the buffer: 1 / READ_PARTS
BOM = b"\xef\xbb\xbf"  # byte order mark, which some programs write at the beginning of UTF-8 text


def csv_file(
    path: str | os.PathLike[str],
    target: str | int = -1,
    chunk: int = CHUNK,
    header: bool = True,
    delimiter: str = ",",
    buffer: int = BUFFER,
    drop: Sequence[str] = (),
) -> CSVFile:
    """Open a CSV file of numbers and labels as a source of rows.

    One pass counts the rows and checks every cell. Training then reads chunks in random order and mixes them in a buffer, so
    the order of rows in the file does not matter, and only the buffer is in memory. Labels are integers if all of them are
    written as integers ("7", not "07" or "7.0"), otherwise text.

    Parameters
    ----------
    path : str or path-like
        The file.
    target : str or int, default=-1
        Name or index of the column of labels; -1 is the last column.
    chunk : int, default=64
        Number of consecutive rows that are read together.
    header : bool, default=True
        Whether the first line holds the names of the columns.
    delimiter : str, default=","
        The character between cells.
    buffer : int, default=65536
        Number of rows in the buffer.
    drop : sequence of str, optional
        Columns that are not inputs. Their cells are not checked.

    Returns
    -------
    CSVFile

    Raises
    ------
    TableError
        If the file cannot be read, or a cell is not valid; the message names the line.
    """
    check_sizes(chunk=chunk, buffer=buffer)
    if len(delimiter) != 1:
        raise ValueError(f"delimiter must be one character, but is {delimiter!r}")
    with open(path, "rb") as file:
        stamp, offset = stamp_of(path), len(BOM) if file.read(len(BOM)) == BOM else 0
        file.seek(offset)
        lines = records_of(file, path, delimiter)
        first = next((record for record in lines if not record.blank), None)
        if first is None:
            raise TableError(f"{path} is empty")
        cells = cells_of(first, path, delimiter)
        names, place = names_of(cells, header, path), place_of(target, cells, header, path)
        layout = Layout(path, delimiter, names, place, places_without(drop, names, place, path))
        begin = offset + first.offset + (len(first.data) if header else 0)
        return _counted(layout, lines if header else chain([first], lines), begin, chunk, buffer, stamp)


def _counted(layout: Layout, records: Iterator[Record], begin: int, chunk: int, buffer: int, stamp: Any) -> CSVFile:
    """Return the source, after one pass that counts and checks all rows."""
    offsets, lines, n, width, whole = [begin], [], 0, 1, True
    pieces = _pieces(records, chunk)
    while some := list(islice(pieces, _together(chunk, buffer))):
        y = layout.parse(some)[1]
        n, width, whole = n + len(y), max(width, y.dtype.itemsize // 4), whole and all_integers(y)
        for piece in some:
            lines.append(piece.line)
            offsets.append(offsets[-1] + len(piece.data))
    if not n:
        raise TableError(f"{layout.path} has a header but no rows")
    kind = np.dtype(np.int64) if whole else np.dtype(f"U{width}")
    return CSVFile(layout, n, layout.n_inputs, chunk, buffer, kind, np.array(offsets), np.array(lines), stamp)


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
    """Return the number of chunks that are parsed at once, since a call of pandas has a large overhead."""
    return max(1, buffer // (READ_PARTS * chunk))


def all_integers(labels: np.ndarray) -> bool:
    """Return whether integers represent these texts exactly, which is not so for "01"."""
    try:
        return bool(np.all(labels.astype(np.int64).astype(str) == labels))
    except (ValueError, OverflowError):
        return False


@dataclass(frozen=True, eq=False)
class CSVFile(Stream):
    """A CSV file whose chunks are read in random order; use `csv_file`."""

    layout: Layout
    n_rows: int
    n_columns: int
    chunk: int
    buffer: int
    labels: np.dtype
    offsets: np.ndarray  # (P + 1,) number of bytes before each chunk, and at the end
    lines: np.ndarray  # (P,) number of the first line of each chunk
    stamp: tuple[int, int]  # of the file when its rows were counted

    remedy: ClassVar = "Shuffle the lines once, or use smaller chunks or a larger buffer: csv_file(…, chunk=…, buffer=…)"

    @property
    def path(self) -> Any:
        return self.layout.path

    @property
    def names(self) -> Sequence[str]:
        """Names of the columns, with that of the labels."""
        return self.layout.names

    @property
    def has_text_labels(self) -> bool:
        """Whether labels are read as text because some are not whole numbers."""
        return self.labels.kind == "U"

    def pieces(self, rng: np.random.Generator) -> Iterator[Batch]:
        order = spread_order(len(self.lines), self.buffer // self.chunk, rng)
        step = _together(self.chunk, self.buffer)
        with open(self.path, "rb") as file:
            if stamp_of(self.path) != self.stamp:
                raise TableError(f"{self.path} has changed since its rows were counted; call csv_file again")
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
