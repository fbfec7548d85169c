"""Recognise training rows among test rows, and score them by their leave-one-out probabilities.

A model recognises its training rows by their fingerprints (`GPClassifier.row_fingerprints_`): a row is a training row if its
inputs, as the classifier gets them, are equal to those of a training row in single precision. The prediction of such a row
says little about new rows, so its leave-one-out probabilities are used where the model has them. These use all other
training rows, and hyperparameters that were learned from all rows. A model that was fitted to a Dask collection has no
fingerprints and recognises no rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import inputs
from ..numerics.fingerprint import row_fingerprints
from .models import classifier, last_step, leave_one_out, posterior_rows, to_inputs, training_labels
from .predictions import codes_of


@dataclass(frozen=True)
class FairProbabilities:
    """Class probabilities of rows, and whether each can be used to score the model."""

    p: np.ndarray  # (m, C) leave-one-out probabilities where `seen` and `fair`, predictions otherwise
    predicted: np.ndarray  # (m, C) predictions of all rows
    seen: np.ndarray  # (m,) whether the row is a training row
    fair: np.ndarray  # (m,) whether p was computed without the row
    copies: int  # number of seen rows that occur more than once in the training data; leave-one-out removes one copy only
    recognises: bool = True  # whether the model recognises its training rows; if not, `seen` is always False

    @property
    def n_seen(self) -> int:
        """Number of rows that are training rows."""
        return int(np.sum(self.seen))


def trained_on(model: Any, X: Any) -> np.ndarray:
    """Return whether each row of X is a training row of the model, with any label.

    Parameters
    ----------
    model : GPClassifier or Pipeline
        A fitted classifier, or a fitted pipeline whose last step is one.
    X : array-like or DataFrame of shape (m, n_features)
        Rows in the format that the model was fitted to.

    Returns
    -------
    ndarray of shape (m,)
        Booleans.
    """
    known = _known(classifier(model))
    if known is None:
        raise ValueError("the model was fitted to a Dask collection and keeps no fingerprints of its training rows")
    return np.isin(_fingerprints(model, X), known)


def fair_probabilities(model: Any, X: Any, y: Any = None) -> FairProbabilities:
    """Return the class probabilities of the rows of X, leave-one-out for training rows if the model has them.

    Parameters
    ----------
    model, X
        As for `trained_on`.
    y : array-like of shape (m,), optional
        Labels of the rows. Where several training rows have the same inputs, the one with the same label is left out.

    Returns
    -------
    FairProbabilities
        The probabilities, and which of them were computed without the row.
    """
    last, p = classifier(model), np.asarray(model.predict_proba(X))
    known = _known(last)
    if known is None:
        return FairProbabilities(p, p, np.full(len(p), False), np.full(len(p), True), 0, recognises=False)
    own = _fingerprints(model, X)
    seen = np.isin(own, known)
    if not seen.any():
        return FairProbabilities(p, p, seen, np.full(len(p), True), 0)
    values, counts = np.unique(known, return_counts=True)
    copies = int(np.sum(np.isin(own, values[counts > 1])))
    loo, rows, labels = leave_one_out(model), posterior_rows(model), training_labels(model)
    if loo is None or rows is None or labels is None:
        return FairProbabilities(p, p, seen, ~seen, copies)
    at = _places(own, known[rows])
    if y is not None:
        mine, theirs = codes_of(y, last.classes_), codes_of(labels, last.classes_)
        same = _places(_with_label(own, mine), _with_label(known[rows], theirs))
        at = np.where(same >= 0, same, at)
    found = at >= 0
    return FairProbabilities(np.where(found[:, None], loo[at], p), p, seen, ~seen | found, copies)


def _known(last):
    """Return the fingerprints of the training rows; None after a fit to a Dask collection."""
    if not hasattr(last, "row_fingerprints_"):
        raise ValueError("an older version stored this model without fingerprints of its training rows; fit it again")
    return last.row_fingerprints_


def _fingerprints(model, X):
    return inputs.row_fingerprints(last_step(model), to_inputs(model, X))


def _with_label(prints, codes):
    """Return fingerprints of rows together with their labels."""
    return prints ^ row_fingerprints(np.asarray(codes, float)[:, None])


def _places(wanted, among):
    """Return the index (m,) of each entry of `wanted` in `among`, or -1 if it is absent."""
    order = np.argsort(among, kind="stable")
    at = order[np.minimum(np.searchsorted(among[order], wanted), len(among) - 1)]
    return np.where(among[at] == wanted, at, -1)
