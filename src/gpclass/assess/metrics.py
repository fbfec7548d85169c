"""Scores of predicted class probabilities, for two or more classes.

Every function takes labels y (n,) and probabilities p: (n, C) with columns in the order of `classes`, or, for two
classes, (n,) probabilities of the second one. `classes` defaults to the sorted labels found in the data.
Entries of p may leave [0, 1], and row sums may differ from 1, by at most 1e-6; p is then clipped to [0, 1].

`scores` also takes Dask collections. Every score is a function of sums over rows (`Tally`), which are computed for each
partition and added, so that no rows are gathered. They differ from those of arrays by rounding only.

[NR] Nickisch & Rasmussen 2008, Approximations for Binary Gaussian Process Classification.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ..distributed.collections import is_collection, parts_of, vector_parts
from ..distributed.partitions import summed
from ..learning.calibration import confidence_gaps
from .predictions import Classes, checked_labels, checked_predictions, codes_of

if TYPE_CHECKING:
    from .tables import Scores



def error_rate(y: ArrayLike, p: ArrayLike, classes: Classes = None) -> float:
    """Return the share of points whose most probable class is wrong. Ties go to the earlier class.

    Parameters
    ----------
    y : array-like of shape (n,)
        True labels.
    p : array-like of shape (n, C), or (n,) for two classes
        Predicted class probabilities, or those of the second class.
    classes : sequence, optional
        The class of each column of p. By default the sorted labels.

    Returns
    -------
    float
        The error rate, from 0 to 1.
    """
    codes, P, _ = checked_predictions(y, p, classes)
    return float(np.mean(P.argmax(axis=1) != codes))


def nlpd(y: ArrayLike, p: ArrayLike, classes: Classes = None) -> float:
    """Return the mean negative log predictive density, -mean log p(y_i).

    Parameters
    ----------
    y, p, classes
        As for `error_rate`.

    Returns
    -------
    float
        The NLPD in nats; inf if a true class has probability 0.
    """
    codes, P, _ = checked_predictions(y, p, classes)
    return float(-np.mean(_log_true(P, codes)))


def brier(y: ArrayLike, p: ArrayLike, classes: Classes = None) -> float:
    """Return the Brier score, the mean over points of Σ_c (p_c - [y = c])², from 0 to 2.

    The sum is over all classes. For two classes this is twice the value of scikit-learn's `brier_score_loss`.

    Parameters
    ----------
    y, p, classes
        As for `error_rate`.

    Returns
    -------
    float
        The Brier score.
    """
    codes, P, _ = checked_predictions(y, p, classes)
    return float(np.mean(_squares(P, codes)))


def ranked_probability_score(y: ArrayLike, p: ArrayLike, classes: Classes = None) -> float:
    """Return the ranked probability score of ordered classes, the mean over points of Σ_k (P(class ≤ k) - [y ≤ k])².

    The sum is over all classes but the last, so the score is from 0 to C - 1. Probability far from the true class costs more
    than probability next to it. For two classes this is half the value of `brier`.

    Parameters
    ----------
    y, p, classes
        As for `error_rate`. The classes are in ascending order.

    Returns
    -------
    float
        The ranked probability score.
    """
    codes, P, _ = checked_predictions(y, p, classes)
    return float(np.mean(_ranked_squares(P, codes)))


def expected_calibration_error(y: ArrayLike, p: ArrayLike, n_bins: int = 10, classes: Classes = None) -> float:
    """Return the expected calibration error Σ_b n_b/n |accuracy_b - confidence_b|.

    Confidence is the probability of the most probable class. The bins (a, b] of [0, 1] have equal width.

    Parameters
    ----------
    y, p, classes
        As for `error_rate`.
    n_bins : int, default=10
        Number of bins.

    Returns
    -------
    float
        The expected calibration error, from 0 to 1.
    """
    codes, P, _ = checked_predictions(y, p, classes)
    return float(np.sum(np.abs(_gaps(P, codes, n_bins))) / len(codes))


def information_score(y: ArrayLike, p: ArrayLike, y_train: ArrayLike | None = None, classes: Classes = None) -> float:
    """Return the bits per point gained over always predicting the class frequencies of `y_train`. [NR] section 12.2.2.

    The definition of [NR] is extended to any number C of classes. 0 is no better than those frequencies; perfect
    prediction of C balanced classes gives log2 C.

    Parameters
    ----------
    y, p, classes
        As for `error_rate`.
    y_train : array-like, optional
        Training labels. By default the frequencies of y are used.

    Returns
    -------
    float
        The information in bits; -inf if a true class has probability 0, else +inf if `y_train` lacks a class of y.
    """
    codes, P, classes = checked_predictions(y, p, classes, y_train)
    log_p = _log_true(P, codes)
    if np.isneginf(log_p).any():
        return float("-inf")
    counts = np.bincount(codes, minlength=len(classes))
    return _information(float(np.mean(log_p)), counts, counts if y_train is None else _counts(y_train, classes))


def _information(mean_log_p: float, counts: np.ndarray, train: np.ndarray) -> float:
    """Return the information score, given the number of test points and of training points of each class."""
    # [NR]'s baseline B = -Σ_c (test share of c) log2 (training share of c)
    with np.errstate(divide="ignore"):
        logs = np.log(train[counts > 0] / train.sum())
    baseline = -np.sum(counts[counts > 0] * logs) / counts.sum()
    return float((baseline + mean_log_p) / np.log(2))


def _counts(y: Any, classes: np.ndarray, name: str = "y_train") -> np.ndarray:
    """Return the number of labels (C,) of each class."""
    return np.bincount(codes_of(checked_labels(y, name), classes, name), minlength=len(classes))


@dataclass(frozen=True)
class Tally:
    """Sums over rows from which all scores follow; tallies of different rows are added."""

    counts: np.ndarray  # (C,) rows of each class
    wrong: int  # rows whose most probable class is wrong
    log_p: float  # Σ log p(y_i)
    squares: float  # Σ of the Brier scores
    ranked: float  # Σ of the ranked probability scores
    gaps: np.ndarray  # (n_bins,) Σ of hit - confidence in each bin

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    def scores(self, train: np.ndarray | None = None, ordered: bool = False) -> dict[str, float]:
        """Return all scores; `train` (C,) are the numbers of training rows of each class, by default those of these rows."""
        n = int(self.counts.sum())
        if not n:
            raise ValueError("y must be a non-empty vector of labels; there are no rows.")
        information = -np.inf
        if not np.isneginf(self.log_p):
            information = _information(self.log_p / n, self.counts, self.counts if train is None else train)
        found = {
            "error_rate": self.wrong / n,
            "nlpd": float(-self.log_p / n),
            "brier": float(self.squares / n),
            "expected_calibration_error": float(np.sum(np.abs(self.gaps)) / n),
            "information_score": float(information),
        }
        return found | ({"ranked_probability_score": float(self.ranked / n)} if ordered else {})


def tally(y: Any, p: Any, classes: np.ndarray, n_bins: int = 10) -> Tally:
    """Return the sums over some rows. There may be none."""
    if len(y):
        codes, P, known = checked_predictions(y, p, classes)
    else:
        codes, known = np.empty(0, int), np.asarray(classes)
        P = np.empty((0, len(known)))
    return Tally(
        np.bincount(codes, minlength=len(known)),
        int(np.sum(P.argmax(axis=1) != codes)),
        float(np.sum(_log_true(P, codes))),
        float(np.sum(_squares(P, codes))),
        float(np.sum(_ranked_squares(P, codes))),
        _gaps(P, codes, n_bins),
    )


def scores(
    y: ArrayLike,
    p: ArrayLike,
    y_train: ArrayLike | None = None,
    classes: Classes = None,
    n_bins: int = 10,
    ordered: bool = False,
) -> Scores:
    """Return all scores of this module.

    Parameters
    ----------
    y, p, y_train, classes, n_bins
        As for the functions of this module. y and p may be Dask arrays, or a Dask Series and a DataFrame, with the same
        partitions, such as `model.predict_proba(X)`. They are computed, but only sums are gathered. The columns of a
        DataFrame are the classes; for arrays, pass `classes`. y_train may be a Dask collection too.
    ordered : bool, default=False
        Whether the classes have an order, such as those of a model with `likelihood="ordinal"`. Then
        `ranked_probability_score`, which has no meaning for other classes, is included.

    Returns
    -------
    Scores
        A pandas Series of the scores by the names of the functions: `found["nlpd"]` and `found.nlpd` are numbers, and
        `found.to_dict()` is a dict. It prints as a table that explains each score, and `pd.DataFrame({"ep": found, …})`
        puts the scores of several models side by side.
    """
    from .tables import Scores

    if is_collection(y) or is_collection(p):
        found, known = _tally_of_collections(y, p, classes, n_bins)
    else:
        known = checked_predictions(y, p, classes, None if is_collection(y_train) else y_train)[2]
        found = tally(y, p, known, n_bins)
    if is_collection(y_train):
        train = summed(vector_parts(y_train), None, _counts_of, known.tolist())
    else:
        train = None if y_train is None else _counts(y_train, known)
    return Scores(found.scores(train, ordered))


def _tally_of_collections(y: Any, p: Any, classes: Any, n_bins: int) -> tuple[Tally, np.ndarray]:
    """Return the sums over all rows, and the classes."""
    parts = parts_of(_as_column(p) if is_collection(p) and p.ndim == 1 else p, y)
    names = getattr(p, "columns", None) if classes is None and p.ndim == 2 else classes
    if names is None:
        raise ValueError("y and p are Dask collections: pass classes= with all labels, such as model.classes_")
    known = np.asarray(list(names))
    return summed(parts, None, _tally_of, known.tolist(), n_bins), known


def _tally_of(raw: Any, name: str, classes: list[Any], n_bins: int) -> Tally:
    """Return the sums over the rows of one partition of p and y."""
    P, y = np.asarray(raw[0]), np.asarray(raw[1])
    try:
        return tally(y, P[:, 0] if P.shape[1] == 1 else P, np.asarray(classes), n_bins)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def _counts_of(y: Any, _: str, classes: list[Any]) -> np.ndarray:
    """Return the numbers of labels of one partition of y_train."""
    return _counts(np.asarray(y), np.asarray(classes)) if len(y) else np.zeros(len(classes), int)


def _as_column(p: Any) -> Any:
    return p.to_frame() if hasattr(p, "to_frame") else p[:, None]


def _log_true(P: np.ndarray, codes: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):  # log 0 = -inf is intended
        return np.log(P[np.arange(len(codes)), codes])


def _squares(P: np.ndarray, codes: np.ndarray) -> np.ndarray:
    residual = P.copy()
    residual[np.arange(len(codes)), codes] -= 1
    return np.sum(residual**2, axis=1)


def _ranked_squares(P: np.ndarray, codes: np.ndarray) -> np.ndarray:
    below = np.cumsum(P, axis=1)[:, :-1] - (codes[:, None] <= np.arange(P.shape[1] - 1))
    return np.sum(below**2, axis=1)


def _gaps(P: np.ndarray, codes: np.ndarray, n_bins: int) -> np.ndarray:
    """Return `confidence_gaps` after a check of `n_bins`."""
    if n_bins < 1:
        raise ValueError(f"n_bins must be at least 1; got {n_bins}.")
    return confidence_gaps(P, codes, n_bins)
