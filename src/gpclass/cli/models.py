"""From a table to a fitted pipeline, and from a model to a table of predictions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline

from ..assess import FairProbabilities, error_rate, fair_probabilities, far_rows, nlpd, ranked_probability_score
from ..assess.models import codes_of, training_labels
from ..assess.models import leave_one_out as loo_probabilities
from ..choose import n_latents_of
from ..estimator import GPClassifier
from ..expressions import parse_kernel
from ..persist import ModelFileError, load
from ..tables import TableEncoder, TableError, checked_labels, labels_as_trained, read_table, split_target, with_ids
from .names import SAMPLERS

AUTO_ROWS = 1500  # rows of two classes up to which several kernels are fitted by default; with more, rows of the same cost
ROW, IN_TRAINING = "row", "in_training"  # columns of a table of predictions


@dataclass(frozen=True)
class Rows:
    """A table to predict, whose rows are named by line and id."""

    frame: pd.DataFrame  # without the id column
    lines: np.ndarray  # (m,) line numbers in the file, header not counted
    ids: pd.Series | None  # the id column, if there is one


def training_table(path: Path, target: str, drop: str = "", id: str | None = None) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the inputs and labels in a file, without the columns in `drop` (names separated by commas).

    The index holds the name of each row: its line in the file, header not counted, and its entry in the column `id`.
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
            raise TableError(f"{target!r} is the target and cannot be the id column")
        frame = with_ids(frame, id)
    X, y = split_target(frame.drop(columns=[name for name in names if name != id]), target)
    if len(np.unique(y)) < 2:
        raise TableError(f"the target {target!r} has only one class, {str(y[0])!r}; at least two are needed")
    return X, y


def ordered_labels(categories: str, y: np.ndarray) -> list[Any] | None:
    """Return the labels of an option such as "low,medium,high" as they are in y, or None if it is empty."""
    known = {str(label): label for label in np.unique(y).tolist()}
    names = [name.strip() for name in categories.split(",") if name.strip()]
    return [known.get(name, name) for name in names] or None


def default_kernel(n_rows: int, n_classes: int, engine: str, likelihood: str = "auto") -> str | None:
    """Return the kernel of a fit for which none is given: "auto" for tables on which that takes seconds, otherwise None."""
    n_latents = n_latents_of(likelihood, n_classes)
    work = n_rows * (1 if n_latents == 1 else n_latents + 1) ** (1 / 3)
    return "auto" if work <= AUTO_ROWS and engine not in SAMPLERS else None


def make_pipeline(
    target: str,
    *,
    engine: str = "auto",
    likelihood: str = "auto",
    categories: list[Any] | None = None,
    kernel: str | None = None,
    impute: str | None = None,
    restarts: int = 0,
    seed: int = 0,
    verbose: int = 0,
    id: str | None = None,
) -> Pipeline:
    """Return an unfitted pipeline of table encoder and classifier; the latter measures inputs in units of their spreads."""
    if kernel not in (None, "auto"):
        parsed = parse_kernel(kernel, n_columns=1)  # reports mistakes in the text before any work
        if parsed.takes == "covariances":
            raise ValueError(
                f"--kernel {kernel!r} needs a covariance matrix, but a table has inputs; Python has this kernel"
            )
    encoder = TableEncoder(impute=impute, target=target, id=id)
    settings: dict[str, Any] = {"categories": categories, "n_restarts": restarts, "random_state": seed, "verbose": verbose}
    classifier = GPClassifier(kernel, likelihood, engine, **settings)
    return Pipeline([("table", encoder), ("model", classifier)])


def read_model(path: Path) -> Pipeline:
    """Return a model written by `gpclass fit`."""
    model = load(path)
    if not isinstance(model, Pipeline) or not isinstance(model.steps[0][1], TableEncoder):
        raise ModelFileError(
            f"{path} contains a {type(model).__name__} for arrays; commands need a model written by `gpclass fit`"
        )
    if not isinstance(model.steps[-1][1], GPClassifier):
        raise ModelFileError(
            f"{path} contains a model whose last step is {type(model.steps[-1][1]).__name__}; commands need a GPClassifier"
        )
    return model


def read_for(model: Pipeline, path: Path, id: str | None = None, target: str | None = None) -> Rows:
    """Return a table to predict. Columns that were text in the training data are read as text.

    `id` and `target` are names of columns. By default they are those of the training data, if the table has them.
    """
    encoder, classes = model.steps[0][1], model.steps[-1][1].classes_
    name = id if id is not None else encoder.id
    labels = [] if classes.dtype.kind in "biuf" else [target or encoder.target]  # keeps "01" and "1" apart
    frame = read_table(path, text=[*encoder.text_columns, *labels, *([] if name is None else [name])])
    lines = frame.index.to_numpy()
    if name is None or (id is None and name not in frame.columns):
        return Rows(frame, lines, None)
    if name in encoder.feature_names_in_:
        raise TableError(f"{name!r} is an input of the model and cannot be the id column")
    named = with_ids(frame, name)
    return Rows(named, lines, frame[name])


def known_labels(model: Pipeline, frame: pd.DataFrame, target: str | None) -> tuple[str, np.ndarray | None]:
    """Return the name of the target column, and its labels if the table has it."""
    target = target or model.steps[0][1].target
    if target not in frame.columns:
        return target, None
    return target, labels_as_trained(checked_labels(frame[target], target), model.steps[-1][1].classes_, target)


def training_rows(model: Pipeline, path: Path, id: str | None = None) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the inputs and labels of the table that a model was fitted to."""
    frame = read_for(model, path, id).frame
    target, y = known_labels(model, frame, None)
    if y is None:
        raise TableError(f"{path} has no column {target!r}, which the model was trained to predict")
    return frame[list(model.steps[0][1].feature_names_in_)], y


