"""Tables with columns of different types: reading files, and encoding rows as numbers.

`read_table` reads CSV, TSV and Parquet files; `split_target` separates inputs and labels; `TableEncoder` is a scikit-learn
transformer from data frames to arrays: numbers are unchanged, booleans become 0 and 1, text becomes one column per level.
Nothing is guessed: unusable cells (dates, empty cells, text among numbers) raise an error that names the row, the column and
the remedy.

The name of a row is its entry in the index of the frame. `read_table` uses the line in the file, header not counted: the
first row after the header is 1. `with_ids` adds the text of an id column: "7 (patient 12)". Other frames keep their index,
so that `frame.loc` finds the row.

Text that a spreadsheet would run as a formula is written to CSV and TSV files with a leading apostrophe, which is removed
when the file is read: see `guarded`.
"""

from __future__ import annotations

import csv
import difflib
import gzip
import io
import os
import re
import warnings
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .files import replacing

SEPARATORS = {".csv": ",;\t", ".tsv": "\t", ".tab": "\t", ".txt": "\t,;"}  # candidates, the first is the default
LARGEST = 1e150  # larger numbers may have infinite squares
MANY_LEVELS = 50  # a text column with more levels, and more than half as many levels as rows, holds names, not categories
MANY_CLASSES = 50  # a target with more classes, and more than a quarter as many classes as rows, is not a label
# read all digits exactly; the default of later versions of pandas
EXACT: Any = {"float_precision": "round_trip"} if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1) else {}
DATE = re.compile(r"\s*(\d{4}-\d{1,2}-\d{1,2}([ T].*)?|\d{1,2}[./-]\d{1,2}[./-]\d{2,4}( .*)?|\d{1,2}:\d{2}(:\d{2}.*)?)\s*")
DECIMAL_COMMA = re.compile(r"\s*[-+]?\d+,\d+\s*")
FORMULA = re.compile(r"'*[=+\-@\t\r]")  # what spreadsheets run, also with leading apostrophes
PLAIN_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
BLANK_LINE = re.compile(r"[\r\n][ \t]*[\r\n](?<!\r\n)|^[ \t]*[\r\n]")


class TableError(ValueError):
    """A table or a table file cannot be used; the message says where and what to do."""


class UnseenLevelWarning(UserWarning):
    """A categorical column has a level that the training data did not have."""


# files ----------------------------------------------------------------------------------------------------------------


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
        raise TableError(f"{path} cannot be read: {_one_line(error)}") from error
    if not len(frame):
        raise TableError(f"{path} has a header but no rows")
    return frame


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
    frame = _guarded_frame(frame)
    # a carriage return ends a line, but some versions of Python do not quote it
    returns = any("\r" in cell for name in frame for cell in (name, *_text_cells(frame[name])))
    quoting: Any = csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL
    return frame.to_csv(index=False, sep=separator, quoting=quoting, lineterminator="\n")


def check_table_path(path: str | os.PathLike[str]) -> None:
    """Raise TableError if `write_table` does not support the extension of the file name."""
    if _kind(Path(path)) == ".parquet":
        _needs_pyarrow()


def guarded(text: str) -> str:
    """Return text as it is written to CSV: with a leading apostrophe if a spreadsheet could run it as a formula.

    Such text begins with = + - @, a tab or a carriage return and is not a plain number such as -1. Text with apostrophes
    before one of these characters gets one more, so that `unguarded` restores the original.
    """
    return f"'{text}" if FORMULA.match(text) and not PLAIN_NUMBER.fullmatch(text) else text


def unguarded(texts: Sequence[Any]) -> list[Any]:
    """Return the cells of a column without the apostrophes of `guarded`; cells that are not text are unchanged.

    If any text begins like a formula, `write_table` did not write the column, and it is returned unchanged.
    """
    if any(isinstance(text, str) and guarded(text) != text and not _is_guarded(text) for text in texts):
        return list(texts)
    return [text[1:] if isinstance(text, str) and _is_guarded(text) else text for text in texts]


def _is_guarded(text: str) -> bool:
    return text.startswith("'") and guarded(text[1:]) == text


def _guarded_frame(frame: pd.DataFrame) -> pd.DataFrame:
    names = [guarded(str(name)) for name in frame.columns]
    return _with_texts(frame, lambda cells: [guarded(c) if isinstance(c, str) else c for c in cells]).set_axis(names, axis=1)


