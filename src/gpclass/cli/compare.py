"""Comparison of engines on one table: evidence, leave-one-out and k-fold scores, time."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold

from ..assess import error_rate, expected_calibration_error, nlpd
from ..assess.models import codes_of
from ..choose import default_engines, engine_names, engines_for
from .models import leave_one_out, log_evidence

FAILURES = (ValueError, TypeError, ArithmeticError, AttributeError, MemoryError)


@dataclass(frozen=True)
class Row:
    """Results of one engine. Missing values are None."""

    engine: str
    log_evidence: float | None = None
    loo_nlpd: float | None = None
    kfold_nlpd: float | None = None
    kfold_error: float | None = None
    kfold_calibration: float | None = None
    seconds: float | None = None  # time of one fit on all rows
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as a dict."""
        return asdict(self)


def chosen_engines(text: str | None, n_rows: int, n_classes: int, likelihood: Any = "auto") -> tuple[str, ...]:
    """Return the engine names in an option such as "ep,laplace", after a check; for None the default engines."""
    if text is None:
        return default_engines(n_rows, n_classes, likelihood)
    names = tuple(dict.fromkeys(name.strip().lower() for name in text.split(",") if name.strip()))
    known = engine_names()
    able = engines_for(n_classes, likelihood)
    for name in names:
        if name not in known:
            raise ValueError(f"there is no engine {name!r}; there are {', '.join(known)}")
        if name not in able:
            raise ValueError(
                f"{name} does not support {n_classes} classes with likelihood {_shown(likelihood)}; engines that do: "
                f"{', '.join(able)}"
            )
    if not names:
        raise ValueError(f"--engines is empty; choose from {', '.join(able)}")
    return names


def _shown(likelihood: Any) -> str:
    return likelihood if isinstance(likelihood, str) else type(likelihood).__name__


def splits(y: np.ndarray, folds: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return training and test row numbers of each fold, stratified if each class has at least one row per fold."""
    folds = min(folds, len(y))
    if folds < 2:
        raise ValueError(f"cross-validation needs at least two folds and two rows; there are {folds} and {len(y)}")
    smallest = int(np.unique(y, return_counts=True)[1].min())
    maker = StratifiedKFold if smallest >= folds else KFold
    return list(maker(folds, shuffle=True, random_state=seed).split(np.zeros(len(y)), y))


def compare(
    pipeline: Any,
    X: pd.DataFrame,
    y: np.ndarray,
    engines: Sequence[str],
    folds: int,
    seed: int,
    done: Callable[[str], None] = lambda engine: None,
) -> list[Row]:
    """Fit copies of a pipeline with each engine, on all rows and by cross-validation; best k-fold NLPD first.

    `done` is called after each fit: 1 + folds times per engine. An engine that fails is listed with the error as its note.
    """
    parts = splits(y, folds, seed)
    rows = []
    for engine in engines:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            row = _row(clone(pipeline).set_params(model__inference=engine), engine, X, y, parts, done)
        unfinished = [w for w in caught if issubclass(w.category, UserWarning)]
        note = row.note or (f"{len(unfinished)} warnings, such as: {unfinished[0].message}" if unfinished else "")
        rows.append(Row(**{**row.as_dict(), "note": note}))
    return sorted(rows, key=lambda row: np.inf if row.kfold_nlpd is None else row.kfold_nlpd)


def _row(model, engine, X, y, parts, done) -> Row:
    try:
        began = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - began
        done(engine)
        classifier = model.steps[-1][1]
        comparable = classifier.inference_.evidence_is_comparable(classifier.likelihood_)
        evidence = log_evidence(classifier) if comparable else None
        loo = leave_one_out(classifier)["loo_nlpd"]
        p = _cross_validated(model, X, y, parts, classifier.classes_, lambda: done(engine))
    except FAILURES as error:
        return Row(engine, note=f"failed: {' '.join(str(error).split())}")
    classes = classifier.classes_
    scores = nlpd(y, p, classes), error_rate(y, p, classes), expected_calibration_error(y, p, classes=classes)
    return Row(engine, evidence, loo, *scores, seconds)


def _cross_validated(model, X, y, parts, classes, done) -> np.ndarray:
    """Return cross-validated probabilities (n, C); a class that is missing in the training part has probability 0."""
    p = np.zeros((len(y), len(classes)))
    for train, test in parts:
        copy = clone(model).fit(X.iloc[train], y[train])
        columns = codes_of(copy.steps[-1][1].classes_, classes)
        p[np.ix_(test, columns)] = copy.predict_proba(X.iloc[test])
        done()
    return p
