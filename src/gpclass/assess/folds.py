"""Comparison of engines by cross-validation: evidence, leave-one-out and k-fold scores, time."""

from __future__ import annotations

import time
import warnings
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import sklearn
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from ..choose import default_engines
from ..learning.parallel import in_parallel
from ..progress import phase, tell
from .comparison import FIT_ERRORS
from .metrics import error_rate, expected_calibration_error, nlpd
from .models import last_step
from .predictions import codes_of
from .summaries import log_evidence, loo_scores

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class EngineScores:
    """Results of one engine. Missing values are None."""

    engine: str
    log_evidence: float | None = None
    loo_nlpd: float | None = None
    kfold_nlpd: float | None = None
    kfold_error: float | None = None
    kfold_calibration: float | None = None
    seconds: float | None = None  # time of one fit on all rows
    note: str = ""


class OneFit(NamedTuple):
    """Results of one fit, to all rows or to those of one fold."""

    warned: list[str]
    failure: str = ""
    row: EngineScores | None = None  # of a fit to all rows, without k-fold scores
    classes: Any = None  # the classes of the model
    p: Any = None  # (m, C) of a fold: probabilities of its test rows


def compare(
    model: Any,
    X: Any,
    y: Any,
    engines: Sequence[str] | None = None,
    *,
    folds: int = 5,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> pd.DataFrame:
    """Compare engines by cross-validation. The best engine comes first.

    Copies of the model are fitted with each engine, to all rows and to those of each fold.

    Parameters
    ----------
    model : GPClassifier or Pipeline
        A classifier, or a pipeline whose last step is one. It need not be fitted.
    X, y : array-like or DataFrame of shape (n, n_features), array-like of shape (n,)
        The rows and labels.
    engines : sequence of str, optional
        Names of engines. By default, those that suit the number of rows and classes.
    folds : int, default=5
        Number of folds, stratified if each class has at least as many rows.
    random_state : int, default=0
        Seed of the split into folds.
    n_jobs : int or None, default=None
        Number of fits at the same time; -1 uses all processors. None means one, unless a `joblib.parallel_config` says
        otherwise. It does not change the result.

    Returns
    -------
    DataFrame
        The index has the names of the engines, sorted by k-fold NLPD. The columns are

        - log_evidence: larger is better; NaN if it cannot be compared with that of other engines.
        - loo_nlpd: leave-one-out NLPD of the fit to all rows, in nats; NaN if the engine has none.
        - kfold_nlpd, kfold_error, kfold_calibration: NLPD, error rate and expected calibration error of the rows that were
          left out; smaller is better.
        - seconds: time of one fit to all rows.
        - note: warnings, or why the engine failed.

    Warns
    -----
    UserWarning
        If all of several engines warn of the same, for example of a class that has only one row in some folds.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpclass import GPClassifier
    >>> from gpclass.assess import compare
    >>> X, y = load_iris(return_X_y=True)
    >>> table = compare(GPClassifier(optimizer=None), X, y, ["laplace", "nested-ep"], folds=3)
    >>> sorted(table.index)
    ['laplace', 'nested-ep']
    """
    import pandas as pd

    y = np.asarray(y)
    names = _default_engines(model, y) if engines is None else tuple(engines)
    parts = splits(y, folds, random_state)
    fits: dict[str, list[OneFit]] = {engine: [] for engine in names}
    wanted = [(engine, number) for engine in names for number in range(1 + len(parts))]
    arguments = [
        (_with_engine(model, engine), X, y, (None, *parts)[fold], f"fit {k} of {len(wanted)}, {_named(engine, fold, parts)}")
        for k, (engine, fold) in enumerate(wanted, start=1)
    ]
    for k, found in enumerate(in_parallel(n_jobs, _fit, arguments)):
        fits[wanted[k][0]].append(found)
        tell(f"{k + 1} of {len(wanted)} fits done")
    shared = _shared_warnings([found for found in fits.values() if not _failures(found)])
    for text, places in shared.items():
        warnings.warn(_located(text, places, len(parts)), UserWarning, stacklevel=2)
    rows = [_row(engine, y, parts, fits[engine], shared) for engine in names]
    table = pd.DataFrame([asdict(row) for row in rows], columns=list(EngineScores.__dataclass_fields__)).set_index("engine")
    numbers = {name: float for name in table.columns if name != "note"}
    return table.astype(numbers).sort_values("kfold_nlpd", kind="stable", na_position="last")


def splits(y: np.ndarray, folds: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return training and test row numbers of each fold, stratified if each class has at least one row per fold."""
    folds = min(folds, len(y))
    if folds < 2:
        raise ValueError(f"cross-validation needs at least two folds and two rows; there are {folds} and {len(y)}")
    smallest = int(np.unique(y, return_counts=True)[1].min())
    select = sklearn.model_selection
    maker = select.StratifiedKFold if smallest >= folds else select.KFold
    return list(maker(folds, shuffle=True, random_state=seed).split(np.zeros(len(y)), y))


def _default_engines(model: Any, y: np.ndarray) -> tuple[str, ...]:
    return default_engines(len(y), len(np.unique(y)), last_step(model).likelihood)


def _with_engine(model: Any, engine: str) -> Any:
    """Return an unfitted copy of a model with another engine."""
    copy = clone(model)
    last_step(copy).set_params(inference=engine)
    return copy


def _named(engine: str, number: int, parts: Sequence[Any]) -> str:
    return f"{engine} on all rows" if not number else f"{engine}, fold {number} of {len(parts)}"


def _fit(model: Any, X: Any, y: np.ndarray, part: tuple[np.ndarray, np.ndarray] | None, name: str) -> OneFit:
    """Fit a model to all rows (`part` is None), or to the training rows of a fold. `name` is the name of the phase."""
    with warnings.catch_warnings(record=True) as caught, phase(name):
        warnings.simplefilter("always")
        try:
            found = _fitted(model, X, y) if part is None else _fold(model, X, y, *part)
        except FIT_ERRORS as error:
            found = OneFit([], f"failed: {' '.join(str(error).split())}")
    return found._replace(warned=[str(w.message) for w in caught if issubclass(w.category, UserWarning)])


def _fitted(model, X, y) -> OneFit:
    began = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - began
    last = last_step(model)
    evidence = log_evidence(last) if last.inference_.evidence_is_comparable(last.likelihood_) else None
    return OneFit([], row=EngineScores("", evidence, loo_scores(last)["loo_nlpd"], seconds=seconds), classes=last.classes_)


def _fold(model, X, y, train, test) -> OneFit:
    model.fit(_safe_indexing(X, train), y[train])
    return OneFit([], p=model.predict_proba(_safe_indexing(X, test)), classes=model.classes_)


def missing_classes(y: np.ndarray, folds: int, seed: int) -> list[Any]:
    """Return the classes that do not occur among the training rows of some fold, where they have probability zero."""
    kept = [np.unique(y[train]) for train, _ in splits(y, folds, seed)]
    return [label for label in np.unique(y).tolist() if not all(label in some for some in kept)]


def _failures(fits: Sequence[OneFit]) -> list[str]:
    return [fit.failure for fit in fits if fit.failure]


def _warnings_of(fits: Sequence[OneFit]) -> dict[str, list[int]]:
    """Return each warning with the numbers of the fits in which it occurred; 0 is the fit to all rows."""
    found: dict[str, list[int]] = {}
    for number, fit in enumerate(fits):
        for text in dict.fromkeys(fit.warned):
            found.setdefault(text, []).append(number)
    return found


def _shared_warnings(engines: Sequence[Sequence[OneFit]]) -> dict[str, list[int]]:
    """Return the warnings that several engines have in the same fits. They concern the rows, not the engines."""
    if len(engines) < 2:
        return {}
    first, *others = (_warnings_of(fits) for fits in engines)
    return {text: places for text, places in first.items() if all(other.get(text) == places for other in others)}


def _located(text: str, places: Sequence[int], n_folds: int) -> str:
    """Return a warning with the fits in which it occurred, unless it occurred in all."""
    if len(places) == 1 + n_folds:
        return text
    whole, folds = 0 in places, sum(place > 0 for place in places)
    where = ["on all rows"] * whole + [f"in {folds} of {n_folds} folds"] * (folds > 0)
    return f"{' and '.join(where)}: {text}"


def _note(warned: dict[str, list[int]], n_folds: int) -> str:
    """Return the first warning, and the number of others."""
    if not warned:
        return ""
    (text, places), *others = warned.items()
    more = f" ({len(others)} other warning{'s' * (len(others) > 1)})" if others else ""
    return _located(text, places, n_folds) + more


def _row(
    engine: str,
    y: np.ndarray,
    parts: Sequence[tuple[np.ndarray, np.ndarray]],
    fits: Sequence[OneFit],
    shared: Collection[str],
) -> EngineScores:
    """Return the results of one engine from its fits, to all rows and to those of each fold.

    The note does not repeat `shared` warnings.
    """
    failures = _failures(fits)
    if failures:
        return EngineScores(engine, note=failures[0])
    whole, *folds = fits
    assert whole.row is not None, "a fit to all rows has results"
    classes = whole.classes
    p = np.zeros((len(y), len(classes)))  # a class that is missing in the training part has probability 0
    for (_, test), fold in zip(parts, folds, strict=True):
        p[np.ix_(test, codes_of(fold.classes, classes))] = fold.p
    scores = nlpd(y, p, classes), error_rate(y, p, classes), expected_calibration_error(y, p, classes=classes)
    warned = {text: places for text, places in _warnings_of(fits).items() if text not in shared}
    note = _note(warned, len(parts))
    return EngineScores(engine, whole.row.log_evidence, whole.row.loo_nlpd, *scores, whole.row.seconds, note)
