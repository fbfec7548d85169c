"""The largest of jointly Gaussian values, with or without noise on them, whose differences are nearly those of independent ones.

Differences of the values do not change if a_c + a_d is subtracted from each covariance V_cd. With the a that leave the
smallest covariances between the values that matter, those of the classes of a Gaussian process classifier are nearly
independent. For independent values the probability that value k, with its noise, is the largest is an integral over that value,

    p_k = ∫ F_k' ∏_{j≠k} F_j dx

with F_j the distribution function of value j plus noise. The covariances E that are left enter by their derivatives,
dp_k/dE_cd = ∂²p_k/∂m_c∂m_d (Plackett 1954), which are integrals at the same nodes. The series in E is taken to the second
order; its second term says where it is not accurate. There it is averaged over a common factor: given t the values
m + b t are more nearly independent, and the average runs over some t.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from .blocks import CACHE, blocks
from .points import FLOOR

# The series is used where its last term is below these limits, of a probability, and relative to one above FLOOR and below
LAST_TERM, RELATIVE_TERM, RELATIVE_BELOW = 1e-3, 0.1, 0.5
LEAST = 1e-9  # probability below which the nodes do not reach far enough
REACH = 7.0  # standard deviations that the nodes cover
WIDEST = 0.8  # step of the trapezoid rule at most, in standard deviations of the narrowest value: the error is below 1e-6
COUNTS = np.array([16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512])  # of nodes
IRRELEVANT = 0.03  # weight at least of values that are hardly ever the largest
NARROWEST = 1e-3  # share of the largest variance that a variance has at least
# Nodes and weights of the common factor, and how much of a variance it may be: distribution functions are then averaged to 2e-4
FACTOR, SHARES = np.polynomial.hermite_e.hermegauss(7)
SHARES, MOST = SHARES / SHARES.sum(), 0.45
POWERS = 12  # steps of the power method for the factor
# Table of Φ(z), |z| ≤ LIMIT, in steps of 1/STEPS; Taylor's formula in the rest of z is then good to 1e-9 of Φ
LIMIT, STEPS, NORMALISER = 12.0, 256, 1 / np.sqrt(2 * np.pi)
TABLE = ndtr(np.arange(-LIMIT * STEPS, LIMIT * STEPS + 1) / STEPS)


class Noise(NamedTuple):
    """A mixture of normal distributions."""

    weight: np.ndarray  # (K,), as are the others
    mean: np.ndarray
    var: np.ndarray
    below: float  # how far nodes reach beyond those that the values need
    above: float
    width: float  # of its narrowest feature, as a standard deviation
    least: float  # standard deviation of values for which the mixture is meant, at least


NONE = Noise(np.ones(1), np.zeros(1), np.zeros(1), 0.0, 0.0, 0.0, 0.0)


def nearly_independent(mean: np.ndarray, cov: np.ndarray, noises: tuple[Noise, ...] = (NONE,)) -> tuple[np.ndarray, np.ndarray]:
    """(m, C) probability that each value plus its noise is the largest, and whether it is in doubt. C is at least three.

    `noises` are mixtures for the same noise, those for wider values last. Where the whole row is in doubt, no probability
    of it is good; else those in doubt have a large relative error.
    """
    weight = _relevance(mean, cov, noises[0])
    a = _common(cov, weight)
    p, last = _series(mean, *_apart(cov, a), noises)
    again = np.flatnonzero(_doubt(p, last).any(1))
    if len(again):
        some, each = cov[again], len(FACTOR)
        b = _factor(some, a[again], weight[again])
        rest = some - b[:, :, None] * b[:, None]
        var, E = _apart(rest, _common(rest, weight[again]))
        shifted = mean[again, None] + b[:, None] * FACTOR[:, None]
        got = _series(shifted.reshape(-1, b.shape[1]), np.repeat(var, each, 0), np.repeat(E, each, 0), noises)
        with np.errstate(invalid="ignore"):
            p[again], last[again] = (np.einsum("iqc,q->ic", x.reshape(shifted.shape), SHARES) for x in got)
    return p, _doubt(p, last)


def _doubt(p, last):
    last = np.abs(last)
    doubt = ~(last <= np.where(p > FLOOR, RELATIVE_TERM, RELATIVE_BELOW) * p) | (p < LEAST)
    return doubt | np.any(~(last <= LAST_TERM), axis=1, keepdims=True)


def _relevance(mean, cov, noise):
    """(m, C) weights of the values: roughly √(p (1 - p)) over the standard deviation."""
    top = np.argmax(mean, axis=1)[:, None]
    var = np.einsum("icc->ic", cov)
    beside = np.take_along_axis(cov, top[..., None], 1)[:, 0]
    ahead = np.take_along_axis(mean, top, 1) - mean
    spread = var + np.take_along_axis(var, top, 1) - 2 * beside + 2 * noise.width**2
    p = ndtr(-ahead / np.sqrt(np.maximum(spread, 1e-100)))
    np.put_along_axis(p, top, 0.5, 1)
    p /= np.sum(p, axis=1, keepdims=True)
    own = np.maximum(var - 2 * _common(cov, np.ones_like(mean)) + noise.width**2, 0.0)
    sd = np.sqrt(np.maximum(own, NARROWEST * np.max(own, axis=1, keepdims=True)) + 1e-100)
    weight = np.maximum(np.sqrt(p * (1 - p)), IRRELEVANT) / sd
    others = np.sum(weight, axis=1, keepdims=True) - weight
    return np.minimum(weight, 0.8 * others)  # `_common` divides by their difference


def _common(cov, weight):
    """(m, C) a for which Σ_{c≠d} w_c w_d (V_cd - a_c - a_d)² is smallest."""
    total = np.sum(weight, axis=1, keepdims=True)
    beside = np.matmul(cov, weight[..., None])[..., 0] - np.einsum("icc->ic", cov) * weight
    ratio = weight / (total - 2 * weight)
    A = np.sum(ratio * beside, axis=1, keepdims=True) / (1 + np.sum(ratio, axis=1, keepdims=True))
    return (beside - A) / (total - 2 * weight)


def _apart(cov, a):
    """(m, C) variances and (m, C, C) covariances, with zeros on the diagonal, of values with the same differences."""
    E = cov - a[:, :, None]
    E -= a[:, None, :]
    diagonal = np.einsum("icc->ic", E)
    var = diagonal.copy()
    diagonal[...] = 0.0
    return var, E


def _factor(cov, a, weight):
    """(m, C) b for which b bᵀ is close to the covariances left, with signs that make it the largest positive part of them."""
    var, E = _apart(cov, a)
    scaled = E * (weight[:, :, None] * weight[:, None])
    size = np.sqrt(np.sum(scaled**2, axis=(1, 2), keepdims=True)) + 1e-300
    x = np.take_along_axis(scaled, np.argmax(np.sum(scaled**2, axis=1), axis=1)[:, None, None], 2) / size
    for _ in range(POWERS):
        x = np.matmul(scaled, x) / size + 0.5 * x
        x /= np.sqrt(np.sum(x * x, axis=1, keepdims=True)) + 1e-300
    x = x[..., 0]
    squared = x * x
    fourth = np.sum(squared, axis=1) ** 2 - np.sum(squared**2, axis=1)
    gain = np.sum(x * np.matmul(scaled, x[..., None])[..., 0], axis=1) / np.maximum(fourth, 1e-3)
    b = x * np.sqrt(np.maximum(gain, 0.0))[:, None] / weight
    most = np.sqrt(MOST * np.maximum(var, 0.0))
    return np.clip(b, -most, most)


def _series(mean, var, E, noises):
    """(m, C) probabilities for variances var and covariances E, and the last term of the series, infinite without nodes."""
    p, last = np.zeros(mean.shape), np.full(mean.shape, np.inf)
    sd, narrow = np.sqrt(np.maximum(var, 0.0)), np.min(var, axis=1)
    kind = sum((narrow >= noise.least**2).astype(int) for noise in noises[1:]) + np.zeros(len(mean), int)
    below, above, width = np.array([[n.below, n.above, n.width] for n in noises]).T[:, kind]
    low = np.max(mean - REACH * sd, axis=1) - below
    length = np.max(mean + np.sqrt((REACH * sd) ** 2 + above[:, None] ** 2), axis=1) - low
    with np.errstate(divide="ignore", invalid="ignore"):
        needed = 1 + length / (WIDEST * np.sqrt(np.maximum(narrow, 0.0) + width**2))
    usable = (narrow >= 0) & (needed <= COUNTS[-1])
    size = np.searchsorted(COUNTS, np.where(usable, needed, 0))
    group = np.where(usable, kind * len(COUNTS) + size, -1)
    for one in sorted(set(group.tolist()) - {-1}):
        rows, noise, count = np.flatnonzero(group == one), noises[one // len(COUNTS)], COUNTS[one % len(COUNTS)]
        for some in blocks(len(rows), mean.shape[1] * count * len(noise.weight), CACHE):
            at = rows[some]
            x = low[at, None] + (length[at] / (count - 1))[:, None] * np.arange(count)
            F = _distribution(x, mean[at], var[at], noise)
            p[at], last[at] = _sums(*F, E[at], length[at] / (count - 1))
    return p, last


def _distribution(x, mean, var, noise):
    """(m, C, Q) distribution function of each value plus noise, its density, and the density's two derivatives."""
    s = 1 / np.sqrt(var[:, :, None] + noise.var)  # (m, C, K)
    z = (x[:, None, None] - (mean[:, :, None] + noise.mean)[..., None]) * s[..., None]  # (m, C, K, Q)
    np.clip(z, -LIMIT, LIMIT, out=z)
    density = np.multiply(z, z)
    bend = density - 1.0
    density *= -0.5
    np.exp(density, out=density)
    density *= NORMALISER
    rest = z * STEPS
    at = np.rint(rest)
    rest -= at
    rest *= 1 / STEPS
    at += LIMIT * STEPS
    cdf = TABLE.take(at.astype(np.intp))
    np.multiply(rest, z, out=at)
    at *= 0.5
    at += 1.0
    at *= rest
    at *= density
    cdf += at
    z *= density
    bend *= density
    if len(noise.weight) == 1:
        s = s[..., 0, None]
        return cdf[:, :, 0], density[:, :, 0] * s, z[:, :, 0] * -(s * s), bend[:, :, 0] * s**3
    weights = [noise.weight + 0 * s, noise.weight * s, -noise.weight * s * s, noise.weight * s**3]
    return tuple(np.matmul(w[:, :, None], of)[:, :, 0] for w, of in zip(weights, (cdf, density, z, bend), strict=True))


