"""From a table to a fitted pipeline, and from a model to a table of predictions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from ..assess import FairProbabilities, error_rate, fair_probabilities, far_rows, nlpd
from ..assess.models import leave_one_out as loo_probabilities
from ..assess.models import training_labels
from ..estimator import GPClassifier
from ..expressions import parse_kernel
from ..learning import typical_distance
from ..persist import ModelFileError, load
from ..tables import TableEncoder, TableError, checked_labels, labels_as_trained, read_table, split_target, with_ids

ROW, IN_TRAINING = "row", "in_training"  # columns of a table of predictions


@dataclass(frozen=True)
class Rows:
    """A table as it is predicted: rows are named by their line and id."""

    frame: pd.DataFrame  # without the id column
    lines: np.ndarray  # (m,) of the file, header not counted
    ids: pd.Series | None  # the id column, if there is one


def training_table(path: Path, target: str, drop: str = "", id: str | None = None) -> tuple[pd.DataFrame, np.ndarray]:
    """Inputs and labels of a file, without the columns that are to be dropped (names with commas between).

    The index names the rows: by their line in the file, header not counted, and by their entry in the column `id`.
    """
    frame = read_table(path, text=[] if id is None else [id], target=target)
    names = [name.strip() for name in drop.split(",") if name.strip()]
    strangers = [name for name in names if name not in frame.columns]
    if strangers:
        raise TableError(f"there is no column {strangers[0]!r} to drop; there are {', '.join(map(repr, frame.columns))}")
    if target in names:
        raise TableError(f"{target!r} is the target and cannot be dropped")
    if id is not None:
        if id == target:
            raise TableError(f"{target!r} is the target and cannot be the id column, too")
        frame = with_ids(frame, id)
    X, y = split_target(frame.drop(columns=[name for name in names if name != id]), target)
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
    id: str | None = None,
) -> Pipeline:
    """An encoder of tables, a scaler and a classifier, not fitted; X tells how many inputs the kernel has."""
    encoder, scaler = TableEncoder(impute=impute, target=target, id=id), StandardScaler()
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


def read_for(model: Pipeline, path: Path, id: str | None = None, target: str | None = None) -> Rows:
    """A table to predict, categories and labels that are text read as the text that they are.

    `id` names the id column; without it that of the training data counts, if the table has it. The same with `target`.
    """
    encoder, classes = model.steps[0][1], model.steps[-1][1].classes_
    name = id if id is not None else encoder.id
    labels = [] if classes.dtype.kind in "biuf" else [target or encoder.target]  # "01" is not "1" among them
    frame = read_table(path, text=[*encoder.text_columns, *labels, *([] if name is None else [name])])
    lines = frame.index.to_numpy()
    if name is None or (id is None and name not in frame.columns):
        return Rows(frame, lines, None)
    if name in encoder.feature_names_in_:
        raise TableError(f"{name!r} is an input of the model and cannot be the id column, too")
    named = with_ids(frame, name)
    return Rows(named, lines, frame[name])


def known_labels(model: Pipeline, frame: pd.DataFrame, target: str | None) -> tuple[str, np.ndarray | None]:
    """Name of the target column, and its labels if the table has it."""
    target = target or model.steps[0][1].target
    if target not in frame.columns:
        return target, None
    return target, labels_as_trained(checked_labels(frame[target], target), model.steps[-1][1].classes_, target)


def training_rows(model: Pipeline, path: Path, id: str | None = None) -> tuple[pd.DataFrame, np.ndarray]:
    """The inputs and labels of a table that a model was fitted to."""
    frame = read_for(model, path, id).frame
    target, y = known_labels(model, frame, None)
    if y is None:
        raise TableError(f"{path} has no column {target!r}, which the model was trained to predict")
    return frame[list(model.steps[0][1].feature_names_in_)], y


def predictions(model: Pipeline, rows: Rows, judged: FairProbabilities) -> pd.DataFrame:
    """A table with a row for each: its line, id, predicted class, class probabilities, latent variance, the share of the
    prior variance that is left, whether it is far from the training rows, and whether it is one."""
    classifier, p = model.steps[-1][1], judged.predicted
    variance, prior = latent_variances(classifier, model[:-1].transform(rows.frame))
    columns: dict[str, Any] = {ROW: rows.lines, "prediction": classifier.classes_[p.argmax(axis=1)]}
    columns |= {f"p({label})": p[:, c] for c, label in enumerate(classifier.classes_)}
    columns |= {"latent_variance": variance, "variance_left": variance / prior}
    columns |= {"far": far_rows(model, rows.frame), IN_TRAINING: judged.seen}
    table = pd.DataFrame(columns)
    if rows.ids is not None:
        name = str(rows.ids.name)
        table.insert(1, f"{name} (id)" if name in columns else name, rows.ids.to_numpy())
    return table


def judged_rows(model: Pipeline, rows: Rows, y: np.ndarray | None) -> tuple[FairProbabilities, dict[str, Any]]:
    """Probabilities of rows, and how good they are by labels y: by leave-one-out for rows that the model was trained on."""
    judged, classes = fair_probabilities(model, rows.frame, y), model.steps[-1][1].classes_
    figures: dict[str, Any] = {IN_TRAINING: judged.n_seen}
    if y is not None and judged.fair.any():
        some, p = y[judged.fair], judged.p[judged.fair]
        by_loo = int(np.sum(judged.seen & judged.fair))
        figures |= {"scored": len(some), "scored_by_leave_one_out": by_loo}
        figures |= {"error": error_rate(some, p, classes), "nlpd": nlpd(some, p, classes)}
    return judged, figures


def seen_in_words(model: Pipeline, judged: FairProbabilities, scored: bool = True, listed: bool = False) -> str:
    """How many rows are training rows; nothing if there are none.

    Also how these are scored, if there are labels to score with, and what their probabilities mean, if these are listed.
    """
    n, m = judged.n_seen, len(judged.seen)
    if not n:
        return ""
    text = f"{n} of {m} rows {'was' if n == 1 else 'were'} used for training"
    it = "it" if n == 1 else "them"
    if listed:
        text += f"; predictions of {it} come from the model that has seen {it}"
    if not scored:
        return text
    if judged.fair.all():
        return f"{text}; scores of {it} are leave-one-out"
    engine = type(model.steps[-1][1].inference_).__name__
    lost = int(np.sum(~judged.fair))
    which = f"{lost} of them are" if lost < n else "it is" if n == 1 else "they are"
    return f"{text}; {which} not scored, for {engine} has no leave-one-out probabilities"


def latent_variances(classifier: GPClassifier, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(m,) posterior and prior variances of the latent function; with several, of the differences between classes.

    What all classes have in common has no influence on probabilities, and keeps its prior variance.
    """
    _, cov = classifier.latent(inputs)
    if cov.ndim == 1:
        return cov, np.maximum(classifier.kernel_.diag(inputs), np.finfo(float).tiny)
    C = cov.shape[-1]
    prior = _prior_covariances(classifier.kernel_, inputs, C)
    return _contrast_variance(cov), np.maximum(_contrast_variance(prior), np.finfo(float).tiny)


