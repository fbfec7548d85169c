"""From a table to a fitted pipeline, and from a model to a table of predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from ..assess import error_rate, far_rows, nlpd
from ..assess.models import leave_one_out as loo_probabilities
from ..assess.models import training_labels
from ..estimator import GPClassifier
from ..expressions import parse_kernel
from ..learning import typical_distance
from ..persist import ModelFileError, load
from ..tables import TableEncoder, TableError, checked_labels, labels_as_trained, read_table, split_target


def training_table(path: Path, target: str, drop: str = "") -> tuple[pd.DataFrame, np.ndarray]:
    """Inputs and labels of a file, without the columns that are to be dropped (names with commas between)."""
    frame = read_table(path, target=target)
    names = [name.strip() for name in drop.split(",") if name.strip()]
    strangers = [name for name in names if name not in frame.columns]
    if strangers:
        raise TableError(f"there is no column {strangers[0]!r} to drop; there are {', '.join(map(repr, frame.columns))}")
    if target in names:
        raise TableError(f"{target!r} is the target and cannot be dropped")
    X, y = split_target(frame.drop(columns=names), target)
    if len(np.unique(y)) < 2:
        raise TableError(f"the target {target!r} has one class only, {str(y[0])!r}; there must be two or more to tell apart")
    return X, y


def make_pipeline(
    X: pd.DataFrame,
    target: str,
    *,
    engine: str = "auto",
    likelihood: str = "auto",
    kernel: str | None = None,
    impute: str | None = None,
    restarts: int = 0,
    seed: int = 0,
    verbose: int = 0,
) -> Pipeline:
    """An encoder of tables, a scaler and a classifier, not fitted; X tells how many inputs the kernel has."""
    encoder, scaler = TableEncoder(impute=impute, target=target), StandardScaler()
    made = None
    if kernel is not None:
        inputs = scaler.fit_transform(encoder.fit_transform(X))
        distance = typical_distance(inputs, np.random.default_rng(seed))
        made = parse_kernel(kernel, inputs.shape[1], distance)
    classifier = GPClassifier(made, likelihood, engine, n_restarts=restarts, random_state=seed, verbose=verbose)
    return Pipeline([("table", encoder), ("scale", scaler), ("model", classifier)])


def read_model(path: Path) -> Pipeline:
    """A model that `gpclass fit` wrote."""
    model = load(path)
    if not isinstance(model, Pipeline) or not isinstance(model.steps[0][1], TableEncoder):
        raise ModelFileError(f"{path} holds a {type(model).__name__} that takes arrays; commands need one of `gpclass fit`")
    if not isinstance(model.steps[-1][1], GPClassifier):
        raise ModelFileError(
            f"{path} holds a model that ends in {type(model.steps[-1][1]).__name__}; commands need a classifier"
        )
    return model


def read_for(model: Pipeline, path: Path) -> pd.DataFrame:
    """A table to predict, categories read as the text that they are."""
    return read_table(path, text=model.steps[0][1].text_columns)


def known_labels(model: Pipeline, frame: pd.DataFrame, target: str | None) -> tuple[str, np.ndarray | None]:
    """Name of the target column, and its labels if the table has it."""
    target = target or model.steps[0][1].target
    if target not in frame.columns:
        return target, None
    return target, labels_as_trained(checked_labels(frame[target], target), model.steps[-1][1].classes_, target)


def training_rows(model: Pipeline, path: Path) -> tuple[pd.DataFrame, np.ndarray]:
    """The inputs and labels of a table that a model was fitted to."""
    frame = read_for(model, path)
    target, y = known_labels(model, frame, None)
    if y is None:
        raise TableError(f"{path} has no column {target!r}, which the model was trained to predict")
    return frame[list(model.steps[0][1].feature_names_in_)], y


def predictions(model: Pipeline, frame: pd.DataFrame) -> pd.DataFrame:
    """Predicted class, class probabilities, latent variance, the share of the prior variance that is left, and `far`."""
    classifier = model.steps[-1][1]
    inputs = model[:-1].transform(frame)
    p = classifier.predict_proba(inputs)
    variance, prior = latent_variances(classifier, inputs)
    columns: dict[str, Any] = {"prediction": classifier.classes_[p.argmax(axis=1)]}
    columns |= {f"p({label})": p[:, c] for c, label in enumerate(classifier.classes_)}
    left = variance / prior
    return pd.DataFrame(columns | {"latent_variance": variance, "variance_left": left, "far": far_rows(model, frame)})


def latent_variances(classifier: GPClassifier, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(m,) posterior and prior variances of the latent function; with several, of the differences between classes.

    What all classes have in common has no influence on probabilities, and keeps its prior variance.
    """
    _, cov = classifier.latent(inputs)
    if cov.ndim == 1:
        return cov, np.maximum(classifier.kernel_.diag(inputs), np.finfo(float).tiny)
    C = cov.shape[-1]
    prior = _prior_covariances(classifier.kernel_.diag(inputs), C)
    return _contrast_variance(cov), np.maximum(_contrast_variance(prior), np.finfo(float).tiny)


def _prior_covariances(diagonal: Any, C: int) -> np.ndarray:
    """(m, C, C) from what a kernel's `diag` gives: (m,), (C, m), or values with a covariance of classes."""
    if hasattr(diagonal, "classes") and hasattr(diagonal, "inputs"):
        return np.asarray(diagonal.inputs)[:, None, None] * np.asarray(diagonal.classes)
    values = np.asarray(diagonal)
    return (values.T if values.ndim == 2 else values[:, None])[:, :, None] * np.eye(C)


def _contrast_variance(cov: np.ndarray) -> np.ndarray:
    """tr(H cov)/(C - 1) with H = I - 11ᵀ/C: k for independent latent functions of variance k."""
    C = cov.shape[-1]
    return (np.trace(cov, axis1=1, axis2=2) - cov.sum(axis=(1, 2)) / C) / (C - 1)


def leave_one_out(classifier: GPClassifier) -> dict[str, float | None]:
    """Error and NLPD of leave-one-out probabilities, None where the engine has none."""
    p, y = loo_probabilities(classifier), training_labels(classifier)
    if p is None or y is None:
        return {"loo_error": None, "loo_nlpd": None}
    return {"loo_error": error_rate(y, p, classifier.classes_), "loo_nlpd": nlpd(y, p, classifier.classes_)}


def log_evidence(classifier: GPClassifier) -> float | None:
    value = getattr(classifier, "log_evidence_", None)
    return None if value is None else float(value)


def described(text: Any, longest: int = 160) -> str:
    """A kernel, say, in not too many characters."""
    shown = str(text)
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"
