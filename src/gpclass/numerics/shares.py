"""Expected shares of classes when their latent values are jointly Gaussian, f ~ N(mean, cov).

    winner_probabilities   P(f_c is the largest)
    expected_softmax       E[exp(f_c) / Σ_j exp(f_j)]

Each class has its own integral, over the contrasts g_j = f_c - f_j, j ≠ c, with g = mu + L x and x standard normal: of
[g > 0], or of 1 / (1 + Σ_j exp(-g_j)). A class of small probability therefore has a relative error as small as the
others', and exchangeable classes, whose integrals are the same, get the same answer.

*The largest.* Up to three classes there is a closed form (Owen 1956). Beyond, one contrast after the other is drawn from
what those before it leave, the least likely ones first (Geweke, Hajivassiliou & Keane; order of Gibson, Glasbey & Elston
1994); the average runs over quasi-random points.

*Softmax.* Line sampling (Koutsourelakis, Pradlwarter & Schuëller 2004): the direction of x that leads to where the class has
most of its mass is done by the trapezoid rule, the directions at right angles to it by quasi-random points (three
classes leave one such direction, for a second trapezoid rule). Beyond three classes, those of probability above `RARE` are
averaged over points of f that all classes share, which is quicker where only the absolute error counts. Where all contrasts
are wide, softmax is all but a choice of the largest, and computed as that.

The number of points is doubled, class by class, until the changes are small. No answer depends on the other rows.

Independent latent values need one integral for all classes, over the largest of f_j + Gumbel noise (`independent_softmax`);
for the largest itself see `log_largest` in `winner`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import scipy
from scipy.special import ndtr, ndtri, owens_t

from .normal import hazard

FIRST, FIRST_COMMON, MOST = 64, 1024, 1 << 16  # quasi-random points: to begin with (of a class, of all classes), at most
RARE = 0.02  # probability below which a relative error of 5 % is a smaller absolute one than 1e-3
# Points are doubled until the last changes are below these: absolute, over √C, since the largest class has the errors of all
# others; and relative, for probabilities above FLOOR, which also have a standard error of independent points of at most
# RELATIVE / SPREAD
ABSOLUTE, RELATIVE, FLOOR, SPREAD = 5e-4, 0.02, 5e-6, 0.4
COMMON = 2.5e-4  # the same, absolute, where all classes share the points
REACH = 5.8  # standard deviations that a trapezoid rule covers on either side of the mode
# Softmax along a line is analytic within π / sharpness: this step over the sharpness is off by exp(-2π²/2.2) = 1e-4 of the
# value, of either sign from line to line; a step of one is off by exp(-2π²) of the Gaussian. The smaller step, for classes
# that have few lines, is off by 1e-5
STEP, SMALL_STEP = 2.2, 1.7
# Softmax is the share of the largest f_j + Gumbel noise. Beside contrasts this wide the noise may as well be normal: for
# three classes the probability is then off by 1e-5, and by 0.5 % of itself down to 1e-5, falling with the cube
WIDE, GUMBEL_VARIANCE = 24.0, np.pi**2 / 6
LEAST_NODES = 13
MOST_NODES = 2049  # contrasts too sharp for them switch between two nodes, which averages out over the lines
# Independent latent values: steps of the rules over the largest, in its smallest possible standard deviation, and over one
# value, in units of f; how far the first goes beyond the Gaussians, where Gumbel's tails are exp(-exp(3.5)) and exp(-17)
OUTER_STEP, INNER_STEP, LEFT, RIGHT = 0.9, 0.9, 3.5, 17.0
FACTORED = 257  # nodes up to which exponentials of sums are taken apart without overflow
BLOCK = 1 << 15  # numbers in an array: stays within a core's cache
CLIMB = 8  # steps towards the mode, which only gives lines their direction
FARTHEST, HALVINGS = 40.0, 10  # where on a line the mode may be: beyond, a class has no probability; steps that find it
LOGISTIC_VARIANCE = 2.9  # of the normal distribution function closest to the logistic function
SINGULAR = 1e-12  # a pivot this small, relative to the largest variance, counts as zero
TINY = 1e-300


def winner_probabilities(mean: np.ndarray, cov: np.ndarray) -> np.ndarray:
    """(m, C) probability that each latent value is the largest, from mean (m, C) and cov (m, C, C); rows sum to one.

    Exact up to three classes. Beyond, the absolute error is below 1e-3 for up to ten classes.
    """
    return _by_class(mean, cov, _winner)


def expected_softmax(mean: np.ndarray, cov: np.ndarray) -> np.ndarray:
    """(m, C) expectation of softmax(f), from mean (m, C) and cov (m, C, C); rows sum to one.

    The error is below 1e-4 for up to three classes. Beyond, the absolute error is below 1e-3 and the relative error of
    probabilities above 1e-5 below 5 % for up to ten classes.
    """
    mean, cov = np.asarray(mean, float), np.asarray(cov, float)
    p, wide = np.empty(mean.shape), _are_wide(cov)
    p[wide] = winner_probabilities(mean[wide], cov[wide] + GUMBEL_VARIANCE * np.eye(mean.shape[1]))
    p[~wide] = _by_class(mean[~wide], cov[~wide], _softmax)
    return p


def _are_wide(cov):
    """(m,) whether all contrasts have a standard deviation of at least WIDE, in every direction."""
    C = cov.shape[1]
    wide = np.trace(cov, axis1=1, axis2=2) >= (C - 1) * WIDE**2
    centred = np.eye(C) - 1 / C
    wide[wide] = np.linalg.eigvalsh(centred @ cov[wide] @ centred)[:, 1] >= WIDE**2  # the first is zero: common to all
    return wide


def _by_class(mean, cov, integral):
    order, mean, cov = _canonical(np.asarray(mean, float), np.asarray(cov, float))
    p, rows = np.empty(mean.shape), max(1, 8 * BLOCK // mean.shape[1] ** 3)
    for i in range(0, len(mean), rows):
        np.put_along_axis(p[i : i + rows], order[i : i + rows], integral(mean[i : i + rows], cov[i : i + rows]), 1)
    return p


def _canonical(mean, cov):
    """An order of the classes that does not depend on their labels, means and covariances in that order."""
    cov = 0.5 * (cov + np.swapaxes(cov, 1, 2))
    order = np.lexsort((cov.sum(2), np.diagonal(cov, axis1=1, axis2=2), -mean), axis=1)
    cov = np.take_along_axis(np.take_along_axis(cov, order[:, :, None], 1), order[:, None, :], 2)
    return order, np.take_along_axis(mean, order, 1), cov


def covariance_roots(mean: np.ndarray, cov: np.ndarray) -> np.ndarray:
    """(m, C, C) R with R Rᵀ = cov, for drawing from N(mean, cov): a permutation of the classes permutes the rows of R."""
    order, _, cov = _canonical(np.asarray(mean, float), np.asarray(cov, float))
    sorted_roots = np.moveaxis(semidefinite_cholesky(np.moveaxis(cov, 0, -1)), -1, 0)
    roots = np.empty_like(cov)
    np.put_along_axis(roots, order[:, :, None], sorted_roots, 1)
    return roots


def _contrasts(mean, cov):
    """Means (C - 1, P) and covariances (C - 1, C - 1, P) of f_c - f_j, j ≠ c; P = C·m pairs, class by class."""
    C = mean.shape[1]
    own = np.arange(C)
    rest = np.array([np.delete(own, c) for c in own]).T  # (C - 1, C)
    f, V = mean.T, np.moveaxis(cov, 0, -1)
    crossed = V[own, rest]
    joint = V[rest[:, None], rest] - (crossed[:, None] + crossed) + V[own, own]
    return (f - f[rest]).reshape(C - 1, -1), joint.reshape(C - 1, C - 1, -1)


def _in_rows(pairs, n_classes):
    """(m, C) from the pairs (P,); contiguous, so that sums over classes are the same for one row as for many."""
    return np.ascontiguousarray(pairs.reshape(n_classes, -1).T)


def _normalised(p, remainder=None):
    """(m, C) probabilities that sum to one: classes that are a remainder, if any, take what is missing in equal parts."""
    if remainder is not None:
        missing = 1 - p.sum(1, keepdims=True)
        p = np.maximum(p + missing * remainder / np.maximum(remainder.sum(1, keepdims=True), 1), 0.0)
    return p / p.sum(1, keepdims=True)


# the largest ----------------------------------------------------------------------------------------------------------


def _winner(mean, cov):
    """(m, C) probability that each is the largest; classes in canonical order."""
    mu, S = _contrasts(mean, cov)
    C, P = mean.shape[1], mu.shape[1]
    if C == 2:
        return _normalised(_in_rows(ndtr(mu[0] / np.sqrt(np.maximum(S[0, 0], TINY))), C))
    p, few = np.zeros(P), np.arange(P)
    if C == 3:
        p = bivariate_orthant(mu, S)
        few = np.flatnonzero(p < 1e-9)  # the closed form has no digits left
    mu, L = in_turn(mu[:, few], S[..., few])

    def values(pairs, at):
        return sequential(mu[:, pairs], L[..., pairs], points(C - 2)[:, at])

    if C == 3:
        p[few] = values(np.arange(len(few)), slice(0, 4 * FIRST)).mean(1)
        return _normalised(_in_rows(p, C))
    refined = _Doubled(values, np.full(P, C - 1))
    largest = _largest(_in_rows(refined.p, C))
    refined.refine(np.flatnonzero(~largest.T.ravel()), ABSOLUTE / np.sqrt(C))
    return _normalised(_in_rows(refined.p, C), largest)


def _largest(p):
    """(m, C) which class of each row has the largest probability; several if they tie."""
    return p >= (1 - 1e-9) * p.max(1, keepdims=True)


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


def sequential(mu: np.ndarray, L: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """(P, n) estimates of P(g > 0), g = mu + L x: contrasts drawn in turn at the points `uniform` (d - 1, n)."""
    d, P = mu.shape
    x, p = np.empty((d, P, uniform.shape[1])), np.ones((P, uniform.shape[1]))
    for k in range(d):
        given = np.broadcast_to(mu[k][:, None], p.shape) if k == 0 else mu[k][:, None] + np.sum(L[k, :k, :, None] * x[:k], 0)
        positive = ndtr(given / np.maximum(L[k, k], 1e-150)[:, None])
        p *= positive
        if k < d - 1:
            x[k] = -ndtri(np.maximum(uniform[k] * positive, TINY))
    return p


# softmax --------------------------------------------------------------------------------------------------------------


def _softmax(mean, cov):
    """(m, C) expectation of softmax; classes in canonical order."""
    C = mean.shape[1]
    lines = _Lines(*_contrasts(mean, cov))
    if C <= 3:
        return _normalised(_in_rows(_few_classes(lines), C))
    z = normal_points(C - 2)
    refined = _Doubled(lambda pairs, at: lines.softmax(pairs, z[:, at]), lines.nodes)
    first = _in_rows(refined.p, C)
    rare = first < RARE
    refined.refine(np.flatnonzero(rare.T.ravel()), np.inf)
    p = np.where(rare, _in_rows(refined.p, C), 0.0)
    others = first.copy()
    several = np.flatnonzero(np.sum(~rare, axis=1) > 1)  # one class alone is what the rare ones leave
    others[several] = _same_where_equal(_common_points(mean[several], cov[several]), first[several])
    others[rare] = 0.0
    left = 1 - p.sum(1, keepdims=True)
    return _normalised(p + left * others / np.maximum(others.sum(1, keepdims=True), TINY))


def _few_classes(lines):
    """(P,) E[1 / (1 + Σ exp(-g))] for one or two contrasts: no more than one direction is left to a second rule."""
    d, P = lines.mu.shape
    p = np.empty(P)
    counts = _count(_range(lines.across[:, 0]), d) if d == 2 else np.ones(P, int)
    for size in np.unique(np.stack([counts, lines.nodes]), axis=1).T:
        z = np.linspace(-REACH, REACH, size[0])[None] if d == 2 else np.zeros((0, 1))
        weights = np.exp(-0.5 * np.sum(z * z, axis=0))
        pairs = np.flatnonzero((counts == size[0]) & (lines.nodes == size[1]))
        for some in _blocks(pairs, size[0] * size[1]):
            p[some] = np.sum(lines.softmax(some, z) * (weights / weights.sum()), axis=1)
    return p


def _common_points(mean, cov):
    """(m, C) averages of softmax over points of f, doubled until they change by less than `COMMON`."""
    C = mean.shape[1]
    # what all classes share is no matter, and would cost points
    centred = cov - cov.mean(1, keepdims=True) - cov.mean(2, keepdims=True) + cov.mean((1, 2), keepdims=True)
    # single precision, twice as fast, has digits enough for the average
    roots = np.moveaxis(semidefinite_cholesky(np.moveaxis(centred, 0, -1)), -1, 0).astype(np.float32)
    behind = (mean - mean.max(1, keepdims=True)).astype(np.float32)
    z = normal_points(C, np.float32)

    def values(rows, at):
        f = np.matmul(roots[rows], z[:, at])
        f += behind[rows, :, None]
        f -= f.max(1, keepdims=True)
        np.exp(f, out=f)
        f *= 1 / f.sum(1, keepdims=True)
        return f

    n, rows = FIRST_COMMON, np.arange(len(mean))
    p, half, quarter = np.empty((3, *mean.shape))
    for some in _blocks(rows, C * n):
        f = values(some, slice(0, n))
        p[some], half[some], quarter[some] = f.mean(2), f[..., : n // 2].mean(2), f[..., : n // 4].mean(2)
    error = np.maximum(np.abs(p - half), 0.5 * np.abs(half - quarter)).max(1, initial=0.0)
    while n < MOST:
        rows = rows[error[rows] > COMMON]
        if not len(rows):
            break
        for some in _blocks(rows, C * n):
            change = 0.5 * (values(some, slice(n, 2 * n)).mean(2) - p[some])
            p[some] += change
            error[some] = np.maximum(np.abs(change).max(1), 0.5 * error[some])
        n *= 2
    return p


def _same_where_equal(p, lines):
    """p (m, C), averaged over classes that are exchangeable: those pose the same integral, so that their lines agree."""
    equal = np.abs(lines[:, :, None] - lines[:, None, :]) <= 1e-10 * lines[:, :, None]
    return np.sum(equal * p[:, None, :], axis=2) / equal.sum(2)


class _Lines:
    """g = mu + along t + across z: lines in t, one for each z, that point to the mode at t = distance, z = 0; P of each."""

    def __init__(self, mu, S):
        order = np.argsort(mu / np.sqrt(np.maximum(np.einsum("jjp->jp", S), TINY)), axis=0, kind="stable")
        self.mu = np.take_along_axis(mu, order, 0)  # (d, P)
        L = semidefinite_cholesky(S[order[:, None], order, np.arange(mu.shape[1])])
        width = np.sqrt(LOGISTIC_VARIANCE + 0.5 * np.min(np.sum(L * L, axis=1), axis=0))
        mode = _climb(self.mu, L, width)
        length = _norm(mode)
        here = length < 1e-9
        unit = np.where(here, 0.0, mode / np.where(here, 1.0, length))
        unit[-1] += here  # any direction will do
        # Householder's reflection takes the last axis to ± unit, and the others to what is at right angles to it
        mirror = unit.copy()
        mirror[-1] += np.where(unit[-1] > 0, 1.0, -1.0)
        mirror /= _norm(mirror)
        self.along = _product(L, unit)  # (d, P)
        self.distance = _peak(self.mu, self.along, width)  # (P,)
        self.across = L[:, :-1] - 2 * _product(L, mirror)[:, None] * mirror[:-1]  # (d, d - 1, P)
        self.nodes = _count(_range(self.along), len(mu))  # (P,) of the rule along lines

    def softmax(self, pairs, z):
        """(p, n) E[1 / (1 + Σ exp(-g))] along the lines at z (d - 1, n), for pairs with the same number of nodes."""
        count, distance, along = self.nodes[pairs[0]], self.distance[pairs, None], self.along[:, pairs].T
        g = np.matmul(np.moveaxis(self.across[..., pairs], -1, 0), z)
        g += (self.mu[:, pairs].T + along * distance)[..., None]
        step = np.linspace(-REACH, REACH, count)
        odds = _odds(g, along, step)
        odds += 1.0
        weights = np.exp(-0.5 * (distance + step) ** 2) * (2 * REACH / ((count - 1) * np.sqrt(2 * np.pi)))
        return np.matmul(np.reciprocal(odds, out=odds), weights[..., None])[..., 0]


def _odds(g, along, step):
    """(p, n, q) Σ_j exp(-g_j - along_j step) from g (p, d, n), along (p, d) and step (q,); may be infinite."""
    with np.errstate(over="ignore"):
        if len(step) > FACTORED:
            return sum(np.exp(-g[:, j, :, None] - along[:, j, None, None] * step) for j in range(g.shape[1]))
        lowest = g.min(1)
        odds = np.matmul(np.swapaxes(np.exp(lowest[:, None] - g), 1, 2), np.exp(-along[..., None] * step))
        odds *= np.exp(-lowest)[..., None]
        return odds


def _climb(mu, L, width):
    """(d, P) towards the mode of N(x | 0, I) / (1 + Σ exp(-g)), smoothed; gradient steps of Barzilai & Borwein.

    They may end far from it where some contrasts are much wider than others: only their direction is used.
    """

    def gradient(x):
        return _product(np.swapaxes(L, 0, 1), _pull(mu + _product(L, x), width)) - x

    x, last = np.zeros_like(mu), gradient(np.zeros_like(mu))
    rate = 1 / (1 + 0.3 * np.mean(np.sum(L * L, axis=1), axis=0) / width**2)
    for _ in range(CLIMB):
        move = rate * last
        x = x + move
        now = gradient(x)
        bend = np.sum(move * (last - now), axis=0)
        rate = np.where(bend > 0, np.minimum(np.sum(move * move, axis=0) / np.where(bend > 0, bend, 1.0), 1.0), 1.0)
        last = now
    return x


def _peak(mu, along, width):
    """(P,) t of the mode on the line x = t · unit, to 0.04. The function is log-concave, so that bisection finds it."""
    low, high = np.full((2, mu.shape[1]), [[-FARTHEST], [FARTHEST]])
    for _ in range(HALVINGS):
        t = 0.5 * (low + high)
        uphill = np.sum(along * _pull(mu + along * t, width), axis=0) > t
        low, high = np.where(uphill, t, low), np.where(uphill, high, t)
    return 0.5 * (low + high)


def _pull(g, width):
    """(d, P) gradient of the logarithm of 1 / (1 + Σ exp(-g)), smoothed."""
    lowest = g.min(0)
    share = np.exp(lowest - g)
    total = share.sum(0)
    pull = np.minimum(hazard((lowest - np.log(total)) / width) / width, 1.0)  # the log of softmax is no steeper
    return share * (pull / total)


def _count(sharpness, d):
    """Nodes of a trapezoid rule for softmax of d contrasts whose differences change at the rate `sharpness`."""
    return _rounded_up(2 * REACH * sharpness / (STEP if d > 2 else SMALL_STEP))


def _range(rates):
    """(P,) how fast contrasts (d, P), and zero, move away from each other."""
    return np.maximum(rates.max(0), 0.0) - np.minimum(rates.min(0), 0.0)


def independent_softmax(mean: np.ndarray, var: np.ndarray) -> np.ndarray:
    """(m, C) expectation of softmax(f) for independent f ~ N(mean, var), mean and var (m, C); good to 1e-4.

    softmax_c is the probability that f_c + g_c is the largest, g independent Gumbel noise. With G_j the distribution
    function of f_j + g_j, itself an integral over f_j, it is ∫ G_c'(v) ∏_{j≠c} G_j(v) dv; both by trapezoid rules. Rows for
    which these would need too many nodes (standard deviations above 150, or very different ones) are those of
    `expected_softmax`, with its errors.
    """
    mean, sd = np.asarray(mean, float), np.sqrt(np.asarray(var, float))
    start = np.max(mean - REACH * sd, axis=1) - LEFT
    length = np.max(mean + REACH * sd, axis=1) + RIGHT - start
    steps = length / (OUTER_STEP * np.sqrt(1 + np.min(sd, axis=1) ** 2)), 2 * REACH * np.max(sd, axis=1) / INNER_STEP
    needed = np.stack(steps)
    outer, inner = _rounded_up(needed)
    p, sharp = np.empty(mean.shape), np.any(needed >= MOST_NODES, axis=0)
    p[sharp] = expected_softmax(mean[sharp], sd[sharp, :, None] ** 2 * np.eye(mean.shape[1]))
    for size in np.unique(np.stack([outer, inner]), axis=1).T:
        rows = np.flatnonzero((outer == size[0]) & (inner == size[1]) & ~sharp)
        for some in _blocks(rows, size[0] * size[1] * mean.shape[1]):
            p[some] = _independent(mean[some], sd[some], start[some], length[some], *size)
    return p / p.sum(1, keepdims=True)


def _independent(mean, sd, start, length, outer, inner):
    v = start[:, None] + length[:, None] * np.linspace(0.0, 1.0, outer)
    e = np.linspace(-REACH, REACH, inner)
    weights = np.exp(-0.5 * e * e)
    above = v[:, None, :, None] - mean[:, :, None, None] - sd[:, :, None, None] * e  # (m, C, outer, inner)
    rate = np.exp(np.minimum(-above, 30.0))
    cdf = np.exp(-rate)
    G = np.matmul(cdf, weights / weights.sum())
    slope = np.matmul(np.multiply(rate, cdf, out=rate), weights / weights.sum())
    log_G = np.log(np.maximum(G, TINY))
    others = np.exp(log_G.sum(1, keepdims=True) - log_G)
    return np.ascontiguousarray(slope * others).sum(2) * (length / (outer - 1))[:, None]


def _rounded_up(count, least=LEAST_NODES):
    """Numbers of nodes of at least `count`, few different ones."""
    half_octaves = np.ceil(2 * np.log2(np.clip(count, least - 1, MOST_NODES - 1) / (least - 1)) - 1e-9)
    return 1 + np.ceil((least - 1) * 2 ** (0.5 * half_octaves)).astype(int)


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


def _product(A, x):
    """A x for each of P matrices and vectors."""
    return np.sum(A * x, axis=1)


def _norm(x):
    return np.sqrt(np.sum(x * x, axis=0))


# points ---------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def points(dimension: int) -> np.ndarray:
    """(dimension, MOST) quasi-random points in the unit cube, always the same."""
    return np.ascontiguousarray(scipy.stats.qmc.Sobol(dimension, rng=np.random.default_rng(0)).random(MOST).T)


@lru_cache(maxsize=64)
def normal_points(dimension: int, dtype: type = float) -> np.ndarray:
    """(dimension, MOST) quasi-random standard normal points."""
    return ndtri(points(dimension)).astype(dtype)


def _blocks(pairs, size):
    """Parts of some pairs, of which each needs arrays of `size` numbers."""
    most = max(1, BLOCK // max(size, 1))
    return (pairs[i : i + most] for i in range(0, len(pairs), most))


class _Doubled:
    """Averages p (P,) of `values(pairs, slice of points)` (p, n), first of few points, then of as many as are needed.

    `nodes` (P,) are the numbers that each pair needs for one point; a call has pairs of the same number.
    """

    def __init__(self, values: Callable, nodes: np.ndarray):
        self.values, self.nodes = values, nodes
        quarter, half, self.p, square = self._averages(np.arange(len(nodes)), 0, FIRST).T.copy()
        self.error = np.maximum(np.abs(self.p - half), 0.5 * np.abs(half - quarter))
        # values that differ much can agree by chance over few points
        spread = np.maximum(square - self.p**2, 0.0) / np.maximum(self.p, 1e-150) ** 2
        self.least = spread * (SPREAD / RELATIVE) ** 2

    def refine(self, pairs: np.ndarray, absolute: float) -> None:
        """More points for some pairs, until their errors are below `absolute` and `RELATIVE`."""
        n = FIRST
        while n < MOST:
            p, error = self.p[pairs], self.error[pairs]
            rough = (error > RELATIVE * p) | (n < self.least[pairs])
            pairs = pairs[(error > absolute) | (rough & (p > FLOOR))]
            if not len(pairs):
                break
            change = 0.5 * (self._averages(pairs, n, 2 * n)[:, 2] - self.p[pairs])
            self.p[pairs] += change
            self.error[pairs] = np.maximum(np.abs(change), 0.5 * self.error[pairs])
            n *= 2

    def _averages(self, pairs, start, stop):
        """(p, 4) averages over a quarter, half and all of the points from start to stop, and that of squares."""
        out, n = np.empty((len(pairs), 4)), stop - start
        for count in np.unique(self.nodes[pairs]):
            for at in _blocks(np.flatnonzero(self.nodes[pairs] == count), count * n):
                got = self.values(pairs[at], slice(start, stop))
                parts = (got[:, : n // 4], got[:, : n // 2], got, got * got)
                out[at] = np.stack([part.mean(1) for part in parts], axis=1)
        return out
