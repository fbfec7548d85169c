"""Pipelines and model files, and from a model to a table of predictions."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline

from ..assess import FairProbabilities, fair_probabilities, far_rows, summary
from ..assess.metrics import Tally, tally
from ..assess.models import is_stacked
from ..choose import n_latents_of
from ..engines import Engine
from ..estimator import GPClassifier
from ..expressions import parse_kernel
from ..persist import ModelFileError, load
from ..tables import (
    USUAL,
    Option,
    Reading,
    TableEncoder,
    TableError,
    checked_labels,
    labels_as_trained,
    read_table,
    with_ids,
)
from .console import Output
from .names import SAMPLERS
from .reading_options import reading_options, with_reading_option

AUTO_ROWS = 1500  # rows of two classes up to which several kernels are fitted by default; with more, rows of the same cost
ROW, IN_TRAINING = "row", "in_training"  # columns of a table of predictions


@dataclass(frozen=True)
class Rows:
    """A table to predict, whose rows are named by line and id."""

    frame: pd.DataFrame  # without the id column
    lines: np.ndarray  # (m,) line numbers in the file, header not counted
    ids: pd.Series | None  # the id column, if there is one

    def some(self, which: np.ndarray) -> Rows:
        """Return some of the rows, given a boolean for each."""
        return Rows(self.frame[which], self.lines[which], None if self.ids is None else self.ids[which])


@dataclass(frozen=True)
class Labels:
    """The labels of a table, some of whose rows may have none."""

    name: str  # of the column
    y: np.ndarray  # (k,) labels, as classes of the model
    there: np.ndarray  # (m,) whether each row has a label

    @property
    def missing(self) -> str:
        """A remark on the rows without a label; empty if there are none."""
        n = int(np.sum(~self.there))
        return unscored_rows(n, self.name) if n else ""

    @property
    def known(self) -> Labels:
        """The labels of the rows that have one."""
        return Labels(self.name, self.y, np.full(len(self.y), True))

    def filled(self, any_class: object) -> np.ndarray:
        """Return labels of all rows (m,), with some class where there is none."""
        y = np.full(len(self.there), any_class, dtype=self.y.dtype)
        y[self.there] = self.y
        return y


def unscored_rows(n: int, name: str) -> str:
    """Return a remark on rows without a label."""
    return f"{n} row{'s' * (n > 1)} without a label in {name!r} {'are' if n > 1 else 'is'} not scored"


@dataclass(frozen=True)
class Standing:
    """How many rows of a table are training rows, and sums of the scores of its rows; those of several tables are added."""

    rows: int
    recognises: bool  # whether the model recognises training rows
    seen: int  # training rows
    lost: int  # training rows that are not scored, for lack of leave-one-out probabilities
    tally: Tally | None  # of the rows that are scored; None without labels
    by_loo: int = 0  # training rows that are scored
    unlabelled: int = 0  # rows without a label in a table with labels

    def __add__(self, other: Standing) -> Standing:
        if not (self.rows and other.rows):
            return self if self.rows else other
        both = self.tally is not None and other.tally is not None
        total = self.tally + other.tally if both else None  # type: ignore[operator]
        counts = self.rows + other.rows, self.recognises, self.seen + other.seen, self.lost + other.lost
        return Standing(*counts, total, self.by_loo + other.by_loo, self.unlabelled + other.unlabelled)

    def figures(self, model: Pipeline) -> dict[str, Any]:
        """Return the numbers of training rows and of scored rows, and the scores."""
        shown: dict[str, Any] = {IN_TRAINING: self.seen if self.recognises else None}
        scored = 0 if self.tally is None else int(self.tally.counts.sum())
        if self.tally is None or not scored:
            return shown
        ordered = model.steps[-1][1].likelihood_.ordered
        scores = self.tally.scores(ordered=ordered)
        shown |= {"scored": scored, "scored_by_leave_one_out": self.by_loo}
        shown |= {"error": scores["error_rate"], "nlpd": scores["nlpd"]}
        return shown | ({"ranked_probability_score": scores["ranked_probability_score"]} if ordered else {})


def default_kernel(n_rows: int, n_classes: int, engine: str, likelihood: str = "auto") -> str | None:
    """Return the kernel of a fit for which none is given: "auto" for tables on which that takes seconds, otherwise None."""
    n_latents = n_latents_of(likelihood, n_classes)
    work = n_rows * (1 if n_latents == 1 else n_latents + 1) ** (1 / 3)
    return "auto" if work <= AUTO_ROWS and engine not in SAMPLERS else None


def make_pipeline(
    encoder: TableEncoder,
    *,
    engine: str | Engine = "auto",
    likelihood: str = "auto",
    categories: list[Any] | None = None,
    kernel: str | None = None,
    restarts: int = 0,
    seed: int = 0,
    jobs: int | None = None,
    calibrate: str = "loo",
) -> Pipeline:
    """Return an unfitted pipeline of table encoder and classifier; the latter measures inputs in units of their spreads."""
    if kernel not in (None, "auto"):
        parsed = parse_kernel(kernel, n_columns=1)  # reports mistakes in the text before any work
        if parsed.takes == "covariances":
            raise ValueError(
                f"--kernel {kernel!r} needs a covariance matrix, but a table has inputs; Python has this kernel"
            )
    settings: dict[str, Any] = {"categories": categories, "n_restarts": restarts, "random_state": seed}
    settings["n_jobs"] = jobs
    classifier = GPClassifier(kernel, likelihood, engine, calibrate=calibrate, **settings)
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


@dataclass(frozen=True)
class Asked:
    """Options for a table to predict.

    By default the columns of ids and labels are those of the training data, if the table has them.
    """

    id: str | None = None
    target: str | None = None
    reading: Reading = USUAL
    imputes: bool = True  # whether the model takes missing values

    def options(self) -> dict[str, str | bool]:
        """Return the values of the options of the command line by name. Those that are not set are empty or false."""
        every = {"--id": self.id or "", "--target": self.target or "", **reading_options(self.reading)}
        return {name: value for name, value in every.items() if name != "--missing-values" or self.imputes}

    def with_option(self, option: Option) -> Asked:
        """Return this with one more option; those of training tables, and those that do not help, change nothing."""
        if option.name not in self.options():
            return self
        if option.name == "--id":
            return replace(self, id=option.value)
        if option.name == "--target":
            return replace(self, target=option.value)
        return replace(self, reading=with_reading_option(self.reading, option))


def read_for(model: Pipeline, path: Path, asked: Asked = Asked()) -> Rows:
    """Return a table to predict. Columns that were text in the training data are read as text.

    Raises
    ------
    TableError
        If the table cannot be read, or its rows cannot be encoded.
    """
    frame = read_table(path, text=text_columns(model, asked.id, asked.target), reading=asked.reading)
    rows = rows_of(model, frame, asked.id)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # predictions warn
        model.steps[0][1].transform(rows.frame)
    return rows


def imputes(model: Pipeline) -> bool:
    """Return whether a model takes missing values."""
    return model.steps[0][1].impute is not None


def text_columns(model: Pipeline, id: str | None = None, target: str | None = None) -> list[str]:
    """Return the columns of a table to predict that are read as text."""
    encoder, classes = model.steps[0][1], model.steps[-1][1].classes_
    name = id if id is not None else encoder.id
    labels = [] if classes.dtype.kind in "biuf" else [target or encoder.target]  # keeps "01" and "1" apart
    return [*encoder.text_columns, *labels, *([] if name is None else [name])]


def rows_of(model: Pipeline, frame: pd.DataFrame, id: str | None = None) -> Rows:
    """Return a data frame, whose index has the lines of the rows, as a table to predict."""
    encoder = model.steps[0][1]
    name = id if id is not None else encoder.id
    lines = frame.index.to_numpy()
    if name is None or (id is None and name not in frame.columns):
        return Rows(frame, lines, None)
    if name in encoder.feature_names_in_:
        raise TableError(f"{name!r} is an input of the model and cannot be the id column")
    named = with_ids(frame, name)
    return Rows(named, lines, frame[name])


def target_of(model: Pipeline, target: str | None = None) -> str:
    """Return the name of the target column, by default that of the training data."""
    return target or model.steps[0][1].target


def known_labels(model: Pipeline, frame: pd.DataFrame, target: str | None = None) -> Labels | None:
    """Return the labels of a table; None if it has no such column. Rows may have no label, but not all of them."""
    target = target_of(model, target)
    if target not in frame.columns:
        return None
    there = frame[target].notna().to_numpy()
    if not there.any():
        raise TableError(f"the target {target!r} is empty in every row")
    y = checked_labels(frame.loc[there, target].infer_objects(), target)
    return Labels(target, labels_as_trained(y, model.steps[-1][1].classes_, target), there)


def training_rows(model: Pipeline, path: Path, asked: Asked) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the inputs and labels of the table that a model was fitted to."""
    frame = read_for(model, path, asked).frame
    labels = known_labels(model, frame)
    if labels is None:
        raise TableError(f"{path} has no column {target_of(model)!r}, which the model was trained to predict")
    return frame.loc[labels.there, list(model.steps[0][1].feature_names_in_)], labels.y


