"""Raw partitions as partitions of numbers: their columns, their loading, and the encoder of a table by sums over them.

Dask is imported when it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np
from scipy.sparse import issparse

from ..inputs.frames import about_frames, as_frame, check_missing, encoder_for, is_frame
from ..learning.crew import Partition
from ..learning.streams import declared_order

UNKNOWN = "__UNKNOWN_CATEGORIES__"  # of Dask, for categories that are not known before the data are read
Compute = Callable[[list[Any]], list[Any]]


@dataclass(frozen=True)
class Parts:
    """The partitions of a data set that has not been read.

    Attributes
    ----------
    pieces : list of Delayed or Future
        One task for each partition. It gives `(X, y, weight)`: X is an array or a pandas DataFrame, y an array or a Series,
        and weight an array or None.
    names : list of str
        Names of the partitions, for messages.
    columns : list of str or None
        Names of the columns of data frames.
    framed : bool or None
        Whether X are data frames. None if that is not known before they are computed, see `described`.
    meta : DataFrame or None
        A frame without rows with the declared types of the columns, if there are any.
    order : list or None
        The labels in their order, if y is an ordered categorical.
    named : bool
        Whether all names of the columns are texts.
    of_files : bool
        Whether the rows are read from table files. Errors then advise how to read these, otherwise how to change frames.
    """

    pieces: list[Any]
    names: list[str]
    columns: list[str] | None
    framed: bool | None
    meta: Any = None
    order: list[Any] | None = None
    named: bool = True
    of_files: bool = False


def are_texts(names: Iterable[Any]) -> bool:
    """Return whether all names are texts."""
    return all(isinstance(name, str) for name in names)


def known_order(y: Any) -> list[Any] | None:
    """Return the categories of an ordered categorical in their order, or None; raise a ValueError if they are unknown."""
    categories = declared_order(y)
    if categories is not None and UNKNOWN in categories:
        raise ValueError(
            "y is an ordered categorical, but its categories are not known before the data are read: use y.cat.as_known(), "
            "or pass categories=[...] in their order and y.astype(object)"
        )
    return categories


def described(parts: Parts, compute: Compute) -> Parts:
    """Return the parts with `framed`, `columns` and the order of the labels. Computes the pieces once if necessary.

    Parameters
    ----------
    parts : Parts
        The partitions.
    compute : callable
        `compute(list of Delayed)` returns a list of results.

    Returns
    -------
    Parts

    Raises
    ------
    ValueError
        If partitions have different columns or orders of labels, if only some have weights, or if some are data frames and
        others are arrays.
    """
    if parts.framed is not None:
        return parts
    shapes = compute(_tasks(parts, _shape))
    framed, columns, order, weighted, _ = shapes[0]
    for name, (own, others, own_order, own_weight, _) in zip(parts.names, shapes, strict=True):
        if own != framed:
            one, other = ("a data frame", "an array") if own else ("an array", "a data frame")
            raise TypeError(f"{name} is {one}, but {parts.names[0]} is {other}; all must be the same")
        if framed:
            check_same_columns(others, name, columns, parts.names[0])
        elif others != columns:
            raise ValueError(f"X has {others} columns in {name}, but {columns} in {parts.names[0]}")
        if own_weight != weighted:
            one, other = (name, parts.names[0]) if own_weight else (parts.names[0], name)
            raise ValueError(f"{one} has weights, but {other} has none; pass weights for all rows, or for none")
        if own_order != order:
            raise ValueError(
                f"the ordered categories of y are {own_order} in {name}, but {order} in {parts.names[0]}; use one order"
            )
    named = all(texts for *_, texts in shapes)
    return replace(parts, framed=framed, columns=columns if framed else None, order=order, named=named)


def check_same_columns(names: Any, name: str, others: Any, other: str) -> None:
    """Raise a TableError unless two parts, called `name` and `other`, have the same columns."""
    from ..tables import check_columns

    check_columns(names, name, others, other)


def _shape(raw: Any, name: str) -> tuple[bool, Any, list[Any] | None, bool, bool]:
    """Return whether X is a frame, columns or their number, order of labels, and whether it has weights and text names."""
    X, order, weighted = raw[0], known_order(raw[1]), raw[2] is not None
    if is_frame(X):
        return True, [str(column) for column in X.columns], order, weighted, are_texts(X.columns)
    if np.ndim(X) != 2:
        raise ValueError(f"{name}: X must have the shape (m, D), but is {np.shape(X)}")
    return False, np.shape(X)[1], order, weighted, True


def summed(parts: Parts, compute: Compute | None, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the sum of function(raw, name, *arguments) over all partitions, in their order.

    `compute` is as in `described`; None computes with the scheduler or client that Dask uses by default.
    """
    return reduce(add, (compute or _by_default)(_tasks(parts, function, *arguments)))


def _by_default(tasks: list[Any]) -> list[Any]:
    import dask

    return list(dask.compute(*tasks))


