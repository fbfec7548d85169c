"""`TableEncoder`: data frames as arrays."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ..spelling import closest
from .columns import Column, UnseenLevelWarning, dated, kind_of, numbers_of, one_hot
from .conversions import Declared, declared_forms, on_numbers, written_forms
from .parts import Part, Total, alone
from .problems import Findings, Option, Problem, TableError
from .scans import Scan, scanned
from .summaries import learned_columns
from .suspects import has_decimal_commas
from .words import and_more, listed, meant

MISSING_ADVICE = "--impute median; TableEncoder(impute='median'); GPClassifier(missing='indicator')"


class TableEncoder(TransformerMixin, BaseEstimator):
    """Encode data frames as arrays: numbers, 0 and 1 for booleans, one column of 0 and 1 per level of text columns.

    If columns cannot be used, one `TableError` lists all of them with remedies (`TableError.problems`). A level that the
    training data did not have is encoded as zeros, with an `UnseenLevelWarning`. Tables to predict may have additional
    columns, and columns in another order.

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
    dates : sequence of str, or dict of str to str, optional
        Columns of dates or times. Each becomes several columns: days since the first date of the training data, and sine
        and cosine of the time of the year, of the week and, if there are times, of the day. Times without a date become
        hours, and sine and cosine of the time of the day. Times with a zone are converted to UTC. The format is found in
        the training data, and later data must have the same. A dict gives formats, such as {"when": "%d/%m/%Y"}, which is
        needed if the cells fit more than one.
    units : sequence of str, optional
        Columns of numbers with a unit, such as "13.89 cm" or "$5". All cells, also of later data, must have the same unit.

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

    def __init__(
        self,
        impute: str | None = None,
        target: str | None = None,
        id: str | None = None,
        dates: Sequence[str] | Mapping[str, str] | None = None,
        units: Sequence[str] | None = None,
    ):
        self.impute = impute
        self.target = target
        self.id = id
        self.dates = dates
        self.units = units

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
        self.columns_ = self._learned(total, scan)
        self.feature_names_in_ = np.array(scan.names, dtype=object)
        self.n_features_in_ = len(self.columns_)
        self.__dict__.pop("row_names_", None)  # of an earlier fit
        return self

    def _learned(self, total: Total, scan: Scan) -> tuple[Column, ...]:
        """Return the descriptions of the columns, or raise a TableError about all that cannot be used."""
        found = Findings()
        whole = [name for name, empty in zip(scan.names, scan.empty, strict=True) if empty == scan.n_rows]
        found.add(*map(_empty_column, whole))
        holes = np.where(np.isin(scan.names, whole), 0, scan.empty)
        if self.impute is None and holes.any():
            found.add(_empty_cell(*scan.first_hole(holes), holes, scan.names))
        forms, problems = self._forms(total, scan.names)
        found.add(*problems)
        bad = {*whole, *(name for problem in problems for name in problem.columns)}
        some = {name: form for name, form in forms.items() if name not in bad}
        usual = total
        if some:
            converting = tuple(some.values())
            total = lambda function, *arguments: usual(on_numbers, converting, function, arguments)  # noqa: E731
            scan = total(scanned)
        names = [name for name in scan.names if name not in bad]
        columns, problems = learned_columns(total, scan, self.impute == "indicator", names, some)
        found.add(*self._one_id(problems))
        found.report()
        return columns

    def _forms(self, total: Total, names: Sequence[str]) -> tuple[dict[str, Declared], list[Problem]]:
        """Return the forms of the columns of dates and of numbers with units, and their problems."""
        formats: Any = self.dates if isinstance(self.dates, Mapping) else dict.fromkeys(self.dates or ())
        units = list(self.units or ())
        problems = [_no_column(name, "dates", names) for name in formats if name not in names]
        problems += [_no_column(name, "units", names) for name in units if name not in names]
        dates = {name: form for name, form in formats.items() if name in names}
        units = [name for name in units if name in names]
        if not (dates or units):
            return {}, problems
        forms, more = declared_forms(total(written_forms, dates, units))
        return forms, problems + more

    def _one_id(self, problems: Sequence[Problem]) -> list[Problem]:
        """Return the problems, at most one of which has the remedy --id; the other columns are left out."""
        taken, found = self.id is not None, []
        for problem in problems:
            ids = any(option.name == "--id" for option in problem.options)
            if ids and taken:
                problem = replace(problem, options=tuple(Option("--drop", name) for name in problem.columns))
            taken = taken or ids
            found.append(problem)
        return found

    def transform(self, X: Any) -> np.ndarray:
        """Return the encoded rows (n, D) of a data frame X."""
        check_is_fitted(self)
        frame = self._in_order(self._named(_frame(X)))
        found, encoded, comma = Findings(), [], self._has_decimal_commas(frame)
        with found.collecting():
            self.refuse_empty(frame)
        for column in self.columns_:
            with found.collecting():
                encoded.append(self._encoded(frame[column.name], column, comma))
        found.report()
        return np.concatenate(encoded, axis=1)

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
        return [c.name for c in self.columns_ if c.is_text]

    def example(self) -> pd.DataFrame:
        """Return an example row in the format of the training data."""
        return pd.DataFrame({c.name: [c.example] for c in self.columns_})

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
            others = [name for name in frame.columns if name not in wanted]
            near = "".join(f". Is {name!r} called {other!r} here?" for name in missing if (other := closest(name, others)))
            raise TableError(
                f"the table lacks {'columns' if len(missing) > 1 else 'column'} {listed(missing)} of the training data; "
                f"it has {listed(frame.columns)}{near}"
            )
        return frame[wanted]

    def refuse_empty(self, frame: pd.DataFrame) -> None:
        """Raise a TableError if cells are empty and `impute` is None."""
        empty = frame.isna().to_numpy()
        if self.impute is None and empty.any():
            row, column = (int(i[0]) for i in np.nonzero(empty))
            names = [str(name) for name in frame.columns]
            problem = _empty_cell(str(frame.index[row]), names[column], empty.sum(axis=0), names)
            if hasattr(self, "columns_"):  # fitted: no option of a prediction helps
                again = f"fit the model again with medians ({MISSING_ADVICE})"
                problem = replace(problem, advice=f"; fill the cells, remove the rows, or {again}", options=())
            raise TableError.of(problem)

    def _has_decimal_commas(self, frame: pd.DataFrame) -> bool:
        """Return whether a column that had numbers in the training data has decimal commas."""
        numbers = [frame[column.name].dropna() for column in self.columns_ if column.kind == "number" and not column.unit]
        texts = [values for values in numbers if len(values) and kind_of(values) == "category"]
        return any(has_decimal_commas(Counter(map(str, values.tolist()))) for values in texts)

    def _encoded(self, values: pd.Series, column: Column, comma: bool) -> np.ndarray:
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
            encoded = dated(values, column) if column.kind == "date" else numbers_of(values, column, comma)[:, None]
        return np.column_stack([encoded, empty]) if column.indicator else encoded


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


