"""Expected class probabilities ("shares") when latent values are jointly Gaussian, f ~ N(mean, cov).

    winner_probabilities   P(f_c is the largest); see `orthants`
    expected_softmax       E[exp(f_c) / Σ_j exp(f_j)]

Softmax is the probability that f_c plus Gumbel noise is the largest. Its expectation is computed by the first of these
methods that is accurate:

    1. for up to four classes, trapezoid rules, if they need few nodes (`grid`)
    2. a series in the covariances of the classes without their common part (`nearly_independent`): nearly all predictions
    3. if all contrasts are wide, the probability that f_c is the largest with normal noise
    4. averages over quasi-random points of f, the same for all classes

Rare classes whose relative error is too large with 2 or 4 get separate points (`rare`).

Exchangeable classes get equal probabilities. Results do not depend on the order of the classes or on other rows.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from .blocks import blocks
from .grid import node_counts, softmax_by_grid
from .gumbel import GUMBEL, GUMBEL_VARIANCE, WIDE_SD
from .nearly_independent import nearly_independent
from .orthants import SINGULAR_PIVOT, class_contrasts, pairs_to_rows, sorted_winner_probabilities
from .points import ABSOLUTE_ERROR, NUMBERS_PER_BLOCK, RELATIVE_ERROR, TINY, averages, normal_points
from .quadrature import quasi_random_normal
from .rare import rare_softmax

RARE_PROBABILITY = 0.02  # below it a relative error of 5 % is smaller than an absolute error of 1e-3
FIRST_POINTS = 1024  # number of quasi-random points to start with
MAX_GRID_NODES = 1 << 13  # except for up to three classes if no other method is accurate
MANY_CLASSES = 20  # with more classes, rare classes get no separate points
SHARED_POINTS = 4096  # number of quasi-random points with more than MANY_CLASSES classes
FEW_CLASSES = 4  # with more classes a grid needs too many nodes, unless covariances are singular


def winner_probabilities(mean: np.ndarray, cov: np.ndarray) -> np.ndarray:
    """Return the probabilities (m, C) that each latent value is the largest, for mean (m, C) and cov (m, C, C).

    Rows sum to one. Exact for up to three classes; the absolute error is below 1e-3 for up to ten classes.
    """
    return _in_canonical_order(mean, cov, sorted_winner_probabilities)


def expected_softmax(mean: np.ndarray, cov: np.ndarray) -> np.ndarray:
    """Return the expectation (m, C) of softmax(f), for mean (m, C) and cov (m, C, C).

    Rows sum to one. The error is below 2e-4 for up to three classes and for independent values. For up to ten classes the
    absolute error is below 1e-3, and the relative error of probabilities above 1e-5 is below 5 %. For more than twenty
    classes with strongly correlated values absolute errors reach 1e-2.
    """
    return _in_canonical_order(mean, cov, _softmax)


def _in_canonical_order(mean, cov, integral):
    order, mean, cov = _canonical(np.asarray(mean, float), np.asarray(cov, float))
    p, row = np.empty(mean.shape), np.arange(len(mean))[:, None]
    for some in blocks(len(mean), mean.shape[1] ** 3, 8 * NUMBERS_PER_BLOCK):
        found = integral(mean[some], cov[some])
        p[row[some], order[some]] = _same_where_equal(found, mean[some], cov[some])
    return p


def _canonical(mean, cov):
    """Return an order of the classes that does not depend on their labels, and means and covariances in that order."""
    cov = 0.5 * (cov + np.swapaxes(cov, 1, 2))
    others = (np.sort(cov, axis=2) * np.sqrt(2.0 + np.arange(cov.shape[2]))).sum(2)  # sorted, so independent of the labels
    order, row = np.lexsort((others, np.einsum("icc->ic", cov), -mean), axis=1), np.arange(len(mean))[:, None]
    return order, mean[row, order], cov[row[..., None], order[:, :, None], order[:, None]]


def _same_where_equal(p, mean, cov):
    """Return p (m, C) averaged over exchangeable classes: equal means, and equal variances of f_c - f_j for all j."""
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
    """Return R (m, C, C) with R Rᵀ = cov. A permutation of the classes of mean and cov permutes the rows of R."""
    order, _, cov = _canonical(np.asarray(mean, float), np.asarray(cov, float))
    sorted_roots = np.moveaxis(semidefinite_cholesky(np.moveaxis(cov, 0, -1)), -1, 0)
    roots = np.empty_like(cov)
    np.put_along_axis(roots, order[:, :, None], sorted_roots, 1)
    return roots


def semidefinite_cholesky(S: np.ndarray) -> np.ndarray:
    """Return lower triangles L (d, d, P) with L Lᵀ = S, for positive semidefinite S (d, d, P).

    Columns of zero pivots are zero. Unlike eigenvectors, L is a continuous function of S where eigenvalues coincide.
    """
    L = np.zeros_like(S)
    tiny = np.maximum(SINGULAR_PIVOT * np.max(np.einsum("jjp->jp", S), axis=0), TINY)
    for k in range(len(S)):
        column = S[k:, k] - np.sum(L[k:, :k] * L[k, :k], axis=1)
        good = column[0] > tiny
        L[k:, k] = np.where(good, column / np.sqrt(np.where(good, column[0], 1.0)), 0.0)
    return L


def _softmax(mean, cov):
    """Return the expectation (m, C) of softmax; classes in canonical order."""
    if mean.shape[1] > FEW_CLASSES:
        return _softmax_by_series(mean, cov)
    root = _principal_axes(cov)
    few = _needs_few_nodes(root)
    if mean.shape[1] == 2 or few.all():
        return softmax_by_grid(mean, root)
    p = np.empty(mean.shape)
    p[few], p[~few] = softmax_by_grid(mean[few], root[few]), _softmax_by_series(mean[~few], cov[~few])
    return p


def _softmax_by_series(mean, cov):
    """Return the expectation (m, C) of softmax by the series, or by other methods where the series is inaccurate."""
    p, doubt = nearly_independent(mean, cov, GUMBEL)
    hard = np.count_nonzero(doubt, axis=1) > (0 if mean.shape[1] > MANY_CLASSES else mean.shape[1] - 1)
    rare = doubt & ~hard[:, None]
    rows = np.flatnonzero(rare.any(1))
    if len(rows):
        p[rows] = _with_rare(p[rows], rare[rows], mean[rows], cov[rows])
    rows = np.flatnonzero(hard)
    if len(rows):
        p[rows] = _softmax_of_correlated(mean[rows], cov[rows])
    return p / p.sum(1, keepdims=True)


def _with_rare(p, rare, mean, cov):
    """Return p (m, C) with classes marked as rare recomputed, and the others scaled so that rows sum to one."""
    own, pairs = np.zeros(rare.size), np.flatnonzero(rare.T.ravel())
    mu, S = class_contrasts(mean, cov)
    own[pairs] = rare_softmax(mu[:, pairs], S[..., pairs])
    own, p = pairs_to_rows(own, mean.shape[1]), np.where(rare, 0.0, p)
    return own + p * ((1 - own.sum(1)) / p.sum(1))[:, None]


def _softmax_of_correlated(mean, cov):
    """Return the expectation (m, C) of softmax for any covariance; classes in canonical order."""
    C, root = mean.shape[1], _principal_axes(cov)
    if C > MANY_CLASSES:
        return _over_points(mean, root, quasi_random_normal(SHARED_POINTS, C - 1).T)
    p, wide = np.empty(mean.shape), _are_wide(cov)
    p[wide] = sorted_winner_probabilities(mean[wide], cov[wide] + GUMBEL_VARIANCE * np.eye(C))
    grid = ~wide & (_needs_few_nodes(root) | (C <= 3))
    p[grid] = softmax_by_grid(mean[grid], root[grid])
    rest = np.flatnonzero(~wide & ~grid)
    if len(rest):
        common, error = _by_points(mean[rest], root[rest])
        rare = (common < RARE_PROBABILITY) & (error > RELATIVE_ERROR * common)
        p[rest] = _with_rare(common, rare, mean[rest], cov[rest])
    return p


def _needs_few_nodes(root):
    """Return whether a grid needs at most MAX_GRID_NODES nodes, (m,)."""
    return np.prod(node_counts(root).astype(float), axis=1) <= MAX_GRID_NODES


def _are_wide(cov):
    """Return whether contrasts of any three classes have standard deviations of at least WIDE_SD in all directions, (m,).

    More than three classes need no further condition: more than three values are rarely close to the largest together.
    """
    var, C = np.einsum("icc->ic", cov), cov.shape[1]
    spread = var[:, :, None] + var[:, None, :] - 2 * cov
    i, j, k = np.array(list(combinations(range(C), 3))).T
    a, b, c = spread[:, i, j], spread[:, i, k], spread[:, j, k]
    # half the trace, and the product, of the two eigenvalues of the centred covariance
    half, product = (a + b + c) / 6, (a * b - 0.25 * (a + b - c) ** 2) / 3
    return np.all(half - np.sqrt(np.maximum(half**2 - product, 0.0)) >= WIDE_SD**2, axis=1)


def _principal_axes(cov):
    """Return R (m, C, C - 1) with R Rᵀ = cov centred over classes, the widest axis first. A common shift has no effect."""
    centred = cov - cov.mean(1, keepdims=True) - cov.mean(2, keepdims=True) + cov.mean((1, 2), keepdims=True)
    value, vector = np.linalg.eigh(centred)
    return vector[:, :, :0:-1] * np.sqrt(np.maximum(value[:, None, :0:-1], 0.0))


def _by_points(mean, root):
    """Return averages (m, C) of softmax(mean + root x) over quasi-random points x, and their errors."""
    # single precision is twice as fast, and its error is far below that of the average
    mean, root = (mean - mean.max(1, keepdims=True))[..., None].astype(np.float32), root.astype(np.float32)
    C, z = mean.shape[1], normal_points(root.shape[2], np.float32)

    def values(rows, at):
        return _softmax_at(mean[rows], root[rows], z[:, at])

    return averages(values, len(mean), (C, C), lambda p: ABSOLUTE_ERROR, FIRST_POINTS)


def _over_points(mean, root, z):
    """Return averages (m, C) of softmax(mean + root x) over points z (C - 1, n)."""
    p = np.empty(mean.shape)
    for some in blocks(len(mean), z.size, NUMBERS_PER_BLOCK):
        p[some] = _softmax_at(mean[some, :, None], root[some], z).mean(2)
    return p


def _softmax_at(mean, root, z):
    """Return softmax(mean + root z) (m, C, n), for mean (m, C, 1), root (m, C, C - 1) and z (C - 1, n)."""
    f = np.matmul(root, z)
    f += mean
    np.exp(f - f.max(1, keepdims=True), out=f)
    return f / f.sum(1, keepdims=True)
