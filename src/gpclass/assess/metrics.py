"""Scores of predicted class probabilities, for two or more classes.

Every function takes labels y (n,) and probabilities p: (n, C) with columns in the order of `classes`, or, for two
classes, (n,) probabilities of the second one. `classes` defaults to the sorted labels found in the data.
Entries of p may leave [0, 1], and row sums may differ from 1, by at most TOLERANCE; p is then clipped to [0, 1].

[NR] Nickisch & Rasmussen 2008, Approximations for Binary Gaussian Process Classification.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

TOLERANCE = 1e-6  # allows float32 probabilities

Classes = Sequence[Any] | np.ndarray | None


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
    codes, P, _ = _checked(y, p, classes)
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
    codes, P, _ = _checked(y, p, classes)
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
    codes, P, _ = _checked(y, p, classes)
    residual = P.copy()
    residual[np.arange(len(codes)), codes] -= 1
    return float(np.mean(np.sum(residual**2, axis=1)))


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
    codes, P, _ = _checked(y, p, classes)
    below = np.cumsum(P, axis=1)[:, :-1] - (codes[:, None] <= np.arange(P.shape[1] - 1))
    return float(np.mean(np.sum(below**2, axis=1)))


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
    codes, P, _ = _checked(y, p, classes)
    if n_bins < 1:
        raise ValueError(f"n_bins must be at least 1; got {n_bins}.")
    confidence, hit = P.max(axis=1), P.argmax(axis=1) == codes
    which = np.digitize(confidence, np.linspace(0, 1, n_bins + 1)[1:-1], right=True)
    # n_b |accuracy_b - confidence_b| is the absolute sum of hit - confidence over the bin
    gap = np.bincount(which, weights=hit - confidence, minlength=n_bins)
    return float(np.sum(np.abs(gap)) / len(codes))


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
    codes, P, classes = _checked(y, p, classes, y_train)
    log_p = _log_true(P, codes)
    if np.isneginf(log_p).any():
        return float("-inf")
    train = codes if y_train is None else _encode(_labels(y_train, "y_train"), classes, "y_train")
    frequency = np.bincount(train, minlength=len(classes)) / len(train)
    # [NR]'s baseline B = -Σ_c (test share of c) log2 (training share of c) is this mean over the test points
    with np.errstate(divide="ignore"):
        baseline = -np.mean(np.log(frequency[codes]))
    return float((baseline + np.mean(log_p)) / np.log(2))


def scores(
    y: ArrayLike,
    p: ArrayLike,
    y_train: ArrayLike | None = None,
    classes: Classes = None,
    n_bins: int = 10,
    ordered: bool = False,
) -> dict[str, float]:
    """Return all scores of this module.

    Parameters
    ----------
    y, p, y_train, classes, n_bins
        As for the functions of this module.
    ordered : bool, default=False
        Whether the classes have an order, such as those of a model with `likelihood="ordinal"`. Then
        `ranked_probability_score`, which has no meaning for other classes, is included.

    Returns
    -------
    dict of str to float
        The scores by the names of the functions.
    """
    classes = _checked(y, p, classes, y_train)[2]
    found = {
        "error_rate": error_rate(y, p, classes),
        "nlpd": nlpd(y, p, classes),
        "brier": brier(y, p, classes),
        "expected_calibration_error": expected_calibration_error(y, p, n_bins, classes),
        "information_score": information_score(y, p, y_train, classes),
    }
    return found | ({"ranked_probability_score": ranked_probability_score(y, p, classes)} if ordered else {})


def _log_true(P: np.ndarray, codes: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):  # log 0 = -inf is intended
        return np.log(P[np.arange(len(codes)), codes])


def _checked(y: Any, p: Any, classes: Classes, y_train: Any = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Check the arguments; return class numbers (n,), probabilities (n, C) and classes (C,)."""
    labels, P = _labels(y, "y"), _probabilities(p)
    if len(labels) != len(P):
        raise ValueError(f"y has {len(labels)} labels but p has {len(P)} rows.")
    if classes is None:
        known = np.unique(labels if y_train is None else np.concatenate([labels, _labels(y_train, "y_train")]))
    else:
        known = np.asarray(classes)
    if known.shape != (P.shape[1],) or len(np.unique(known)) != len(known):
        came = "the data have labels" if classes is None else "classes ="
        raise ValueError(
            f"p is for {P.shape[1]} classes but {came} {known.tolist()}. "
            "Pass classes= with one distinct label per column of p, such as the classifier's classes_."
        )
    return _encode(labels, known, "y"), P, known


def _labels(y: Any, name: str) -> np.ndarray:
    labels = np.asarray(y)
    if labels.ndim != 1 or len(labels) == 0:
        raise ValueError(f"{name} must be a non-empty vector of labels; its shape is {labels.shape}.")
    return labels


def _probabilities(p: Any) -> np.ndarray:
    P = np.asarray(p, dtype=float)
    if P.ndim == 1:
        P = np.column_stack([1 - P, P])
    if P.ndim != 2 or P.shape[1] < 2:
        raise ValueError(f"p must be (n, C) with C > 1, or (n,) for two classes; its shape is {np.shape(p)}.")
    if not (P.min(initial=0) >= -TOLERANCE and P.max(initial=0) <= 1 + TOLERANCE):  # written so that NaN fails
        raise ValueError(f"p must lie in [0, 1] (within {TOLERANCE}); it runs from {P.min()} to {P.max()}.")
    off = np.abs(P.sum(axis=1) - 1).max(initial=0)
    if off > TOLERANCE:
        raise ValueError(f"Each row of p must sum to 1 (within {TOLERANCE}); the worst is off by {off:.2g}.")
    return P.clip(0, 1)


def _encode(labels: np.ndarray, classes: np.ndarray, name: str) -> np.ndarray:
    code_of = {label: code for code, label in enumerate(classes.tolist())}
    present, inverse = np.unique(labels, return_inverse=True)
    strangers = [label for label in present.tolist() if label not in code_of]
    if strangers:
        raise ValueError(f"{name} has labels {strangers} that are not among the classes {classes.tolist()}.")
    return np.array([code_of[label] for label in present.tolist()])[inverse]
