"""Comparison of engines on given test rows: evidence, test scores and fitting time."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from ..choose import default_engines, short_name
from .metrics import error_rate, expected_calibration_error, nlpd
from .models import classifier, last_step
from .predictions import codes_of
from .seen import FairProbabilities, fair_probabilities
from .summaries import loo_scores

MAX_REFIT_ROWS = 3000  # rows times latent functions up to which a model is fitted again to measure its time
FIT_ERRORS = (  # raised by fits of engines that do not suit the data
    ValueError, TypeError, ArithmeticError, np.linalg.LinAlgError, MemoryError, AttributeError, NotImplementedError,
)  # fmt: skip


@dataclass(frozen=True)
class Comparison:
    """Results of one engine. Missing values are NaN."""

    name: str
    log_evidence: float = np.nan
    loo_nlpd: float = np.nan  # leave-one-out NLPD of the training rows
    nlpd: float = np.nan  # of the test rows, as are `error` and `calibration`
    error: float = np.nan  # error rate
    calibration: float = np.nan  # expected calibration error
    seconds: float = np.nan  # time of the fit
    own: bool = False  # whether this is the engine of the given model
    note: str = ""  # warnings and errors
    judged: FairProbabilities | None = None  # probabilities of the test rows

    @property
    def probabilities(self) -> np.ndarray | None:
        """Class probabilities (m, C) of the test rows; leave-one-out for those that are training rows."""
        return None if self.judged is None else self.judged.p


def compare_engines(
    model: Any, X: Any, y: Any, X_test: Any, y_test: Any, engines: Sequence[str] | None = None
) -> list[Comparison]:
    """Fit copies of a model with other engines and score them all on the test rows.

    Each copy starts learning at the hyperparameters of the model. Test rows that are also training rows are scored by
    leave-one-out probabilities; an engine that has none gets no test scores then. The scores of the model's own engine
    are those of the given model. Unless the data are large, this engine is fitted again to measure its time and to
    record its warnings.

    Parameters
    ----------
    model : GPClassifier or Pipeline
        A fitted classifier, or a fitted pipeline whose last step is one.
    X, y : array-like or DataFrame of shape (n, n_features), array-like of shape (n,)
        The training rows and labels.
    X_test, y_test : array-like or DataFrame of shape (m, n_features), array-like of shape (m,)
        The test rows and labels.
    engines : sequence of str, optional
        Names of engines. By default, those that suit the number of rows and classes.

    Returns
    -------
    list of Comparison
        Sorted by test NLPD, best first. An engine that failed is listed with the error message as its note.
    """
    last = classifier(model)
    names = default_engines(len(y), len(last.classes_), last.likelihood_) if engines is None else tuple(engines)
    rows = [_own_row(model, X, y, X_test, y_test)]
    rows += [_other_row(model, name, X, y, X_test, y_test) for name in names if not _same(name, last.inference_)]
    return sorted(rows, key=lambda row: (np.isnan(row.nlpd), row.nlpd))


def engine_name(engine: Any) -> str:
    """Return the name of the engine's class."""
    return type(engine).__name__


def scored(fitted: Any, X_test: Any, y_test: Any, name: str, **more: Any) -> Comparison:
    """Return the results of a fitted model on the test rows."""
    last, judged = classifier(fitted), fair_probabilities(fitted, X_test, y_test)
    evidence = float(last.log_evidence_) if last.inference_.evidence_is_comparable(last.likelihood_) else np.nan
    loo = loo_scores(last)["loo_nlpd"]
    row = Comparison(name, evidence, np.nan if loo is None else loo, judged=judged, **more)
    if not judged.fair.all():
        missing = f"no leave-one-out probabilities for {int(np.sum(~judged.fair))} test rows that are training rows"
        return replace(row, note=f"{row.note}; {missing}" if row.note else missing)
    p, classes = judged.p, last.classes_
    return replace(
        row,
        nlpd=nlpd(y_test, p, classes),
        error=error_rate(y_test, p, classes),
        calibration=expected_calibration_error(y_test, p, classes=classes),
    )


def _own_row(model, X, y, X_test, y_test):
    last = classifier(model)
    name = engine_name(last.inference_)
    if len(y) * last.likelihood_.n_latents > MAX_REFIT_ROWS or last.inference_.draws:  # samplers are slow
        return scored(model, X_test, y_test, name, own=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        began = time.perf_counter()
        clone(model).fit(X, y)
        seconds = time.perf_counter() - began
    return scored(model, X_test, y_test, name, seconds=seconds, own=True, note=_first_warning(caught))


def _other_row(model, name, X, y, X_test, y_test):
    copy = clone(model)
    inner = last_step(copy)
    learned = classifier(model).kernel_
    # a kernel on rows of covariances belongs to the training rows; the copy makes its own
    inner.set_params(inference=name, **({} if learned.takes == "covariances" else {"kernel": learned}))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            began = time.perf_counter()
            copy.fit(X, y)
            seconds = time.perf_counter() - began
            return scored(copy, X_test, y_test, engine_name(inner.inference_), seconds=seconds, note=_first_warning(caught))
        except FIT_ERRORS as error:
            return Comparison(name, note=f"failed: {error}")


def _same(name: str, engine: Any) -> bool:
    return name == short_name(engine)


def _first_warning(caught) -> str:
    texts = [str(w.message) for w in caught if issubclass(w.category, UserWarning)]
    return texts[0] if texts else ""


def checked_test(model: Any, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Check test rows; return the labels as an array and as class numbers."""
    labels = np.asarray(y)
    codes = codes_of(labels, classifier(model).classes_)
    if not len(labels):
        raise ValueError("there are no test rows")
    if len(X) != len(labels):
        raise ValueError(f"X has {len(X)} rows but y has {len(labels)} labels")
    return labels, codes
