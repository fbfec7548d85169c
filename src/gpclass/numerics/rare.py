"""Expected softmax of a rare class, by importance sampling in the region where the class is probable.

The integral is over the contrasts of the class with the others, g = mu + L x, of 1 / (1 + Σ_j exp(-g_j)). Points are
x = z + shift with weight exp(-shift·z - |shift|²/2). So the relative error does not grow as the class becomes rarer.
"""

from __future__ import annotations

import numpy as np

from .normal import hazard
from .orthants import drawing_order
from .points import averages, normal_points, tolerance

FIRST_POINTS = 256  # number of quasi-random points to start with
LOGISTIC_VARIANCE = 2.9  # variance of the normal distribution function that is closest to the logistic function


def rare_softmax(mu: np.ndarray, S: np.ndarray) -> np.ndarray:
    """Return E[1 / (1 + Σ_j exp(-g_j))] (P,) for contrasts g ~ N(mu, S), mu (d, P), S (d, d, P)."""
    mu, L, _ = drawing_order(mu, S)
    shift = _shift(mu, L)
    mu = (mu + np.sum(L * shift, axis=1)).T[..., None].astype(np.float32)
    L, half_square = np.moveaxis(L, -1, 0).astype(np.float32), (0.5 * np.sum(shift**2, axis=0))[:, None, None]
    shift, z = shift.T[:, None].astype(np.float32), normal_points(L.shape[1], np.float32)

    def values(pairs, at):
        g = np.matmul(L[pairs], z[:, at])
        g += mu[pairs]
        with np.errstate(over="ignore"):
            odds = np.exp(-g).sum(1, keepdims=True)
        return np.exp(-np.matmul(shift[pairs], z[:, at]) - half_square[pairs]) / (1 + odds)

    return averages(values, len(L), (1, L.shape[1]), tolerance, FIRST_POINTS)[0, :, 0]


def _shift(mu, L):
    """Return roughly the mean of x (d, P) given that all contrasts plus logistic noise are positive.

    The noise is approximated by normal noise, and the contrasts are treated one after the other.
    """
    x, left = np.zeros_like(mu), np.ones(mu.shape[1])
    for k in range(len(mu)):
        width = np.sqrt(L[k, k] ** 2 + LOGISTIC_VARIANCE)
        pull = np.minimum(hazard((mu[k] + np.sum(L[k, :k] * x[:k], axis=0)) / width) / width, left)
        x[k] = L[k, k] * pull
        left = left - pull  # the slope of log softmax in all contrasts together is at most one
    return x