def predictions(model: Pipeline, rows: Rows, judged: FairProbabilities) -> pd.DataFrame:
    """Return a table with a row for each row: line, id, predicted class, class probabilities, latent variance, its ratio to
    the prior variance, whether the row is far from the training rows, and whether it is a training row, if that is known."""
    classifier, p = model.steps[-1][1], judged.predicted
    variance, prior = latent_variances(classifier, model[:-1].transform(rows.frame))
    columns: dict[str, Any] = {ROW: rows.lines, "prediction": classifier.classes_[p.argmax(axis=1)]}
    columns |= {f"p({label})": p[:, c] for c, label in enumerate(classifier.classes_)}
    columns |= {"latent_variance": variance, "variance_left": variance / prior}
    seen = judged.seen if judged.recognises else pd.array([None] * len(p), dtype="boolean")
    columns |= {"far": far_rows(model, rows.frame), IN_TRAINING: seen}
    table = pd.DataFrame(columns)
    if rows.ids is not None:
        name = str(rows.ids.name)
        table.insert(1, f"{name} (id)" if name in columns else name, rows.ids.to_numpy())
    return table


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table of predictions as dicts; what is not known is None."""
    return table.astype({IN_TRAINING: object}).where(table.notna(), None).to_dict(orient="records")


def beside(rows: Rows, table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with the columns of the input, followed by those of the predictions."""
    known = rows.frame.columns
    return rows.frame.reset_index(drop=True).join(table.rename(columns=lambda c: f"{c} (predicted)" if c in known else c))


