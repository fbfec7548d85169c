"""The largest of several jointly Gaussian values.

Each class has its own integral P(g > 0) over the contrasts g_j = f_c - f_j, j ≠ c, with g = mu + L x and x standard normal.
A class of small probability therefore has a relative error as small as the others'. Up to three classes there is a closed
form (Owen 1956). Beyond, classes that are nearly independent apart from what they share have a series that ends soon
(`nearly_independent`), which serves nearly all predictions. For the others, one contrast after the other is drawn from what
those before it leave, the least likely ones first (Geweke, Hajivassiliou & Keane; order of Gibson, Glasbey & Elston 1994);
the average runs over quasi-random points.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import log_expit, ndtr, ndtri, ndtri_exp, owens_t

from .nearly_independent import nearly_independent
from .normal import hazard
from .points import TINY, averages, tolerance, uniform_points

FIRST = 512  # quasi-random points to begin with; a jump of the values that these miss is off by p (1 - p) / 512 < 5e-4
CERTAIN = 4.25  # standard deviations above zero at which a contrast counts as positive: 1e-5 of the probability is lost
LEAST_CLOSED = 1e-9  # probability below which the closed form for two contrasts has no digits left
FEW_PAIRS = 64  # pairs of a row and a class that are averaged together, whatever the number of contrasts to draw
SINGULAR = 1e-12  # a pivot this small, relative to the largest variance, counts as zero
# Tables of Φ(z), |z| ≤ LIMIT, in steps of 1/4096, and of its inverse in the logit, in steps of 1/1024: rounding to them is
# off by 5e-5 and 3e-4, of either sign from point to point
LIMIT, STEPS, LOGIT, LOGIT_STEPS = 8.0, 4096, 24.0, 1024
NDTR = ndtr(np.arange(-LIMIT * STEPS, LIMIT * STEPS + 1) / STEPS).astype(np.float32)
NDTRI = ndtri_exp(log_expit(np.arange(-LOGIT * LOGIT_STEPS, LOGIT * LOGIT_STEPS + 1) / LOGIT_STEPS)).astype(np.float32)


def contrasts(mean: np.ndarray, cov: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means (C - 1, P) and covariances (C - 1, C - 1, P) of f_c - f_j, j ≠ c; P = C·m pairs, class by class."""
    C = mean.shape[1]
    own, rest = np.arange(C), _others(C)
    f, V = mean.T, cov.transpose(1, 2, 0)
    crossed = V[own, rest]
    joint = V[rest[:, None], rest] - (crossed[:, None] + crossed) + V[own, own]
    return (f - f[rest]).reshape(C - 1, -1), joint.reshape(C - 1, C - 1, -1)


@lru_cache(maxsize=64)
def _others(n_classes):
    """(C - 1, C) the other classes of each class, in order."""
    rest = np.arange(n_classes - 1)[:, None]
    return rest + (rest >= np.arange(n_classes))


def in_rows(pairs: np.ndarray, n_classes: int) -> np.ndarray:
    """(m, C) from the pairs (P,); contiguous, so that sums over classes are the same for one row as for many."""
    return np.ascontiguousarray(pairs.reshape(n_classes, -1).T)


def winner(mean: np.ndarray, cov: np.ndarray) -> np.ndarray:
    """(m, C) probability that each is the largest."""
    C = mean.shape[1]
    if C > 3:
        return _of_many(mean, cov)
    mu, S = contrasts(mean, cov)
    if C == 2:
        p = ndtr(mu[0] / np.sqrt(np.maximum(S[0, 0], TINY)))
    else:
        p = bivariate_orthant(mu, S)
        few = np.flatnonzero(p < LEAST_CLOSED)
        if len(few):
            p[few] = _by_points(mu[:, few], S[..., few])
    p = in_rows(p, C)
    return p / p.sum(1, keepdims=True)


def _of_many(mean, cov):
    """(m, C) probability that each is the largest, for four classes or more: by the series, and where it ends, by points."""
    p, doubt = nearly_independent(mean, cov)
    rows = doubt.any(1).nonzero()[0]
    if len(rows):
        mu, S = contrasts(mean[rows], cov[rows])
        row, c = np.nonzero(doubt[rows])
        pairs = c * len(rows) + row
        p[rows[row], c] = _by_points(mu[:, pairs], S[..., pairs])
    return p / p.sum(1, keepdims=True)


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


