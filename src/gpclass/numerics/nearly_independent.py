"""The largest of jointly Gaussian values whose differences are nearly those of independent ones.

Differences of the values do not change if a_c + a_d is subtracted from each covariance V_cd. With the a that leave the
smallest covariances between different values, those of the classes of a Gaussian process classifier are nearly independent:
correlations of 0.01 to 0.1 are usual. For independent values the probability that value k is the largest is an integral over
that value,

    p_k = ∫ φ_k ∏_{j≠k} Φ_j dx

and the covariances E that are left enter by their derivatives, dp_k/dE_cd = ∂²p_k/∂m_c∂m_d (Plackett 1954), which are
integrals at the same nodes. The series in E is taken to the second order; its second term says where it is not accurate.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

NODES = 48  # of the trapezoid rule
REACH = 7.0  # standard deviations that the rule covers; the largest value is outside with a probability of 1e-12
WIDEST = 0.65  # step of the rule at most, in standard deviations of the narrowest value
LEAST_CDF = 1e-250  # Φ is not taken smaller, so that quotients stay finite
NORMALISER = 1 / np.sqrt(2 * np.pi)


def nearly_independent(mean: np.ndarray, cov: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(m, C) probability that each is the largest, and the second term of the series in it. C is at least three.

    The terms are infinite in rows for which the nodes are too few, or for which no a leaves positive variances.
    """
    var, E = _apart(cov)
    usable = np.all(var > 0, axis=1)
    sd = np.sqrt(np.where(usable[:, None], var, 1.0))
    low, high = np.max(mean - REACH * sd, axis=1), np.max(mean + REACH * sd, axis=1)
    step = (high - low) / (NODES - 1)
    usable &= step <= WIDEST * sd.min(1)
    z = (low[:, None] - mean)[..., None] + step[:, None, None] * np.arange(NODES)
    z /= sd[..., None]
    z = np.where(usable[:, None, None], z, 0.0)  # (m, C, Q)
    cdf = np.maximum(ndtr(z), LEAST_CDF)
    hazard = np.exp(-0.5 * z * z)
    hazard *= (NORMALISER / sd)[..., None]
    hazard /= cdf
    z /= sd[..., None]
    first, second = _terms(hazard, z, (1 / sd**2)[..., None], E)
    weight = hazard * (np.multiply.reduce(cdf, axis=1) * step[:, None])[:, None]
    p = np.sum(weight * (1 + first + second), axis=2)
    return p, np.where(usable[:, None], np.sum(weight * second, axis=2), np.inf)


def _apart(cov):
    """(m, C) variances and (m, C, C) covariances, with zeros on the diagonal, of values with the same differences.

    Off the diagonal V_cd - a_c - a_d has the least sum of squares.
    """
    C = cov.shape[1]
    var = np.einsum("icc->ic", cov)
    beside = np.sum(cov, axis=2) - var
    a = (beside - np.sum(beside, axis=1, keepdims=True) / (2 * (C - 1))) / (C - 2)
    E = cov - a[:, :, None]
    E -= a[:, None, :]
    np.einsum("icc->ic", E)[...] = 0.0
    return var - 2 * a, E


def _terms(r, t, precision, E):
    """First and second term of the series for each k (m, C, Q), relative to φ_k ∏_{j≠k} Φ_j.

    r = φ/Φ, t = (x - m)/var. A factor Φ_j has the derivatives a and b in its mean, relative to itself, and the factor φ_k
    has a + α and b + β. A term of second order contains two covariances; where they share a value, b takes the place of a².
    """
    a, b, squared = -r, -t * r, r * r
    alpha, beta = t + r, t * t - precision - b
    u = np.matmul(E, a)
    first = 0.5 * np.sum(a * u, axis=1)[:, None] + alpha * u
    E2, bend = E * E, b - squared
    v = np.matmul(E2, squared)
    own = u * u - v
    raised = t * t - squared  # (a + α)² - a²
    # of all pairs of covariances; of those with one value in common; of a covariance with itself
    second = first * first
    second += np.sum(bend * own, axis=1)[:, None] + (beta - raised) * own
    second += 2 * alpha * np.matmul(E, bend * u) + (alpha * alpha - raised) * np.matmul(E2, bend)
    E2b = np.matmul(E2, b)
    second += 0.5 * np.sum(b * E2b - squared * v, axis=1)[:, None] + beta * E2b - raised * v
    return first, 0.5 * second
