"""`TableEncoder`: data frames as arrays."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .columns import Column, UnseenLevelWarning, as_booleans, as_numbers, one_hot
from .summaries import Part, Scan, Total, alone, learned_columns, scanned
from .words import TableError, and_more, listed, meant


class TableEncoder(TransformerMixin, BaseEstimator):
    """Encode data frames as arrays: numbers, 0 and 1 for booleans, one column of 0 and 1 per level of text columns.

    A level that the training data did not have is encoded as zeros, with an `UnseenLevelWarning`. Tables to predict may have
    additional columns, and columns in another order.

    Parameters
    ----------
    impute : {None, "median", "indicator"}, default=None
        None raises an error for empty cells. "median" fills them with the median of the column in the training data
        (booleans and text: the most frequent value). "indicator" does so too, and adds a column of 0 and 1, "NAME missing",
        for each column with empty cells in the training data; empty text then has no level. A column that is empty only
        in later data is filled with an `UnseenLevelWarning`.
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

    @staticmethod
    def of_numbers(names: Sequence[str]) -> TableEncoder:
        """Return a fitted encoder for columns of numbers, which it passes on as they are."""
        encoder = TableEncoder()
        encoder.columns_ = tuple(Column(name, "number") for name in names)
        encoder.feature_names_in_ = np.array(names, dtype=object)
        encoder.n_features_in_ = len(encoder.columns_)
        return encoder

    def fit(self, X: Any, y: Any = None) -> TableEncoder:
        """Learn names, kinds, levels and medians of the columns of a data frame X; y is ignored."""
        frame = self._inputs(_frame(X))
        self.fit_parts(alone(Part(frame)))
        self.row_names_ = row_names(frame)
        return self

    def fit_parts(self, total: Total) -> TableEncoder:
        """Learn names, kinds, levels and medians of the columns of a table that is divided into parts.

        The result is the same as that of `fit` for the whole table, except that `row_names_` is not set.

        Parameters
        ----------
        total : callable
            `total(function, *arguments)` returns the sum of `function(part, *arguments)` over all parts, in their order. A
            part is a `gpclass.tables.Part`: a data frame without target and id, and a name for messages.

        Returns
        -------
        TableEncoder
            The fitted encoder itself.
        """
        if self.impute not in (None, "median", "indicator"):
            raise ValueError(f"impute must be None, 'median' or 'indicator'; got {self.impute!r}")
        scan: Scan = total(scanned)
        _refuse_twice(scan.names)
        if not scan.n_rows:
            raise TableError("the table has no rows")
        if np.any(whole := scan.empty == scan.n_rows):
            raise TableError(f"column {scan.names[int(np.argmax(whole))]!r} is empty in every row; leave it out")
        if self.impute is None and scan.first_empty is not None:
            raise _empty_cell(scan.first_empty[0], scan.names[scan.first_empty[1]], scan.empty, scan.names)
        self.columns_ = learned_columns(total, scan, self.impute == "indicator")
        self.feature_names_in_ = np.array(scan.names, dtype=object)
        self.n_features_in_ = len(self.columns_)
        self.__dict__.pop("row_names_", None)  # of an earlier fit
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return the encoded rows (n, D) of a data frame X."""
        check_is_fitted(self)
        frame = self._in_order(self._named(_frame(X)))
        self.refuse_empty(frame)
        return np.concatenate([self._encoded(frame[c.name], c) for c in self.columns_], axis=1)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the encoded columns, such as "age" and "colour=red"."""
        check_is_fitted(self)
        return np.array([name for c in self.columns_ for name in c.names], dtype=object)

    def parts(self) -> list[np.ndarray]:
        """Return the numbers of the encoded columns of each input column."""
        check_is_fitted(self)
        ends = np.cumsum([len(c.names) for c in self.columns_])
        return np.split(np.arange(ends[-1]), ends[:-1])

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
                f"the table lacks {'columns' if len(missing) > 1 else 'column'} {listed(missing)} of the training data; "
                f"it has {listed(frame.columns)}"
            )
        return frame[wanted]

    def refuse_empty(self, frame: pd.DataFrame) -> None:
        """Raise a TableError if cells are empty and `impute` is None."""
        empty = frame.isna().to_numpy()
        if self.impute is None and empty.any():
            row, column = (int(i[0]) for i in np.nonzero(empty))
            names = [str(name) for name in frame.columns]
            raise _empty_cell(str(frame.index[row]), names[column], empty.sum(axis=0), names)

    def _encoded(self, values: pd.Series, column: Column) -> np.ndarray:
        empty = values.isna().to_numpy()
        if self.impute == "indicator" and empty.any() and not column.indicator:
            warnings.warn(
                f"column {column.name!r} is empty in {int(empty.sum())} of {len(values)} rows, but in none of the training "
                f"data; {column.fill!r} is used",
                UnseenLevelWarning,
                stacklevel=4,
            )
        if column.kind == "category":
            encoded = one_hot(values, column)
            if column.indicator:
                encoded[empty] = 0.0
        else:
            encoded = self._numbers(values, column, empty)[:, None]
        return np.column_stack([encoded, empty]) if column.indicator else encoded

    def _numbers(self, values: pd.Series, column: Column, empty: np.ndarray) -> np.ndarray:
        numbers = np.full(len(values), np.nan if column.fill is None else float(column.fill))
        if not empty.all():
            read = as_booleans if column.kind == "boolean" else as_numbers
            numbers[~empty] = read(values[~empty], column.name)
        return numbers


def row_names(frame: pd.DataFrame) -> np.ndarray:
    """Return the index (n,) of a frame as whole numbers or text."""
    if types.is_integer_dtype(frame.index.dtype):
        return np.asarray(frame.index, dtype=np.int64)
    return np.array([str(name) for name in frame.index], dtype=str)


def _frame(X: Any) -> pd.DataFrame:
    if not isinstance(X, pd.DataFrame):
        raise TypeError(f"X must be a pandas DataFrame with the columns of the training data; got {type(X).__name__}")
    names = [str(name) for name in X.columns]
    _refuse_twice(names)
    return X.set_axis(names, axis=1)


def _refuse_twice(names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise TableError(f"there is more than one column called {listed(twice)}")


def _empty_cell(row: str, column: str, counts: np.ndarray, names: Sequence[str]) -> TableError:
    """Return the error about an empty cell, given the number of empty cells of each column."""
    some = [name for name, count in zip(names, counts, strict=True) if count]
    return TableError(
        f"row {row}, column {column!r} is empty or NA{and_more(counts)}"
        f"{f' in columns {listed(some)}' if len(some) > 1 else ''}; fill the cells, remove the rows, or use "
        "medians instead (--impute median; TableEncoder(impute='median'); GPClassifier(missing='indicator'))"
    )


def with_ids(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return the frame without its id column `name`; its text is added to the index: "7 (patient 12)"."""
    if name not in frame.columns:
        raise TableError(f"there is no id column {name!r}{meant(name, frame.columns)}; there are {listed(frame.columns)}")
    ids = frame[name]
    named = [
        str(row) if empty else f"{row} ({value})"
        for row, value, empty in zip(frame.index, ids.tolist(), ids.isna(), strict=True)
    ]
    return frame.drop(columns=name).set_axis(pd.Index(named, dtype=object), axis=0)