def in_turn(mu: np.ndarray, S: np.ndarray, certain: float = np.inf) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Contrasts in the order in which they are to be drawn, the Cholesky factor of their covariance, and how many to draw.

    The next is the one least likely to be positive, given that those before it are. Where all that are left have a mean,
    given those before, of more than `certain` of their own standard deviations, they count as positive. mu (d, P),
    S (d, d, P). The numbers (P,) are at least one; beyond them order and factor are not defined.
    """
    d, P = mu.shape
    drawn, at, L = np.full(P, d), np.zeros((d, P), np.intp), np.zeros_like(S)
    var = np.einsum("jjp->jp", S).copy()
    tiny = np.maximum(SINGULAR * var.max(0), TINY)
    expected, widest = mu.copy(), certain * np.sqrt(np.maximum(var, tiny)) if np.isfinite(certain) else None
    pairs = np.arange(P)  # those with something left to draw
    for k in range(d):
        if k and widest is not None:
            open_ = np.any(expected < widest, axis=0)
            drawn[pairs[~open_]] = k
            if not open_.all():
                pairs, tiny = pairs[open_], tiny[open_]
                var, expected, widest = var[:, open_], expected[:, open_], widest[:, open_]
            if not len(pairs):
                break
        own = np.arange(len(pairs))
        chosen = np.argmin(expected / np.sqrt(np.maximum(var, tiny)), axis=0)
        at[k, pairs] = chosen
        mean, left = expected[chosen, own], var[chosen, own]
        good = left > tiny
        pivot = np.sqrt(np.where(good, left, 1.0))
        column = S[:, chosen, pairs]
        for j in range(k):
            column -= L[:, j, pairs] * L[chosen, j, pairs]
        column = np.where(good, column / pivot, 0.0)
        column[chosen, own] = np.where(good, pivot, 0.0)
        L[:, k, pairs] = column
        var -= column * column
        expected += column * hazard(mean / np.sqrt(np.maximum(left, tiny)))
        expected[chosen, own] = np.inf  # drawn
    return np.take_along_axis(mu, at, 0), np.take_along_axis(L, at[:, None], 0), drawn


def _by_points(mu, S):
    """(P,) P(g > 0) for g ~ N(mu (d, P), S (d, d, P)): closed forms where one or two contrasts decide, else by points."""
    mu, L, drawn = in_turn(mu, S, CERTAIN)
    p = np.empty(mu.shape[1])
    one, two = drawn == 1, np.flatnonzero(drawn == 2)
    p[one] = ndtr(mu[0, one] / np.sqrt(np.maximum(L[0, 0, one] ** 2, TINY)))
    if len(two):
        a, b, c = L[0, 0, two], L[1, 0, two], L[1, 1, two]
        p[two] = bivariate_orthant(mu[:2, two], np.array([[a * a, a * b], [a * b, b * b + c * c]]))
    several = (drawn > 2) | ((drawn == 2) & ~(p >= LEAST_CLOSED))
    for some in _alike(np.flatnonzero(several), drawn):
        depth = max(3, int(drawn[some].max(initial=0)))
        p[some] = _averaged(mu[:depth, some], L[:depth, :depth, some], drawn[some], len(mu))
    return p


def _alike(pairs, drawn):
    """Yield `pairs` in groups of equally many contrasts to draw, or together if they are few."""
    if len(pairs) <= FEW_PAIRS:
        yield from [pairs] * bool(len(pairs))
        return
    for number in np.unique(drawn[pairs]):
        yield pairs[drawn[pairs] == number]


def _averaged(mu, L, drawn, n_contrasts):
    """(P,) P(g > 0) by drawing contrasts in turn at quasi-random points; those beyond `drawn` are positive."""
    d, P = mu.shape
    pivot = np.einsum("kkp->kp", L)
    skipped = np.arange(d)[:, None] >= drawn
    L = np.where(skipped[:, None], 0.0, L)
    # in units of the standard deviation left; single precision has digits enough, but for the first, the least likely one
    smallest = np.sqrt(SINGULAR * np.maximum(np.max(np.sum(L * L, axis=1), axis=0), TINY))
    pivot = np.where(skipped, 1.0, np.maximum(pivot, smallest))
    least = ndtr(mu[0] / pivot[0])[:, None]
    scaled = np.where(skipped, 1e30, np.clip(mu / pivot, -1e30, 1e30)).astype(np.float32)[..., None]
    rows = np.ascontiguousarray(np.swapaxes(L / pivot[:, None], 1, 2), np.float32)[:, :, None]  # (d, P, 1, d)
    uniform = uniform_points(n_contrasts - 1, np.float32)

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