def predictions(model: Pipeline, rows: Rows, judged: FairProbabilities) -> pd.DataFrame:
    """Return a table with a row for each row: line, id, predicted class, class probabilities, latent variance, its ratio to
    the prior variance, whether the row is far from the training rows, and whether it is a training row."""
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
    """Return the probabilities of rows, and scores by labels y; training rows are scored by leave-one-out."""
    judged, classes = fair_probabilities(model, rows.frame, y), model.steps[-1][1].classes_
    figures: dict[str, Any] = {IN_TRAINING: judged.n_seen}
    if y is not None and judged.fair.any():
        some, p = y[judged.fair], judged.p[judged.fair]
        by_loo = int(np.sum(judged.seen & judged.fair))
        figures |= {"scored": len(some), "scored_by_leave_one_out": by_loo}
        figures |= {"error": error_rate(some, p, classes), "nlpd": nlpd(some, p, classes)}
        figures |= ranked(model.steps[-1][1], some, p)
    return judged, figures


def seen_in_words(model: Pipeline, judged: FairProbabilities, scored: bool = True, listed: bool = False) -> str:
    """Return a sentence on how many rows are training rows; empty if there are none.

    With `scored` it says how these rows are scored, with `listed` what their listed predictions are.
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
    return f"{text}; {which} not scored, because {engine} has no leave-one-out probabilities"


def latent_variances(classifier: GPClassifier, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return posterior and prior variances (m,) of the latent function; with several, of the differences between classes.

    A shift common to all classes does not change the probabilities and keeps its prior variance, so it is excluded. If
    predictions average over several kernels, so do these variances.
    """
    stack = classifier.members_ if _stacked(classifier) else None
    if stack is None:
        return _variances(classifier.latent(inputs)[1], classifier.kernel_, inputs)
    each = [(one.weight, *_variances(one.ask("predict", inputs)[1], one.kernel, inputs)) for one in stack]
    return sum(w * posterior for w, posterior, _ in each), sum(w * prior for w, _, prior in each)


