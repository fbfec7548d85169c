"""Active learning: choose the rows of a pool to label next. The criteria are:

    bald      mutual information of the label and the latent values, H[E p] - E[H p]. It is high where the latent function
              is uncertain, and low where the classes overlap and another label would not help
    entropy   entropy of the predicted label
    margin    difference between the two largest class probabilities, with a minus sign
    variance  variance of the latent function; with several classes, of the differences between latent functions

[H] Houlsby, Huszár, Ghahramani & Lengyel 2011, Bayesian active learning for classification and preference learning.
"""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import entr
from sklearn.utils import _safe_indexing

from ..inputs.frames import is_frame
from ..likelihoods.multiclass import latent_values
from .models import as_fitted, classifier, to_inputs

if TYPE_CHECKING:
    import pandas as pd

CRITERIA = ("bald", "entropy", "margin", "variance")
LATENT_NODES = 1024  # points of the quasi-random rule over the latent values of several classes


def suggest(model: Any, X_pool: Any, n: int = 10, criterion: str = "bald") -> pd.DataFrame:
    """Return the pool rows to label next, best first.

    Parameters
    ----------
    model : GPClassifier or Pipeline
        A fitted classifier, or a fitted pipeline whose last step is one.
    X_pool : array-like or DataFrame of shape (n_rows, n_features)
        Unlabelled rows in the format that the model was fitted to.
    n : int, default=10
        Number of rows to return.
    criterion : {"bald", "entropy", "margin", "variance"}, default="bald"
        The score to rank by; see the module docstring.

    Returns
    -------
    DataFrame
        One row for each suggestion. The index has the row numbers in the pool, counted from 0: `X_pool[table.index]`, or
        `X_pool.iloc[table.index]` for data frames, are the rows. Rows with equal scores are in the order of the pool.
        Copies of a row come after all distinct rows. The columns are

        - name: the index of the row, if the pool is a data frame.
        - score: the value of the criterion; a larger one means that a label is more useful.
        - predicted: the most probable label.
        - probability: its probability.

    Raises
    ------
    ValueError
        If `criterion` is unknown, the pool is empty, or `n` is not between 1 and the number of pool rows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpclass import GPClassifier
    >>> from gpclass.assess import suggest
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = GPClassifier().fit(X[::10], y[::10])
    >>> table = suggest(clf, X, n=3)
    >>> X[table.index].shape
    (3, 4)
    """
    import pandas as pd

    scores = acquisition(model, X_pool, criterion)
    if not isinstance(n, Integral) or not 1 <= n <= len(scores):
        raise ValueError(f"n must be an integer from 1 to the number of pool rows, {len(scores)}; got {n!r}")
    order = np.argsort(-_rounded(scores), kind="stable")
    rows = to_inputs(model, X_pool)[order]
    firsts = np.zeros(len(order), dtype=bool)
    firsts[np.unique(rows, axis=0, return_index=True)[1]] = True
    chosen = np.concatenate([order[firsts], order[~firsts]])[: int(n)]
    p = model.predict_proba(_safe_indexing(X_pool, chosen))
    table = {"name": X_pool.index[chosen]} if is_frame(X_pool) else {}
    table |= {"score": scores[chosen], "predicted": model.classes_[p.argmax(axis=1)], "probability": p.max(axis=1)}
    return pd.DataFrame(table, index=pd.Index(chosen, name="row"))


def _rounded(scores):
    """Round scores to 10 digits, so that copies of a row have equal scores wherever they are in the table."""
    largest = np.abs(scores).max()
    return np.round(scores / largest, 10) if largest > 0 else scores


def acquisition(model: Any, X_pool: Any, criterion: str = "bald") -> np.ndarray:
    """Return the score of each pool row; a larger score means that a label is more useful.

    Parameters
    ----------
    model, X_pool, criterion
        As for `suggest`.

    Returns
    -------
    ndarray of shape (n_rows,)
        Scores, in nats for "bald" and "entropy".
    """
    last = classifier(model)
    if criterion not in CRITERIA:
        raise ValueError(f"criterion must be one of {', '.join(map(repr, CRITERIA))}; got {criterion!r}")
    if len(X_pool) == 0:
        raise ValueError("the pool is empty")
    if criterion in ("entropy", "margin"):
        p = model.predict_proba(X_pool)
        if criterion == "entropy":
            return entr(p).sum(axis=1)
        second, first = np.sort(p, axis=1)[:, -2:].T
        return second - first
    mean, cov = last.latent(X_pool if model is last else as_fitted(last, to_inputs(model, X_pool)))
    if criterion == "variance":
        return cov if mean.ndim == 1 else _contrast_variance(cov)
    return mutual_information(last.likelihood_, mean, cov)


def mutual_information(likelihood: Any, mean: np.ndarray, cov: np.ndarray) -> np.ndarray:
    """Return the mutual information (m,), in nats, of the label and latent values N(mean, cov).

    The shapes are mean (m,) and variance (m,), or mean (m, C) and covariance (m, C, C). One latent function uses
    quadrature. Several use a quasi-random rule whose points are the same for both entropies, so the difference is never
    negative. For a sampler, `mean` and `cov` are those of the draws.
    """
    if np.ndim(mean) == 1:
        return _one_latent_information(likelihood, np.asarray(mean, float), np.asarray(cov, float))
    parts = []
    for f in latent_values(mean, cov, LATENT_NODES):
        p = likelihood.class_probabilities(np.moveaxis(f, 1, 2))
        parts.append(entr(p.mean(axis=1)).sum(axis=1) - entr(p).sum(axis=2).mean(axis=1))
    return np.maximum(np.concatenate(parts), 0.0)


def _one_latent_information(likelihood, mean, var):
    total = entr(np.exp(likelihood.log_class_probabilities(mean, var))).sum(axis=1)
    return np.maximum(total - likelihood.expected_entropy(mean, var), 0.0)


def _contrast_variance(cov):
    """Return the (m,) summed variance of the latent values about their mean over classes.

    A shift common to all classes does not change the class probabilities, so its variance is excluded.
    """
    if cov.ndim == 2:  # variances of independent latent values
        return cov.sum(axis=1) * (1 - 1 / cov.shape[1])
    return np.trace(cov, axis1=1, axis2=2) - cov.sum(axis=(1, 2)) / cov.shape[1]
