"""Expected shares of classes when their latent values are jointly Gaussian, f ~ N(mean, cov).

    winner_probabilities   P(f_c is the largest); see `orthants`
    expected_softmax       E[exp(f_c) / Σ_j exp(f_j)]

Softmax is the share of the largest f_j + Gumbel noise. With up to four classes it is integrated by trapezoid rules where
these need few nodes (`grid`). Else there is a series in the covariances of the classes apart from what they share
(`nearly_independent`), which serves nearly all predictions. For the others, wide contrasts make softmax all but a choice of
the largest f_j, and otherwise it is averaged over quasi-random points of f that all classes share. Rare classes for which
these have too large a relative error get points of their own (`rare`).

Exchangeable classes get the same answer. No answer depends on the order of the classes or on the other rows.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from .blocks import blocks
from .grid import node_counts, softmax_by_grid
from .gumbel import GUMBEL, VARIANCE, WIDE
from .nearly_independent import nearly_independent
from .orthants import SINGULAR, contrasts, in_rows, winner
from .points import ABSOLUTE, BLOCK, RELATIVE, TINY, averages, normal_points
from .quadrature import quasi_random_normal
from .rare import rare_softmax

RARE = 0.02  # probability below which a relative error of 5 % is a smaller absolute one than 1e-3
FIRST = 1024  # quasi-random points to begin with
GRID = 1 << 13  # nodes of a grid at most, but for three classes if all else fails
SEVERAL, COMMON = 20, 4096  # classes beyond which rare ones have no points of their own; points that all share then
FEW = 4  # classes up to which a grid may need so few nodes, unless covariances are singular


def winner_probabilities(mean: np.ndarray, cov: np.ndarray) -> np.ndarray:
    """(m, C) probability that each latent value is the largest, from mean (m, C) and cov (m, C, C); rows sum to one.

    Exact up to three classes. Beyond, the absolute error is below 1e-3 for up to ten classes.
    """
    return _in_canonical_order(mean, cov, winner)


def expected_softmax(mean: np.ndarray, cov: np.ndarray) -> np.ndarray:
    """(m, C) expectation of softmax(f), from mean (m, C) and cov (m, C, C); rows sum to one.

    The error is below 2e-4 for up to three classes and for independent values. Beyond, the absolute error is below 1e-3 and
    the relative error of probabilities above 1e-5 below 5 % for up to ten classes. For more than twenty classes of strongly
    correlated values absolute errors reach 1e-2.
    """
    return _in_canonical_order(mean, cov, _softmax)


def _in_canonical_order(mean, cov, integral):
    order, mean, cov = _canonical(np.asarray(mean, float), np.asarray(cov, float))
    p, row = np.empty(mean.shape), np.arange(len(mean))[:, None]
    for some in blocks(len(mean), mean.shape[1] ** 3, 8 * BLOCK):
        found = integral(mean[some], cov[some])
        p[row[some], order[some]] = _same_where_equal(found, mean[some], cov[some])
    return p


def _canonical(mean, cov):
    """An order of the classes that does not depend on their labels, means and covariances in that order."""
    cov = 0.5 * (cov + np.swapaxes(cov, 1, 2))
    others = (np.sort(cov, axis=2) * np.sqrt(2.0 + np.arange(cov.shape[2]))).sum(2)  # whatever their order
    order, row = np.lexsort((others, np.einsum("icc->ic", cov), -mean), axis=1), np.arange(len(mean))[:, None]
    return order, mean[row, order], cov[row[..., None], order[:, :, None], order[:, None]]


def _same_where_equal(p, mean, cov):
    """p (m, C), averaged over classes that can be exchanged: equal means, and equal variances of f_c - f_j for all j."""
    rounding = 1e-10 * (mean[:, 0] - mean[:, -1])[:, None]  # means are sorted
    rows = np.flatnonzero((mean[:, :-1] - mean[:, 1:] <= rounding).any(1))
    if len(rows):
        var, same = np.einsum("icc->ic", cov[rows]), np.eye(mean.shape[1], dtype=bool)
        spread = var[:, :, None] + var[:, None, :] - 2 * cov[rows]
        apart = 1e-10 * spread[:, :, None] + 1e-13 * (var[:, :, None] + var[:, None, :])[..., None]
        close = np.abs(spread[:, :, None] - spread[:, None, :]) <= apart
        equal = np.abs(mean[rows, :, None] - mean[rows, None, :]) <= rounding[rows, :, None]
        equal &= np.all(close | same[:, None] | same[None, :], axis=3)
        p[rows] = np.sum(equal * p[rows, None, :], axis=2) / equal.sum(2)
    return p


def covariance_roots(mean: np.ndarray, cov: np.ndarray) -> np.ndarray:
    """(m, C, C) R with R Rᵀ = cov, for drawing from N(mean, cov): a permutation of the classes permutes the rows of R."""
    order, _, cov = _canonical(np.asarray(mean, float), np.asarray(cov, float))
    sorted_roots = np.moveaxis(semidefinite_cholesky(np.moveaxis(cov, 0, -1)), -1, 0)
    roots = np.empty_like(cov)
    np.put_along_axis(roots, order[:, :, None], sorted_roots, 1)
    return roots


def semidefinite_cholesky(S: np.ndarray) -> np.ndarray:
    """Lower triangles L (d, d, P) with L Lᵀ = S for positive semidefinite S (d, d, P); columns of vanishing pivots are zero.

    Unlike eigenvectors, a continuous function of S where eigenvalues coincide.
    """
    L = np.zeros_like(S)
    tiny = np.maximum(SINGULAR * np.max(np.einsum("jjp->jp", S), axis=0), TINY)
    for k in range(len(S)):
        column = S[k:, k] - np.sum(L[k:, :k] * L[k, :k], axis=1)
        good = column[0] > tiny
        L[k:, k] = np.where(good, column / np.sqrt(np.where(good, column[0], 1.0)), 0.0)
    return L


def _softmax(mean, cov):
    """(m, C) expectation of softmax; classes in canonical order."""
    if mean.shape[1] > FEW:
        return _softmax_of_many(mean, cov)
    root = _principal_axes(cov)
    few = _few_nodes(root)
    if mean.shape[1] == 2 or few.all():
        return softmax_by_grid(mean, root)
    p = np.empty(mean.shape)
    p[few], p[~few] = softmax_by_grid(mean[few], root[few]), _softmax_of_many(mean[~few], cov[~few])
    return p


def _softmax_of_many(mean, cov):
    """(m, C) expectation of softmax by the series, and where it ends, by other rules."""
    p, doubt = nearly_independent(mean, cov, GUMBEL)
    hard = np.count_nonzero(doubt, axis=1) > (0 if mean.shape[1] > SEVERAL else mean.shape[1] - 1)
    rare = doubt & ~hard[:, None]
    rows = np.flatnonzero(rare.any(1))
    if len(rows):
        p[rows] = _with_rare(p[rows], rare[rows], mean[rows], cov[rows])
    rows = np.flatnonzero(hard)
    if len(rows):
        p[rows] = _softmax_of_dependent(mean[rows], cov[rows])
    return p / p.sum(1, keepdims=True)


def _with_rare(p, rare, mean, cov):
    """p (m, C) with those marked as rare computed on their own, and the others so that all sum to one."""
    own, pairs = np.zeros(rare.size), np.flatnonzero(rare.T.ravel())
    mu, S = contrasts(mean, cov)
    own[pairs] = rare_softmax(mu[:, pairs], S[..., pairs])
    own, p = in_rows(own, mean.shape[1]), np.where(rare, 0.0, p)
    return own + p * ((1 - own.sum(1)) / p.sum(1))[:, None]


def _softmax_of_dependent(mean, cov):
    """(m, C) expectation of softmax for any covariance; classes in canonical order."""
    C, root = mean.shape[1], _principal_axes(cov)
    if C > SEVERAL:
        return _averages(mean, root, quasi_random_normal(COMMON, C - 1).T)
    p, wide = np.empty(mean.shape), _are_wide(cov)
    p[wide] = winner(mean[wide], cov[wide] + VARIANCE * np.eye(C))
    grid = ~wide & (_few_nodes(root) | (C <= 3))
    p[grid] = softmax_by_grid(mean[grid], root[grid])
    rest = np.flatnonzero(~wide & ~grid)
    if len(rest):
        common, error = _by_points(mean[rest], root[rest])
        rare = (common < RARE) & (error > RELATIVE * common)
        p[rest] = _with_rare(common, rare, mean[rest], cov[rest])
    return p


def _few_nodes(root):
    """(m,) whether a grid needs few nodes."""
    return np.prod(node_counts(root).astype(float), axis=1) <= GRID


def _are_wide(cov):
    """(m,) whether the contrasts of any three classes have a standard deviation of at least WIDE, in every direction.

    More than three are close to the largest less often than three are, and need no condition of their own.
    """
    var, C = np.einsum("icc->ic", cov), cov.shape[1]
    spread = var[:, :, None] + var[:, None, :] - 2 * cov
    i, j, k = np.array(list(combinations(range(C), 3))).T
    a, b, c = spread[:, i, j], spread[:, i, k], spread[:, j, k]
    # half the trace, and the product, of the two eigenvalues of the centred covariance
    half, product = (a + b + c) / 6, (a * b - 0.25 * (a + b - c) ** 2) / 3
    return np.all(half - np.sqrt(np.maximum(half**2 - product, 0.0)) >= WIDE**2, axis=1)


def _principal_axes(cov):
    """(m, C, C - 1) R with R Rᵀ = cov but for what all classes share, which does not matter; the widest axis first."""
    centred = cov - cov.mean(1, keepdims=True) - cov.mean(2, keepdims=True) + cov.mean((1, 2), keepdims=True)
    value, vector = np.linalg.eigh(centred)
    return vector[:, :, :0:-1] * np.sqrt(np.maximum(value[:, None, :0:-1], 0.0))


def _by_points(mean, root):
    """(m, C) averages of softmax(mean + root x) over points that all classes share, and their errors."""
    # single precision is twice as fast, and far better than the average
    mean, root = (mean - mean.max(1, keepdims=True))[..., None].astype(np.float32), root.astype(np.float32)
    C, z = mean.shape[1], normal_points(root.shape[2], np.float32)

    def values(rows, at):
        return _softmax_at(mean[rows], root[rows], z[:, at])

    return averages(values, len(mean), (C, C), lambda p: ABSOLUTE, FIRST)


def _averages(mean, root, z):
    """(m, C) averages of softmax(mean + root x) over points z (C - 1, n)."""
    p = np.empty(mean.shape)
    for some in blocks(len(mean), z.size, BLOCK):
        p[some] = _softmax_at(mean[some, :, None], root[some], z).mean(2)
    return p


def _softmax_at(mean, root, z):
    """(m, C, n) softmax(mean + root z), from mean (m, C, 1), root (m, C, C - 1) and z (C - 1, n)."""
    f = np.matmul(root, z)
    f += mean
    np.exp(f - f.max(1, keepdims=True), out=f)
    return f / f.sum(1, keepdims=True)
