"""Folders and patterns of table files as partitions. The process that holds a partition reads it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..learning.streams.labels import LabelCounts
from .partitions import Parts, summed

LARGE_FILE = 1 << 28  # bytes of a Parquet file, before compression, above which each row group is a partition
INDEX = "__index_level_"  # names of columns in which pandas stores an index


class FilePiece(NamedTuple):
    """A table file, or a row group of one."""

    path: str
    group: tuple[int, int] | None  # number of the row group and of its first row in the file, from 0; None for all rows
    parquet: bool

    @property
    def name(self) -> str:
        """Name for messages."""
        return self.path if self.group is None else f"{self.path}, row group {self.group[0]}"


def file_pieces(pattern: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[FilePiece]:
    """Return the pieces in which a folder or a pattern of files is read. Only headers are read; see `file_parts`."""
    from ..learning.files.table_files import files_of, kind_of_file

    pieces = []
    for path in files_of(pattern):
        parquet = kind_of_file(path) == "parquet"
        groups = _parquet_header(path)[1] if parquet else [None]
        pieces += [FilePiece(str(path), group, parquet) for group in groups]
    return pieces


def file_parts(
    pattern: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    target: str,
    drop: Sequence[str] = (),
    reading: Any = None,
) -> Parts:
    """Return a folder or a pattern of CSV or Parquet files as partitions. Only headers are read.

    A partition is a file, or a row group of a Parquet file that is large. All processes must be able to read the files under
    the same names.

    Parameters
    ----------
    pattern : str, path-like, or iterable of them
        A folder, a pattern such as `"flights/*.parquet"`, or a list of files; see `gpclass.learning.files_of`.
    target : str
        Column of labels.
    drop : sequence of str, optional
        Columns that are not inputs.
    reading : gpclass.tables.Reading, optional
        How text files are read.

    Returns
    -------
    Parts
        Their names are those of the files, with row groups counted from 0.

    Raises
    ------
    TableError
        If there are no files, or their columns differ. The message names the file and the column.
    """
    from ..learning.files.table_files import files_of, kind_of_file
    from ..tables import check_columns

    pieces: list[Any] = []
    names: list[str] = []
    columns: list[str] = []
    meta: Any = None
    paths = files_of(pattern)
    for path in paths:
        parquet = kind_of_file(path) == "parquet"
        own, groups, types = _parquet_header(path) if parquet else _csv_header(path, reading)
        if not columns:
            columns = _inputs(own, target, list(drop), path)
            meta = types if types is None else types[columns]
        check_columns(own, str(path), [*columns, target, *drop], str(paths[0]))
        if meta is not None and not types[columns].dtypes.equals(meta.dtypes):
            meta = None  # types differ between files, and are found when they are read
        for group in groups:
            piece = FilePiece(str(path), group, parquet)
            pieces.append(_task(piece, columns, target, reading))
            names.append(piece.name)
    return Parts(pieces, names, columns, True, meta, of_files=True)


def _inputs(names: list[str], target: str, drop: list[str], path: Path) -> list[str]:
    from ..tables import TableError

    for name in (target, *drop):
        if name not in names:
            raise TableError(f"{path} has no column {name!r}; its columns are {', '.join(names)}")
    found = [name for name in names if name != target and name not in drop]
    if not found:
        raise TableError(f"{path} has no input columns besides the labels {target!r}")
    return found


def _csv_header(path: Path, reading: Any) -> tuple[list[str], list[Any], Any]:
    from ..tables import USUAL, csv_columns

    return csv_columns(path, reading or USUAL), [None], None


def _parquet_header(path: Path) -> tuple[list[str], list[Any], Any]:
    """Return names, row groups to read at a time with their first rows, and a frame without rows."""
    with _opened(path) as file:
        metadata, schema = file.metadata, file.schema_arrow
        types = schema.empty_table().to_pandas(ignore_metadata=True)
        sizes = [metadata.row_group(g) for g in range(metadata.num_row_groups)]
    groups: list[Any] = [None]
    if sum(size.total_byte_size for size in sizes) > LARGE_FILE:
        firsts = [sum(size.num_rows for size in sizes[:g]) for g in range(len(sizes))]
        groups = list(enumerate(firsts))
    return [name for name in schema.names if not name.startswith(INDEX)], groups, types


def _opened(path: Any) -> Any:
    from ..tables import TableError

    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise ImportError("reading Parquet needs pyarrow: pip install gpclass[large]") from error
    try:
        return parquet.ParquetFile(path)
    except ValueError as error:
        raise TableError(f"{path} cannot be read as a Parquet file: {' '.join(str(error).split())}") from error


def _task(piece: FilePiece, columns: list[str], target: str, reading: Any) -> Any:
    from dask.base import tokenize
    from dask.delayed import delayed

    status = os.stat(piece.path)
    given = (piece, tuple(columns), target, reading)
    key = f"gpclass-read-{tokenize(given, status.st_size, status.st_mtime_ns)}"
    return delayed(read_rows, pure=True, traverse=False)(*given, dask_key_name=key)


def read_rows(piece: FilePiece, columns: Sequence[str], target: str, reading: Any = None) -> tuple[Any, Any, None]:
    """Return the inputs and labels of a piece. The index of the inputs has the numbers of rows in the file from 1."""
    from ..tables import TableError, checked_labels

    frame = read_piece(piece, columns=[*columns, target], text=() if piece.parquet else [target], reading=reading)
    try:
        y = checked_labels(frame[target], target) if len(frame) else frame[target].to_numpy()
    except TableError as error:
        raise error.about(piece.path) from error
    return frame[list(columns)], y if piece.parquet else _typed(y), None


def _typed(y: np.ndarray) -> np.ndarray:
    """Return labels of a text file as integers or booleans if all are written so, in the same way in all files.

    "01" stays text: in another file, "1" could be another class.
    """
    from ..learning.files.csv_stream import all_integers

    if set(np.unique(y).tolist()) <= {"True", "False"}:
        return y == "True"
    return y.astype(np.int64) if all_integers(y) else y


def read_piece(
    piece: FilePiece,
    columns: Sequence[str] | None = None,
    text: Iterable[str] = (),
    target: str | None = None,
    reading: Any = None,
) -> Any:
    """Return the rows of a piece as a data frame. Its index has the numbers of rows in the file from 1.

    Parameters
    ----------
    piece : FilePiece
        The piece.
    columns : sequence of str, optional
        Columns that are needed. Others are not read from a Parquet file. By default all.
    text : iterable of str, default=()
        Columns that are read as text; see `gpclass.tables.read_table`.
    target : str, optional
        Column of labels; see `gpclass.tables.read_table`.
    reading : gpclass.tables.Reading, optional
        How text files are read.

    Returns
    -------
    DataFrame
    """
    import pandas as pd

    from ..tables import USUAL, read_table

    if not piece.parquet:
        return read_table(piece.path, text=text, target=target, reading=reading or USUAL)
    with _opened(piece.path) as file:
        names = [name for name in file.schema_arrow.names if not name.startswith(INDEX)]
        wanted = names if columns is None else list(columns)
        rows = file.read(wanted) if piece.group is None else file.read_row_group(piece.group[0], wanted)
    frame = rows.to_pandas(ignore_metadata=True)
    first = 1 if piece.group is None else piece.group[1] + 1
    return frame.set_axis(pd.RangeIndex(first, first + len(frame)), axis=0)


# labels -------------------------------------------------------------------------------------------------------------------


def label_counts(parts: Parts) -> dict[Any, int]:
    """Return the number of rows of each label, in sorted order. The parts are computed once, by the current Dask client.

    Raises
    ------
    ValueError
        If labels are text in some parts and numbers in others.
    """
    found: LabelCounts = summed(parts, None, _labels_of)
    return found.checked()


def _labels_of(raw: Any, name: str) -> LabelCounts:
    return LabelCounts.of(*np.unique(np.asarray(raw[1]), return_counts=True), name)
