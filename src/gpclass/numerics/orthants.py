"""Probabilities that each of several jointly Gaussian values is the largest.

Each class has its own integral P(g > 0) over the contrasts g_j = f_c - f_j, j ≠ c, with g = mu + L x, x ~ N(0, I). So the
relative error is as small for rare classes as for others. For up to three classes there is a closed form (Owen 1956). For
more classes a series is used if the values are nearly independent apart from a common part (`nearly_independent`), which is
the case for nearly all predictions. Otherwise contrasts are drawn one after the other, each conditional on the previous ones
being positive, the least probable first (Geweke, Hajivassiliou & Keane; order of Gibson, Glasbey & Elston 1994), at
quasi-random points.
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_expit, ndtr, ndtri, ndtri_exp, owens_t

from .classes import other_classes
from .nearly_independent import nearly_independent
from .normal import hazard
from .points import TINY, averages, tolerance, uniform_points

# Number of quasi-random points to start with. The error for a jump of the values between points is p (1 - p) / 512 < 5e-4
FIRST_POINTS = 512
CERTAIN_SDS = 4.25  # a contrast with a mean of this many standard deviations counts as positive: the error is 1e-5
SMALLEST_CLOSED = 1e-9  # probability below which the closed form for two contrasts has no correct digits
FEW_PAIRS = 64  # up to this number, pairs of a row and a class are averaged together, for any number of contrasts
SINGULAR_PIVOT = 1e-12  # a pivot this small, relative to the largest variance, counts as zero
# Tables of Φ(z), |z| ≤ NDTR_LIMIT, in steps of 1/4096, and of its inverse as a function of the logit, in steps of 1/1024.
# The errors of rounding to the nearest entry are 5e-5 and 3e-4, with a sign that changes from point to point
NDTR_LIMIT, NDTR_STEPS, LOGIT_LIMIT, LOGIT_STEPS = 8.0, 4096, 24.0, 1024
NDTR_TABLE = ndtr(np.arange(-NDTR_LIMIT * NDTR_STEPS, NDTR_LIMIT * NDTR_STEPS + 1) / NDTR_STEPS).astype(np.float32)
_LOGITS = np.arange(-LOGIT_LIMIT * LOGIT_STEPS, LOGIT_LIMIT * LOGIT_STEPS + 1) / LOGIT_STEPS
NDTRI_TABLE = ndtri_exp(log_expit(_LOGITS)).astype(np.float32)


def class_contrasts(mean: np.ndarray, cov: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return means (C - 1, P) and covariances (C - 1, C - 1, P) of f_c - f_j, j ≠ c, for P = C m pairs of class and row."""
    C = mean.shape[1]
    own = np.arange(C)
    rest = other_classes(own, C).T
    f, V = mean.T, cov.transpose(1, 2, 0)
    crossed = V[own, rest]
    joint = V[rest[:, None], rest] - (crossed[:, None] + crossed) + V[own, own]
    return (f - f[rest]).reshape(C - 1, -1), joint.reshape(C - 1, C - 1, -1)


def pairs_to_rows(pairs: np.ndarray, n_classes: int) -> np.ndarray:
    """Return values of pairs (P,) as (m, C), contiguous, so that sums over classes are rounded alike for any m."""
    return np.ascontiguousarray(pairs.reshape(n_classes, -1).T)


def sorted_winner_probabilities(mean: np.ndarray, cov: np.ndarray) -> np.ndarray:
    """Return the probabilities (m, C) that each value is the largest; classes are sorted, the largest mean first."""
    C = mean.shape[1]
    if C > 3:
        return _four_or_more(mean, cov)
    mu, S = class_contrasts(mean, cov)
    if C == 2:
        p = ndtr(mu[0] / np.sqrt(np.maximum(S[0, 0], TINY)))
    else:
        p = bivariate_orthant(mu, S)
        small = np.flatnonzero(p < SMALLEST_CLOSED)
        if len(small):
            p[small] = _by_points(mu[:, small], S[..., small])
    p = pairs_to_rows(p, C)
    return p / p.sum(1, keepdims=True)


def _four_or_more(mean, cov):
    """Return the probabilities (m, C) for four classes or more, by the series, or by points where it is inaccurate."""
    p, doubt = nearly_independent(mean, cov)
    rows = doubt.any(1).nonzero()[0]
    if len(rows):
        mu, S = class_contrasts(mean[rows], cov[rows])
        row, c = np.nonzero(doubt[rows])
        pairs = c * len(rows) + row
        p[rows[row], c] = _by_points(mu[:, pairs], S[..., pairs])
    return p / p.sum(1, keepdims=True)


