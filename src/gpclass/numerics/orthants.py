"""The largest of several jointly Gaussian values.

Each class has its own integral P(g > 0) over the contrasts g_j = f_c - f_j, j ≠ c, with g = mu + L x and x standard normal.
A class of small probability therefore has a relative error as small as the others'. Up to three classes there is a closed
form (Owen 1956). Beyond, one contrast after the other is drawn from what those before it leave, the least likely ones first
(Geweke, Hajivassiliou & Keane; order of Gibson, Glasbey & Elston 1994); the average runs over quasi-random points.
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_expit, ndtr, ndtri, ndtri_exp, owens_t

from .normal import hazard
from .points import TINY, averages, tolerance, uniform_points

FIRST = 512  # quasi-random points to begin with; a jump of the values that these miss is off by p (1 - p) / 512 < 5e-4
SINGULAR = 1e-12  # a pivot this small, relative to the largest variance, counts as zero
# Tables of Φ(z), |z| ≤ LIMIT, in steps of 1/4096, and of its inverse in the logit, in steps of 1/1024: rounding to them is
# off by 5e-5 and 3e-4, of either sign from point to point
LIMIT, STEPS, LOGIT, LOGIT_STEPS = 8.0, 4096, 24.0, 1024
NDTR = ndtr(np.arange(-LIMIT * STEPS, LIMIT * STEPS + 1) / STEPS).astype(np.float32)
NDTRI = ndtri_exp(log_expit(np.arange(-LOGIT * LOGIT_STEPS, LOGIT * LOGIT_STEPS + 1) / LOGIT_STEPS)).astype(np.float32)


def contrasts(mean: np.ndarray, cov: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means (C - 1, P) and covariances (C - 1, C - 1, P) of f_c - f_j, j ≠ c; P = C·m pairs, class by class."""
    C = mean.shape[1]
    own = np.arange(C)
    rest = np.array([np.delete(own, c) for c in own]).T  # (C - 1, C)
    f, V = mean.T, np.moveaxis(cov, 0, -1)
    crossed = V[own, rest]
    joint = V[rest[:, None], rest] - (crossed[:, None] + crossed) + V[own, own]
    return (f - f[rest]).reshape(C - 1, -1), joint.reshape(C - 1, C - 1, -1)


def in_rows(pairs: np.ndarray, n_classes: int) -> np.ndarray:
    """(m, C) from the pairs (P,); contiguous, so that sums over classes are the same for one row as for many."""
    return np.ascontiguousarray(pairs.reshape(n_classes, -1).T)


def winner(mean: np.ndarray, cov: np.ndarray) -> np.ndarray:
    """(m, C) probability that each is the largest."""
    C = mean.shape[1]
    mu, S = contrasts(mean, cov)
    if C == 2:
        p = ndtr(mu[0] / np.sqrt(np.maximum(S[0, 0], TINY)))
    elif C == 3:
        p = bivariate_orthant(mu, S)
        few = np.flatnonzero(p < 1e-9)  # the closed form has no digits left
        p[few] = _by_points(mu[:, few], S[..., few])
    else:
        p = _by_points(mu, S)
    return in_rows(p, C) / in_rows(p, C).sum(1, keepdims=True)


def bivariate_orthant(mu: np.ndarray, S: np.ndarray) -> np.ndarray:
    """(P,) P(g_1 > 0, g_2 > 0) for g ~ N(mu (2, P), S (2, 2, P)), to 1e-15. Owen 1956, eq. 2.1"""
    sd = np.sqrt(np.maximum(np.stack([S[0, 0], S[1, 1]]), TINY))
    h, k = np.clip(mu / sd, -1e100, 1e100)
    rho = np.clip(S[0, 1] / (sd[0] * sd[1]), -1.0, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):  # slopes may be infinite; 0/0 stands for a zero
        slopes = [(b - rho * a) / (a * np.sqrt((1 - rho) * (1 + rho))) for a, b in ((h, k), (k, h))]
    T = [owens_t(a, np.where(np.isnan(slope), 0.0, slope)) for a, slope in zip((h, k), slopes, strict=True)]
    opposite = (h * k < 0) | ((h * k == 0) & (h + k < 0))
    p = 0.5 * (ndtr(h) + ndtr(k)) - T[0] - T[1] - 0.5 * opposite
    return np.clip(np.where((h == 0) & (k == 0), 0.25 + np.arcsin(rho) / (2 * np.pi), p), 0.0, 1.0)