def judged_rows(model: Pipeline, rows: Rows, labels: Labels | None) -> tuple[FairProbabilities, Standing]:
    """Return the probabilities of rows, and sums of their scores; training rows are scored by leave-one-out."""
    classes = model.steps[-1][1].classes_
    y = None if labels is None else labels.filled(classes[0])
    judged = fair_probabilities(model, rows.frame, y)
    facts = len(judged.p), judged.recognises, judged.n_seen
    if labels is None or y is None:
        return judged, Standing(*facts, int(np.sum(~judged.fair)), None)
    scored = judged.fair & labels.there
    counts = int(np.sum(judged.seen & scored)), int(np.sum(~labels.there))
    return judged, Standing(*facts, int(np.sum(~judged.fair)), tally(y[scored], judged.p[scored], classes), *counts)


def seen_in_words(model: Pipeline, standing: Standing, scored: bool = True, listed: bool = False) -> str:
    """Return a sentence on how many rows are training rows; empty if there are none.

    With `scored` it says how these rows are scored, with `listed` what their listed predictions are.
    """
    n, m = standing.seen, standing.rows
    if not standing.recognises:
        text = "not known, because the model was fitted on a cluster"
        return f"{text}; if rows were used for training, their scores are too good" if scored else text
    if not n:
        return ""
    text = f"{n} of {m} rows {'was' if n == 1 else 'were'} used for training"
    it = "it" if n == 1 else "them"
    if listed:
        text += f"; predictions of {it} come from the model that has seen {it}"
    if not scored:
        return text
    lost = standing.lost
    if not lost:
        return f"{text}; scores of {it} are leave-one-out"
    engine = type(model.steps[-1][1].inference_).__name__
    which = f"{lost} of them are" if lost < n else "it is" if n == 1 else "they are"
    return f"{text}; {which} not scored, because {engine} has no leave-one-out probabilities"


def latent_variances(classifier: GPClassifier, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return posterior and prior variances (m,) of the latent function; with several, of the differences between classes.

    A shift common to all classes does not change the probabilities and keeps its prior variance, so it is excluded. If
    predictions average over several kernels, so do these variances.
    """
    stack = classifier.members_ if is_stacked(classifier) else None
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


def fit_figures(classifier: GPClassifier, columns: list[str], counts: dict[Any, int]) -> dict[str, Any]:
    """Return a summary of a fit: data, model, log evidence and leave-one-out scores.

    `columns` are the inputs of the table, and `counts` the numbers of rows of each label.
    """
    return {
        "rows": sum(counts.values()),
        "columns": columns,
        "inputs": classifier.n_features_in_,
        "classes": {str(label): counts[label] for label in classifier.classes_.tolist()},
        **summary(classifier),
    }


def described(text: Any, longest: int = 160) -> str:
    """Return an object, such as a kernel, as text of at most `longest` characters."""
    shown = str(text)
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def scores_in_words(outcome: dict[str, Any]) -> str:
    """Return the scores of predicted rows as text."""
    ranked = outcome.get("ranked_probability_score")
    more = "" if ranked is None else f", ranked probability score {ranked:.3f}"
    return f"error {100 * outcome['error']:.1f} %, NLPD {outcome['nlpd']:.3f} nats{more} on {outcome['scored']} rows"


def labels_if_any(fitted: Any, frame: Any, out: Output) -> Labels | None:
    """Return the labels of a table; if they cannot be used, print why and return None."""
    try:
        labels = known_labels(fitted, frame)
    except ValueError as error:
        out.remark(f"not scored: {error}")
        return None
    remark_missing(labels, out)
    return labels


def remark_missing(labels: Labels | None, out: Output) -> None:
    """Print how many rows have no label, if there are some."""
    if labels is not None and labels.missing:
        out.remark(f"note: {labels.missing}")
