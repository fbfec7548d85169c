"""The content of a report as numbers and sentences; nothing is drawn or written here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import entr
from sklearn.utils import _safe_indexing

from ..._version import __version__
from ...inputs.frames import is_frame
from ..comparison import Comparison, checked_test, compare_engines, engine_name, scored
from ..labels import doubtful, names_of, ranked, row_names, suspicious_labels
from ..metrics import scores
from ..models import (
    as_fitted,
    classifier,
    is_stacked,
    leave_one_out,
    posterior_rows,
    to_inputs,
    training_inputs,
    training_labels,
    without_calibration,
)
from ..novelty import far_rows
from ..predictions import codes_of
from ..seen import FairProbabilities, fair_probabilities
from .hyperparameters import EvidenceMap, KernelComparison, Relevance, evidence_of, kernel_in_words, kernels_of, relevance_of
from .verdict import Verdict, judge, rows_in_words

if TYPE_CHECKING:
    import pandas as pd

MAX_UNCERTAIN = 10  # uncertain rows that are listed
MAX_LABELS = 25  # labels to check that are listed
MAX_COLUMNS = 40  # columns that are summarised


@dataclass(frozen=True)
class Column:
    """Summary of one column of the table."""

    name: str
    kind: str  # "number", or "3 levels"
    mean: float = np.nan
    spread: float = np.nan
    low: float = np.nan
    high: float = np.nan
    missing: int = 0


@dataclass(frozen=True)
class ListedRow:
    """An uncertain or doubtful row."""

    name: str  # its index in the table; for arrays its number from 0
    label: str
    probability: float  # of its label
    other: str  # the most probable label, or the most probable of the others
    other_probability: float
    spread: float = np.nan  # standard deviation of `probability` under the latent posterior


@dataclass(frozen=True)
class Facts:
    """The content of a report."""

    title: str
    version: str
    engine: str
    likelihood: str
    kernel: str
    calibration: str  # a sentence
    weights: list[tuple[str, float]]  # kernels that are averaged, with their weights; empty if there is one
    classes: list[str]
    train_counts: list[int] | None
    test_counts: list[int]
    n_columns: int
    columns: list[Column]
    columns_of: str  # "training rows", "test rows" or "rows judged here"
    scores: dict[str, float]
    engines: list[Comparison]
    engines_words: str  # why no other engines are compared, if so
    confusion: np.ndarray  # (C, C): rows are true classes
    uncertain: list[ListedRow]
    check_train: list[ListedRow]
    check_train_words: str
    checked: bool  # whether the labels of the training rows could be checked
    check_test: list[ListedRow]
    relevance: Relevance
    evidence: EvidenceMap | None
    evidence_words: str
    kernels: KernelComparison | None
    kernels_words: str  # why no other kernels are compared, if so
    before: np.ndarray | None  # (m, C) probabilities of the test rows before calibration; None if there is none
    scores_before: dict[str, float] | None  # scores of these
    far: list[str]  # test rows far from the training data
    verdict: Verdict
    judged: FairProbabilities  # class probabilities of the test rows
    labels: np.ndarray  # of the test rows
    n_given: int  # rows given by the user, some of which may have been excluded

    @property
    def rows(self) -> str:
        """What to call the rows that the model is judged by."""
        return rows_in_words(self.judged)

    @property
    def n_train(self) -> int | None:
        """Number of training rows, or None if it is not known."""
        return None if self.train_counts is None else sum(self.train_counts)

    @property
    def n_test(self) -> int:
        """Number of rows that the model is judged by."""
        return sum(self.test_counts)


def gather(
    model: Any,
    X: Any,
    y: Any,
    *,
    data: Any = None,
    engines: Sequence[str] | None = None,
    kernels: Sequence[str] | None = None,
    title: str | None = None,
) -> Facts:
    """Return the facts of a fitted model on test rows X with labels y; the arguments are those of `write_report`."""
    last = classifier(model)
    labels, codes = checked_test(model, X, y)
    n_given = len(labels)
    X, labels, codes = _fair(model, X, labels, codes)
    train = _training_data(model, data)
    train_labels = training_labels(model) if train is None else np.asarray(train[1])
    own = scored(model, X, labels, engine_name(last.inference_), own=True)
    judged = own.judged
    assert judged is not None, "a scored model has predicted"
    p = judged.p
    rows, rows_words = _compared(model, train, own, X, labels, engines)
    loo = leave_one_out(model)
    check, check_words = _label_check(model, train, loo)
    evidence, evidence_words = evidence_of(model, train)
    others, others_words = kernels_of(model, train, kernels)
    before = _uncalibrated(model, X, labels)
    far = np.flatnonzero(far_rows(model, X) & ~judged.seen)
    own_loo = _own_probability(loo, training_labels(model), last.classes_)
    train_codes = None if train_labels is None else codes_of(train_labels, last.classes_)
    names = [str(label) for label in last.classes_.tolist()]
    context = {"y_train": train_labels, "classes": last.classes_, "ordered": last.likelihood_.ordered}
    test_names = row_names(X)
    described = X if train is None else train[0]
    return Facts(
        title="Gaussian process classification report" if title is None else str(title),
        version=__version__,
        engine=engine_name(last.inference_),
        likelihood=type(last.likelihood_).__name__,
        kernel=repr(last.kernel_),
        calibration=_calibration_in_words(last),
        weights=_weights(last),
        classes=names,
        train_counts=None if train_labels is None else _counts(train_labels, last.classes_),
        test_counts=_counts(labels, last.classes_),
        n_columns=_width(described),
        columns=[describe(name, values) for name, values in _columns(described)[:MAX_COLUMNS]],
        columns_of="training rows" if train is not None else "rows judged here" if judged.n_seen else "test rows",
        scores=scores(labels, p, **context).to_dict(),
        engines=rows,
        engines_words=rows_words,
        confusion=_confusion(codes, p.argmax(axis=1), len(names)),
        uncertain=_uncertain(model, X, judged, codes, names, test_names),
        check_train=[] if check is None else _as_rows(doubtful(check)),
        check_train_words=check_words,
        checked=check is not None,
        check_test=_as_rows(doubtful(ranked(p, labels, last.classes_, test_names))),
        relevance=relevance_of(model),
        evidence=evidence,
        evidence_words=evidence_words,
        kernels=others,
        kernels_words=others_words,
        before=before,
        scores_before=None if before is None else scores(labels, before, **context).to_dict(),
        far=[test_names[i] for i in far],
        verdict=judge(last, judged, codes, own_loo, rows, len(far), check, n_given, train_codes),
        judged=judged,
        labels=labels,
        n_given=n_given,
    )


def _calibration_in_words(last: Any) -> str:
    found = last.calibration_
    if not found.n_rows:
        return "Class probabilities are those of the engine's posterior, without calibration."
    how = "each kernel has its own temperature and noise"
    if not found.is_identity:
        towards = "closer to 0 and 1" if found.temperature < 1 else "further from 0 and 1"
        how = f"temperature {found.temperature:.2f} moves them {towards}"
        how += f", noise {100 * found.noise:.2g} % keeps them off both"
    return (
        f"Class probabilities are calibrated by {found.rows_in_words}{' rows' * found.held_out}: {how}. The "
        f"{found.rows_in_words} NLPD was {found.nlpd_before:.3f} before and is {found.nlpd_after:.3f} after."
    )


def _uncalibrated(model: Any, X: Any, labels: np.ndarray) -> np.ndarray | None:
    """Return the class probabilities of the rows before calibration, or None if the model is not calibrated."""
    if not classifier(model).calibration_.n_rows:
        return None
    return fair_probabilities(without_calibration(model), X, labels).p


def _weights(last: Any) -> list[tuple[str, float]]:
    members = last.members_ if is_stacked(last) else []
    return [(kernel_in_words(member.kernel), member.weight) for member in members] if len(members) > 1 else []


def _fair(model, X, labels, codes):
    """Return the rows to judge by: those with fair probabilities, or all rows if there are none."""
    fair = fair_probabilities(model, X, labels).fair
    if fair.all() or not fair.any():
        return X, labels, codes
    return _safe_indexing(X, fair), labels[fair], codes[fair]


def _training_data(model, data):
    """Return the training data (X, y) that the user passed, after a check of the labels; None if there are none."""
    if data is None:
        return None
    X, y = data
    labels, _ = checked_test(model, X, y)
    known = training_labels(model)
    if known is not None and len(known) == len(labels) and not np.array_equal(known, labels):
        raise ValueError("data holds other rows than the model was fitted to: the labels differ")
    return X, labels


def _own_probability(loo, labels, classes):
    """Return the leave-one-out probabilities (n,) of the training rows' labels, or None."""
    if loo is None or labels is None:
        return None
    return loo[np.arange(len(loo)), codes_of(labels, classes)]


