"""Dask collections as the partitions of a data set: arrays, data frames, and delayed pairs.

`parts_of` takes what a user passes to `fit` and returns one task for each partition, which gives the raw rows. Nothing is
computed.

Dask is imported when it is needed. A collection cannot exist unless it has been imported already.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .kinds import is_dask_array, is_dask_frame, is_dask_series, is_task
from .partitions import Parts, are_texts, check_same_columns, known_order


def is_collection(X: Any) -> bool:
    """Return whether X is a Dask array, data frame or series, a list of delayed objects or futures, or `Parts`."""
    if type(X) is np.ndarray or "dask" not in sys.modules:  # the usual case; `Parts` have Dask's objects
        return False
    if isinstance(X, (list, tuple)):
        return len(X) > 0 and all(is_task(x) for x in X)
    return isinstance(X, Parts) or is_dask_array(X) or is_dask_frame(X) or is_dask_series(X)


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
        check_same_columns(columns, "X", columns, "X")
    meta = X._meta if framed else None
    return Parts(pieces, _numbered(len(pieces)), columns, framed, meta, known_order(y), are_texts(names))


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
        # one expression, so that common parts are read once
        joint = X.map_partitions(_raw, *given[1:], meta=X._meta, enforce_metadata=False, align_dataframes=False)
        return list(joint.to_delayed())
    columns = [np.ravel(some.to_delayed()).tolist() for some in given]
    raw = delayed(_raw, pure=True)
    return [raw(*some) for some in zip(*columns, strict=True)]


def _raw(X: Any, y: Any, weight: Any = None) -> tuple[Any, Any, Any]:
    return X, y, weight
