"""Which rows of a pool should be labelled next?

    bald      what a label would tell about the latent function: H[E p] - E[H p], the mutual information of label and latent
              values. High where the model does not know; low where it knows that the label is a toss-up
    entropy   how uncertain the label is, for whatever reason
    margin    how close the two most probable classes are
    variance  how uncertain the latent function is; with several classes, the differences between its values

[H] Houlsby, Huszár, Ghahramani & Lengyel 2011, Bayesian active learning for classification and preference learning.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from scipy.special import entr

from ..likelihoods.multiclass import latent_values
from .models import as_fitted, classifier, to_inputs

CRITERIA = ("bald", "entropy", "margin", "variance")
LATENT_NODES = 1024  # points of the quasi-random rule over the latent values of several classes


def suggest(model: Any, X_pool: Any, n: int = 10, criterion: str = "bald") -> np.ndarray:
    """(n,) numbers of the pool rows to label next, the best first.

    `model` is a fitted GPClassifier or a pipeline that ends in one, `X_pool` rows like those it was fitted to. Of rows that
    score alike the earlier comes first, but a copy of a row that is already on the list comes after all that are not.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpclass import GPClassifier
    >>> from gpclass.assess import suggest
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = GPClassifier().fit(X[::10], y[::10])
    >>> suggest(clf, X, n=3).shape
    (3,)
    """
    scores = acquisition(model, X_pool, criterion)
    if not isinstance(n, Integral) or not 1 <= n <= len(scores):
        raise ValueError(f"n must be an integer from 1 to the number of pool rows, {len(scores)}; got {n!r}")
    order = np.argsort(-_rounded(scores), kind="stable")
    rows = to_inputs(model, X_pool)[order]
    firsts = np.zeros(len(order), dtype=bool)
    firsts[np.unique(rows, axis=0, return_index=True)[1]] = True
    return np.concatenate([order[firsts], order[~firsts]])[: int(n)]


def _rounded(scores):
    """Scores without their last digits, which depend on where in a table a row stands: copies score alike."""
    largest = np.abs(scores).max()
    return np.round(scores / largest, 10) if largest > 0 else scores


def acquisition(model: Any, X_pool: Any, criterion: str = "bald") -> np.ndarray:
    """(m,) scores of the pool rows, large where a label is wanted: nats for "bald" and "entropy"."""
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
    """(m,) nats that a label tells about latent values N(mean, cov): mean (m,) and variance (m,), or (m, C) and (m, C, C).

    With one latent function by quadrature; with several by a quasi-random rule of fixed points, the same for both entropies,
    so that the difference is never negative. Draws of a sampler count by their mean and covariance.
    """
    if np.ndim(mean) == 1:
        return _binary_information(likelihood, np.asarray(mean, float), np.asarray(cov, float))
    parts = []
    for f in latent_values(mean, cov, LATENT_NODES):
        p = likelihood.class_probabilities(np.moveaxis(f, 1, 2))
        parts.append(entr(p.mean(axis=1)).sum(axis=1) - entr(p).sum(axis=2).mean(axis=1))
    return np.maximum(np.concatenate(parts), 0.0)


def _binary_information(likelihood, mean, var):
    p = likelihood.predictive(mean, var)
    total = entr(p) + entr(1 - p)
    return np.maximum(total - likelihood.expected_entropy(mean, var), 0.0)


def _contrast_variance(cov):
    """(m,) variance of the latent values around their mean over classes, summed: what all classes share is no matter."""
    if cov.ndim == 2:  # variances of independent latent values
        return cov.sum(axis=1) * (1 - 1 / cov.shape[1])
    return np.trace(cov, axis1=1, axis2=2) - cov.sum(axis=(1, 2)) / cov.shape[1]
