"""Data frames with categories, text, booleans or missing values, encoded by `TableEncoder` as on the command line."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from sklearn.utils import check_array

MISSING = ("error", "indicator", "median")


def is_frame(X: Any) -> bool:
    """Return whether X is a pandas data frame."""
    pandas = sys.modules.get("pandas")  # not imported: no frame
    return pandas is not None and isinstance(X, pandas.DataFrame)


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
    if missing not in MISSING:
        raise ValueError(f"missing must be one of {', '.join(map(repr, MISSING))}, but is {missing!r}")
    frame = is_frame(X)
    if not ((frame and _needs_encoding(X)) or (missing != "error" and (frame or _is_numeric(X)))):
        return None
    from ..tables import TableEncoder  # it needs pandas

    return TableEncoder(impute=None if missing == "error" else missing).fit(as_frame(X))


def as_frame(X: Any) -> Any:
    """Return a frame whose columns of objects have the type of their entries; the columns of an array are x0, x1, …"""
    import pandas as pd

    if is_frame(X):
        return X.infer_objects()
    X = check_array(X, dtype=float, ensure_all_finite="allow-nan")
    return pd.DataFrame(X, columns=[f"x{d}" for d in range(X.shape[1])])


def _needs_encoding(frame: Any) -> bool:
    from pandas.api import types

    kinds = frame.infer_objects().dtypes
    return not all(types.is_numeric_dtype(kind) for kind in kinds) or bool(frame.isna().to_numpy().any())


def _is_numeric(X: Any) -> bool:
    try:
        return np.asarray(X, dtype=float).ndim == 2
    except (TypeError, ValueError):  # validation says what is wrong
        return False
