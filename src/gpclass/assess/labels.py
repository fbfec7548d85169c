"""Find training rows that may be mislabelled: those whose label is least probable given all other rows.

A model that was fitted to a wrong label partly follows it, so each row is predicted without its own label: by leave-one-out
probabilities, which the cavities of the posterior give without refitting, or by cross-validation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import sklearn
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from ..choose import is_auto
from ..inputs.frames import is_frame
from ..learning import in_parallel
from .models import classifier, last_step, leave_one_out, posterior_rows, training_labels, training_names
from .predictions import codes_of

if TYPE_CHECKING:
    import pandas as pd


def suspicious_labels(model: Any, X: Any = None, y: Any = None, *, folds: int = 5, random_state: int = 0) -> pd.DataFrame:
    """Rank the training rows by the probability of their label, predicted without that label.

    Parameters
    ----------
    model : GPClassifier or Pipeline
        A fitted classifier, or a fitted pipeline whose last step is one.
    X, y : array-like or DataFrame of shape (n, n_features), array-like of shape (n,), optional
        The training rows and labels as passed to `fit`. Required only if the model has no leave-one-out probabilities.
        The rows are then predicted by cross-validation, with the learned hyperparameters kept fixed.
    folds : int, default=5
        Number of folds. They are fitted in `n_jobs` processes, a parameter of the classifier.
    random_state : int, default=0
        Seed of the split into folds.

    Returns
    -------
    DataFrame
        The training rows, least probable label first. The index has the row numbers in the data passed to `fit`, counted
        from 0, so that `y[table.index]` are the labels. The columns are

        - name: the name of the row as text, if rows have names: the index of the data frame X, or what the model stored.
          A model of `gpclass fit` stores the line in the data file (the first row after the header is 1) and the text of
          the id column.
        - label: the given label.
        - probability: the probability of the given label, given all other rows.
        - suggested: the most probable of the other labels.
        - suggested_probability: the probability of `suggested`. Above `probability`, the given label is doubtful.

    Raises
    ------
    ValueError
        If y differs from the labels of the fit, or X and y are required and missing.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpclass import GPClassifier
    >>> from gpclass.assess import suspicious_labels
    >>> X, y = load_iris(return_X_y=True)
    >>> y[7] = 2                                           # a wrong label
    >>> int(suspicious_labels(GPClassifier().fit(X, y)).index[0])
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
    """Return the names of the training rows: the index of a data frame X, or the names the model stored, or None."""
    return row_names(X) if is_frame(X) else training_names(model)


def row_names(X: Any) -> list[str]:
    """Return row names as text: the index of a data frame, otherwise row numbers from 0."""
    return [str(name) for name in (X.index if is_frame(X) else range(len(X)))]


def ranked(
    p: np.ndarray,
    labels: np.ndarray,
    classes: np.ndarray,
    names: Sequence[str] | None = None,
    rows: np.ndarray | None = None,
) -> pd.DataFrame:
    """Sort rows by the probability of their label, given probabilities p (n, C) that were predicted without it.

    `rows` are the row numbers (0, 1, … by default); `names[i]` is the name of row i. The result is that of
    `suspicious_labels`.
    """
    import pandas as pd

    codes = codes_of(labels, classes)
    each = np.arange(len(codes))
    own = p[each, codes]
    others = p.copy()
    others[each, codes] = -np.inf
    likelier = others.argmax(axis=1)
    order = np.argsort(own, kind="stable")  # ties keep the order of the rows
    places = each if rows is None else rows
    table: dict[str, Any] = {} if names is None else {"name": [names[place] for place in places.tolist()]}
    table |= {"label": np.asarray(labels), "probability": own}
    table |= {"suggested": classes[likelier], "suggested_probability": others[each, likelier]}
    return pd.DataFrame(table, index=pd.Index(places, name="row")).iloc[order]


def doubtful(check: pd.DataFrame) -> pd.DataFrame:
    """Return those of ranked rows whose label is not the most probable one."""
    return check[check["probability"] < check["suggested_probability"]]


def _by_folds(model, X, y, folds: int, random_state: int) -> np.ndarray:
    """Return cross-validated class probabilities (n, C)."""
    classes = classifier(model).classes_
    smallest = int(np.bincount(codes_of(y, classes), minlength=len(classes)).min())
    if smallest < 2:
        raise ValueError("every class needs at least two rows, so that each can be predicted from the others")
    cut = sklearn.model_selection.StratifiedKFold(min(folds, smallest), shuffle=True, random_state=random_state)
    splits, copy = list(cut.split(np.zeros(len(y)), y)), with_fixed_hyperparameters(model, random_state)
    arguments = [(clone(copy), _safe_indexing(X, seen), y[seen], _safe_indexing(X, left_out)) for seen, left_out in splits]
    p = np.empty((len(y), len(classes)))
    for (_, left_out), found in zip(splits, in_parallel(classifier(model).n_jobs, _fold, arguments), strict=True):
        p[left_out] = found
    return p


def _fold(model, X, y, X_left_out):
    return model.fit(X, y).predict_proba(X_left_out)


def with_fixed_hyperparameters(model: Any, random_state: int = 0) -> Any:
    """Return an unfitted copy of the model with the learned hyperparameters kept fixed and a fixed random state."""
    last, copy = classifier(model), clone(model)
    inner = last_step(copy)
    seed = random_state if inner.random_state is None else inner.random_state
    # the engine of "auto" may have been chosen by comparison, which takes a search
    inference = last.inference_ if is_auto(inner.inference) else inner.inference
    learned = {"kernel": last.kernel_, "likelihood": last.likelihood_, "inference": inference}
    inner.set_params(**learned, optimizer=None, random_state=seed)
    return copy
