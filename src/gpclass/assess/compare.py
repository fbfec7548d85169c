"""Engines side by side on the same rows: what evidence they see, how well they predict, how long they take."""

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
from .models import classifier, codes_of, leave_one_out, training_labels
from .seen import FairProbabilities, fair_probabilities

REFIT = 3000  # rows times latent functions above which a model is not fitted again to see how long it takes
FAILURES = (ValueError, TypeError, ArithmeticError, np.linalg.LinAlgError, MemoryError, AttributeError, NotImplementedError)


@dataclass(frozen=True)
class Comparison:
    """One engine's figures; NaN where there are none."""

    name: str
    log_evidence: float = np.nan
    loo_nlpd: float = np.nan  # by leaving one training row out
    nlpd: float = np.nan  # on the test rows, as all below
    error: float = np.nan
    calibration: float = np.nan  # expected calibration error
    seconds: float = np.nan  # of the fit
    own: bool = False  # whether it is the engine of the model that was given
    note: str = ""  # what went wrong
    judged: FairProbabilities | None = None  # probabilities of the test rows

    @property
    def probabilities(self) -> np.ndarray | None:
        """(m, C) class probabilities of the test rows, leave-one-out where these were trained on."""
        return None if self.judged is None else self.judged.p


def compare_engines(
    model: Any, X: Any, y: Any, X_test: Any, y_test: Any, engines: Sequence[str] | None = None
) -> list[Comparison]:
    """Fit copies of a fitted model with other engines to X, y and score all on X_test, y_test; best test NLPD first.

    Test rows that are among the training rows are judged by leave-one-out probabilities; an engine without these has no
    figures then. The model's own engine is fitted again (unless there are many rows) for the time it takes and for what
    it warns of; its figures are those of the model itself. Copies start learning where the model ended. A copy that
    fails is in the list with the reason as its note.
    """
    last = classifier(model)
    names = default_engines(len(y), len(last.classes_)) if engines is None else tuple(engines)
    rows = [_own(model, X, y, X_test, y_test)]
    rows += [_other(model, name, X, y, X_test, y_test) for name in names if not _same(name, last.inference_)]
    return sorted(rows, key=lambda row: (np.isnan(row.nlpd), row.nlpd))


def engine_name(engine: Any) -> str:
    """An engine's class as text."""
    return type(engine).__name__


def scored(fitted: Any, X_test: Any, y_test: Any, name: str, **more: Any) -> Comparison:
    """The figures of a fitted model."""
    last, judged = classifier(fitted), fair_probabilities(fitted, X_test, y_test)
    evidence = float(last.log_evidence_) if last.inference_.evidence_is_comparable(last.likelihood_) else np.nan
    row = Comparison(name, evidence, _loo_nlpd(last), judged=judged, **more)
    if not judged.fair.all():
        unseen = f"no leave-one-out probabilities for {int(np.sum(~judged.fair))} rows that it was trained on"
        return replace(row, note=f"{row.note}; {unseen}" if row.note else unseen)
    p, classes = judged.p, last.classes_
    return replace(
        row,
        nlpd=nlpd(y_test, p, classes),
        error=error_rate(y_test, p, classes),
        calibration=expected_calibration_error(y_test, p, classes=classes),
    )


def _own(model, X, y, X_test, y_test):
    last = classifier(model)
    name = engine_name(last.inference_)
    if len(y) * last.likelihood_.n_latents > REFIT or last.inference_.draws:  # a sampler takes long, too
        return scored(model, X_test, y_test, name, own=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        began = time.perf_counter()
        clone(model).fit(X, y)
        seconds = time.perf_counter() - began
    return scored(model, X_test, y_test, name, seconds=seconds, own=True, note=_first(caught))


def _other(model, name, X, y, X_test, y_test):
    copy = clone(model)
    inner = copy
    while hasattr(inner, "steps"):
        inner = inner.steps[-1][1]
    inner.set_params(inference=name, kernel=classifier(model).kernel_)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            began = time.perf_counter()
            copy.fit(X, y)
            seconds = time.perf_counter() - began
            return scored(copy, X_test, y_test, engine_name(inner.inference_), seconds=seconds, note=_first(caught))
        except FAILURES as error:
            return Comparison(name, note=f"failed: {error}")


def _same(name: str, engine: Any) -> bool:
    return name == short_name(engine)


def _first(caught) -> str:
    texts = [str(w.message) for w in caught if issubclass(w.category, UserWarning)]
    return texts[0] if texts else ""


def _loo_nlpd(last) -> float:
    p, labels = leave_one_out(last), training_labels(last)
    if p is None or labels is None:
        return np.nan
    codes = codes_of(labels, last.classes_)
    with np.errstate(divide="ignore"):  # log 0 = -inf is meant
        return float(-np.mean(np.log(p[np.arange(len(p)), codes])))


def checked_test(model: Any, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """y as an array and as codes, or an error that says what is wrong with the test rows."""
    labels = np.asarray(y)
    codes = codes_of(labels, classifier(model).classes_)
    if not len(labels):
        raise ValueError("there are no test rows")
    if len(X) != len(labels):
        raise ValueError(f"X has {len(X)} rows but y has {len(labels)} labels")
    return labels, codes