# engines ----------------------------------------------------------------------------------------------------------------


def _compared(model, train, own, X, labels, engines) -> tuple[list[Comparison], str]:
    if train is not None:
        return compare_engines(model, train[0], train[1], X, labels, engines), ""
    last, kept = classifier(model), training_inputs(model)
    if kept is not None and last.kernel_.takes != "covariances":
        # these rows are already transformed, so the classifier is fitted alone
        rows, test = as_fitted(last, kept), as_fitted(last, to_inputs(model, X))
        return compare_engines(last, rows, training_labels(model), test, labels, engines), ""
    if engines:
        raise ValueError("a comparison of engines needs the training rows: pass data=(X_train, y_train)")
    return [own], "Other engines could not be fitted, because the training rows were not given."


# rows -------------------------------------------------------------------------------------------------------------------


def _label_check(model, train, loo):
    """Return the training rows, least probable label first (or None), and a sentence that says how they were judged."""
    labels = training_labels(model)
    if loo is not None and labels is not None:
        words = "Each row is judged by the model without that row (leave-one-out)."
        names = names_of(model, None if train is None else train[0])
        return ranked(loo, labels, classifier(model).classes_, names, posterior_rows(model)), words
    if train is None:
        return None, "This engine has no leave-one-out probabilities, and the training rows were not given."
    return suspicious_labels(model, *train), "Each row is judged by a model that was fitted without it (five folds)."


