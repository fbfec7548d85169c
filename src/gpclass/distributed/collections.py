"""Dask collections as the partitions of a data set: arrays, data frames, and delayed pairs.

`parts_of` takes what a user passes to `fit` and returns one task for each partition, which gives the raw rows. Nothing is
computed. `load` turns raw rows into a `Partition`, on the process that keeps it. `fitted_encoder_of` fits the encoder of a
table by sums over its partitions.

Dask is imported when it is needed. A collection cannot exist unless it has been imported already.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np
from scipy.sparse import issparse

from ..inputs.frames import as_frame, check_missing, encoder_for, is_frame
from ..learning.crew import Partition

UNKNOWN = "__UNKNOWN_CATEGORIES__"  # of Dask, for categories that are not known before the data are read
FIRST = "the first part"

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
    """

    pieces: list[Any]
    names: list[str]
    columns: list[str] | None
    framed: bool | None
    meta: Any = None
    order: list[Any] | None = None
    named: bool = True


# what users pass ----------------------------------------------------------------------------------------------------------


def is_collection(X: Any) -> bool:
    """Return whether X is a Dask array, data frame or series, a list of delayed objects or futures, or `Parts`."""
    if type(X) is np.ndarray or "dask" not in sys.modules:  # the usual case; `Parts` have Dask's objects
        return False
    if isinstance(X, (list, tuple)):
        return len(X) > 0 and all(_is_task(x) for x in X)
    return isinstance(X, Parts) or is_dask_array(X) or is_dask_frame(X) or is_dask_series(X)


def is_dask_array(X: Any) -> bool:
    """Return whether X is a Dask array."""
    return _is_a(X, "dask.array", "Array")


def is_dask_frame(X: Any) -> bool:
    """Return whether X is a Dask data frame."""
    return _is_a(X, "dask.dataframe", "DataFrame")


def is_dask_series(X: Any) -> bool:
    """Return whether X is a Dask series."""
    return _is_a(X, "dask.dataframe", "Series")


def _is_task(X: Any) -> bool:
    return _is_a(X, "dask.delayed", "Delayed") or _is_a(X, "distributed", "Future")


def _is_a(X: Any, module: str, name: str) -> bool:
    kind = getattr(sys.modules.get(module), name, None)  # not imported: no such object
    return kind is not None and isinstance(X, kind)


def parts_of(X: Any, y: Any = None, sample_weight: Any = None) -> Parts:
    """Return the partitions of Dask collections. Nothing is computed.

    Parameters
    ----------
    X : dask array of shape (n, D), dask DataFrame, list of Delayed or Future, or Parts
        Inputs. Column chunks of an array are joined. A list has one entry for each partition, which gives a pair (X, y) or a
        triple (X, y, weight) of NumPy arrays or pandas objects. `Parts`, such as those of `file_parts`, are returned as they
        are.
    y : dask array of shape (n,) or dask Series, optional
        Labels. An array with other chunks than X is rechunked; if chunk sizes are not known, and for data frames, there must
        be as many partitions as in X, with as many rows each. None if X is a list.
    sample_weight : dask array of shape (n,) or dask Series, optional
        Weights, divided as y.

    Returns
    -------
    Parts

    Raises
    ------
    TypeError
        If one of the arguments is no collection, and others are.
    ValueError
        If numbers of rows or partitions differ.
    """
    if isinstance(X, (list, tuple, Parts)) and is_collection(X):
        if y is not None or sample_weight is not None:
            what = "the parts of files" if isinstance(X, Parts) else "a list of delayed pairs (X, y)"
            has = "contain" if isinstance(X, Parts) else "contains"
            raise TypeError(f"{what} {has} labels and weights: y and sample_weight must be None")
        return X if isinstance(X, Parts) else _delayed_pairs(list(X))
    if y is None:
        raise TypeError(f"X is a {_kind(X)}, which needs labels y: a Dask array or series with the same partitions")
    _check_kinds(X, y, sample_weight)
    labels = _vector(y, X, "y")
    weight = None if sample_weight is None else _vector(sample_weight, X, "sample_weight")
    framed = is_dask_frame(X)
    X = X if framed or X.numblocks[1] == 1 else X.rechunk({1: -1})
    pieces = _zipped(X, labels, weight)
    names = list(X.columns) if framed else []
    columns = [str(name) for name in names] if framed else None
    if columns is not None:
        _check_columns(columns, "X", columns, "X")
    meta = X._meta if framed else None
    return Parts(pieces, _numbered(len(pieces)), columns, framed, meta, _declared_order(y), _are_texts(names))


def vector_parts(y: Any) -> Parts:
    """Return the partitions of a Dask array (n,) or series. Each piece gives its part of y alone."""
    pieces = np.ravel(y.to_delayed()).tolist()
    return Parts(pieces, _numbered(len(pieces)), None, False)


def _delayed_pairs(items: list[Any]) -> Parts:
    from dask.delayed import delayed

    names = _numbered(len(items))
    triple = delayed(_triple, pure=True)
    return Parts([triple(item, name) for item, name in zip(items, names, strict=True)], names, None, None)


def _triple(given: Any, name: str) -> tuple[Any, Any, Any]:
    if not isinstance(given, (tuple, list)) or len(given) not in (2, 3):
        raise TypeError(f"{name} is a {type(given).__name__}, but must be a pair (X, y) or a triple (X, y, weight)")
    return given[0], given[1], given[2] if len(given) == 3 else None


def _numbered(count: int) -> list[str]:
    return [f"partition {k}" for k in range(count)]


