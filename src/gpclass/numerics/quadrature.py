"""Nodes and weights for expectations under Gaussians.

gaussian_nodes        one dimension, a function with a feature of unit width near a known point
nodes_about           the same for a feature of any width
hermite_nodes         several dimensions, a smooth function: the product of Gauss–Hermite rules
quasi_random_normal   several dimensions, if there are many of them or the function is not smooth

Fixed Gauss–Hermite rules fail if the Gaussian is much wider than the feature (a sigmoid under a variance of e⁸). So
`gaussian_nodes` uses the trapezoid rule, which is exponentially accurate for analytic functions, in a variable that resolves
both scales: u with f = centre + 3 sinh u for a wide Gaussian that covers the feature, and (f - mean)/sd otherwise.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import scipy
from scipy.special import ndtri

NODE_REACH = 7.8  # standard deviations that the nodes cover on each side: the mass beyond is 6e-15
FEATURE_REACH = 8.5  # the Gaussian covers the feature if it is at most this many standard deviations from the mean
# Step of the plain rule, in standard deviations. Log-sigmoids are analytic within 2.8, so the error is
# exp(-2π·2.8/(0.5·1.2)) = 2e-13
PLAIN_STEP = 0.5
# Step of the sinh rule in u, divided by 1 + SINH_SHRINK k if the mean is k standard deviations from the centre. On the line
# Im u = b < π/4 such a Gaussian grows like exp(½ k² sin²b / cos 2b). The error of the rule is the minimum over b of that
# times exp(-2π b / step): 1e-14
SINH_STEP = 0.15
SINH_SHRINK = 0.15
FINE_STEP = 0.08  # step of `nodes_about`, where the width of the feature is known only roughly
SINH_SCALE = 3.0
WIDE_SD = 1.2  # standard deviation, in units of the feature, above which the sinh rule is used


def gaussian_nodes(mean: np.ndarray, var: np.ndarray, centre: float | np.ndarray = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights such that Σ_q weights g(nodes) = E[g(f)], f ~ N(mean, var).

    Rows with a wide Gaussian use the sinh rule, other rows the plain rule. All rows have q nodes, enough for the widest.

    Parameters
    ----------
    mean, var : ndarray of shape (n,)
        Means and variances. Other shapes are allowed.
    centre : float or ndarray of shape (n,), default=0.0
        Where g has its feature of unit width. Elsewhere g may grow like a polynomial.

    Returns
    -------
    nodes, weights : ndarray of shape (n, q)
    """
    mean, var = np.broadcast_arrays(np.asarray(mean, float), np.asarray(var, float))
    sd = np.sqrt(var)
    offset = mean - centre
    wide = (sd > WIDE_SD) & (np.abs(offset) < FEATURE_REACH * sd)
    with np.errstate(over="ignore"):
        low, high = offset - NODE_REACH * sd, offset + NODE_REACH * sd
        u_low = np.where(wide, np.arcsinh(low / SINH_SCALE), -NODE_REACH)
        u_high = np.where(wide, np.arcsinh(high / SINH_SCALE), NODE_REACH)
    distance = np.where(wide, np.abs(offset), 0.0) / np.where(wide, sd, 1.0)
    step = np.where(wide, SINH_STEP / (1 + SINH_SHRINK * distance), PLAIN_STEP)
    q = int(np.max(np.ceil((u_high - u_low) / step), initial=1.0)) + 1
    step = (u_high - u_low) / (q - 1) if q > 1 else u_high - u_low
    u = u_low[..., None] + step[..., None] * np.arange(q)
    # both rules use z = (f - mean)/sd, so that no digits are lost if sd << |mean|
    safe_sd = np.where(sd > 0, sd, 1.0)[..., None]
    capped = np.where(wide[..., None], u, 0.0)
    z = np.where(wide[..., None], (SINH_SCALE * np.sinh(capped) - offset[..., None]) / safe_sd, u)
    slope = np.where(wide[..., None], SINH_SCALE * np.cosh(capped) / safe_sd, 1.0)
    weights = np.exp(-0.5 * z * z) * slope
    weights /= weights.sum(-1, keepdims=True)  # also corrects for the mass beyond NODE_REACH
    return mean[..., None] + sd[..., None] * z, weights


def nodes_about(
    centre: np.ndarray, width: np.ndarray, mode: np.ndarray, mean: np.ndarray, var: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and log weights such that Σ_q exp(log weights) g(nodes) = E[g(f)], f ~ N(mean, var).

    For functions with a feature of any width. The rule is in u with f = centre + 3 width sinh u, which resolves all scales
    from the feature to the Gaussian.

    Parameters
    ----------
    centre, width : ndarray of shape (n,)
        Where g has its feature, and its width. A width above the Gaussian's is reduced to it.
    mode : ndarray of shape (n,)
        Where g times the Gaussian has its maximum. The nodes cover 7.8 standard deviations on each side.
    mean, var : ndarray of shape (n,)
        The Gaussian.

    Returns
    -------
    nodes, log_weights : ndarray of shape (n, q)
    """
    sd = np.maximum(np.sqrt(var), np.finfo(float).tiny)
    scale = SINH_SCALE * np.minimum(width, sd)
    low, high = (np.arcsinh((mode + side * NODE_REACH * sd - centre) / scale) for side in (-1, 1))
    q = int(np.max(np.ceil((high - low) / FINE_STEP), initial=1.0)) + 1
    step = (high - low) / (q - 1)
    u = low[:, None] + step[:, None] * np.arange(q)
    nodes = centre[:, None] + scale[:, None] * np.sinh(u)
    z = (nodes - mean[:, None]) / sd[:, None]
    log_slope = np.log(np.cosh(u)) + np.log(scale * step / sd)[:, None]
    return nodes, log_slope - 0.5 * z**2 - 0.5 * np.log(2 * np.pi)


def nodes_between(
    low: np.ndarray, high: np.ndarray, mean: np.ndarray, var: np.ndarray, count: int = 3000
) -> tuple[np.ndarray, np.ndarray]:
    """Return `count` equidistant nodes and their log weights for expectations under N(mean, var), (n, count) each."""
    sd = np.maximum(np.sqrt(var), np.finfo(float).tiny)
    nodes = low[:, None] + (high - low)[:, None] * np.linspace(0, 1, count)
    z = (nodes - mean[:, None]) / sd[:, None]
    return nodes, np.log((high - low) / ((count - 1) * sd))[:, None] - 0.5 * z**2 - 0.5 * np.log(2 * np.pi)


def hermite_nodes(count: int, dimension: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes (q, dimension) and log weights (q,) for expectations under N(0, I), with `count` nodes per dimension."""
    x, w = np.polynomial.hermite_e.hermegauss(count)
    index = np.indices((count,) * dimension).reshape(dimension, count**dimension).T
    return x[index], np.log(w / w.sum())[index].sum(1)


@lru_cache(maxsize=16)
def quasi_random_normal(count: int, dimension: int) -> np.ndarray:
    """Return (count, dimension) quasi-random standard normal points in pairs ±x. They are the same in every call."""
    half = ndtri(scipy.stats.qmc.Sobol(dimension, rng=np.random.default_rng(0)).random(count // 2))
    return np.concatenate([half, -half])
