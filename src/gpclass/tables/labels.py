"""Labels: the target column of a table, checked."""

from __future__ import annotations

import numpy as np
import pandas as pd
from pandas.api import types

from .words import TableError, and_more, cut, listed, meant

MANY_CLASSES = 50  # a target with more classes, and more than a quarter as many classes as rows, is not a label


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
        raise TableError(f"there is no column {target!r}{meant(target, frame.columns)}; there are {listed(frame.columns)}")
    labels, rest = frame[target], frame.drop(columns=target)
    if not len(rest.columns):
        raise TableError(f"{target!r} is the only column; there are no inputs to predict it from")
    return rest, checked_labels(labels, target)


def checked_labels(labels: pd.Series, target: str) -> np.ndarray:
    """Return labels as an array of text, integers or booleans; raise TableError if they cannot be used."""
    empty = labels.isna().to_numpy()
    if empty.any():
        raise TableError(
            f"the target {target!r} is empty in row {labels.index[int(np.argmax(empty))]}{and_more(empty)}; "
            "remove rows without a label"
        )
    y = _label_array(labels, target)
    n_classes = len(np.unique(y))
    if n_classes > MANY_CLASSES and n_classes > len(y) / 4:
        raise TableError(
            f"the target {target!r} has {n_classes} different values in {len(y)} rows, such as {cut(y.tolist()[0])}; "
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
        raise TableError(f"the target {target!r} has labels {listed(strangers)}, but the model knows {listed(known)}")
    return np.array([known[str(label)] for label in y.tolist()], dtype=classes.dtype)
