"""The largest of jointly Gaussian values, with or without noise, whose differences are nearly those of independent ones.

Differences of the values do not change if a_c + a_d is subtracted from each covariance V_cd. With the a that leave the
smallest covariances between the values that matter, those of the classes of a Gaussian process classifier are nearly
independent. For independent values the probability that value k with its noise is the largest is an integral over it,

    p_k = ∫ F_k' ∏_{j≠k} F_j dx

with F_j the distribution function of value j plus noise. The covariances E that are left enter by their derivatives,
dp_k/dE_cd = ∂²p_k/∂m_c∂m_d (Plackett 1954), which are integrals at the same nodes. The series in E is taken to the second
order; the size of the second term says where it is not accurate. There a common factor is taken out: the values are
m + b t + a rest with smaller covariances, t standard normal, and the series is averaged over t.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from .blocks import blocks
from .points import FLOOR

# The series is used where the size of its last term is below these limits: of a probability, and relative to one above FLOOR
# and below it. The error is then below half of the first, and 2 %
LAST_TERM, RELATIVE_TERM, RELATIVE_BELOW = 1e-3, 0.05, 0.3
REACH = 6.5  # standard deviations that the nodes cover
WIDEST = 0.8  # step of the trapezoid rule at most, in standard deviations of the narrowest value: the error is below 5e-5
COUNTS = np.array([16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512])  # of nodes
IRRELEVANT = 0.03  # weight at least of values that are hardly ever the largest
# Numbers of nodes for the common factor t, up to a slope of b t in standard deviations: averages of distribution functions
# are off by 6e-5 and 1.3e-4 at most. The factor may be so much of a variance
FACTOR_NODES, MOST = ((0.75, 5), (1.1, 7)), 0.45
POWERS = 12  # steps of the power method for the factor
BLOCK = 1 << 15  # numbers in the arrays of a block of rows: these stay within a core's cache
# Φ(z), |z| ≤ LIMIT, at multiples of 1/STEPS, times STEPS √2π, from 0 on and then from -LIMIT on, as negative indices ask
# for. Φ' times the rest of z is added; the error is then below 2e-7, and below 1e-4 of Φ
LIMIT, STEPS = 9.0, 512
TABLE = STEPS * np.sqrt(2 * np.pi) * ndtr(np.fft.ifftshift(np.arange(-LIMIT * STEPS, LIMIT * STEPS + 1)) / STEPS)


class Mixture(NamedTuple):
    """A mixture of normal distributions."""

    weight: np.ndarray  # (K,), as are the other arrays
    mean: np.ndarray
    var: np.ndarray
    least: float = 0.0  # standard deviation at least of the values to whose noise it is an approximation


class Noise(NamedTuple):
    """Noise on the values, the same for each: mixtures for it, that for the widest values last."""

    mixtures: tuple[Mixture, ...]
    below: float = 0.0  # how far nodes reach beyond those that the values need
    above: float = 0.0
    width: float = 0.0  # standard deviation of a normal distribution that needs as many nodes
    smallest: float = 1e-9  # probability down to which nodes and mixtures reach far enough


NONE = Noise((Mixture(np.ones(1), np.zeros(1), np.zeros(1)),))


def nearly_independent(mean: np.ndarray, cov: np.ndarray, noise: Noise = NONE) -> tuple[np.ndarray, np.ndarray]:
    """(m, C) probability that each value plus its noise is the largest, and whether it is in doubt; the largest mean first.

    C is at least three. Where a whole row is in doubt, none of its probabilities is good; otherwise those in doubt are small
    and may have a large relative error.
    """
    weight = _relevance(mean, cov, noise)
    a = _common(cov, weight)
    var, E = _apart(cov, a)
    p, size = _series(mean, var, E, noise)
    doubt = _doubt(p, size, noise.smallest)
    again = doubt.any(1).nonzero()[0]
    if len(again):
        found, larger = _given_factor(mean[again], cov[again], a[again], weight[again], size[again].max(1), noise)
        doubts = _doubt(found, larger, noise.smallest)
        better = doubts.sum(1) <= doubt[again].sum(1)
        p[again[better]], doubt[again[better]] = found[better], doubts[better]
    return p, doubt


def _doubt(p, size, smallest):
    """(m, C) whether probabilities p are inaccurate, from the size of the last term of the series."""
    doubt = ~(size <= np.where(p > FLOOR, RELATIVE_TERM, RELATIVE_BELOW) * p) | (p < smallest)
    return doubt | ~(size <= LAST_TERM).all(1, keepdims=True)


def _given_factor(mean, cov, a, weight, largest, noise):
    """What `_series` returns, averaged over a common factor; not where this would not help."""
    b = _factor(cov, a, weight)
    rest = cov - b[:, :, None] * b[:, None]
    var, E = _apart(rest, _common(rest, weight))
    before, after = (np.einsum("icd,ic,id->i", x * x, weight**2, weight**2) for x in (_apart(cov, a)[1], E))
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


def _relevance(mean, cov, noise):
    """(m, C) weights of the values: roughly √(p (1 - p)) over the standard deviation."""
    var = np.einsum("icc->ic", cov)
    spread = var + var[:, :1] - 2 * cov[:, 0] + 2 * noise.width**2  # of the difference from the first
    p = ndtr((mean - mean[:, :1]) / np.sqrt(np.maximum(spread, 1e-100)))
    p[:, 0] = 0.5
    p /= p.sum(1, keepdims=True)
    beside = cov.mean(2)
    centred = var - 2 * beside + beside.mean(1, keepdims=True) + noise.width**2
    sd = np.sqrt(np.maximum(centred, 1e-6 * centred.max(1, keepdims=True) + 1e-200))
    weight = np.maximum(np.sqrt(p * (1 - p)), IRRELEVANT) / sd
    others = weight.sum(1, keepdims=True) - weight
    return np.minimum(weight, 0.8 * others)  # `_common` divides by their difference


def _common(cov, weight):
    """(m, C) a for which Σ_{c≠d} w_c w_d (V_cd - a_c - a_d)² is smallest, but no variance V_cc - 2 a_c is negative."""
    var, rest = np.einsum("icc->ic", cov), weight.sum(1, keepdims=True) - 2 * weight
    beside = np.matmul(cov, weight[..., None])[..., 0] - var * weight
    ratio = weight / rest
    A = (ratio * beside).sum(1, keepdims=True) / (1 + ratio.sum(1, keepdims=True))
    return np.minimum((beside - A) / rest, 0.5 * var)


def _apart(cov, a):
    """(m, C) variances and (m, C, C) covariances, with zeros on the diagonal, of values with the same differences."""
    E = cov - a[:, :, None]
    E -= a[:, None, :]
    diagonal = np.einsum("icc->ic", E)
    var = np.maximum(diagonal, 0.0)
    diagonal[...] = 0.0
    return var, E


def _factor(cov, a, weight):
    """(m, C) b for which b bᵀ is close to the covariances left, apart from their diagonal."""
    var, E = _apart(cov, a)
    E *= weight[:, :, None] * weight[:, None]
    squares = np.sum(E * E, axis=2)
    size = np.sqrt(squares.sum(1))[:, None, None] + 1e-300
    x = E[np.arange(len(E)), :, squares.argmax(1), None] / size
    for _ in range(POWERS):  # towards the largest eigenvalue, which is positive, because the trace is zero
        x = np.matmul(E, x) / size + 0.5 * x
        x /= np.sqrt(np.sum(x * x, axis=1, keepdims=True)) + 1e-300
    Ex, x = np.matmul(E, x)[..., 0], x[..., 0]
    off_diagonal = 1 - np.sum(x**4, axis=1)  # of x xᵀ, the sum of squares
    b = x * np.sqrt(np.maximum(np.sum(x * Ex, axis=1) / np.maximum(off_diagonal, 1e-3), 0.0))[:, None] / weight
    most = np.sqrt(MOST * var)
    return np.clip(b, -most, most)


def _series(mean, var, E, noise):
    """(m, C) probabilities for variances var and covariances E, and the size of the last term of the series.

    The size is infinite where too many nodes are needed.
    """
    p, size = np.zeros(mean.shape), np.full(mean.shape, np.inf)
    sd, narrow = REACH * np.sqrt(var), var.min(1)
    low = (mean - sd).max(1) - noise.below
    length = (mean + np.sqrt(sd * sd + noise.above**2)).max(1) - low
    longest = WIDEST * np.sqrt(narrow + noise.width**2)
    needed = np.where(longest > 0, 1 + length / np.maximum(longest, 1e-100), np.inf)
    least = np.array([mixture.least**2 for mixture in noise.mixtures])
    group = COUNTS.searchsorted(needed) + (len(COUNTS) + 1) * (least.searchsorted(narrow, side="right") - 1)
    for one in set(group.tolist()):
        kind, many = divmod(one, len(COUNTS) + 1)
        if many == len(COUNTS):
            continue
        rows, mixture, count = (group == one).nonzero()[0], noise.mixtures[kind], int(COUNTS[many])
        for some in blocks(len(rows), mean.shape[1] * count * (len(mixture.weight) + 3), BLOCK):
            at = rows[some]
            step = length[at] / (count - 1)
            x = low[at, None] + step[:, None] * np.arange(count)
            p[at], size[at] = _sums(_distribution(x, mean[at], var[at], mixture), E[at], step)
    return p, size


def _distribution(x, mean, var, mixture):
    """(m, C, Q) distribution function of each value plus noise at x (m, Q), its density, and two derivatives of that."""
    weight, shift, noise = (of[:, None, None] for of in mixture[:3])
    s = 1 / np.sqrt(var + noise)[..., None]  # (K, m, C, 1)
    z = x[:, None] * s
    z -= (mean + shift)[..., None] * s
    np.clip(z, -LIMIT, LIMIT, out=z)  # (K, m, C, Q)
    density = z * z
    density *= -0.5
    np.exp(density, out=density)
    rest = z * STEPS
    at = np.rint(rest)
    rest -= at
    rest *= density
    rest += TABLE.take(at.astype(np.intp))
    constant = (weight / np.sqrt(2 * np.pi))[..., None]
    density *= constant * s
    z *= s
    slope = z * density
    z *= slope
    z -= np.multiply(density, s * s, out=at)
    if len(s) > 1:
        rest *= constant
        return rest.sum(0) / STEPS, density.sum(0), -slope.sum(0), z.sum(0)
    return rest[0] * (constant[0] / STEPS), density[0], -slope[0], z[0]


def _sums(distribution, E, step):
    """(m, C) probabilities and the size of the second term, from the functions at the nodes.

    The size is at least what a second term p x²/2 would be after a first one p x, since it can vanish by chance.
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