def _with_texts(frame: pd.DataFrame, change: Any) -> pd.DataFrame:
    """Return the frame with `change` applied to the cells of each text column."""
    changed = {}
    for place, dtype in enumerate(frame.dtypes):
        if not _may_hold_text(dtype):
            continue
        cells = frame.iloc[:, place].astype(object).tolist()
        new = change(cells)
        if any(a is not b for a, b in zip(new, cells, strict=True)):
            kind = object if isinstance(dtype, pd.CategoricalDtype) else dtype
            changed[place] = pd.Series(new, index=frame.index, dtype=kind)
    if not changed:
        return frame
    columns = [changed.get(place, frame.iloc[:, place]) for place in range(frame.shape[1])]
    return pd.concat(columns, axis=1).set_axis(frame.columns, axis=1)


def _may_hold_text(dtype: Any) -> bool:
    times = types.is_datetime64_any_dtype(dtype) or types.is_timedelta64_dtype(dtype)
    return not (times or types.is_numeric_dtype(dtype))


def _text_cells(column: pd.Series) -> list[str]:
    return [cell for cell in column.tolist() if isinstance(cell, str)] if _may_hold_text(column.dtype) else []


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
    frame = _with_texts(frame, unguarded).set_axis(_numbered(content, separator, len(frame), path), axis=0)
    return _without_row_numbers(frame, path) if unnamed else frame


