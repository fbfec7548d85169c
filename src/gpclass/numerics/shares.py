"""Expected shares of classes when their latent values are jointly Gaussian, f ~ N(mean, cov).

    winner_probabilities   P(f_c is the largest); see `orthants`
    expected_softmax       E[exp(f_c) / Σ_j exp(f_j)]

Softmax is integrated along the principal axes of the contrasts, in one of three ways:

*Grid.* Trapezoid rules along all axes, for three classes and wherever these need few nodes.

*Choice of the largest.* Where f is wide, softmax is nearly the choice of the largest of f_j + normal noise. `orthants`
computes that, and corrects for the difference between normal and Gumbel noise.

*Lines.* A trapezoid rule along the first axis, quasi-random points for the others. Classes rarer than `RARE` have
integrals of their own by line sampling (Koutsourelakis, Pradlwarter & Schuëller 2004): the trapezoid rule follows the
direction that leads to where the class has most of its mass.

On a line f = b + a t the exponentials are products, exp(b_j) exp(a_j t): two matrix products give the shares of all classes.
Exchangeable classes get the same answer. No answer depends on the order of the classes or on the other rows.

Independent latent values need one integral for all classes, over the largest of f_j + Gumbel noise (`independent_softmax`);
for the largest itself see `log_largest` in `winner`.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from .normal import hazard
from .orthants import GUMBEL_VARIANCE, SINGULAR, contrasts, in_rows, soft_winner, winner
from .points import BLOCK, RARE, TINY, blocks, doubled, normal_points, normalised

FIRST, FIRST_RARE = 512, 256  # points to begin with: of lines that all classes share, of a rare class
COMMON = 6e-4  # change of a probability, at the last doubling of the points, that counts as small
RELATIVE, FLOOR = 0.012, 5e-6  # the same for rare classes, relative to probabilities above FLOOR
REACH = 5.8  # standard deviations that a trapezoid rule covers on either side of the mode
# Softmax along a line is analytic within π / sharpness: this step over the sharpness is off by exp(-2π²/2.2) = 1e-4 of the
# value, of either sign from line to line; a step of one is off by exp(-2π²) of the Gaussian. The smaller step, for three
# classes, is off by 1e-5
STEP, SMALL_STEP = 2.2, 1.7
GRID = 1 << 17  # nodes of a grid at most, beyond three classes
# Up to three classes, beside contrasts this wide the noise may as well be normal: the probability is then off by 1e-5, and
# by 0.5 % of itself down to 1e-5, falling with the cube. Beyond, σ²/(variance + σ²) of the direction of a class, above
# which the series for the noise is not tried
WIDE, NARROW = 24.0, 0.28
BALLS = (1.0, 1.0, 0.79, 0.52, 0.31)  # part of a cube within a ball, all axes but the first; by the number of axes
LEAST_NODES = 13
MOST_NODES = 2049  # contrasts too sharp for them switch between two nodes, which averages out over the lines
FACTORED, SINGLE = 257, 91  # nodes up to which exponentials of sums are taken apart without overflow; in single precision
# Independent latent values: steps of the rules over the largest, in its smallest possible standard deviation, and over one
# value, in units of f; how far the first goes beyond the Gaussians, where Gumbel's tails are exp(-exp(3.5)) and exp(-17)
OUTER_STEP, INNER_STEP, LEFT, RIGHT = 0.9, 0.9, 3.5, 17.0
CLIMB = 8  # steps towards the mode, which only gives lines their direction
FARTHEST, HALVINGS = 40.0, 10  # where on a line the mode may be: beyond, a class has no probability; steps that find it
LOGISTIC_VARIANCE = 2.9  # of the normal distribution function closest to the logistic function


def winner_probabilities(mean: np.ndarray, cov: np.ndarray) -> np.ndarray:
    """(m, C) probability that each latent value is the largest, from mean (m, C) and cov (m, C, C); rows sum to one.

    Exact up to three classes. Beyond, the absolute error is below 1e-3 for up to ten classes.
    """
    return _by_class(mean, cov, winner)


def expected_softmax(mean: np.ndarray, cov: np.ndarray) -> np.ndarray:
    """(m, C) expectation of softmax(f), from mean (m, C) and cov (m, C, C); rows sum to one.

    The error is below 1e-4 for up to three classes. Beyond, the absolute error is below 1e-3 and the relative error of
    probabilities above 1e-5 below 5 % for up to ten classes.
    """
    return _by_class(mean, cov, _softmax)


def _by_class(mean, cov, integral):
    """(m, C) an integral with classes in canonical order; those that are exchangeable get their average."""
    order, mean, cov = _canonical(np.asarray(mean, float), np.asarray(cov, float))
    p, rows = np.empty(mean.shape), max(1, 8 * BLOCK // mean.shape[1] ** 3)
    for i in range(0, len(mean), rows):
        some = slice(i, i + rows)
        found = _same_where_equal(integral(mean[some], cov[some]), mean[some], cov[some])
        np.put_along_axis(p[some], order[some], found, 1)
    return p


def _same_where_equal(p, mean, cov):
    """p (m, C), averaged over classes with the same mean and the same variances of their contrasts, in any order."""
    var = np.einsum("icc->ic", cov)
    spread = np.sort(var[:, :, None] + var[:, None, :] - 2 * cov, axis=2)
    equal = np.abs(mean[:, :, None] - mean[:, None, :]) <= 1e-10 * np.ptp(mean, axis=1)[:, None, None]
    if not np.any(np.count_nonzero(equal, axis=(1, 2)) > mean.shape[1]):
        return p
    apart, rounding = np.abs(spread[:, :, None] - spread[:, None, :]), 1e-13 * (var[:, :, None] + var[:, None, :])
    equal &= np.all(apart <= 1e-10 * spread[:, :, None] + rounding[..., None], axis=3)
    return np.sum(equal * p[:, None, :], axis=2) / equal.sum(2)


def _canonical(mean, cov):
    """An order of the classes that does not depend on their labels, means and covariances in that order."""
    cov = 0.5 * (cov + np.swapaxes(cov, 1, 2))
    others = np.sum(np.sort(cov, axis=2) * np.sqrt(2.0 + np.arange(cov.shape[2])), axis=2)  # whatever their order
    order = np.lexsort((others, np.diagonal(cov, axis1=1, axis2=2), -mean), axis=1)
    cov = np.take_along_axis(np.take_along_axis(cov, order[:, :, None], 1), order[:, None, :], 2)
    return order, np.take_along_axis(mean, order, 1), cov


def covariance_roots(mean: np.ndarray, cov: np.ndarray) -> np.ndarray:
    """(m, C, C) R with R Rᵀ = cov, for drawing from N(mean, cov): a permutation of the classes permutes the rows of R."""
    order, _, cov = _canonical(np.asarray(mean, float), np.asarray(cov, float))
    sorted_roots = np.moveaxis(semidefinite_cholesky(np.moveaxis(cov, 0, -1)), -1, 0)
    roots = np.empty_like(cov)
    np.put_along_axis(roots, order[:, :, None], sorted_roots, 1)
    return roots


# softmax --------------------------------------------------------------------------------------------------------------


def _softmax(mean, cov):
    """(m, C) expectation of softmax; classes in canonical order."""
    m, C = mean.shape
    axes = _Axes(mean, cov)
    p, wide = np.empty((m, C)), axes.wide
    if C <= 3:
        p[wide] = winner(mean[wide], cov[wide] + GUMBEL_VARIANCE * np.eye(C))
        p[~wide] = axes.grid(np.flatnonzero(~wide))
        return p
    grid = axes.grid_size() <= GRID
    p[grid] = axes.grid(np.flatnonzero(grid))
    wide = np.flatnonzero(~grid & (axes.narrowness <= NARROW))
    rest = ~grid
    if len(wide):
        p[wide], accurate = soft_winner(mean[wide], cov[wide])
        rest[wide[accurate]] = False
    if rest.any():
        p[rest] = _by_lines(axes, np.flatnonzero(rest), mean[rest], cov[rest])
    return p


def _by_lines(axes, rows, mean, cov):
    """(r, C) lines that all classes share, and lines of their own for rare classes."""
    C = mean.shape[1]

    def average(active, at):
        return axes.lines(rows, np.any(active, axis=1), at)

    p = normalised(doubled(average, mean.shape, lambda p: np.full_like(p, COMMON), FIRST))
    rare = p < RARE
    pairs = np.flatnonzero(rare.T.ravel())
    mu, S = contrasts(mean, cov)
    own = np.zeros(p.size)
    own[pairs] = _rare(mu[:, pairs], S[..., pairs])
    own, common = in_rows(own, C), np.where(rare, 0.0, p)
    return own + common * ((1 - own.sum(1)) / np.maximum(common.sum(1), TINY))[:, None]


def _rare(mu, S):
    """(P,) probabilities of pairs with contrasts N(mu, S), to a small relative error."""
    lines, z = _Lines(mu, S), normal_points(len(mu) - 1)

    def average(active, at):
        out, n = np.zeros(active.shape), at.stop - at.start
        pairs = np.flatnonzero(active[:, 0])
        for count in np.unique(lines.nodes[pairs]):
            for some in blocks(pairs[lines.nodes[pairs] == count], count * n):
                out[some, 0] = lines.softmax(some, z[:, at]).mean(1)
        return out

    def allowed(p):
        return np.where(p > FLOOR, RELATIVE * p, 1.0)

    return doubled(average, (mu.shape[1], 1), allowed, FIRST_RARE, of_sum=False)[:, 0]


class _Axes:
    """f = mean + root x + what all classes share; x (C - 1,) along principal axes, the widest first."""

    def __init__(self, mean, cov):
        centred = cov - cov.mean(1, keepdims=True) - cov.mean(2, keepdims=True) + cov.mean((1, 2), keepdims=True)
        value, vector = np.linalg.eigh(centred)
        value, vector = np.maximum(value[:, :0:-1], 0.0), vector[:, :, :0:-1]
        value[value <= SINGULAR * value[:, :1]] = 0.0
        self.behind = mean - mean.max(1, keepdims=True)
        self.root = vector * np.sqrt(value)[:, None]  # (m, C, C - 1)
        self.wide = value[:, -1] >= WIDE**2
        # the largest part of the noise of a class in the contrasts' precision
        share = GUMBEL_VARIANCE / (value + GUMBEL_VARIANCE)
        self.narrowness = np.max(np.sum(vector**2 * share[:, None], axis=2), axis=1)

    def nodes(self):
        """(m, C - 1) nodes of trapezoid rules along the axes."""
        return _rounded_up(2 * REACH * np.ptp(self.root, axis=1) / (STEP if self.root.shape[2] > 2 else SMALL_STEP))

    def grid_size(self):
        """(m,) nodes of a grid within a ball, roughly."""
        return np.prod(self.nodes().astype(float), axis=1) * BALLS[min(self.root.shape[2], len(BALLS)) - 1]

    def grid(self, rows):
        """(r, C) by trapezoid rules along all axes."""
        counts = self.nodes()[rows]
        p = np.empty((len(rows), self.root.shape[1]))
        for size in np.unique(counts, axis=0):
            z, weights = _ball(tuple(size[1:]))
            for at in blocks(np.flatnonzero(np.all(counts == size, axis=1)), size[0] * z.shape[1]):
                p[at] = self._integrate(rows[at], size[0], z, weights)
        return normalised(p)

    def lines(self, rows, active, at):
        """(r, C) averages over lines along the first axis through some points, for active rows."""
        counts, z = self.nodes()[rows, 0], normal_points(self.root.shape[2])[:, at]
        p, weights = np.zeros((len(rows), self.root.shape[1])), np.full(z.shape[1], 1 / z.shape[1])
        for count in np.unique(counts[active]):
            for some in blocks(np.flatnonzero(active & (counts == count)), max(count, self.root.shape[1]) * z.shape[1]):
                p[some] = self._integrate(rows[some], count, z[1:], weights)
        return p

    def _integrate(self, rows, count, z, weights):
        """(r, C) Σ_i weights_i E[softmax(b_i + a t)], b_i = mean + root z_i along all but the first axis, which is a."""
        step = np.linspace(-REACH, REACH, count)
        density = np.exp(-0.5 * step * step)
        a = self.root[rows, :, :1]
        b = np.matmul(self.root[rows, :, 1:], z)
        b += self.behind[rows, :, None]
        b -= b.max(1, keepdims=True)
        if count > FACTORED:  # exponentials of a t may overflow
            f = b[..., None] + a[..., None] * step
            f = np.exp(f - f.max(1, keepdims=True))
            return np.einsum("rcnq,n,q->rc", f / f.sum(1, keepdims=True), weights, density / density.sum())
        dtype = np.float32 if count <= SINGLE else float
        middle = 0.5 * (a.max(1, keepdims=True) + a.min(1, keepdims=True))
        along = np.exp(((a - middle) * step).astype(dtype))  # (r, C, q)
        base = np.exp(b.astype(dtype))
        total = np.matmul(base.swapaxes(1, 2), along)
        np.reciprocal(total, out=total)
        share = np.matmul(along * (density / density.sum()).astype(dtype), total.swapaxes(1, 2))  # (r, C, n)
        share *= base
        return np.matmul(share, weights.astype(dtype))


@lru_cache(maxsize=256)
def _ball(counts):
    """Nodes (d, n) of a product of trapezoid rules that lie within REACH of the origin, and their weights (n,)."""
    rules = [np.linspace(-REACH, REACH, count) for count in counts]
    z = np.stack([t.ravel() for t in np.meshgrid(*rules, indexing="ij")]) if rules else np.zeros((0, 1))
    z = z[:, np.sum(z * z, axis=0) <= REACH**2 * (1 + 1e-9)]
    weights = np.exp(-0.5 * np.sum(z * z, axis=0))
    return z, weights / weights.sum()


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
        self.nodes = _rounded_up(2 * REACH * _range(self.along) / STEP)  # (P,) of the rule along lines

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
        for some in blocks(rows, size[0] * size[1] * mean.shape[1]):
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
