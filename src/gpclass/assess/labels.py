"""Which rows look mislabelled? Those whose own label is least probable given all other rows.

A model that has seen a wrong label bends towards it, so a row must be judged without itself: by leave-one-out probabilities,
which a posterior has from its cavities without refits, or by predictions of folds that leave the row out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import sklearn
from sklearn.base import clone

from .models import classifier, codes_of, leave_one_out, posterior_rows, training_labels, training_names


class LabelCheck(NamedTuple):
    """Rows in the order in which their labels should be checked, the most suspicious first; arrays of one length."""

    rows: np.ndarray  # places of the rows among those that `fit` was given, from 0: y[rows] are their labels
    labels: np.ndarray  # the labels that the rows have
    probability: np.ndarray  # of that label, given all other rows
    likelier: np.ndarray  # the most probable of the other labels
    likelier_probability: np.ndarray
    names: np.ndarray  # of the rows, as text: see `suspicious_labels`

    def head(self, n: int) -> LabelCheck:
        """The first n of them."""
        return LabelCheck(*(part[:n] for part in self))


def suspicious_labels(model: Any, X: Any = None, y: Any = None, *, folds: int = 5, random_state: int = 0) -> LabelCheck:
    """Rank rows by how improbable their own label is when the model has not seen it.

    Parameters
    ----------
    model : fitted GPClassifier, or pipeline that ends in one
    X, y : the training rows and labels, as `fit` was given them
        Only needed where the model has no leave-one-out probabilities; then the rows are cut into folds, and each is
        predicted by a copy of the model that was fitted to the others with the hyperparameters at hand.
    folds : number of folds
    random_state : of the cut into folds

    Returns
    -------
    LabelCheck
        `rows` are places from 0, as Python counts. `names` are for people: the index of the data frame X if that is given;
        else what the model knows of its training rows, which for a model of `gpclass fit` is the line of the data file
        (header not counted, the first row is 1) with the text of the id column; else the places.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpclass import GPClassifier
    >>> from gpclass.assess import suspicious_labels
    >>> X, y = load_iris(return_X_y=True)
    >>> y[7] = 2                                           # a slip of the pen
    >>> int(suspicious_labels(GPClassifier().fit(X, y)).rows[0])
    7
    """
    last, labels, p = classifier(model), training_labels(model), leave_one_out(model)
    if labels is not None and p is not None:
        if y is not None and not np.array_equal(np.asarray(y), labels):
            raise ValueError("y is not what the model was fitted to; leave X and y out, or fit the model to them")
        rows = posterior_rows(model)
        return ranked(p, labels, last.classes_, names_of(model, X), rows)
    if X is None or y is None:
        raise ValueError(
            f"{type(last.inference_).__name__} has no leave-one-out probabilities: pass X and y, the training rows and "
            "labels, for predictions by folds"
        )
    p = _by_folds(model, X, np.asarray(y), folds, random_state)
    return ranked(p, np.asarray(y), last.classes_, names_of(model, X))


def names_of(model: Any, X: Any = None) -> list[str] | None:
    """Names of the training rows: the index of X if it is a frame, else what the model knows; None if that is nothing."""
    if hasattr(X, "iloc"):
        return row_names(X)
    return training_names(model)


def row_names(X: Any) -> list[str]:
    """Names of rows as text: the index of a frame, places from 0 otherwise."""
    return [str(name) for name in (X.index if hasattr(X, "iloc") else range(len(X)))]


def ranked(
    p: np.ndarray,
    labels: np.ndarray,
    classes: np.ndarray,
    names: Sequence[str] | None = None,
    rows: np.ndarray | None = None,
) -> LabelCheck:
    """Rows by the probability of their own label, from probabilities p (n, C) that were made without it.

    `rows` are the places of these rows (0, 1, … by default), of which `names` has one for each.
    """
    codes = codes_of(labels, classes)
    each = np.arange(len(codes))
    own = p[each, codes]
    others = p.copy()
    others[each, codes] = -np.inf
    likelier = others.argmax(axis=1)
    order = np.argsort(own, kind="stable")  # of two that are alike the earlier row comes first
    places = each if rows is None else rows
    named = np.array([str(place) if names is None else names[place] for place in places.tolist()], dtype=str)
    found = (places, np.asarray(labels), own, classes[likelier], others[each, likelier], named)
    return LabelCheck(*(part[order] for part in found))


def _by_folds(model, X, y, folds: int, random_state: int) -> np.ndarray:
    """(n, C) class probabilities of each row by a model that has not seen its fold."""
    classes = classifier(model).classes_
    smallest = int(np.bincount(codes_of(y, classes), minlength=len(classes)).min())
    if smallest < 2:
        raise ValueError("every class needs two rows at least, so that one can be judged by the other")
    cut = sklearn.model_selection.StratifiedKFold(min(folds, smallest), shuffle=True, random_state=random_state)
    take = (lambda rows: X.iloc[rows]) if hasattr(X, "iloc") else (lambda rows: np.asarray(X)[rows])
    p = np.empty((len(y), len(classes)))
    for seen, left_out in cut.split(np.zeros(len(y)), y):
        p[left_out] = held(model, random_state).fit(take(seen), y[seen]).predict_proba(take(left_out))
    return p


def held(model: Any, random_state: int = 0) -> Any:
    """An unfitted copy of the model with the hyperparameters that it has learned, and none to learn; the same every time."""
    last, copy = classifier(model), clone(model)
    inner = copy
    while hasattr(inner, "steps"):
        inner = inner.steps[-1][1]
    seed = random_state if inner.random_state is None else inner.random_state
    inner.set_params(kernel=last.kernel_, likelihood=last.likelihood_, optimizer=None, random_state=seed)
    return copy