def bivariate_orthant(mu: np.ndarray, S: np.ndarray) -> np.ndarray:
    """Return P(g_1 > 0, g_2 > 0) (P,) for g ~ N(mu, S), mu (2, P), S (2, 2, P), with error 1e-15. Owen 1956, eq. 2.1"""
    sd = np.sqrt(np.maximum(np.stack([S[0, 0], S[1, 1]]), TINY))
    h, k = np.clip(mu / sd, -1e100, 1e100)
    rho = np.clip(S[0, 1] / (sd[0] * sd[1]), -1.0, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):  # slopes may be infinite; 0/0 counts as zero
        slopes = [(b - rho * a) / (a * np.sqrt((1 - rho) * (1 + rho))) for a, b in ((h, k), (k, h))]
    T = [owens_t(a, np.where(np.isnan(slope), 0.0, slope)) for a, slope in zip((h, k), slopes, strict=True)]
    opposite = (h * k < 0) | ((h * k == 0) & (h + k < 0))
    p = 0.5 * (ndtr(h) + ndtr(k)) - T[0] - T[1] - 0.5 * opposite
    return np.clip(np.where((h == 0) & (k == 0), 0.25 + np.arcsin(rho) / (2 * np.pi), p), 0.0, 1.0)


def drawing_order(mu: np.ndarray, S: np.ndarray, certain: float = np.inf) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return contrasts in the order of drawing, the Cholesky factor of their covariance, and how many to draw.

    The next contrast is the one that is least likely to be positive, given that the previous ones are. Drawing ends when
    the conditional means of all remaining contrasts are above `certain` of their standard deviations: they count as
    positive.

    Parameters
    ----------
    mu : ndarray of shape (d, P)
        Means of the contrasts.
    S : ndarray of shape (d, d, P)
        Covariances of the contrasts.
    certain : float, default=inf
        See above. By default all contrasts are drawn.

    Returns
    -------
    mu : ndarray of shape (d, P)
        The means in the order of drawing.
    L : ndarray of shape (d, d, P)
        The Cholesky factors in this order.
    drawn : ndarray of shape (P,)
        How many contrasts to draw, at least one. Entries of mu and L beyond this number are undefined.
    """
    d, P = mu.shape
    drawn, at, L = np.full(P, d), np.zeros((d, P), np.intp), np.zeros_like(S)
    var = np.einsum("jjp->jp", S).copy()
    tiny = np.maximum(SINGULAR_PIVOT * var.max(0), TINY)
    expected, widest = mu.copy(), certain * np.sqrt(np.maximum(var, tiny)) if np.isfinite(certain) else None
    pairs = np.arange(P)  # pairs with contrasts that remain to be drawn
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
    """Return P(g > 0) (P,) for g ~ N(mu, S): a closed form if only one or two contrasts matter, else by points."""
    mu, L, drawn = drawing_order(mu, S, CERTAIN_SDS)
    p = np.empty(mu.shape[1])
    one, two = drawn == 1, np.flatnonzero(drawn == 2)
    p[one] = ndtr(mu[0, one] / np.sqrt(np.maximum(L[0, 0, one] ** 2, TINY)))
    if len(two):
        a, b, c = L[0, 0, two], L[1, 0, two], L[1, 1, two]
        p[two] = bivariate_orthant(mu[:2, two], np.array([[a * a, a * b], [a * b, b * b + c * c]]))
    several = (drawn > 2) | ((drawn == 2) & ~(p >= SMALLEST_CLOSED))
    for some in _groups(np.flatnonzero(several), drawn):
        depth = max(3, int(drawn[some].max(initial=0)))
        p[some] = _by_drawing(mu[:depth, some], L[:depth, :depth, some], drawn[some], len(mu))
    return p


def _groups(pairs, drawn):
    """Yield `pairs` in groups with the same number of contrasts to draw, or all together if there are few."""
    if len(pairs) <= FEW_PAIRS:
        yield from [pairs] * bool(len(pairs))
        return
    for number in np.unique(drawn[pairs]):
        yield pairs[drawn[pairs] == number]


def _by_drawing(mu, L, drawn, n_contrasts):
    """Return P(g > 0) (P,) by drawing contrasts in turn at quasi-random points. Contrasts beyond `drawn` are positive."""
    d, P = mu.shape
    pivot = np.einsum("kkp->kp", L)
    skipped = np.arange(d)[:, None] >= drawn
    L = np.where(skipped[:, None], 0.0, L)
    # in units of the conditional standard deviations; single precision suffices except for the first contrast, the rarest
    smallest = np.sqrt(SINGULAR_PIVOT * np.maximum(np.max(np.sum(L * L, axis=1), axis=0), TINY))
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
            positive = _look_up(NDTR_TABLE, given, NDTR_LIMIT, NDTR_STEPS)
            p = p * positive
            if k < d - 1:
                positive *= uniform[k, at]
                with np.errstate(divide="ignore"):
                    logit = np.log((1 - positive) / positive)
                x[:, k] = _look_up(NDTRI_TABLE, logit, LOGIT_LIMIT, LOGIT_STEPS)  # Φ⁻¹(1 - positive)
        return (least[pairs] * p)[:, None]

    return averages(values, P, (1, d), tolerance, FIRST_POINTS)[0, :, 0]


def _look_up(table, at, limit, steps):
    """Return the entries of a table for |at| ≤ limit. Overwrites `at`, which is in single precision."""
    np.clip(at, -limit, limit, out=at)
    at *= steps
    at += limit * steps + 0.5
    return table.take(at.astype(np.int32))