def _refuse_merged(labels: pd.Series, texts: pd.Series, path: Path) -> None:
    """Raise TableError if two different texts are the same label."""
    different = pd.DataFrame({"label": labels, "text": texts}).drop_duplicates()
    twice = different[different["label"].duplicated(keep=False)].sort_values(["label", "text"])["text"].tolist()
    if twice:
        raise TableError(
            f"{path}: labels {_cut(twice[0])} and {_cut(twice[1])} of the target {labels.name!r} are the same number. "
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


def with_ids(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return the frame without its id column `name`; its text is added to the index: "7 (patient 12)"."""
    if name not in frame.columns:
        raise TableError(f"there is no id column {name!r}{_meant(name, frame.columns)}; there are {_listed(frame.columns)}")
    ids = frame[name]
    named = [
        str(row) if empty else f"{row} ({value})"
        for row, value, empty in zip(frame.index, ids.tolist(), ids.isna(), strict=True)
    ]
    return frame.drop(columns=name).set_axis(pd.Index(named, dtype=object), axis=0)


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


# labels ---------------------------------------------------------------------------------------------------------------


def split_target(frame: pd.DataFrame, target: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the inputs and the labels of a table.

    Parameters
    ----------
    frame : DataFrame
        The table.
    target : str
        Column of labels: text, whole numbers or booleans.

    Returns
    -------
    DataFrame, ndarray of shape (n,)
        The other columns, and the labels.

    Raises
    ------
    TableError
        If there is no such column, or it cannot be used as labels.
    """
    if target not in frame.columns:
        raise TableError(f"there is no column {target!r}{_meant(target, frame.columns)}; there are {_listed(frame.columns)}")
    labels, rest = frame[target], frame.drop(columns=target)
    if not len(rest.columns):
        raise TableError(f"{target!r} is the only column; there are no inputs to predict it from")
    return rest, checked_labels(labels, target)


def checked_labels(labels: pd.Series, target: str) -> np.ndarray:
    """Return labels as an array of text, integers or booleans; raise TableError if they cannot be used."""
    empty = labels.isna().to_numpy()
    if empty.any():
        raise TableError(
            f"the target {target!r} is empty in row {labels.index[int(np.argmax(empty))]}{_and_more(empty)}; "
            "remove rows without a label"
        )
    y = _label_array(labels, target)
    n_classes = len(np.unique(y))
    if n_classes > MANY_CLASSES and n_classes > len(y) / 4:
        raise TableError(
            f"the target {target!r} has {n_classes} different values in {len(y)} rows, such as {_cut(y.tolist()[0])}; "
            "is it a label?"
        )
    return y


def _label_array(labels: pd.Series, target: str) -> np.ndarray:
    if types.is_bool_dtype(labels.dtype):
        return labels.to_numpy(dtype=bool)
    if types.is_numeric_dtype(labels.dtype):
        numbers = labels.to_numpy(dtype=float)
        odd = ~np.isfinite(numbers) | (numbers != np.round(numbers)) | (np.abs(numbers) > 2**53)
        if odd.any():
            first = int(np.argmax(odd))
            raise TableError(
                f"the target {target!r} has measurements, not labels: row {labels.index[first]} has {numbers[first]:g}. "
                "Labels are text, whole numbers or booleans; for measurements use GPRegressor in Python"
            )
        return numbers.astype(np.int64)
    values = labels.tolist()
    if types.is_datetime64_any_dtype(labels.dtype) or not all(isinstance(v, (str, bool, int)) for v in values):
        raise TableError(f"the target {target!r} has {type(values[0]).__name__} values; labels are text or whole numbers")
    return np.array([str(v) for v in values])


def labels_as_trained(y: np.ndarray, classes: np.ndarray, target: str) -> np.ndarray:
    """Return labels of another table as classes of a model; they are compared as text."""
    known = {str(label): label for label in classes.tolist()}
    strangers = sorted({str(label) for label in y.tolist()} - set(known))
    if strangers:
        raise TableError(f"the target {target!r} has labels {_listed(strangers)}, but the model knows {_listed(known)}")
    return np.array([known[str(label)] for label in y.tolist()], dtype=classes.dtype)


# inputs ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """Description of a column of the training data."""

    name: str
    kind: str  # "number", "boolean" or "category"
    levels: tuple[str, ...] = ()  # of a category, sorted
    fill: float | str | None = None  # for empty cells: the median, or the most frequent boolean or level
    median: float = 0.0  # of numbers and booleans

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return max(1, len(self.levels))


class TableEncoder(TransformerMixin, BaseEstimator):
    """Encode data frames as arrays: numbers, 0 and 1 for booleans, one column of 0 and 1 per level of text columns.

    A level that the training data did not have is encoded as zeros, with an `UnseenLevelWarning`. Tables to predict may have
    additional columns, and columns in another order.

    Parameters
    ----------
    impute : {None, "median"}, default=None
        None raises an error for empty cells. "median" fills them with the median of the column in the training data
        (booleans and text: the most frequent value).
    target : str, optional
        Column of labels. It is not an input.
    id : str, optional
        Column that identifies rows. It is not an input; its text is added to the names of the rows.

    Attributes
    ----------
    columns_ : tuple of Column
        Description of each input column.
    row_names_ : ndarray of shape (n,)
        The names of the training rows: the index of the frame, with the text of the id column if there is one.
    n_features_in_ : int
        Number of input columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the input columns.
    """

    def __init__(self, impute: str | None = None, target: str | None = None, id: str | None = None):
        self.impute = impute
        self.target = target
        self.id = id

    def fit(self, X: Any, y: Any = None) -> TableEncoder:
        """Learn names, kinds, levels and medians of the columns of a data frame X; y is ignored."""
        if self.impute not in (None, "median"):
            raise ValueError(f"impute must be None or 'median'; got {self.impute!r}")
        frame = self._inputs(_frame(X))
        if not len(frame):
            raise TableError("the table has no rows")
        self.row_names_ = row_names(frame)
        self._refuse_empty(frame, list(frame.columns))
        self.columns_ = tuple(_learned(frame[name]) for name in frame.columns)
        self.feature_names_in_ = np.array(list(frame.columns), dtype=object)
        self.n_features_in_ = len(self.columns_)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return the encoded rows (n, D) of a data frame X."""
        check_is_fitted(self)
        frame = self._in_order(self._named(_frame(X)))
        self._refuse_empty(frame, [c.name for c in self.columns_])
        return np.concatenate([self._encoded(frame[c.name], c) for c in self.columns_], axis=1)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the encoded columns, such as "age" and "colour=red"."""
        check_is_fitted(self)
        return np.array([f"{c.name}={v}" if v else c.name for c in self.columns_ for v in (c.levels or ("",))], dtype=object)

    @property
    def text_columns(self) -> list[str]:
        """Columns to read as text, even if they look like numbers."""
        return [c.name for c in self.columns_ if c.kind == "category"]

    def example(self) -> pd.DataFrame:
        """Return an example row in the format of the training data."""
        return pd.DataFrame({c.name: [c.levels[0] if c.levels else c.median] for c in self.columns_})

    def _named(self, frame: pd.DataFrame) -> pd.DataFrame:
        return with_ids(frame, self.id) if self.id is not None and self.id in frame.columns else frame

    def _inputs(self, frame: pd.DataFrame) -> pd.DataFrame:
        frame = self._named(frame)
        frame = frame.drop(columns=self.target) if self.target in frame.columns else frame
        if not len(frame.columns):
            raise TableError("the table has no input columns")
        return frame

    def _in_order(self, frame: pd.DataFrame) -> pd.DataFrame:
        wanted = [c.name for c in self.columns_]
        missing = [name for name in wanted if name not in frame.columns]
        if missing:
            raise TableError(
                f"the table lacks {'columns' if len(missing) > 1 else 'column'} {_listed(missing)} of the training data; "
                f"it has {_listed(frame.columns)}"
            )
        return frame[wanted]

    def _refuse_empty(self, frame: pd.DataFrame, names: list[str]) -> None:
        empty = frame[names].isna().to_numpy()
        if names and empty.all(axis=0).any() and not hasattr(self, "columns_"):
            raise TableError(f"column {names[int(np.argmax(empty.all(axis=0)))]!r} is empty in every row; leave it out")
        if self.impute is None and empty.any():
            row, column = (int(i[0]) for i in np.nonzero(empty))
            columns = [name for name, some in zip(names, empty.any(axis=0), strict=True) if some]
            raise TableError(
                f"row {frame.index[row]}, column {names[column]!r} is empty or NA{_and_more(empty)}"
                f"{f' in columns {_listed(columns)}' if len(columns) > 1 else ''}; fill the cells, remove the rows, or use "
                'medians instead (--impute median; TableEncoder(impute="median"))'
            )

    def _encoded(self, values: pd.Series, column: Column) -> np.ndarray:
        if column.kind == "category":
            return _one_hot(values, column)
        empty = values.isna().to_numpy()
        numbers = np.full(len(values), np.nan if column.fill is None else float(column.fill))
        if not empty.all():
            read = _booleans if column.kind == "boolean" else _numbers
            numbers[~empty] = read(values[~empty], column.name)
        return numbers[:, None]


def row_names(frame: pd.DataFrame) -> np.ndarray:
    """Return the index (n,) of a frame as whole numbers or text."""
    if types.is_integer_dtype(frame.index.dtype):
        return np.asarray(frame.index, dtype=np.int64)
    return np.array([str(name) for name in frame.index], dtype=str)


def _frame(X: Any) -> pd.DataFrame:
    if not isinstance(X, pd.DataFrame):
        raise TypeError(f"X must be a pandas DataFrame with the columns of the training data; got {type(X).__name__}")
    names = [str(name) for name in X.columns]
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise TableError(f"there is more than one column called {_listed(twice)}")
    return X.set_axis(names, axis=1)


def _learned(values: pd.Series) -> Column:
    """Return the description of a training column."""
    name = str(values.name)
    present = values.dropna()
    if types.is_datetime64_any_dtype(values.dtype) or types.is_timedelta64_dtype(values.dtype):
        raise TableError(_dates(name, present.iloc[0]))
    if types.is_bool_dtype(values.dtype) or (
        types.is_object_dtype(values.dtype) and all(isinstance(v, (bool, np.bool_)) for v in present)
    ):
        median = float(np.mean([bool(v) for v in present]) >= 0.5)
        return Column(name, "boolean", fill=median, median=median)
    if types.is_numeric_dtype(values.dtype) and not types.is_complex_dtype(values.dtype):
        median = float(np.median(_numbers(present, name)))
        return Column(name, "number", fill=median, median=median)
    texts = _texts(present, name)
    _refuse_what_is_no_category(texts, name, present.index)
    levels, counts = np.unique(texts, return_counts=True)
    return Column(name, "category", tuple(levels.tolist()), fill=str(levels[np.argmax(counts)]))


def _refuse_what_is_no_category(texts: list[str], name: str, rows: pd.Index) -> None:
    if np.mean([bool(DATE.fullmatch(text)) for text in texts]) > 0.9:
        raise TableError(_dates(name, texts[0]))
    if np.mean([bool(DECIMAL_COMMA.fullmatch(text)) for text in texts]) > 0.5:
        raise TableError(f"column {name!r} has numbers with decimal commas, such as {texts[0]!r}; write them with points")
    numbers = np.array([_is_number(text) for text in texts])
    if 0.5 < np.mean(numbers) < 1:
        odd = int(np.argmin(numbers))
        raise TableError(
            f"column {name!r} is mostly numbers, but row {rows[odd]} has {_cut(texts[odd])}; if that means a missing "
            "value, leave the cell empty"
        )
    distinct = len(set(texts))
    if distinct > MANY_LEVELS and distinct > len(texts) / 2:
        raise TableError(
            f"column {name!r} has {distinct} different texts in {len(texts)} rows, such as {_cut(texts[0])}: these are "
            f"names, not categories. Leave the column out (--drop {name}), or use it as row names (--id {name})"
        )


def _dates(name: str, first: Any) -> str:
    return (
        f"column {name!r} contains dates or times, such as {str(first)!r}; convert them to meaningful numbers "
        f"(days since a start, month, hour) or leave the column out (--drop {name})"
    )


def _numbers(values: pd.Series, name: str) -> np.ndarray:
    """Return the numbers in a column without empty cells."""
    if types.is_datetime64_any_dtype(values.dtype):
        raise TableError(_dates(name, values.iloc[0]))
    if types.is_complex_dtype(values.dtype):
        raise TableError(f"column {name!r} contains complex numbers")
    try:
        numbers = values.to_numpy(dtype=float)
    except (TypeError, ValueError, OverflowError):
        things = values.tolist()
        bad = next((i for i, thing in enumerate(things) if not _is_number(thing)), 0)
        raise TableError(
            f"column {name!r} had numbers in the training data, but row {values.index[bad]} has {_cut(things[bad])}"
        ) from None
    large = ~(np.abs(numbers) <= LARGEST)
    if large.any():
        first = int(np.argmax(large))
        raise TableError(f"row {values.index[first]}, column {name!r} is {numbers[first]:g}; the limit is ±{LARGEST:g}")
    return numbers


def _booleans(values: pd.Series, name: str) -> np.ndarray:
    known = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0, "1.0": 1.0, "0.0": 0.0}
    numbers = [known.get(str(value).strip().lower()) for value in values.tolist()]
    if None in numbers:
        bad = numbers.index(None)
        raise TableError(
            f"column {name!r} had true and false in the training data, but row {values.index[bad]} has "
            f"{_cut(values.tolist()[bad])}"
        )
    return np.array(numbers, dtype=float)


def _texts(values: pd.Series, name: str) -> list[str]:
    """Return levels as text; whole numbers have no decimal point."""
    texts = []
    for row, value in zip(values.index, values.tolist(), strict=True):
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, (str, bool, int, float, np.generic)):
            kind = type(value).__name__
            raise TableError(f"row {row}, column {name!r} is a {kind}; cells must be numbers, booleans or text")
        texts.append(str(value))
    return texts