def _tasks(parts: Parts, function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """Return function(raw, name, *arguments) for each partition, as delayed objects."""
    from dask.base import tokenize
    from dask.delayed import delayed

    token = tokenize(function, arguments)
    tasks = []
    for piece, name in zip(parts.pieces, parts.names, strict=True):
        bound = delayed(partial(_called, function, name, arguments), pure=True, traverse=False)
        tasks.append(bound(piece, dask_key_name=f"gpclass-{function.__name__.strip('_')}-{token}-{piece.key}"))
    return tasks


def _called(function: Callable[..., Any], name: str, arguments: tuple[Any, ...], raw: Any) -> Any:
    return function(raw, name, *arguments)


def load(raw: Any, name: str, encoder: Any = None, columns: Sequence[str] | None = None) -> Partition:
    """Return raw rows as a partition.

    Parameters
    ----------
    raw : tuple
        X, y and weight, see `Parts`.
    name : str
        Name of the partition, for messages.
    encoder : TableEncoder, optional
        The encoder of `fitted_encoder_of`.
    columns : sequence of str, optional
        `Parts.columns`.

    Returns
    -------
    Partition
        Its `first` is 0.

    Raises
    ------
    ValueError
        If rows are invalid. The message names the partition, the row and the column.
    """
    X, y, weight = raw
    return Partition.of(_inputs(X, name, encoder, columns), y, weight, name)


def _inputs(X: Any, name: str, encoder: Any, columns: Sequence[str] | None) -> np.ndarray:
    """Return the inputs of a partition as numbers."""
    if issparse(X):
        raise TypeError(f"{name}: X is sparse, but must be an array or a data frame: use X.toarray()")
    if is_frame(X) != (columns is not None):
        one, other = ("a data frame", "arrays") if is_frame(X) else ("an array", "data frames")
        raise TypeError(f"{name} is {one}, but other partitions are {other}")
    if columns is not None:
        check_same_columns([str(column) for column in X.columns], name, columns, "the first part")
        X = X.set_axis([str(column) for column in X.columns], axis=1)[list(columns)]
    try:
        if encoder is not None:
            return encoder.transform(as_frame(X))
        return np.asarray(X) if columns is None else _numbers(as_frame(X))
    except ValueError as error:
        raise type(error)(f"{name}: {error}") from error


def _numbers(frame: Any) -> np.ndarray:
    """Return a frame of numbers as an array, in single precision if all columns are."""
    from pandas.api import types

    from ..tables import TableEncoder, TableError

    for column, dtype in frame.dtypes.items():
        if not types.is_numeric_dtype(dtype) or types.is_complex_dtype(dtype):
            raise TableError(f"column {column!r} is of type {dtype}, but has numbers in other partitions; use one type")
    single = all(dtype == np.float32 for dtype in frame.dtypes)
    TableEncoder().refuse_empty(frame)
    return frame.to_numpy(dtype=np.float32 if single else np.float64)


def fitted_encoder_of(parts: Parts, missing: str, compute: Compute) -> Any:
    """Return a `TableEncoder` fitted to all partitions, or None if they need no encoding.

    It is the encoder that `gpclass.inputs.fitted_encoder` fits to the whole table, and its errors are the same. The
    partitions are computed a few times: once for the types of the columns, once for their levels, and, if there are columns
    of numbers, a few times for medians.

    Parameters
    ----------
    parts : Parts
        The partitions, from `described`.
    missing : {"error", "indicator", "median"}
        The parameter of the estimator.
    compute : callable
        `compute(list of Delayed)` returns a list of results.

    Returns
    -------
    TableEncoder or None

    Raises
    ------
    TableError
        If a column cannot be used. The message names the partition and the row. Its advice is for data frames, or for table
        files if the partitions are read from them.
    """
    check_missing(missing)
    if parts.framed is None:
        raise ValueError("the columns of the partitions are not known: call described(parts, compute) first")
    if missing == "error" and (not parts.framed or _is_numeric(parts.meta)):
        return None  # `load` refuses missing values
    known: dict[Any, Any] = {}

    def total(function: Callable[..., Any], *arguments: Any) -> Any:
        if (function, arguments) not in known:
            known[function, arguments] = summed(parts, compute, _on_part, function, arguments)
        return known[function, arguments]

    encoder = encoder_for(total, missing)
    if encoder is None:
        return None
    with nullcontext() if parts.of_files else about_frames():
        return encoder.fit_parts(total)


def _is_numeric(meta: Any) -> bool:
    """Return whether the declared types of all columns are numbers."""
    from pandas.api import types

    return meta is not None and all(types.is_numeric_dtype(dtype) for dtype in meta.dtypes)


def _on_part(raw: Any, name: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Return a sum over the rows of one partition, see `gpclass.tables.parts`."""
    from ..tables import Part

    try:
        frame = as_frame(raw[0])
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    return function(Part(frame, name), *arguments)
