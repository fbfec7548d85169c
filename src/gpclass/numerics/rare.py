"""Softmax of a rare class, by points around the region where the class has its mass.

The integral runs over the class's contrasts with the others, g = mu + L x, of 1 / (1 + Σ_j exp(-g_j)). Points x = z + shift
have the weight exp(-shift·z - |shift|²/2), so that the relative error does not grow as the class gets rarer.
"""

from __future__ import annotations

import numpy as np

from .normal import hazard
from .orthants import in_turn
from .points import averages, normal_points, tolerance

FIRST = 256  # quasi-random points to begin with
LOGISTIC_VARIANCE = 2.9  # of the normal distribution function closest to the logistic function


def rare_softmax(mu: np.ndarray, S: np.ndarray) -> np.ndarray:
    """(P,) E[1 / (1 + Σ_j exp(-g_j))] for contrasts g ~ N(mu (d, P), S (d, d, P))."""
    mu, L, _ = in_turn(mu, S)
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

    return averages(values, len(L), (1, L.shape[1]), tolerance, FIRST)[0, :, 0]


def _shift(mu, L):
    """(d, P) roughly the mean of x where all contrasts, with logistic noise as normal, are positive; one after the other."""
    x, left = np.zeros_like(mu), np.ones(mu.shape[1])
    for k in range(len(mu)):
        width = np.sqrt(L[k, k] ** 2 + LOGISTIC_VARIANCE)
        pull = np.minimum(hazard((mu[k] + np.sum(L[k, :k] * x[:k], axis=0)) / width) / width, left)
        x[k] = L[k, k] * pull
        left = left - pull  # the slope of log softmax in all contrasts together is at most one
    return x
