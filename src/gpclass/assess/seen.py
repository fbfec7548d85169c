"""Which rows was the model trained on, and what does it say of them without having seen them?

A model knows its training rows by their fingerprints (`GPClassifier.row_fingerprints_`): rows whose inputs, as the
classifier gets them, are equal to those of a training row in single precision count as seen. How well such a row is
predicted says little about new rows, so it is judged by its leave-one-out probabilities, where the model has them. Those use
all other training rows, and hyperparameters that were learned with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..numerics.fingerprint import row_fingerprints, single_precision_fingerprints
from .models import classifier, codes_of, leave_one_out, posterior_rows, to_inputs, training_labels


@dataclass(frozen=True)
class FairProbabilities:
    """Class probabilities of rows, and which of them a model may be judged by."""

    p: np.ndarray  # (m, C) leave-one-out probabilities where `seen` and `fair`, predictions otherwise
    predicted: np.ndarray  # (m, C) predictions of all rows
    seen: np.ndarray  # (m,) whether the model was trained on the row
    fair: np.ndarray  # (m,) whether p was made without the row
    copies: int  # seen rows with a copy among the training rows, which leave-one-out leaves in

    @property
    def n_seen(self) -> int:
        return int(np.sum(self.seen))


def trained_on(model: Any, X: Any) -> np.ndarray:
    """(m,) whether the model was trained on each row of X, whatever its label."""
    return np.isin(_fingerprints(model, X), _known(classifier(model)))


def fair_probabilities(model: Any, X: Any, y: Any = None) -> FairProbabilities:
    """Class probabilities of the rows of X, each made without the row itself where the model can do that.

    Labels y choose among training rows of the same inputs but different labels: one with the label of the row is left out
    if there is one.
    """
    last, own = classifier(model), _fingerprints(model, X)
    known = _known(last)
    seen = np.isin(own, known)
    p = np.asarray(model.predict_proba(X))
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
    prints = getattr(last, "row_fingerprints_", None)
    if prints is None:
        raise ValueError("this model does not know which rows it was trained on, as older versions did not; fit it again")
    return prints


def _fingerprints(model, X):
    return single_precision_fingerprints(to_inputs(model, X))


def _with_label(prints, codes):
    """Fingerprints of rows together with their labels."""
    return prints ^ row_fingerprints(np.asarray(codes, float)[:, None])


def _places(wanted, among):
    """(m,) a place of each of `wanted` in `among`, -1 where there is none."""
    order = np.argsort(among, kind="stable")
    at = order[np.minimum(np.searchsorted(among[order], wanted), len(among) - 1)]
    return np.where(among[at] == wanted, at, -1)
