"""The largest of several jointly Gaussian values.

Each class has its own integral, over the contrasts g_j = f_c - f_j, j ≠ c, with g = mu + L x and x standard normal:
P(g > 0). Up to three classes there is a closed form (Owen 1956). Beyond, one contrast after the other is drawn from what
those before it leave, the least likely ones first (Geweke, Hajivassiliou & Keane; order of Gibson, Glasbey & Elston 1994);
the average runs over quasi-random points, the same for all classes, whose errors cancel when rows are divided by their sum.

Softmax is the share of the largest f_j + e_j with independent Gumbel noise e_j. Where f is wide, normal noise of the same
variance gives nearly the same shares. What is missing is the ratio of densities of the two kinds of noise (`GumbelNoise`).
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_expit, ndtr, ndtri, ndtri_exp, owens_t

from .normal import hazard
from .points import RARE, TINY, blocks, doubled, normalised, uniform_points

FIRST = 128  # quasi-random points to begin with
# Change of a probability, at the last doubling of the points, that counts as small: of the largest, of softmax
ABSOLUTE, SOFT_ABSOLUTE = 4e-4, 5e-4
RELATIVE, FLOOR = 0.03, 5e-6  # the same for softmax, relative to probabilities between FLOOR and RARE
CERTAIN = 4.0  # standard deviations above zero from which a contrast counts as positive: wrong with probability 3e-5
SINGULAR = 1e-12  # a pivot this small, relative to the largest variance, counts as zero
GUMBEL_VARIANCE = np.pi**2 / 6
# Gumbel noise, its mean subtracted, as a mixture of normals: weights, means, variances. The moments up to the fifth agree to
# 0.2 %; all variances are below GUMBEL_VARIANCE, so that the ratio to the density of normal noise is bounded
MIXTURE = ((0.384878, 0.143797, 0.002734, 0.468591), (-0.923677, 1.848626, 6.325191, 0.154473),
           (0.351947, 1.547719, 1.546664, 0.729184))  # fmt: skip
DEGREE, FAR = 7, 4.5  # of the polynomial for the logarithm of that ratio; standard deviations that it covers
# Largest effect of the dependence between noises, absolute and relative, for which its first-order form is trusted
DEPENDENCE, DEPENDENCE_RELATIVE = 4e-4, 0.03
LIMIT, STEPS, MOST_LOGIT = 8.0, 1024, 24.0  # of the tables: values of Φ up to LIMIT, STEPS for a unit, logits of its inverse
# Rounding to a table is off by 2e-4 of either sign, which averages out over the points
_NDTR = ndtr(np.arange(-LIMIT * STEPS, LIMIT * STEPS + 1) / STEPS).astype(np.float32)
_NDTRI = ndtri_exp(log_expit(np.arange(-MOST_LOGIT * STEPS, MOST_LOGIT * STEPS + 1) / STEPS)).astype(np.float32)


def contrasts(mean: np.ndarray, cov: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means (C - 1, P) and covariances (C - 1, C - 1, P) of f_c - f_j, j ≠ c; P = C·m pairs, class by class."""
    C = mean.shape[1]
    own, rest = np.arange(C), _others(C)
    f, V = mean.T, np.moveaxis(cov, 0, -1)
    crossed = V[own, rest]
    joint = V[rest[:, None], rest] - (crossed[:, None] + crossed) + V[own, own]
    return (f - f[rest]).reshape(C - 1, -1), joint.reshape(C - 1, C - 1, -1)


def _others(C):
    """(C - 1, C) the classes j ≠ c."""
    return np.array([np.delete(np.arange(C), c) for c in range(C)]).T


def in_rows(pairs: np.ndarray, n_classes: int) -> np.ndarray:
    """(m, C) from the pairs (P,); contiguous, so that sums over classes are the same for one row as for many."""
    return np.ascontiguousarray(pairs.reshape(n_classes, -1).T)


def winner(mean: np.ndarray, cov: np.ndarray) -> np.ndarray:
    """(m, C) probability that each is the largest."""
    C = mean.shape[1]
    mu, S = contrasts(mean, cov)
    if C == 2:
        return normalised(in_rows(ndtr(mu[0] / np.sqrt(np.maximum(S[0, 0], TINY))), C))
    if C == 3:
        p = bivariate_orthant(mu, S)
        few = np.flatnonzero(p < 1e-9)  # the closed form has no digits left
        p[few] = Sequence(mu[:, few], S[..., few]).values(np.arange(len(few)), slice(0, 2 * FIRST))[0].mean(1)
        return normalised(in_rows(p, C))
    return normalised(doubled(Sequence(mu, S).average, mean.shape, lambda p: np.full_like(p, ABSOLUTE), FIRST))


