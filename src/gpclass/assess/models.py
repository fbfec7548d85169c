"""What a model is made of: a fitted `GPClassifier`, or a scikit-learn pipeline that ends in one.

The classifier sees what the steps before it make of a table. Here the two are told apart, and asked for what assessments
need: the rows that the classifier has seen, their labels, and the names of its inputs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted


def classifier(model: Any) -> Any:
    """The fitted Gaussian process classifier: the model itself, or the last step of a pipeline."""
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    if isinstance(last, Pipeline):
        return classifier(last)
    if not hasattr(last, "latent") or not hasattr(last, "predict_proba"):
        raise TypeError(
            f"this needs a GPClassifier, or a scikit-learn pipeline that ends in one; got {type(model).__name__}"
            + (f", which ends in {type(last).__name__}" if last is not model else "")
        )
    check_is_fitted(last)
    return last


def to_inputs(model: Any, X: Any) -> np.ndarray:
    """(m, D) rows as the classifier sees them, after the steps of the pipeline before it."""
    if isinstance(model, Pipeline):
        for _, step in model.steps[:-1]:
            X = X if step is None or isinstance(step, str) else step.transform(X)
        return to_inputs(model.steps[-1][1], X)
    return np.asarray(X, dtype=float)


def as_fitted(last: Any, rows: np.ndarray) -> Any:
    """Rows for the classifier itself: with the names that it was fitted with, if any, for it asks for them."""
    names = getattr(last, "feature_names_in_", None)
    if names is None:
        return rows
    import pandas as pd  # which made the names

    return pd.DataFrame(rows, columns=names)


def input_names(model: Any) -> list[str]:
    """Names of the classifier's inputs: those of the columns where they are known, x0, x1, … otherwise."""
    last = classifier(model)
    if hasattr(last, "feature_names_in_"):
        return [str(name) for name in last.feature_names_in_]
    if isinstance(model, Pipeline) and len(model.steps) > 1:
        try:
            return [str(name) for name in model[:-1].get_feature_names_out()]
        except (AttributeError, ValueError):  # a step that does not name its outputs
            pass
    return [f"x{d}" for d in range(last.n_features_in_)]


def training_labels(model: Any) -> np.ndarray | None:
    """(n,) labels of all training rows in their order, or None where the posterior does not keep them."""
    last = classifier(model)
    y = getattr(last.posterior_, "y", None)
    if y is None:
        return None
    codes = np.asarray(y) if last.likelihood_.n_latents > 1 else (np.asarray(y) > 0)
    return last.classes_[codes.astype(int)]


def training_inputs(model: Any) -> np.ndarray | None:
    """(n, D) all training rows as the classifier saw them, or None where it rests on fewer."""
    last, labels = classifier(model), training_labels(model)
    inputs = np.asarray(last.inputs_)
    return inputs if labels is not None and inputs.ndim == 2 and len(inputs) == len(labels) else None


def training_names(model: Any) -> list[str] | None:
    """Names of the training rows as the table had them, or None where the model was fitted to arrays."""
    first = model.steps[0][1] if isinstance(model, Pipeline) else model
    names = getattr(first, "row_names_", None)
    return None if names is None else [str(name) for name in names]


def posterior_rows(model: Any) -> np.ndarray | None:
    """(n,) numbers of the training rows that `training_labels` and `leave_one_out` are of, or None where there are none."""
    last, labels = classifier(model), training_labels(model)
    return getattr(last, "rows_", None if labels is None else np.arange(len(labels)))


def leave_one_out(model: Any) -> np.ndarray | None:
    """(n, C) class probabilities of each training row given all others, or None where the posterior has none."""
    last = classifier(model)
    if getattr(last.inference_, "augment", None) is not None:  # copies of a row would stay in when it is left out
        return None
    try:
        return last.loo()
    except AttributeError:  # says that no training rows are kept
        return None


def codes_of(labels: Any, classes: np.ndarray, name: str = "y") -> np.ndarray:
    """(n,) places of the labels among the classes, or an error that names the strangers."""
    labels = np.asarray(labels)
    if labels.ndim != 1:
        raise ValueError(f"{name} must be a vector of labels; its shape is {labels.shape}")
    place = {label: code for code, label in enumerate(classes.tolist())}
    strangers = sorted({str(label) for label in labels.tolist() if label not in place})
    if strangers:
        shown = ", ".join(strangers[:5]) + (", …" if len(strangers) > 5 else "")
        raise ValueError(f"{name} has labels that the model has not seen: {shown}. It knows {classes.tolist()}")
    return np.array([place[label] for label in labels.tolist()], dtype=int)
