"""Folders and patterns of CSV or Parquet files as one stream, read from several files at once."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ...tables import TableError, check_columns
from ..streams import BUFFER, Batch, Stream, check_sizes, spread_order
from ..streams.labels import LABEL_KINDS
from .csv_stream import CSVFile, csv_file
from .parquet_stream import ParquetFile, shared_parquet_file

FILES_AT_ONCE = 16  # files that are read at once
FILE_KINDS = {".csv": "csv", ".tsv": "csv", ".tab": "csv", ".parquet": "parquet"}
DELIMITERS = {".tsv": "\t", ".tab": "\t"}


def files_of(pattern: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Return the table files of a folder or a pattern, sorted by name.

    Parameters
    ----------
    pattern : str, path-like, or iterable of them
        A folder, whose files with the extensions of CSV (.csv, .tsv, .tab) or Parquet (.parquet) are taken; a pattern
        such as "flights/2024-*.parquet", with ** for folders of any depth; one file; or a list of files. Names that begin
        with a dot or an underscore are left out of folders and patterns, as other programs do.

    Returns
    -------
    list of Path

    Raises
    ------
    TableError
        If there are no such files, or both CSV and Parquet files.
    """
    if not isinstance(pattern, (str, os.PathLike)):
        found = sorted({Path(path) for path in pattern})
    elif Path(pattern).is_dir():
        found = [path for path in sorted(Path(pattern).iterdir()) if path.suffix.lower() in FILE_KINDS and not _hidden(path)]
        if not found:
            raise TableError(f"the folder {pattern} has no files with the extensions {', '.join(FILE_KINDS)}")
    elif Path(pattern).is_file():
        found = [Path(pattern)]
    else:
        matching = sorted(Path(path) for path in glob.glob(os.fspath(pattern), recursive=True))
        found = [path for path in matching if path.is_file() and not _hidden(path)]
    if not found:
        raise TableError(f"there are no files {pattern}")
    kinds = {kind_of_file(path): path for path in found}
    if len(kinds) > 1:
        raise TableError(f"{kinds['csv']} and {kinds['parquet']} are of different types; use files of one type")
    return found


def _hidden(path: Path) -> bool:
    return path.name.startswith((".", "_"))


def kind_of_file(path: Path) -> str:
    """Return "csv" or "parquet", by the extension of a file."""
    if path.suffix.lower() not in FILE_KINDS:
        raise TableError(f"{path}: files of tables have the extensions {', '.join(FILE_KINDS)}")
    return FILE_KINDS[path.suffix.lower()]


def delimiter_of(path: Path) -> str:
    """Return the character between cells, by the extension of a file."""
    return DELIMITERS.get(path.suffix.lower(), ",")


def table_files(
    pattern: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    target: str | int,
    chunk: int | None = None,
    header: bool = True,
    delimiter: str | None = None,
    buffer: int = BUFFER,
    drop: Sequence[str] = (),
) -> TableFiles:
    """Open a folder or a pattern of CSV or Parquet files of numbers and labels as one source of rows.

    Rows are numbered over the files in the order of their names. Training reads from several files at once and mixes the
    rows in a buffer, so files may be sorted by label, or have one label each.

    Parameters
    ----------
    pattern : str, path-like, or iterable of them
        A folder, a pattern such as `"flights/*.parquet"`, or a list of files; see `files_of`.
    target : str or int
        Name or index of the column of labels.
    chunk : int, optional
        Number of consecutive rows that are read together. The default is that of `csv_file` or `parquet_file`.
    header : bool, default=True
        Whether the first line of CSV files holds the names of the columns.
    delimiter : str, optional
        The character between cells of CSV files. The default is a comma, and a tab for .tsv and .tab files.
    buffer : int, default=65536
        Number of rows in the buffer.
    drop : sequence of str, optional
        Columns that are not inputs. Their cells are not checked.

    Returns
    -------
    TableFiles

    Raises
    ------
    TableError
        If there are no files, a file cannot be read, or its columns are not those of the first file. The message names the
        file.
    """
    check_sizes(buffer=buffer)
    paths = files_of(pattern)
    options: dict[str, Any] = {"drop": tuple(drop), **({} if chunk is None else {"chunk": chunk})}
    sharing = min(FILES_AT_ONCE, len(paths))  # files that are read at once share the memory
    share = max(1, buffer // sharing)
    files: list[CSVFile | ParquetFile] = []
    for path in paths:
        if kind_of_file(path) == "parquet":
            files.append(shared_parquet_file(path, target, buffer=share, sharing=sharing, **options))
        else:
            own = delimiter_of(path) if delimiter is None else delimiter
            files.append(csv_file(path, target, header=header, delimiter=own, buffer=share, **options))
        if len(files) > 1:
            _check_same(files[-1], files[0], paths[len(files) - 1], paths[0])
    return TableFiles(tuple(files), sum(file.n_rows for file in files), files[0].n_columns, buffer)


def _check_same(file: Any, first: Any, path: Path, first_path: Path) -> None:
    """Raise a TableError unless a file has the columns of the first one, in their order."""
    names, others = list(file.names), list(first.names)
    if names == others:
        return
    check_columns(names, str(path), others, str(first_path))
    place = next(j for j, (one, other) in enumerate(zip(names, others, strict=True)) if one != other)
    raise TableError(
        f"column {place + 1} of {path} is {names[place]!r}, but that of {first_path} is {others[place]!r}; write the "
        "columns in the same order"
    )


@dataclass(frozen=True, eq=False)
class TableFiles(Stream):
    """Several files as one stream; use `table_files`."""

    files: tuple[CSVFile | ParquetFile, ...]
    n_rows: int
    n_columns: int
    buffer: int

    remedy: ClassVar = "Shuffle the rows once, or use a larger buffer: table_files(…, buffer=…)"

    def pieces(self, rng: np.random.Generator) -> Iterator[Batch]:
        starts = np.cumsum([0, *(file.n_rows for file in self.files)])
        text, kind = self._labels_are_text(), ""
        waiting = spread_order(len(self.files), FILES_AT_ONCE, rng).tolist()
        rounds = -(-len(waiting) // FILES_AT_ONCE)
        at_once = -(-len(waiting) // rounds)
        going: list[tuple[float, int, Iterator[Batch]]] = []
        now = 0.0
        while waiting or going:
            while waiting and len(going) < at_once:
                k = waiting.pop()
                heappush(going, (now, k, self.files[k].pieces(rng)))
            # the file with the smallest fraction read is next, so that files that are open together end together
            now, k, pieces = heappop(going)
            if (piece := next(pieces, None)) is not None:
                y = piece.y.astype(str) if text else piece.y
                found = LABEL_KINDS.get(y.dtype.kind, "objects")
                kind = kind or found
                if found != kind:
                    path = self.files[k].path
                    raise TableError(f"labels of {path} are {found}, but {kind} in other files; use one type")
                yield Batch(piece.X, y, piece.rows + starts[k])
                heappush(going, (now + len(piece.y) / self.files[k].n_rows, k, pieces))

    def _labels_are_text(self) -> bool:
        """Return whether labels of CSV files are text in some file, and so in all."""
        return any(file.has_text_labels for file in self.files)