def _empty_column(name: str) -> Problem:
    text = f"column {name!r} is empty in every row"
    return Problem("nothing", text, (name,), "; leave it out", (Option("--drop", name),), f"X.drop(columns={name!r})")


def _empty_cell(row: str, column: str, counts: np.ndarray, names: Sequence[str]) -> Problem:
    """Return the problem of an empty cell, given the number of empty cells of each column."""
    some = tuple(name for name, count in zip(names, counts, strict=True) if count)
    text = f"row {row}, column {column!r} is empty or NA{and_more(counts)}"
    advice = f"; fill the cells, remove the rows, or use medians instead ({MISSING_ADVICE})"
    text += f" in columns {listed(some)}" if len(some) > 1 else ""
    code = "GPClassifier(missing='indicator') or TableEncoder(impute='median')"
    return Problem("empty", text, some, advice, (Option("--impute", "median"),), code)


def _no_column(name: str, what: str, names: Sequence[str]) -> Problem:
    """Return the problem of a column that is declared to have dates or units, and is not there."""
    near = closest(name, names)
    options = () if near is None else (Option(f"--{what}", near, instead=name),)
    text = f"there is no column {name!r} of {what}{meant(name, names)}; there are {listed(names)}"
    return Problem("column", text, options=options)


def with_ids(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return the frame without its id column `name`; its text is added to the index: "7 (patient 12)"."""
    if name not in frame.columns:
        text = f"there is no id column {name!r}{meant(name, frame.columns)}; there are {listed(frame.columns)}"
        near = closest(name, frame.columns)
        raise TableError.of(Problem("column", text, options=() if near is None else (Option("--id", near, instead=name),)))
    ids = frame[name]
    named = [
        str(row) if empty else f"{row} ({value})"
        for row, value, empty in zip(frame.index, ids.tolist(), ids.isna(), strict=True)
    ]
    return frame.drop(columns=name).set_axis(pd.Index(named, dtype=object), axis=0)