def soft_winner(mean: np.ndarray, cov: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(m, C) expectation of softmax as that of the largest, and (m,) whether the correction for the noise is accurate."""
    C = mean.shape[1]
    sequence = Sequence(*contrasts(mean, cov + GUMBEL_VARIANCE * np.eye(C)), GumbelNoise(C))
    apart = normalised(doubled(sequence.average, mean.shape, _allowed, FIRST))
    joint = normalised(apart * in_rows(sequence.sums[1] / np.maximum(sequence.sums[0], TINY), C))
    difference = np.abs(joint - apart)
    relative = (difference > DEPENDENCE_RELATIVE * joint) & (joint > FLOOR)
    return joint, ~np.any((difference > DEPENDENCE) | relative, axis=1)


def _allowed(p):
    return np.where((p > FLOOR) & (p < RARE), RELATIVE * p, SOFT_ABSOLUTE)


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


class Sequence:
    """Contrasts (d, P) drawn in turn: the next one is the least likely to be positive, given that those before it are.

    Contrasts from `depth` (P,) on are positive for certain and are not drawn.
    """

    def __init__(self, mu, S, noise=None):
        d, P = mu.shape
        everyone = np.arange(P)
        order, L = np.tile(np.arange(d)[:, None], P), np.zeros_like(S)
        expected, var = mu.copy(), np.einsum("jjp->jp", S).copy()
        sd, tiny = np.sqrt(np.maximum(var, TINY)), np.maximum(SINGULAR * var.max(0), TINY)
        self.depth = np.full(P, d)
        for k in range(d):
            chance = expected[k:] / np.sqrt(np.maximum(var[k:], tiny))
            chosen = k + np.argmin(chance, axis=0)
            for part in (order, expected, var, sd, L):
                part[k, ..., everyone], part[chosen, ..., everyone] = (
                    part[chosen, ..., everyone].copy(), part[k, ..., everyone].copy())  # fmt: skip
            certain = np.min(expected[k:] / sd[k:], axis=0) > CERTAIN
            self.depth = np.minimum(self.depth, np.where(certain, max(k, 1), d))
            good = var[k] > tiny
            pivot = np.sqrt(np.where(good, var[k], 1.0))
            L[k, k] = np.where(good, pivot, 0.0)
            column = S[order[k + 1 :], order[k], everyone] - np.sum(L[k + 1 :, :k] * L[k, :k], axis=1)
            L[k + 1 :, k] = np.where(good, column / pivot, 0.0)
            var[k + 1 :] -= L[k + 1 :, k] ** 2
            expected[k + 1 :] += L[k + 1 :, k] * hazard(expected[k] / np.sqrt(np.maximum(var[k], tiny)))
        mu = np.take_along_axis(mu, order, 0)
        pivot = np.maximum(np.einsum("kkp->kp", L), np.sqrt(tiny))
        self.least = mu[0] / pivot[0]
        # in units of the standard deviation left; single precision, twice as fast, has digits enough
        self.mu = np.clip(mu / pivot, -1e30, 1e30).astype(np.float32)
        self.L = np.ascontiguousarray(np.swapaxes(L / pivot[:, None], 1, 2), np.float32)  # (d, P, d)
        self.uniform = uniform_points(d, np.float32)
        self.noise = noise
        if noise is not None:
            noise.prepare(L, order, self.depth)
            self.sums = np.zeros((2, P))  # of the values, and of the values times the factor for dependence

    def average(self, active, at):
        """(m, C) averages of the active values over some points."""
        m, C = active.shape
        out = np.zeros(C * m)
        pairs = np.flatnonzero(active.T.ravel())
        for some in blocks(pairs[np.argsort(-self.depth[pairs], kind="stable")], len(self.mu) * (at.stop - at.start)):
            values, x = self.values(some, at)
            if self.noise is not None:
                ratio, s = self.noise.ratio(some, x)
                values *= ratio
                if at.stop <= FIRST:  # the effect of dependence is small, and needs fewer points
                    self.sums[0, some] += values.sum(1)
                    self.sums[1, some] += np.sum(values * self.noise.dependence(some, s), axis=1)
            out[some] = values.mean(1)
        return in_rows(out, C)

    def values(self, pairs, at):
        """Estimates (p, n) of P(g > 0), and x (p, d, n), for pairs in the order of falling depth."""
        mu, L, depth = self.mu[:, pairs, None], self.L[:, None, pairs].transpose(0, 2, 1, 3), self.depth[pairs]
        d, n = len(mu), at.stop - at.start
        last = d if self.noise is not None else d - 1
        # the first contrast, the least likely one, has all digits
        least = ndtr(self.least[pairs, None])
        x, values = np.zeros((len(pairs), d, n), np.float32), np.ones((len(pairs), n), np.float32)
        x[:, 0] = -ndtri(np.maximum(self.uniform[0, at] * least, TINY))
        for k in range(1, d):
            drawn = np.count_nonzero(depth > k)
            if not drawn:
                break
            given = np.matmul(L[k, :drawn, :, :k], x[:drawn, :k])[:, 0]
            given += mu[k, :drawn]
            positive = _fast_ndtr(given)
            values[:drawn] *= positive
            if k < last:
                positive *= self.uniform[k, at]
                x[:drawn, k] = _fast_ndtri(positive)
        return least * values, x


def _fast_ndtr(z):
    """Φ(z) from a table; z, in single precision, is lost."""
    np.clip(z, -LIMIT, LIMIT, out=z)
    z *= STEPS
    z += LIMIT * STEPS + 0.5
    return _NDTR.take(z.astype(np.int32))


def _fast_ndtri(p):
    """-Φ⁻¹(p) from a table; p, in single precision, is lost."""
    rest = 1 - p
    with np.errstate(divide="ignore"):
        np.divide(rest, p, out=rest)
        np.log(rest, out=rest)
    np.clip(rest, -MOST_LOGIT, MOST_LOGIT, out=rest)
    rest *= STEPS
    rest += MOST_LOGIT * STEPS + 0.5
    return _NDTRI.take(rest.astype(np.int32))


class GumbelNoise:
    """The ratio of the densities of Gumbel and normal noise of variance σ², expected given the contrasts.

    Given x, the noise of the classes over σ is normal with means s_j = a_j·x and covariances [i = j] - a_i·a_j, where
    a_j = σ L⁻¹ B_j and B_j are the derivatives of the contrasts in f_j. The ratio of densities has a closed form for one
    class, R_j(s_j). The expectation of the product over all classes is, to first order in the covariances,

        ∏ R_j (1 - Σ_{i<j} a_i·a_j r_i r_j),   r_j = d log R_j / d s_j.
    """

    def __init__(self, n_classes):
        own, rest = np.arange(n_classes), _others(n_classes)
        self.B = np.zeros((n_classes - 1, n_classes, n_classes))  # contrast, class j, own class c
        self.B[:, own, own] = 1.0
        self.B[np.arange(n_classes - 1)[:, None], rest, own] = -1.0

    def prepare(self, L, order, depth):
        """Directions a_j (P, C, d) and polynomials of log R_j in s_j / (FAR |a_j|), from L (d, d, P), order (d, P)."""
        d, C, P = len(L), self.B.shape[1], order.shape[1]
        own = np.repeat(np.arange(C), P // C)
        a = np.zeros((d, C, P))
        for k in range(d):
            row = np.sqrt(GUMBEL_VARIANCE) * self.B[order[k], :, own].T - np.sum(L[k, :k, None] * a[:k], axis=0)
            a[k] = np.where((L[k, k] > 0) & (k < depth), row / np.where(L[k, k] > 0, L[k, k], 1.0), 0.0)
        a = np.ascontiguousarray(np.moveaxis(a, -1, 0).swapaxes(1, 2))  # (P, C, d)
        square = np.sum(a * a, axis=2, keepdims=True)
        reach = FAR * np.sqrt(square)
        node = np.cos(np.pi * (np.arange(DEGREE + 1) + 0.5) / (DEGREE + 1))
        powers = np.linalg.inv(np.vander(node, increasing=True)).T
        polynomial = np.sum(_log_ratio(reach * node, square)[..., None] * powers, axis=2)
        self.polynomial = np.moveaxis(polynomial, -1, 0).astype(np.float32)
        self.a, self.scale = a.astype(np.float32), (1 / np.maximum(reach, 1e-30)).astype(np.float32)
        self.square = square.astype(np.float32)

    def ratio(self, pairs, x):
        """∏ R_j (p, n), and s_j (p, C, n) in the variable of the polynomials."""
        c, s = self.polynomial[:, pairs, :, None], np.matmul(self.a[pairs], x)
        s *= self.scale[pairs]
        np.clip(s, -1.0, 1.0, out=s)
        value = s * c[DEGREE]
        for k in range(DEGREE - 1, 0, -1):
            value += c[k]
            value *= s
        return np.exp(value.sum(1) + c[0].sum(1)), s

    def dependence(self, pairs, s):
        """(p, n) 1 - Σ_{i<j} a_i·a_j r_i r_j."""
        c, slope = self.polynomial[:, pairs, :, None], np.zeros_like(s)
        for k in range(DEGREE, 0, -1):
            slope *= s
            slope += k * c[k]
        slope *= self.scale[pairs]
        together = np.sum(np.matmul(self.a[pairs].swapaxes(1, 2), slope) ** 2, axis=1)
        return np.maximum(1 - 0.5 * (together - np.sum(self.square[pairs] * slope**2, axis=1)), 0.0)


def _log_ratio(s, square):
    """log E[Gumbel density / normal density] of noise with mean s and variance 1 - square, in units of σ."""
    total = 0.0
    for weight, mean, var in zip(*MIXTURE, strict=True):
        mean, var = mean / np.sqrt(GUMBEL_VARIANCE), var / GUMBEL_VARIANCE
        # N(e | mean, var) / N(e | 0, 1) = exp(mean² / (2 (1 - var))) / √var exp(-q (e - centre)² / 2)
        q, centre = 1 / var - 1, mean / (1 - var)
        spread = 1 + q * (1 - square)
        height = weight * np.exp(0.5 * mean**2 / (1 - var)) / np.sqrt(var)
        total = total + height / np.sqrt(spread) * np.exp(-0.5 * q * (s - centre) ** 2 / spread)
    return np.log(total)