def _as_rows(check: pd.DataFrame) -> list[ListedRow]:
    check = check.head(MAX_LABELS)
    names = check["name"] if "name" in check else check.index.astype(str)
    figures = zip(check["label"], check["probability"], check["suggested"], check["suggested_probability"], strict=True)
    return [
        ListedRow(name, str(label), float(p), str(other), float(q))
        for name, (label, p, other, q) in zip(names, figures, strict=True)
    ]


def _uncertain(model, X, judged, codes, classes, names) -> list[ListedRow]:
    """Return the rows of largest entropy. Training rows have no spread, since it is not known without the row itself."""
    p = judged.p
    order = np.argsort(-entr(p).sum(axis=1), kind="stable")[:MAX_UNCERTAIN]
    spread = np.where(judged.seen[order, None], np.nan, _spread(model, _safe_indexing(X, order)))
    top = p.argmax(axis=1)
    return [
        ListedRow(names[i], classes[codes[i]], float(p[i, codes[i]]), classes[top[i]], float(p[i, top[i]]), float(s[top[i]]))
        for i, s in zip(order, spread, strict=True)
    ]


def _spread(model, X):
    last = classifier(model)
    return last.predict_proba_std(X if last is model else as_fitted(last, to_inputs(model, X)))


def _confusion(codes, predicted, n_classes):
    table = np.zeros((n_classes, n_classes), dtype=int)
    np.add.at(table, (codes, predicted), 1)
    return table


def _counts(labels, classes):
    return [int(np.sum(labels == label)) for label in classes]


# columns ----------------------------------------------------------------------------------------------------------------


def _width(X):
    return np.shape(X)[1]


def _columns(X) -> list[tuple[str, np.ndarray]]:
    if is_frame(X):
        return [(str(name), np.asarray(X.iloc[:, d])) for d, name in enumerate(X.columns)]
    X = np.asarray(X)
    return [(f"x{d}", X[:, d]) for d in range(X.shape[1])]


def describe(name: str, values: np.ndarray) -> Column:
    """Summarise a column: mean, standard deviation and range of numbers; the number of levels of other values."""
    missing = int(np.sum([value is None or value != value for value in values.tolist()]))
    try:
        numbers = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        levels = {str(value) for value in values.tolist() if value is not None and value == value}
        return Column(name, f"{len(levels)} levels", missing=missing)
    if values.dtype == bool:
        return Column(name, "yes/no", float(numbers.mean()), missing=missing)
    known = numbers[np.isfinite(numbers)]
    if not len(known):
        return Column(name, "empty", missing=missing)
    mean, spread, low, high = (float(value) for value in (known.mean(), known.std(), known.min(), known.max()))
    return Column(name, "number", mean, spread, low, high, missing)
