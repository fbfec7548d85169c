"""Folders and patterns of table files as partitions, which the processes that keep them read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from .collections import Parts

LARGE = 1 << 28  # bytes of a Parquet file, before compression, above which each row group is a partition
INDEX = "__index_level_"  # names of columns in which pandas stores an index


def file_parts(
    pattern: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], target: str, drop: Sequence[str] = ()
) -> Parts:
    """Return a folder or a pattern of CSV or Parquet files as partitions. Only headers are read.

    A partition is a file, or a row group of a Parquet file that is large. All processes must be able to read the files under
    the same names.

    Parameters
    ----------
    pattern : str, path-like, or iterable of them
        A folder, a pattern such as "flights/*.parquet", or a list of files; see `gpclass.learning.files_of`.
    target : str
        Column of labels.
    drop : sequence of str, optional
        Columns that are not inputs.

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
        own, groups, types = _parquet_header(path) if parquet else _csv_header(path)
        if not columns:
            columns = _inputs(own, target, list(drop), path)
            meta = types if types is None else types[columns]
        check_columns(own, str(path), [*columns, target, *drop], str(paths[0]))
        if meta is not None and not types[columns].dtypes.equals(meta.dtypes):
            meta = None  # types differ between files, and are found when they are read
        for group in groups:
            pieces.append(_piece(path, group, columns, target, parquet))
            names.append(str(path) if group is None else f"{path}, row group {group[0]}")
    return Parts(pieces, names, columns, True, meta)


def _inputs(names: list[str], target: str, drop: list[str], path: Path) -> list[str]:
    from ..tables import TableError

    for name in (target, *drop):
        if name not in names:
            raise TableError(f"{path} has no column {name!r}; its columns are {', '.join(names)}")
    found = [name for name in names if name != target and name not in drop]
    if not found:
        raise TableError(f"{path} has no input columns besides the labels {target!r}")
    return found


def _csv_header(path: Path) -> tuple[list[str], list[Any], Any]:
    from ..tables import csv_columns

    return csv_columns(path), [None], None


def _parquet_header(path: Path) -> tuple[list[str], list[Any], Any]:
    """Return names, row groups to read at a time with their first rows, and a frame without rows."""
    with _opened(path) as file:
        metadata, schema = file.metadata, file.schema_arrow
        types = schema.empty_table().to_pandas(ignore_metadata=True)
        sizes = [metadata.row_group(g) for g in range(metadata.num_row_groups)]
    groups: list[Any] = [None]
    if sum(size.total_byte_size for size in sizes) > LARGE:
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


def _piece(path: Path, group: Any, columns: list[str], target: str, parquet: bool) -> Any:
    from dask.base import tokenize
    from dask.delayed import delayed

    status = os.stat(path)
    given = (str(path), group, tuple(columns), target, parquet)
    key = f"gpclass-read-{tokenize(given, status.st_size, status.st_mtime_ns)}"
    return delayed(read_rows, pure=True, traverse=False)(*given, dask_key_name=key)


def read_rows(path: str, group: Any, columns: Sequence[str], target: str, parquet: bool) -> tuple[Any, Any, None]:
    """Return the inputs and labels of a file, or of a row group. The index of the inputs has the numbers of rows from 1."""
    import pandas as pd

    from ..tables import TableError, checked_labels, read_table

    if parquet:
        wanted = [*columns, target]
        with _opened(path) as file:
            rows = file.read(columns=wanted) if group is None else file.read_row_group(group[0], columns=wanted)
        frame = rows.to_pandas(ignore_metadata=True)
        first = 1 if group is None else group[1] + 1
        frame = frame.set_axis(pd.RangeIndex(first, first + len(frame)), axis=0)
    else:
        frame = read_table(path, target=target)
    try:
        y = checked_labels(frame[target], target) if len(frame) else frame[target].to_numpy()
    except TableError as error:
        raise TableError(f"{path}: {error}") from error
    return frame[list(columns)], y, None