def _check_kinds(X: Any, y: Any, weight: Any) -> None:
    """Raise an error unless all are collections of rows."""
    if not (is_dask_array(X) or is_dask_frame(X)):
        others = "y" if is_collection(y) else "sample_weight"
        raise TypeError(
            f"{others} is a Dask collection, but X is a {_kind(X)}: all must be Dask collections with the same partitions, "
            "such as dask.array.from_array(X, chunks=…), or none of them"
        )
    for name, given in (("y", y), ("sample_weight", weight)):
        if given is None or is_dask_array(given) or is_dask_series(given):
            continue
        if is_dask_frame(given):
            remedy = f"pass one column, such as {name}[{str(given.columns[0])!r}]"
        elif is_dask_array(X):
            remedy = f"use dask.array.from_array({name}, chunks=X.chunks[0])"
        else:
            remedy = f"use a column of the data frame, or a Dask array with the same partitions for {name}"
        raise TypeError(f"X is a {_kind(X)}, but {name} is a {_kind(given)}: {remedy}")
    if is_dask_array(X) and X.ndim != 2:
        raise ValueError(f"X must have the shape (n, D), but is {X.shape}")


def _kind(given: Any) -> str:
    if isinstance(given, Parts):
        return "set of parts of files"
    if is_dask_array(given):
        return "Dask array"
    if is_dask_frame(given):
        return "Dask DataFrame"
    if is_dask_series(given):
        return "Dask Series"
    return f"{type(given).__module__.split('.')[0]} {type(given).__name__}".removeprefix("builtins ")


def _vector(given: Any, X: Any, name: str) -> Any:
    """Return labels or weights divided as X."""
    if given.ndim != 1:
        advice = "; for soft labels, repeat the rows with one label each and pass their sample_weight" if name == "y" else ""
        raise ValueError(f"{name} must have one entry for each row, but has the shape {given.shape}{advice}")
    if is_dask_array(given) and is_dask_array(X) and not np.isnan([*given.chunks[0], *X.chunks[0]]).any():
        if len(given) != len(X):
            raise ValueError(f"X has {len(X)} rows, but {name} has {len(given)}")
        return given.rechunk((X.chunks[0],))
    if given.npartitions != (n := X.npartitions if is_dask_frame(X) else X.numblocks[0]):
        advice = "divide both in the same way, or compute the chunk sizes of arrays: X.compute_chunk_sizes()"
        raise ValueError(f"X has {n} partitions, but {name} has {given.npartitions}; {advice}")
    return given


def _zipped(X: Any, y: Any, weight: Any) -> list[Any]:
    """Return a task for each partition that gives (X, y, weight)."""
    from dask.delayed import delayed

    given = [X, y] if weight is None else [X, y, weight]
    if not any(is_dask_array(some) for some in given):
        # one expression, so that what they share is read once
        joint = X.map_partitions(_raw, *given[1:], meta=X._meta, enforce_metadata=False, align_dataframes=False)
        return list(joint.to_delayed())
    columns = [np.ravel(some.to_delayed()).tolist() for some in given]
    raw = delayed(_raw, pure=True)
    return [raw(*some) for some in zip(*columns, strict=True)]


def _raw(X: Any, y: Any, weight: Any = None) -> tuple[Any, Any, Any]:
    return X, y, weight


def _are_texts(names: Iterable[Any]) -> bool:
    return all(isinstance(name, str) for name in names)


def _declared_order(y: Any) -> list[Any] | None:
    dtype: Any = getattr(y, "dtype", None)
    if not getattr(dtype, "ordered", False):
        return None
    categories = dtype.categories.tolist()
    if UNKNOWN in categories:
        raise ValueError(
            "y is an ordered categorical, but its categories are not known before the data are read: use y.cat.as_known(), "
            "or pass categories=[...] in their order and y.astype(object)"
        )
    return categories


# reading partitions -------------------------------------------------------------------------------------------------------


def described(parts: Parts, compute: Compute) -> Parts:
    """Return the parts with what is known of `framed`, `columns` and labels. Computes the pieces once if that is necessary.

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
            _check_columns(others, name, columns, parts.names[0])
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


def _check_columns(names: Any, name: str, others: Any, other: str) -> None:
    from ..tables import check_columns

    check_columns(names, name, others, other)


def _shape(raw: Any, name: str) -> tuple[bool, Any, list[Any] | None, bool, bool]:
    """Return whether X is a frame, columns or their number, the order of labels, whether there are weights, and names."""
    X, order, weighted = raw[0], _declared_order(raw[1]), raw[2] is not None
    if is_frame(X):
        return True, [str(column) for column in X.columns], order, weighted, _are_texts(X.columns)
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
        _check_columns([str(column) for column in X.columns], name, columns, FIRST)
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


# encoders -----------------------------------------------------------------------------------------------------------------


def fitted_encoder_of(parts: Parts, missing: str, compute: Compute) -> Any:
    """Return a `TableEncoder` fitted to all partitions, or None if they need no encoding.

    It is the encoder that `gpclass.inputs.fitted_encoder` fits to the whole table. The partitions are computed a few times:
    once for the types of the columns, once for their levels, and, if there are columns of numbers, a few times for medians.

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
        If a column cannot be used. The message names the partition and the row.
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
    return None if encoder is None else encoder.fit_parts(total)


def _is_numeric(meta: Any) -> bool:
    """Return whether the declared types of all columns are numbers."""
    from pandas.api import types

    return meta is not None and all(types.is_numeric_dtype(dtype) for dtype in meta.dtypes)


def _on_part(raw: Any, name: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Return a sum over the rows of one partition, see `gpclass.tables.summaries`."""
    from ..tables import Part

    try:
        frame = as_frame(raw[0])
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    return function(Part(frame, name), *arguments)