def _one_hot(values: pd.Series, column: Column) -> np.ndarray:
    empty = values.isna().to_numpy()
    texts = np.full(len(values), column.fill or "", dtype=object)
    texts[~empty] = _texts(values[~empty], column.name)
    encoded = np.array(texts[:, None] == np.array(column.levels, dtype=object), dtype=float)
    strange = encoded.sum(axis=1) == 0
    if strange.any():
        levels = sorted(set(texts[strange].tolist()))
        warnings.warn(
            f"column {column.name!r} has {_listed(levels)} in {int(strange.sum())} of {len(values)} rows; training data had "
            f"only {_listed(column.levels)}. The new levels are encoded as zeros",
            UnseenLevelWarning,
            stacklevel=4,
        )
    return encoded


# words ----------------------------------------------------------------------------------------------------------------


def _is_number(text: Any) -> bool:
    try:
        float(text)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _listed(names: Iterable[Any]) -> str:
    names = [str(name) for name in names]
    shown = ", ".join(_cut(name) for name in names[:8])
    return f"{shown} and {len(names) - 8} more" if len(names) > 8 else shown or "none"


def _cut(thing: Any) -> str:
    text = repr(thing)
    return text if len(text) <= 60 else text[:57] + "..."


def _meant(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, [str(k) for k in known], n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _and_more(empty: np.ndarray) -> str:
    more = int(np.sum(empty)) - 1
    return f", and {more} more cell{'s' * (more > 1)}" if more else ""


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
