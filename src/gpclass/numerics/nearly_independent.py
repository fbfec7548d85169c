"""Probabilities that each of several jointly Gaussian values, plus noise, is the largest, if they are nearly independent.

Only differences of the values matter, and these have the same distribution if a_c + a_d is subtracted from each covariance
V_cd. With the a that minimise the remaining covariances E between relevant values, the latent values of the classes of a
Gaussian process classifier are nearly independent. For independent values the probability that value k is the largest is

    p_k = ∫ F_k' ∏_{j≠k} F_j dx

where F_j is the distribution function of value j plus noise. The remaining covariances are included by a series of second
order in E. Its derivatives, dp_k/dE_cd = ∂²p_k/∂m_c∂m_d (Plackett 1954), are integrals at the same nodes. Where the second
term is large, the series is not accurate. There the values are written as m + b t + rest, with a common factor t ~ N(0, 1),
so that the rest has smaller covariances, and the series is averaged over t.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from .blocks import blocks
from .points import NUMBERS_PER_BLOCK, RELATIVE_FLOOR

# Limits of the last term of the series: absolute, and relative to probabilities above RELATIVE_FLOOR and below it. Within
# them the error is below 5e-4, and below 2 % of the probability
LAST_TERM, RELATIVE_TERM, RELATIVE_BELOW = 1e-3, 0.05, 0.3
NODE_REACH = 6.5  # standard deviations that the nodes cover on each side
LARGEST_STEP = 0.8  # of the trapezoid rule, in standard deviations of the narrowest value: the error is below 5e-5
NODE_COUNTS = np.array([16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512])  # possible numbers of nodes
SMALLEST_RELEVANCE = 0.03  # of values that are hardly ever the largest
# Pairs of the largest slope of b t, in standard deviations, and the number of nodes for t. The errors of averages of
# distribution functions are at most 6e-5 and 1.3e-4
FACTOR_NODES = ((0.75, 5), (1.1, 7))
LARGEST_FACTOR = 0.45  # largest part of a variance that the common factor may have
POWER_STEPS = 12  # steps of the power method for the common factor
# Table of Φ(z) NDTR_STEPS √2π at multiples of 1/NDTR_STEPS, |z| ≤ NDTR_LIMIT; negative z have negative indices. With a
# linear term in the rest of z the error is below 2e-7, and below 1e-4 of Φ
NDTR_LIMIT, NDTR_STEPS = 9.0, 512
_GRID = np.fft.ifftshift(np.arange(-NDTR_LIMIT * NDTR_STEPS, NDTR_LIMIT * NDTR_STEPS + 1)) / NDTR_STEPS
NDTR_TABLE = NDTR_STEPS * np.sqrt(2 * np.pi) * ndtr(_GRID)


class Mixture(NamedTuple):
    """A mixture of normal distributions."""

    weight: np.ndarray  # (K,)
    mean: np.ndarray  # (K,)
    var: np.ndarray  # (K,)
    least: float = 0.0  # smallest standard deviation of the values for which it approximates the noise


class Noise(NamedTuple):
    """Independent noise on the values, with the same distribution for each."""

    mixtures: tuple[Mixture, ...]  # approximations of the noise, ordered by `least`
    below: float = 0.0  # distance by which nodes extend below the range of the values
    above: float = 0.0  # distance by which nodes extend above the range of the values
    width: float = 0.0  # standard deviation of a normal distribution that needs as many nodes
    smallest: float = 1e-9  # smallest probability for which nodes and mixtures reach far enough


NO_NOISE = Noise((Mixture(np.ones(1), np.zeros(1), np.zeros(1)),))


def nearly_independent(mean: np.ndarray, cov: np.ndarray, noise: Noise = NO_NOISE) -> tuple[np.ndarray, np.ndarray]:
    """Return the probabilities (m, C) that each value plus noise is the largest, and whether they are in doubt (m, C).

    The largest mean must be first, and C at least three. If a whole row is in doubt, all its probabilities are inaccurate.
    Otherwise those in doubt are small and may have a large relative error.
    """
    weight = _weights(mean, cov, noise)
    a = _common_part(cov, weight)
    var, E = _remaining(cov, a)
    p, size = _series(mean, var, E, noise)
    doubt = _doubt(p, size, noise.smallest)
    again = doubt.any(1).nonzero()[0]
    if len(again):
        found, larger = _series_given_factor(mean[again], cov[again], a[again], weight[again], size[again].max(1), noise)
        doubts = _doubt(found, larger, noise.smallest)
        better = doubts.sum(1) <= doubt[again].sum(1)
        p[again[better]], doubt[again[better]] = found[better], doubts[better]
    return p, doubt


def _doubt(p, size, smallest):
    """Return whether probabilities p are inaccurate, (m, C), given the size of the last term of the series."""
    doubt = ~(size <= np.where(p > RELATIVE_FLOOR, RELATIVE_TERM, RELATIVE_BELOW) * p) | (p < smallest)
    return doubt | ~(size <= LAST_TERM).all(1, keepdims=True)


def _series_given_factor(mean, cov, a, weight, largest, noise):
    """Return the result of `_series` averaged over a common factor; zero and infinite size where that would not help."""
    b = _factor(cov, a, weight)
    rest = cov - b[:, :, None] * b[:, None]
    var, E = _remaining(rest, _common_part(rest, weight))
    before, after = (np.einsum("icd,ic,id->i", x * x, weight**2, weight**2) for x in (_remaining(cov, a)[1], E))
    sized = np.where(np.isfinite(largest), largest, 1e100)
    helps = (sized <= LAST_TERM) | (sized * after <= LAST_TERM * before)  # the last term is of second order
    wide = np.sqrt(var[:, :, None] + var[:, None] + 2 * noise.width**2 + 1e-100)
    slope = np.where(helps, (np.abs(b[:, :, None] - b[:, None]) / wide).max((1, 2)), np.inf)
    p, size, least = np.zeros(mean.shape), np.full(mean.shape, np.inf), -1.0
    for most, count in FACTOR_NODES:
        rows = np.flatnonzero((slope > least) & (slope <= most))
        t, share = np.polynomial.hermite_e.hermegauss(count)
        shifted = mean[rows, None] + b[rows, None] * t[:, None]
        each = np.repeat(rows, count)
        got = _series(shifted.reshape(-1, b.shape[1]), var[each], E[each], noise)
        p[rows], size[rows] = (np.einsum("iqc,q->ic", x.reshape(shifted.shape), share / share.sum()) for x in got)
        least = most
    return p, size


def _weights(mean, cov, noise):
    """Return the relevance (m, C) of the values: roughly √(p (1 - p)) divided by the standard deviation."""
    var = np.einsum("icc->ic", cov)
    spread = var + var[:, :1] - 2 * cov[:, 0] + 2 * noise.width**2  # variance of the difference from the first value
    p = ndtr((mean - mean[:, :1]) / np.sqrt(np.maximum(spread, 1e-100)))
    p[:, 0] = 0.5
    p /= p.sum(1, keepdims=True)
    beside = cov.mean(2)
    centred = var - 2 * beside + beside.mean(1, keepdims=True) + noise.width**2
    sd = np.sqrt(np.maximum(centred, 1e-6 * centred.max(1, keepdims=True) + 1e-200))
    weight = np.maximum(np.sqrt(p * (1 - p)), SMALLEST_RELEVANCE) / sd
    others = weight.sum(1, keepdims=True) - weight
    return np.minimum(weight, 0.8 * others)  # `_common_part` divides by their difference


def _common_part(cov, weight):
    """Return the a (m, C) that minimise Σ_{c≠d} w_c w_d (V_cd - a_c - a_d)², clipped so that V_cc - 2 a_c ≥ 0."""
    var, rest = np.einsum("icc->ic", cov), weight.sum(1, keepdims=True) - 2 * weight
    beside = np.matmul(cov, weight[..., None])[..., 0] - var * weight
    ratio = weight / rest
    A = (ratio * beside).sum(1, keepdims=True) / (1 + ratio.sum(1, keepdims=True))
    return np.minimum((beside - A) / rest, 0.5 * var)


def _remaining(cov, a):
    """Return the variances (m, C) and covariances E (m, C, C) after subtracting a_c + a_d; E has a zero diagonal."""
    E = cov - a[:, :, None]
    E -= a[:, None, :]
    diagonal = np.einsum("icc->ic", E)
    var = np.maximum(diagonal, 0.0)
    diagonal[...] = 0.0
    return var, E


def _factor(cov, a, weight):
    """Return b (m, C) such that b bᵀ is close to the remaining covariances off the diagonal."""
    var, E = _remaining(cov, a)
    E *= weight[:, :, None] * weight[:, None]
    squares = np.sum(E * E, axis=2)
    size = np.sqrt(squares.sum(1))[:, None, None] + 1e-300
    x = E[np.arange(len(E)), :, squares.argmax(1), None] / size
    for _ in range(POWER_STEPS):  # converges to the largest eigenvalue, which is positive because the trace is zero
        x = np.matmul(E, x) / size + 0.5 * x
        x /= np.sqrt(np.sum(x * x, axis=1, keepdims=True)) + 1e-300
    Ex, x = np.matmul(E, x)[..., 0], x[..., 0]
    off_diagonal = 1 - np.sum(x**4, axis=1)  # sum of squares of x xᵀ off the diagonal
    b = x * np.sqrt(np.maximum(np.sum(x * Ex, axis=1) / np.maximum(off_diagonal, 1e-3), 0.0))[:, None] / weight
    most = np.sqrt(LARGEST_FACTOR * var)
    return np.clip(b, -most, most)


def _series(mean, var, E, noise):
    """Return probabilities (m, C) for variances var and covariances E, and the size (m, C) of the last term of the series.

    The size is infinite where too many nodes would be needed.
    """
    p, size = np.zeros(mean.shape), np.full(mean.shape, np.inf)
    sd, narrow = NODE_REACH * np.sqrt(var), var.min(1)
    low = (mean - sd).max(1) - noise.below
    length = (mean + np.sqrt(sd * sd + noise.above**2)).max(1) - low
    longest = LARGEST_STEP * np.sqrt(narrow + noise.width**2)
    needed = np.where(longest > 0, 1 + length / np.maximum(longest, 1e-100), np.inf)
    least = np.array([mixture.least**2 for mixture in noise.mixtures])
    group = NODE_COUNTS.searchsorted(needed) + (len(NODE_COUNTS) + 1) * (least.searchsorted(narrow, side="right") - 1)
    for one in set(group.tolist()):
        kind, many = divmod(one, len(NODE_COUNTS) + 1)
        if many == len(NODE_COUNTS):
            continue
        rows, mixture, count = (group == one).nonzero()[0], noise.mixtures[kind], int(NODE_COUNTS[many])
        for some in blocks(len(rows), mean.shape[1] * count * (len(mixture.weight) + 3), NUMBERS_PER_BLOCK):
            at = rows[some]
            step = length[at] / (count - 1)
            x = low[at, None] + step[:, None] * np.arange(count)
            p[at], size[at] = _sums(_distribution(x, mean[at], var[at], mixture), E[at], step)
    return p, size


def _distribution(x, mean, var, mixture):
    """Return the distribution function of each value plus noise at x (m, Q), and its first three derivatives, (m, C, Q)."""
    weight, shift, noise = (of[:, None, None] for of in mixture[:3])
    s = 1 / np.sqrt(var + noise)[..., None]  # (K, m, C, 1)
    z = x[:, None] * s
    z -= (mean + shift)[..., None] * s
    np.clip(z, -NDTR_LIMIT, NDTR_LIMIT, out=z)  # (K, m, C, Q)
    density = z * z
    density *= -0.5
    np.exp(density, out=density)
    rest = z * NDTR_STEPS
    at = np.rint(rest)
    rest -= at
    rest *= density
    rest += NDTR_TABLE.take(at.astype(np.intp))
    constant = (weight / np.sqrt(2 * np.pi))[..., None]
    density *= constant * s
    z *= s
    slope = z * density
    z *= slope
    z -= np.multiply(density, s * s, out=at)
    if len(s) > 1:
        rest *= constant
        return rest.sum(0) / NDTR_STEPS, density.sum(0), -slope.sum(0), z.sum(0)
    return rest[0] * (constant[0] / NDTR_STEPS), density[0], -slope[0], z[0]


def _sums(distribution, E, step):
    """Return the probabilities (m, C) and the size of the second term, given the functions at the nodes.

    The second term can vanish by chance. So its size is at least p x²/2 if the first term is p x.
    """
    F, density, slope, bend = distribution
    r = density / F
    first, second = _terms(r, slope / F, r - slope / density, bend / density, E)
    weight = r * (np.multiply.reduce(F, axis=1) * step[:, None])[:, None]
    first *= weight
    second *= weight
    zeroth, first, second = weight.sum(2), first.sum(2), second.sum(2)
    return zeroth + first + second, np.maximum(np.abs(second), 0.5 * first**2 / np.maximum(zeroth, 1e-300))


def _terms(r, b, alpha, own_second, E):
    """Return the first and second term of the series for each k (m, C, Q), relative to F_k' ∏_{j≠k} F_j.

    A factor F_j has the relative derivatives a = -r and b in its mean; the factor F_k' has a + α and b + β. A term of second
    order contains two covariances. If they have a value in common, b replaces a².
    """
    a, squared = -r, r * r
    beta = own_second - b
    u = np.matmul(E, a)
    first = 0.5 * np.sum(a * u, axis=1)[:, None] + alpha * u
    E2, bend = E * E, b - squared
    v = np.matmul(E2, squared)
    own = u * u - v
    raised = alpha * (alpha + 2 * a)  # (a + α)² - a²
    # all pairs of covariances, then corrections for pairs with one value in common and for a covariance with itself
    second = first * first
    second += np.sum(bend * own, axis=1)[:, None] + (beta - raised) * own
    second += 2 * alpha * np.matmul(E, bend * u) + (alpha * alpha - raised) * np.matmul(E2, bend)
    E2b = np.matmul(E2, b)
    second += 0.5 * np.sum(b * E2b - squared * v, axis=1)[:, None] + beta * E2b - raised * v
    return first, 0.5 * second