def _variances(cov: np.ndarray, kernel: Any, inputs: np.ndarray) -> tuple[Any, Any]:
    if cov.ndim == 1:
        return cov, np.maximum(kernel.diag(inputs), np.finfo(float).tiny)
    prior = _prior_covariances(kernel, inputs, cov.shape[-1])
    return _contrast_variance(cov), np.maximum(_contrast_variance(prior), np.finfo(float).tiny)


def _prior_covariances(kernel: Any, inputs: np.ndarray, C: int) -> np.ndarray:
    """Return the prior covariances (m, C, C) of the classes at each row."""
    on_inputs, between = kernel.separated
    values = on_inputs.diag(inputs)  # (m,), or (C, m) if each class has its own kernel
    return (values.T if values.ndim == 2 else values[:, None])[:, :, None] * (np.eye(C) if between is None else between)


def _contrast_variance(cov: np.ndarray) -> np.ndarray:
    """Return tr(H cov)/(C - 1) with H = I - 11ᵀ/C, which is k for independent latent functions of variance k."""
    C = cov.shape[-1]
    return (np.trace(cov, axis1=1, axis2=2) - cov.sum(axis=(1, 2)) / C) / (C - 1)


def leave_one_out(classifier: GPClassifier) -> dict[str, float | None]:
    """Return error rate and NLPD of the leave-one-out probabilities, or None if the engine has none."""
    p, y = loo_probabilities(classifier), training_labels(classifier)
    if p is None or y is None:
        return {"loo_error": None, "loo_nlpd": None}
    shown = {"loo_error": error_rate(y, p, classifier.classes_), "loo_nlpd": nlpd(y, p, classifier.classes_)}
    return {**shown, **ranked(classifier, y, p, "loo_")}


def ranked(classifier: GPClassifier, y: np.ndarray, p: np.ndarray, prefix: str = "") -> dict[str, float]:
    """Return the ranked probability score under its name, if the classes are ordered."""
    if not classifier.likelihood_.ordered:
        return {}
    return {f"{prefix}ranked_probability_score": ranked_probability_score(y, p, classifier.classes_)}


def fit_figures(classifier: GPClassifier, X: pd.DataFrame, y: np.ndarray) -> dict[str, Any]:
    """Return a summary of a fit to a table X with labels y: data, model, log evidence and leave-one-out scores."""
    labels = classifier.classes_.tolist()
    counts = np.bincount(codes_of(y, classifier.classes_), minlength=len(labels))
    return {
        "rows": len(y),
        "columns": list(X.columns),
        "inputs": classifier.n_features_in_,
        "classes": {str(label): int(count) for label, count in zip(labels, counts, strict=True)},
        "engine": type(classifier.inference_).__name__,
        "likelihood": type(classifier.likelihood_).__name__,
        "kernel": str(classifier.kernel_),
        "kernels": {str(one.kernel): one.weight for one in classifier.members_} if _stacked(classifier) else {},
        "calibration": _calibration(classifier),
        "log_evidence": log_evidence(classifier),
        "evidence_is_comparable": classifier.inference_.evidence_is_comparable(classifier.likelihood_),
        **leave_one_out(classifier),
    }


def _stacked(classifier: GPClassifier) -> bool:
    return classifier.kernel == "auto"


def _calibration(classifier: GPClassifier) -> dict[str, Any] | None:
    """Return what the calibration found, or None if there is none. The members of a stack have their own."""
    found = classifier.calibration_
    if not found.n_rows:
        return None
    shown = {"loo_nlpd_before": found.nlpd_before, "loo_nlpd_after": found.nlpd_after}
    return shown if _stacked(classifier) else {"temperature": found.temperature, "noise": found.noise, **shown}


def log_evidence(classifier: GPClassifier) -> float | None:
    """Return the log evidence, or None if the engine has none."""
    value = getattr(classifier, "log_evidence_", None)
    return None if value is None else float(value)


def described(text: Any, longest: int = 160) -> str:
    """Return an object, such as a kernel, as text of at most `longest` characters."""
    shown = str(text)
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"
