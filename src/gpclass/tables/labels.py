"""Labels: the target column of a table, checked."""

from __future__ import annotations

import numpy as np
import pandas as pd
from pandas.api import types

from ..spelling import closest
from .problems import Option, Problem, TableError
from .words import and_more, cut, listed, meant

MANY_CLASSES = 50  # a target with more classes, and more than a quarter as many classes as rows, is not a label


def split_target(
    frame: pd.DataFrame, target: str, skip_unlabelled: bool = False, merge_labels: bool | None = None
) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the inputs and the labels of a table.

    Parameters
    ----------
    frame : DataFrame
        The table.
    target : str
        Column of labels: text, whole numbers or booleans.
    skip_unlabelled : bool, default=False
        Whether rows without a label are left out. By default they are an error.
    merge_labels : bool, optional
        Whether labels that differ only in case and in surrounding spaces are one class, written as its most frequent label.
        False keeps them apart. By default they are an error.

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
        text = f"there is no column {target!r}{meant(target, frame.columns)}; there are {listed(frame.columns)}"
        near = closest(target, frame.columns)
        raise TableError.of(Problem("target", text, options=() if near is None else (Option("--target", near),)))
    if skip_unlabelled:
        frame = frame[frame[target].notna()]
    labels, rest = frame[target], frame.drop(columns=target)
    if not len(rest.columns):
        raise TableError(f"{target!r} is the only column; there are no inputs to predict it from")
    y = checked_labels(_merged(labels) if merge_labels else labels, target)
    if merge_labels is None:
        _refuse_spellings(y, target)
    return rest, y


def checked_labels(labels: pd.Series, target: str) -> np.ndarray:
    """Return labels as an array of text, integers or booleans; raise TableError if they cannot be used."""
    empty = labels.isna().to_numpy()
    if empty.any():
        text = f"the target {target!r} is empty in row {labels.index[int(np.argmax(empty))]}{and_more(empty)}"
        advice, code = "; remove rows without a label (--skip-unlabelled)", f"frame.dropna(subset=[{target!r}])"
        raise TableError.of(Problem("unlabelled", text, (target,), advice, (Option("--skip-unlabelled"),), code))
    y = _label_array(labels, target)
    n_classes = len(np.unique(y))
    if n_classes > MANY_CLASSES and n_classes > len(y) / 4:
        text = f"the target {target!r} has {n_classes} different values in {len(y)} rows, such as {cut(y.tolist()[0])}"
        advice = "; is it a label? If it is a number to predict, use GPRegressor in Python"
        raise TableError.of(Problem("labels", text, (target,), advice, python="GPRegressor().fit(X, y)"))
    return y


def _folded(label: str) -> str:
    return " ".join(label.split()).casefold()


def _refuse_spellings(y: np.ndarray, target: str) -> None:
    """Raise a TableError if labels differ only in case or in spaces."""
    first: dict[str, str] = {}
    for label in dict.fromkeys(value for value in y.tolist() if isinstance(value, str)):
        other = first.setdefault(_folded(label), label)
        if other != label:
            text = f"labels {cut(other)} and {cut(label)} of the target {target!r} differ only in case or spaces"
            advice = "; if they are one class, use --merge-labels (split_target(merge_labels=True)), otherwise --keep-labels"
            code = f"split_target(frame, {target!r}, merge_labels=True)"
            raise TableError.of(Problem("spelling", text, (target,), advice, (Option("--merge-labels"),), code))


def _merged(labels: pd.Series) -> pd.Series:
    """Return labels in which those that differ only in case and spaces are the most frequent of them."""
    counts = labels.value_counts()
    usual: dict[str, str] = {}
    for label in counts.index:
        if isinstance(label, str):
            usual.setdefault(_folded(label), label)
    return labels.map(lambda label: usual[_folded(label)].strip() if isinstance(label, str) else label)


def _label_array(labels: pd.Series, target: str) -> np.ndarray:
    if types.is_bool_dtype(labels.dtype):
        return labels.to_numpy(dtype=bool)
    if types.is_numeric_dtype(labels.dtype):
        numbers = labels.to_numpy(dtype=float)
        odd = ~np.isfinite(numbers) | (numbers != np.round(numbers)) | (np.abs(numbers) > 2**53)
        if odd.any():
            first = int(np.argmax(odd))
            text = f"the target {target!r} has measurements, not labels: row {labels.index[first]} has {numbers[first]:g}"
            advice = ". Labels are text, whole numbers or booleans; for measurements use GPRegressor in Python"
            raise TableError.of(Problem("labels", text, (target,), advice, python="GPRegressor().fit(X, y)"))
        return numbers.astype(np.int64)
    values = labels.tolist()
    if types.is_datetime64_any_dtype(labels.dtype) or not all(isinstance(v, (str, bool, int)) for v in values):
        raise TableError(f"the target {target!r} has {type(values[0]).__name__} values; labels are text or whole numbers")
    return np.array([str(v) for v in values])


def labels_as_trained(y: np.ndarray, classes: np.ndarray, target: str) -> np.ndarray:
    """Return labels of another table as classes of a model; they are compared as text, without case and outer spaces."""
    known = {str(label): label for label in classes.tolist()}
    folded = {_folded(name): label for name, label in known.items()}
    by_folding = len(folded) == len(known)  # otherwise "B " may be the class B or b
    every = known | (folded if by_folding else {})

    def name_of(label: object) -> str:
        return _folded(str(label)) if by_folding and str(label) not in known else str(label)

    strangers = sorted({str(label) for label in y.tolist() if name_of(label) not in every})
    if strangers:
        raise TableError(f"the target {target!r} has labels {listed(strangers)}, but the model knows {listed(known)}")
    return np.array([every[name_of(label)] for label in y.tolist()], dtype=classes.dtype)
