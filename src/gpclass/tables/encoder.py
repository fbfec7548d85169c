"""`TableEncoder`: data frames as arrays."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .columns import Column, UnseenLevelWarning, as_booleans, as_numbers, learned, one_hot
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

    def fit(self, X: Any, y: Any = None) -> TableEncoder:
        """Learn names, kinds, levels and medians of the columns of a data frame X; y is ignored."""
        if self.impute not in (None, "median", "indicator"):
            raise ValueError(f"impute must be None, 'median' or 'indicator'; got {self.impute!r}")
        frame = self._inputs(_frame(X))
        if not len(frame):
            raise TableError("the table has no rows")
        self.row_names_ = row_names(frame)
        self._refuse_empty(frame, list(frame.columns))
        self.columns_ = tuple(learned(frame[name], self.impute == "indicator") for name in frame.columns)
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

    def _refuse_empty(self, frame: pd.DataFrame, names: list[str]) -> None:
        empty = frame[names].isna().to_numpy()
        if names and empty.all(axis=0).any() and not hasattr(self, "columns_"):
            raise TableError(f"column {names[int(np.argmax(empty.all(axis=0)))]!r} is empty in every row; leave it out")
        if self.impute is None and empty.any():
            row, column = (int(i[0]) for i in np.nonzero(empty))
            columns = [name for name, some in zip(names, empty.any(axis=0), strict=True) if some]
            raise TableError(
                f"row {frame.index[row]}, column {names[column]!r} is empty or NA{and_more(empty)}"
                f"{f' in columns {listed(columns)}' if len(columns) > 1 else ''}; fill the cells, remove the rows, or use "
                "medians instead (--impute median; TableEncoder(impute='median'); GPClassifier(missing='indicator'))"
            )

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
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise TableError(f"there is more than one column called {listed(twice)}")
    return X.set_axis(names, axis=1)


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