def _prior_covariances(kernel: Any, inputs: np.ndarray, C: int) -> np.ndarray:
    """Return the prior covariances (m, C, C) of the classes at each row."""
    on_inputs, between = kernel.separated
    values = on_inputs.diag(inputs)  # (m,), or (C, m) if classes have kernels of their own
    return (values.T if values.ndim == 2 else values[:, None])[:, :, None] * (np.eye(C) if between is None else between)


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


def fit_figures(classifier: GPClassifier, X: pd.DataFrame, y: np.ndarray) -> dict[str, Any]:
    """What a fit to a table X with labels y was made of, its log evidence and leave-one-out scores."""
    labels, counts = np.unique(y, return_counts=True)
    return {
        "rows": len(y),
        "columns": list(X.columns),
        "inputs": classifier.n_features_in_,
        "classes": {str(label): int(count) for label, count in zip(labels, counts, strict=True)},
        "engine": type(classifier.inference_).__name__,
        "likelihood": type(classifier.likelihood_).__name__,
        "kernel": str(classifier.kernel_),
        "log_evidence": log_evidence(classifier),
        "evidence_is_comparable": classifier.inference_.evidence_is_comparable(classifier.likelihood_),
        **leave_one_out(classifier),
    }


def log_evidence(classifier: GPClassifier) -> float | None:
    value = getattr(classifier, "log_evidence_", None)
    return None if value is None else float(value)


def described(text: Any, longest: int = 160) -> str:
    """A kernel, say, in not too many characters."""
    shown = str(text)
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"