def in_turn(mu: np.ndarray, S: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Contrasts in the order in which they are to be drawn, and the Cholesky factor of their covariance in that order.

    The next is the one least likely to be positive, given that those before it are. mu (d, P), S (d, d, P).
    """
    d, P = mu.shape
    order, everyone = np.tile(np.arange(d)[:, None], P), np.arange(P)
    L, expected, var = np.zeros_like(S), mu.copy(), np.einsum("jjp->jp", S).copy()
    tiny = np.maximum(SINGULAR * var.max(0), TINY)
    for k in range(d):
        chance = expected[k:] / np.sqrt(np.maximum(var[k:], tiny))
        chosen = k + np.argmin(chance, axis=0)
        for part in (order, expected, var, L):
            part[k, ..., everyone], part[chosen, ..., everyone] = (
                part[chosen, ..., everyone].copy(), part[k, ..., everyone].copy())  # fmt: skip
        good = var[k] > tiny
        pivot = np.sqrt(np.where(good, var[k], 1.0))
        L[k, k] = np.where(good, pivot, 0.0)
        column = S[order[k + 1 :], order[k], everyone] - np.sum(L[k + 1 :, :k] * L[k, :k], axis=1)
        L[k + 1 :, k] = np.where(good, column / pivot, 0.0)
        var[k + 1 :] -= L[k + 1 :, k] ** 2
        expected[k + 1 :] += L[k + 1 :, k] * hazard(expected[k] / np.sqrt(np.maximum(var[k], tiny)))
    return np.take_along_axis(mu, order, 0), L


def _by_points(mu, S):
    """(P,) P(g > 0) for g ~ N(mu (d, P), S (d, d, P)): contrasts drawn in turn at quasi-random points."""
    mu, L = in_turn(mu, S)
    d, P = mu.shape
    # in units of the standard deviation left; single precision has digits enough, but for the first, the least likely one
    pivot = np.maximum(np.einsum("kkp->kp", L), np.sqrt(SINGULAR * np.maximum(np.max(np.sum(L * L, axis=1), axis=0), TINY)))
    least = ndtr(mu[0] / pivot[0])[:, None]
    scaled = np.clip(mu / pivot, -1e30, 1e30).astype(np.float32)[..., None]
    rows = np.ascontiguousarray(np.swapaxes(L / pivot[:, None], 1, 2), np.float32)[:, :, None]  # (d, P, 1, d)
    uniform = uniform_points(max(d - 1, 1), np.float32)

    def values(pairs, at):
        x, p = np.empty((len(pairs), d - 1, at.stop - at.start), np.float32), 1.0
        x[:, 0] = -ndtri(np.maximum(uniform[0, at] * least[pairs], TINY))
        for k in range(1, d):
            given = np.matmul(rows[k, pairs, :, :k], x[:, :k])[:, 0]
            given += scaled[k, pairs]
            positive = _look_up(NDTR, given, LIMIT, STEPS)
            p = p * positive
            if k < d - 1:
                positive *= uniform[k, at]
                with np.errstate(divide="ignore"):
                    x[:, k] = _look_up(NDTRI, np.log((1 - positive) / positive), LOGIT, LOGIT_STEPS)  # Φ⁻¹(1 - positive)
        return (least[pairs] * p)[:, None]

    return averages(values, P, (1, d), tolerance, FIRST)[0, :, 0]


def _look_up(table, at, limit, steps):
    """The entries of a table for |at| ≤ limit; `at`, in single precision, is overwritten."""
    np.clip(at, -limit, limit, out=at)
    at *= steps
    at += limit * steps + 0.5
    return table.take(at.astype(np.int32))
