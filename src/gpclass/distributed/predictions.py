"""Predictions on Dask collections: a method for rows in memory becomes one that is applied to each partition, lazily."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeVar, cast

import numpy as np

from .collections import is_collection
from .kinds import is_dask_array, is_dask_frame

Method = TypeVar("Method", bound=Callable[..., Any])

TRAINING_ONLY = ("_trainer", "history_", "row_fingerprints_", "row_map_", "active_indices_", "rows_")  # not for predictions
LARGE_MODEL = 1 << 20  # bytes above which a model is sent to the workers before the tasks instead of with them


def on_collections(method: Method) -> Method:
    """Return a method of an estimator that takes Dask arrays and data frames too, and then returns lazy results.

    Of a Dask array the results are Dask arrays with the same chunks of rows. Of a Dask data frame they have its index and
    divisions: a Series for results of shape (m,), and a DataFrame with the classes as columns for (m, n_classes). Results
    with more axes are Dask arrays.
    """

    @wraps(method)
    def called(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_collection(X):
            return method(self, X, *args, **kwargs)
        return _lazy(self, method, X, args, kwargs)

    return cast("Method", called)


def for_predictions(model: Any) -> Any:
    """Return a copy of a fitted estimator without the attributes that predictions do not need."""
    slim = copy.copy(model)
    for name in TRAINING_ONLY:
        slim.__dict__.pop(name, None)
    if getattr(slim, "encoder_", None) is not None:
        slim.encoder_ = copy.copy(slim.encoder_)
        slim.encoder_.__dict__.pop("row_names_", None)
    return slim


def _lazy(model: Any, method: Callable[..., Any], X: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if not (is_dask_array(X) or is_dask_frame(X)):
        raise TypeError(f"{method.__name__} takes a Dask array or data frame; a {type(X).__name__} has no rows of inputs")
    if is_dask_array(X) and X.ndim != 2:
        raise ValueError(f"X must have the shape (m, {model.n_features_in_}), but is {X.shape}")
    # one row gives shapes and types of the results, and errors about columns before anything is computed
    example = method(model, _example(model, X), *args, **kwargs)
    several = isinstance(example, tuple)
    empty = tuple(part[:0] for part in (example if several else (example,)))
    task = partial(_predicted, method=method.__name__, args=args, kwargs=kwargs, empty=empty)
    make = _arrays if is_dask_array(X) else _frames
    results = make(X, task, _reference(for_predictions(model)), empty, f"gpclass-{method.__name__}", model)
    return tuple(results) if several else results[0]


def _example(model: Any, X: Any) -> Any:
    """Return one row with the columns of X."""
    if is_dask_array(X):
        return np.zeros((1, X.shape[1]))
    import pandas as pd

    if getattr(model, "encoder_", None) is None:
        return pd.DataFrame(np.zeros((1, len(X.columns))), columns=list(X.columns))
    known = model.encoder_.example()
    return known[[name for name in known.columns if name in {str(column) for column in X.columns}]]


def _reference(model: Any) -> Any:
    """Return a delayed object that gives the model. A large model is sent to all workers of a Dask client, once."""
    from dask.base import tokenize
    from dask.delayed import delayed

    content = pickle.dumps(model, protocol=pickle.HIGHEST_PROTOCOL)
    name = f"gpclass-model-{tokenize(content)}"
    client = _client()
    if client is None or len(content) < LARGE_MODEL:
        return delayed(pickle.loads, pure=True)(content, dask_key_name=name)
    return delayed(_same, pure=True)(client.scatter(model, broadcast=True), dask_key_name=name)


def _client() -> Any:
    """Return the Dask client that collections are computed with, if there is one in this thread."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    import dask

    if dask.config.get("scheduler", None) != "dask.distributed":  # such as "threads"
        return None
    try:
        client = distributed.get_client(timeout=0)
    except ValueError:
        return None
    return None if client.asynchronous else client


def _same(model: Any) -> Any:
    return model


def _predicted(X: Any, model: Any, *, method: str, args: Any, kwargs: Any, empty: tuple[np.ndarray, ...]) -> tuple[Any, ...]:
    """Return the results for one partition."""
    if not len(X):
        return empty
    found = getattr(model, method)(X, *args, **kwargs)
    return found if isinstance(found, tuple) else (found,)


# results as collections ---------------------------------------------------------------------------------------------------


def _arrays(X: Any, task: Any, model: Any, empty: tuple[np.ndarray, ...], name: str, _: Any) -> list[Any]:
    """Return results as arrays with the chunks of rows of X."""
    import dask.array as da

    X = X if X.numblocks[1] == 1 else X.rechunk({1: -1})
    # blocks of this array are tuples of results, which are computed together
    both = da.map_blocks(task, X, model, drop_axis=1, dtype=object, meta=np.empty(0, object), token=name)
    made = []
    for i, part in enumerate(empty):
        shape = part.shape[1:]
        chunks = (X.chunks[0], *((size,) for size in shape))
        more = list(range(1, part.ndim)) or None
        take = partial(_taken, place=i)
        made.append(da.map_blocks(take, both, new_axis=more, chunks=chunks, meta=part, token=f"{name}-{i}"))
    return made


def _taken(results: tuple[Any, ...], place: int) -> Any:
    return results[place]


def _frames(X: Any, task: Any, model: Any, empty: tuple[np.ndarray, ...], name: str, estimator: Any) -> list[Any]:
    """Return results as series and frames with the index of X."""
    options = {"enforce_metadata": False, "align_dataframes": False}
    both = X.map_partitions(_indexed, task, model, meta=X._meta, token=name, **options)
    made = []
    for i, part in enumerate(empty):
        if part.ndim > 2:
            made.append(_array_of(both, i, part))
            continue
        names = None if part.ndim == 1 else _names(estimator, part.shape[1])
        meta = _labelled((X._meta.index[:0], part), 1, names)
        take = partial(_labelled, place=i + 1, names=names)
        made.append(both.map_partitions(take, meta=meta, token=f"{name}-{i}", **options))
    return made


def _array_of(both: Any, place: int, empty: np.ndarray) -> Any:
    """Return one of the results as an array with chunks of unknown sizes."""
    import dask.array as da
    from dask.delayed import delayed

    shape, take = (np.nan, *empty.shape[1:]), delayed(_taken, pure=True)
    # the first of the results is the index
    blocks = [da.from_delayed(take(piece, place + 1), shape, meta=empty) for piece in both.to_delayed()]
    return da.concatenate(blocks, allow_unknown_chunksizes=True)


def _names(estimator: Any, width: int) -> list[Any]:
    classes = getattr(estimator, "classes_", np.arange(width)).tolist()
    return classes if len(classes) == width else list(range(width))


def _indexed(frame: Any, task: Any, model: Any) -> tuple[Any, ...]:
    return frame.index, *task(frame, model)


def _labelled(results: tuple[Any, ...], place: int, names: list[Any] | None) -> Any:
    """Return one of the results as a series or a frame. The first entry of `results` is the index."""
    import pandas as pd

    values = results[place]
    return pd.Series(values, results[0]) if names is None else pd.DataFrame(values, results[0], names)


def accuracy(model: Any, X: Any, y: Any, weight: Any = None) -> float:
    """Return the mean accuracy of a classifier's predictions for collections, by sums over partitions."""
    right = (model.predict(X) == y).astype(float)
    found = right.mean() if weight is None else (right * weight).sum() / weight.sum()
    return float(found.compute())