def _sums(F, density, slope, bend, E, step):
    """(m, C) probabilities and second terms, from the functions at the nodes."""
    r = density / F
    first, second = _terms(r, slope / F, r - slope / density, bend / density, E)
    weight = r * (np.multiply.reduce(F, axis=1) * step[:, None])[:, None]
    second *= weight
    first += 1.0
    first *= weight
    last = np.sum(second, axis=2)
    return np.sum(first, axis=2) + last, last


def _terms(r, b, alpha, own_second, E):
    """First and second term of the series for each k (m, C, Q), relative to F_k' ∏_{j≠k} F_j.

    A factor F_j has the derivatives a = -r and b in its mean, relative to itself; the factor F_k' has a + α and b + β. A
    term of second order contains two covariances; where they share a value, b takes the place of a².
    """
    a, squared = -r, r * r
    beta = own_second - b
    u = np.matmul(E, a)
    first = 0.5 * np.sum(a * u, axis=1)[:, None] + alpha * u
    E2, bend = E * E, b - squared
    v = np.matmul(E2, squared)
    own = u * u - v
    raised = alpha * (alpha + 2 * a)  # (a + α)² - a²
    # of all pairs of covariances; of those with one value in common; of a covariance with itself
    second = first * first
    second += np.sum(bend * own, axis=1)[:, None] + (beta - raised) * own
    second += 2 * alpha * np.matmul(E, bend * u) + (alpha * alpha - raised) * np.matmul(E2, bend)
    E2b = np.matmul(E2, b)
    second += 0.5 * np.sum(b * E2b - squared * v, axis=1)[:, None] + beta * E2b - raised * v
    return first, 0.5 * second
