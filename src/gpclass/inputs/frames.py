"""Data frames with categories, text, booleans or missing values, encoded by `TableEncoder` as on the command line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.utils import check_array

MISSING = ("error", "indicator", "median")


def is_frame(X: Any) -> bool:
    """Return whether X is a pandas data frame."""
    pandas = sys.modules.get("pandas")  # not imported: no frame
    return pandas is not None and isinstance(X, pandas.DataFrame)


def refuse_names_twice(X: Any) -> None:
    """Raise a TableError if columns of a data frame have the same name."""
    if is_frame(X) and not X.columns.is_unique:
        from ..tables import TableError

        twice = X.columns[X.columns.duplicated()].unique().tolist()
        raise TableError(f"X has more than one column called {', '.join(map(repr, twice))}; give each a different name")


def fitted_encoder(X: Any, missing: str) -> Any:
    """Return a `TableEncoder` fitted to the training inputs X, or None if they need no encoding.

    Parameters
    ----------
    X : DataFrame or array-like of shape (n, D)
        Training inputs. Arrays are encoded only if missing values are allowed, since later rows may have some.
    missing : {"error", "indicator", "median"}
        The parameter of the estimator.

    Returns
    -------
    TableEncoder or None
    """
    check_missing(missing)
    framed = is_frame(X)
    refuse_names_twice(X)
    if not framed and (missing == "error" or not _is_numeric(X)):
        return None
    from ..tables import Part, alone  # they need pandas

    frame = as_frame(X)
    encoder = encoder_for(alone(Part(frame)), missing)
    if encoder is None:
        return None
    with about_frames():
        return encoder.fit(frame)


@contextmanager
def about_frames() -> Iterator[None]:
    """Within the block, errors about tables have advice for data frames, which may come from no file."""
    from ..tables import TableError

    try:
        yield
    except TableError as error:
        told = error.in_frame()
        if told is error:
            raise  # not from itself: Dask's workers follow the causes of an error to their end
        raise told from error


@contextmanager
def naming_cells(X: Any, names: Sequence[str] | None, n_columns: int) -> Iterator[None]:
    """Within the block, errors about cells of a data frame of numbers name the row and the column.

    `names` are the columns of the training data, if these were a frame, and `n_columns` is their number. If X has others,
    that is the error.
    """
    try:
        yield
    except (TypeError, ValueError):
        if is_frame(X) and X.shape[1] == n_columns and (names is None or list(X.columns) == list(names)):
            from ..tables import TableEncoder

            with about_frames():
                TableEncoder.of_numbers([str(name) for name in X.columns]).transform(as_frame(X))
        raise


def encoder_for(total: Callable[..., Any], missing: str) -> Any:
    """Return a `TableEncoder`, not fitted, for a table that is divided into parts, or None if it needs no encoding.

    Parameters
    ----------
    total : callable
        As in `TableEncoder.fit_parts`. The frames of the parts come from `as_frame`.
    missing : {"error", "indicator", "median"}
        The parameter of the estimator.

    Returns
    -------
    TableEncoder or None
    """
    from ..tables import TableEncoder, scanned

    check_missing(missing)
    if missing == "error" and not total(scanned).needs_encoding:
        return None
    return TableEncoder(impute=None if missing == "error" else missing)


def check_missing(missing: str) -> None:
    """Raise a ValueError if the parameter of an estimator is not known."""
    if missing not in MISSING:
        raise ValueError(f"missing must be one of {', '.join(map(repr, MISSING))}, but is {missing!r}")


def as_frame(X: Any) -> Any:
    """Return a frame whose columns of objects have the type of their entries; the columns of an array are x0, x1, …"""
    import pandas as pd

    if is_frame(X):
        return X.infer_objects()
    X = check_array(X, dtype=float, ensure_all_finite="allow-nan", ensure_min_samples=0)
    return pd.DataFrame(X, columns=[f"x{d}" for d in range(X.shape[1])])


def _is_numeric(X: Any) -> bool:
    try:
        return np.asarray(X, dtype=float).ndim == 2
    except (TypeError, ValueError):  # validation says what is wrong
        return False
