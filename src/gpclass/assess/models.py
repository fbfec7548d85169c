"""Access to the parts of a model: a fitted `GPClassifier`, or a scikit-learn pipeline whose last step is one.

In a pipeline the classifier sees the rows after the earlier steps have transformed them. The functions here return what
assessments need: the classifier, its training rows and labels, and the names of its inputs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..inputs import more_inputs, on_rows
from ..learning.rows import inputs_of_rows


def last_step(model: Any) -> Any:
    """Return the model itself, or the last step of a pipeline."""
    return last_step(model.steps[-1][1]) if isinstance(model, Pipeline) else model


def classifier(model: Any) -> Any:
    """Return the fitted Gaussian process classifier: the model itself, or the last step of a pipeline.

    If it encodes data frames itself, the result is a copy that takes encoded rows, as `to_inputs` returns them.
    """
    last = last_step(model)
    if not hasattr(last, "latent") or not hasattr(last, "predict_proba"):
        raise TypeError(
            f"this needs a GPClassifier, or a scikit-learn pipeline that ends in one; got {type(model).__name__}"
            + (f", which ends in {type(last).__name__}" if last is not model else "")
        )
    check_is_fitted(last)
    return on_rows(last)


def is_stacked(last: Any) -> bool:
    """Return whether predictions of a classifier are averages over several kernels."""
    return isinstance(last.kernel, str) and last.kernel == "auto"


def without_calibration(model: Any) -> Any:
    """Return a copy of the model whose class probabilities are those of the engine's posterior."""
    if isinstance(model, Pipeline):
        *steps, (name, last) = model.steps
        return Pipeline([*steps, (name, without_calibration(last))])
    return model.uncalibrated()


def to_inputs(model: Any, X: Any) -> np.ndarray:
    """Return the rows (m, D) as the classifier sees them, after the earlier steps of the pipeline."""
    if isinstance(model, Pipeline):
        for _, step in model.steps[:-1]:
            X = X if step is None or isinstance(step, str) else step.transform(X)
        return to_inputs(model.steps[-1][1], X)
    return np.asarray(X, dtype=float) if on_rows(model) is model else more_inputs(model, X)


def as_fitted(last: Any, rows: np.ndarray) -> Any:
    """Return the rows with the column names that the classifier was fitted with, if any: it checks them."""
    names = getattr(last, "feature_names_in_", None)
    if names is None:
        return rows
    import pandas as pd  # names come from data frames, so pandas is installed

    return pd.DataFrame(rows, columns=names)


def input_names(model: Any) -> list[str]:
    """Return the names of the classifier's inputs: the column names if known, otherwise x0, x1, …"""
    last = classifier(model)
    own = getattr(last_step(model), "encoder_", None)
    if own is not None:
        return [str(name) for name in own.get_feature_names_out()]
    if hasattr(last, "feature_names_in_"):
        return [str(name) for name in last.feature_names_in_]
    if isinstance(model, Pipeline) and len(model.steps) > 1:
        try:
            return [str(name) for name in model[:-1].get_feature_names_out()]
        except (AttributeError, ValueError):  # a step that does not name its outputs
            pass
    return [f"x{d}" for d in range(last.n_features_in_)]


def training_labels(model: Any) -> np.ndarray | None:
    """Return the labels (n,) of all training rows in order, or None if the posterior does not keep them, or some have none.

    Rows of weight zero are left out; of soft labels it is the one with the largest weight.
    """
    last = classifier(model)
    # a posterior on active rows of a Dask collection keeps the labels of these only
    if last.inference_.design == "inducing inputs" or getattr(last, "row_fingerprints_", 0) is None:
        return None
    codes, rows = last.likelihood_.codes_of(last.posterior_.y), last.row_map_
    if np.any(codes < 0):
        return None
    return last.classes_[codes if rows is None else codes[rows.main[rows.used]]]


def training_inputs(model: Any) -> np.ndarray | None:
    """Return all training rows (n, D) as the classifier saw them, or None if it does not keep all of them."""
    last, labels = classifier(model), training_labels(model)
    inputs = np.asarray(last.inputs_)
    return None if labels is None or inputs.ndim != 2 else inputs_of_rows(inputs, last.posterior_.y, last.row_map_)


def training_names(model: Any) -> list[str] | None:
    """Return the names of the training rows in their table, or None if the model was fitted to arrays."""
    first = model.steps[0][1] if isinstance(model, Pipeline) else getattr(model, "encoder_", None)
    names = getattr(first, "row_names_", None)
    return None if names is None else [str(name) for name in names]


def posterior_rows(model: Any) -> np.ndarray | None:
    """Return the row numbers (n,) of the rows in `training_labels` and `leave_one_out`, or None if there are none."""
    last, labels = classifier(model), training_labels(model)
    if labels is None:
        return getattr(last, "rows_", None)
    used = np.arange(len(labels)) if last.row_map_ is None else np.flatnonzero(last.row_map_.used)
    return getattr(last, "rows_", used)


def leave_one_out(model: Any) -> np.ndarray | None:
    """Return the leave-one-out class probabilities (n, C) of the training rows, or None if the posterior has none."""
    last = classifier(model)
    if last.inference_.augment is not None:  # leaving a row out would leave its augmented copies in
        return None
    try:
        p = last.loo()
        return p if last.row_map_ is None else p[last.row_map_.used]
    except AttributeError:  # raised if the training rows are not kept
        return None
