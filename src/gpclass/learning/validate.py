"""Validation of X and y by scikit-learn's checks, with error messages that refer to the user's input."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

MISSING_ADVICE = (
    "Fill missing values, remove the rows, or use missing='indicator' (the median, and a column that marks them)."
)
TRAINING = [np.float64, np.float32]  # types of numbers that classifiers take as they are
PREDICTING = {"dtype": np.float64, "reset": False}  # settings for further rows of a fitted estimator
NUMPY_TEXT = re.compile(r"np\.(?:str|bytes)_\((.*)\)")  # the form of text in numpy's messages


def validated(estimator: Any, X: Any, y: Any = "no_validation", **settings: Any) -> Any:
    """Return the result of `sklearn.utils.validation.validate_data`: X, or X and y if y is given.

    With `y_numeric`, y is returned in double precision. Text where numbers are needed raises a ValueError with advice.
    """
    # skip the checks, which take longer than predicting a row, if they would certainly return X and y unchanged
    usual = type(X) is np.ndarray and X.dtype == np.float64 and X.ndim == 2 and X.size > 0
    if usual and np.isfinite(X).all():
        fitted = vars(estimator)
        if isinstance(y, str) and settings == PREDICTING:
            if X.shape[1] == fitted.get("n_features_in_") and "feature_names_in_" not in fitted:
                return X
        elif type(y) is np.ndarray and y.dtype.kind in "biuU" and y.shape == (len(X),) and settings == {"dtype": TRAINING}:
            estimator.n_features_in_ = X.shape[1]
            fitted.pop("feature_names_in_", None)
            return X, y
    try:
        found = validate_data(estimator, X, y, **settings)
        return (found[0], np.asarray(found[1], float)) if settings.get("y_numeric") else found
    except OverflowError as error:
        raise ValueError(f"X contains a number that is too large for a float: {error}") from error
    except ValueError as error:
        if "X contains NaN" in str(error):
            raise ValueError(f"{str(error).splitlines()[0]} {MISSING_ADVICE}") from error
        if "could not convert string to float" not in str(error):
            raise
        text = NUMPY_TEXT.sub(r"\1", str(error))
        if _numeric(X):
            raise ValueError(f"{text}; y holds text, but numbers are needed (GPClassifier takes labels)") from error
        advice = "pass a pandas DataFrame, or use gpclass.tables.TableEncoder or scikit-learn's OneHotEncoder"
        raise ValueError(f"{text}; X holds text, but numbers are needed ({advice})") from error


def _numeric(X: Any) -> bool:
    try:
        np.asarray(X, float)
    except (ValueError, TypeError):
        return False
    return True
