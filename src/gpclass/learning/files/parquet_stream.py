"""Parquet files as streams, read from several places at once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, ClassVar, NamedTuple, NoReturn

import numpy as np

from ...tables import TableError
from ..streams import BUFFER, Batch, Stream, check_sizes, spread_order
from .checks import place_of, places_without, stamp_of

PARQUET_CHUNK = 1 << 9  # rows read from a Parquet file at a time
LANES = 64  # maximum number of places from which a Parquet file is read at once
GOLDEN = (5**0.5 - 1) / 2
PAGE_BYTES = 1 << 21  # bytes that pyarrow holds for one column at one place of a file
HELD_BYTES = 1 << 28  # limit for all columns and places together


def parquet_file(
    path: str | os.PathLike[str],
    target: str | int,
    chunk: int = PARQUET_CHUNK,
    buffer: int = BUFFER,
    drop: Sequence[str] = (),
) -> ParquetFile:
    """Open a Parquet file of numbers and labels as a source of rows. It needs pyarrow.

    Training reads from several places of the file at once and mixes the rows in a buffer. In memory are the buffer and up to
    256 MB of pages that pyarrow holds. If the file is sorted by label and has many large row groups, training warns and
    gives advice.

    Parameters
    ----------
    path : str or path-like
        The file.
    target : str or int
        Name or index of the column of labels.
    chunk : int, default=512
        Number of consecutive rows that are read together.
    buffer : int, default=65536
        Number of rows in the buffer.
    drop : sequence of str, optional
        Columns that are not inputs. Their cells are not checked.

    Returns
    -------
    ParquetFile

    Raises
    ------
    ImportError
        If pyarrow is not installed.
    TableError
        If the file cannot be read, or a column has an unsuitable type.
    """
    return shared_parquet_file(path, target, chunk, buffer, drop)


def shared_parquet_file(
    path: Any,
    target: str | int,
    chunk: int = PARQUET_CHUNK,
    buffer: int = BUFFER,
    drop: Sequence[str] = (),
    sharing: int = 1,
) -> ParquetFile:
    """Return the source of `parquet_file`. `sharing` such files are read at the same time and share the memory for pages."""
    check_sizes(chunk=chunk, buffer=buffer)
    stamp = stamp_of(path)
    with _opened(path) as file:
        names, metadata = [str(name) for name in file.schema_arrow.names], file.metadata
        if not metadata.num_rows:
            raise TableError(f"{path} has no rows")
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise TableError(f"{path} has more than one column called {', '.join(map(repr, twice))}; names must be unique")
        place = place_of(target, names, True, path)
        out = places_without(drop, names, place, path)
        for j, field in enumerate(file.schema_arrow):
            if j not in out:
                _refuse_type(field, j == place, path)
        label, names = names[place], [name for j, name in enumerate(names) if j not in out]
    sizes = metadata.num_rows, len(names) - 1, chunk, buffer
    return ParquetFile(path, tuple(names), names.index(label), *sizes, *_lanes(metadata, chunk, sharing), stamp)


def _opened(path: Any) -> Any:
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise ImportError("reading Parquet needs pyarrow: pip install gpclass[large]") from error
    try:
        # read pages as they are needed, instead of whole row groups in advance
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
    first: int  # first row, within the group
    last: int  # row after the last, within the group
    start: int  # row of the file at which the group begins

    @property
    def rows(self) -> int:
        return self.last - self.first


def _lanes(metadata: Any, chunk: int, sharing: int) -> tuple[int, list[Lane]]:
    """Return the number of lanes to read at once, and all lanes.

    A lane is a row group, or a part of one if all lanes can still be read at once.
    """
    groups = [metadata.row_group(g) for g in range(metadata.num_row_groups)]
    held = min(max(group.total_byte_size for group in groups), PAGE_BYTES * metadata.num_columns)
    count = int(np.clip(HELD_BYTES // max(1, held * sharing), 1, -(-LANES // sharing)))
    lanes, start = [], 0
    for g, group in enumerate(groups):
        share = -(-group.num_rows // max(1, count // len(groups)))
        length = max(1, -(-share // chunk) * chunk)
        lanes += [Lane(g, i, min(i + length, group.num_rows), start) for i in range(0, group.num_rows, length)]
        start += group.num_rows
    rounds = -(-len(lanes) // count)
    return -(-len(lanes) // rounds), lanes  # rounds of equal size


@dataclass(frozen=True, eq=False)
class ParquetFile(Stream):
    """A Parquet file that is read from several places at once; use `parquet_file`."""

    path: Any
    names: tuple[str, ...]  # of the columns, with that of the labels
    place: int  # index of the column of labels
    n_rows: int
    n_columns: int
    chunk: int
    buffer: int
    at_once: int  # number of lanes that are read at once
    lanes: list[Lane]
    stamp: tuple[int, int]  # of the file when it was first opened

    has_text_labels: ClassVar = False  # a Parquet file declares the type of its labels

    remedy: ClassVar = (
        "Shuffle the rows once, or write the file with smaller row groups (row_group_size=… in pyarrow and pandas), or use "
        "a larger buffer: parquet_file(…, buffer=…)"
    )

    def pieces(self, rng: np.random.Generator) -> Iterator[Batch]:
        waiting = spread_order(len(self.lanes), self.at_once, rng).tolist()
        # multiples of the golden ratio are evenly distributed in any part of the file
        phases = (rng.random() + GOLDEN * np.arange(len(self.lanes))) % 1
        if stamp_of(self.path) != self.stamp:
            raise TableError(f"{self.path} has changed since it was first opened; call parquet_file again")
        with _opened(self.path) as file:
            # the lane with the smallest fraction read is next, so that lanes that are open together end together
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
                f"row {start + i + 1} of {self.path}: the label, column {self.names[self.place]!r}, is {y[i]:g}; "
                "labels must be text or whole numbers"
            )
        return y.astype(np.int64)

    def _refuse(self, name: str, row: int) -> NoReturn:
        what = "the label, " if name == self.names[self.place] else ""
        raise TableError(
            f"row {row + 1} of {self.path}: {what}column {name!r} is empty, NaN or infinite; fill the cell or leave the row "
            "out"
        )
