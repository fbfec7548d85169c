"""Comparison of engines on one table: evidence, leave-one-out and k-fold scores, time."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import joblib
import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold

from ..assess import error_rate, expected_calibration_error, nlpd
from ..assess.models import codes_of
from ..choose import default_engines, engine_names, engines_for
from ..learning.parallel import one_by_one
from ..spelling import did_you_mean
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
            raise ValueError(f"there is no engine {name!r}.{did_you_mean(name, known)} There are {', '.join(known)}")
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


class OneFit(NamedTuple):
    """What comes of one fit: to all rows, or to those of one fold."""

    warned: list[str]
    failure: str = ""
    row: Row | None = None  # of a fit to all rows, without k-fold scores
    classes: Any = None  # the classes of the model
    p: Any = None  # (m, C) of a fold: probabilities of its test rows


def on_workers(client: Any) -> AbstractContextManager:
    """Return a context in which fits are computed by the workers of a Dask client, if there is one."""
    return nullcontext() if client is None else joblib.parallel_config(backend="dask")


def compare(
    pipeline: Any,
    X: pd.DataFrame,
    y: np.ndarray,
    engines: Sequence[str],
    folds: int,
    seed: int,
    done: Callable[[str], None] = lambda engine: None,
    jobs: int | None = 1,
) -> list[Row]:
    """Fit copies of a pipeline with each engine, on all rows and by cross-validation; best k-fold NLPD first.

    `done` is called after each fit: 1 + folds times per engine. An engine that fails is listed with the error as its note.
    `jobs` fits are computed at the same time (see `in_parallel`), which does not change the result.
    """
    parts = splits(y, folds, seed)
    models = {engine: clone(pipeline).set_params(model__inference=engine) for engine in engines}
    arguments = [(clone(models[engine]), X, y, part) for engine in engines for part in (None, *parts)]
    fits: dict[str, list[OneFit]] = {engine: [] for engine in engines}
    for k, found in enumerate(one_by_one(jobs, _fit, arguments)):
        fits[engine := engines[k // (1 + len(parts))]].append(found)
        done(engine)
    rows = [_row(engine, y, parts, fits[engine]) for engine in engines]
    return sorted(rows, key=lambda row: np.inf if row.kfold_nlpd is None else row.kfold_nlpd)


def _fit(model: Any, X: pd.DataFrame, y: np.ndarray, part: tuple[np.ndarray, np.ndarray] | None) -> OneFit:
    """Fit a model to all rows (`part` is None), or to the training rows of a fold."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = _fitted(model, X, y) if part is None else _fold(model, X, y, *part)
        except FAILURES as error:
            found = OneFit([], f"failed: {' '.join(str(error).split())}")
    return found._replace(warned=[str(w.message) for w in caught if issubclass(w.category, UserWarning)])


def _fitted(model, X, y) -> OneFit:
    began = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - began
    classifier = model.steps[-1][1]
    comparable = classifier.inference_.evidence_is_comparable(classifier.likelihood_)
    evidence = log_evidence(classifier) if comparable else None
    row = Row("", evidence, leave_one_out(classifier)["loo_nlpd"], seconds=seconds)
    return OneFit([], row=row, classes=classifier.classes_)


def _fold(model, X, y, train, test) -> OneFit:
    model.fit(X.iloc[train], y[train])
    return OneFit([], p=model.predict_proba(X.iloc[test]), classes=model.steps[-1][1].classes_)


def _row(engine: str, y: np.ndarray, parts: Sequence[tuple[np.ndarray, np.ndarray]], fits: Sequence[OneFit]) -> Row:
    """Return the results of one engine from its fits, to all rows and to those of each fold."""
    failures = [fit.failure for fit in fits if fit.failure]
    if failures:
        return Row(engine, note=failures[0])
    whole, *folds = fits
    assert whole.row is not None, "a fit to all rows has results"
    classes = whole.classes
    p = np.zeros((len(y), len(classes)))  # a class that is missing in the training part has probability 0
    for (_, test), fold in zip(parts, folds, strict=True):
        p[np.ix_(test, codes_of(fold.classes, classes))] = fold.p
    scores = nlpd(y, p, classes), error_rate(y, p, classes), expected_calibration_error(y, p, classes=classes)
    warned = [text for fit in fits for text in fit.warned]
    note = f"{len(warned)} warnings, such as: {warned[0]}" if warned else ""
    return Row(engine, whole.row.log_evidence, whole.row.loo_nlpd, *scores, whole.row.seconds, note)
