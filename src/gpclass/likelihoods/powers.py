"""Moments of N(f | mean, diag var) p(y | f)^power for several latent functions, by importance sampling around the mode.

Half of the points are quasi-random points of the Gaussian N, the other half of a Laplace approximation of the product. The
weight of a point is the product's density divided by that of the mixture of the two. So the points cover a product that is
much narrower than N (large powers) and one that is like N (small powers). Correlations between the latent values are
included.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from ..numerics import blocks, quasi_random_normal
from .tilted import Triple

POINTS_PER_DATUM = 512  # half of them for each component of the mixture
LAPLACE_WIDENING = 1.3  # factor of the standard deviations of the Laplace approximation, whose tails are too light
NEWTON_STEPS, LINE_SEARCH_STEPS = 30, 6  # largest numbers of steps in the search for the mode
MODE_TOL = 1e-8  # Newton step, in standard deviations, at which that search stops: small enough that results are smooth


class TiltedPoints(NamedTuple):
    """Points with normalised weights that represent the product."""

    log_mass: np.ndarray  # (n,)
    points: np.ndarray  # (n, K, C)
    weights: np.ndarray  # (n, K)
    slope: np.ndarray  # (n, K, C) of power × log p


def tilted_points(likelihood: Any, y: np.ndarray, power: np.ndarray, mean: np.ndarray, var: np.ndarray) -> TiltedPoints:
    """Return weighted points of N(mean, diag var) p(y | f)^power; mean and var (n, C), var positive."""
    C = mean.shape[1]
    mode, precision = laplace(likelihood, y, power, mean, var)
    root = np.linalg.cholesky(precision) / LAPLACE_WIDENING  # lower, root rootᵀ is the precision of the wider Gaussian
    x = quasi_random_normal(POINTS_PER_DATUM // 2, C)
    near = np.linalg.solve(np.swapaxes(root, 1, 2), np.broadcast_to(x.T, (len(mean), C, len(x))))
    f = np.concatenate([mode[:, None] + np.swapaxes(near, 1, 2), mean[:, None] + np.sqrt(var)[:, None] * x], axis=1)
    z = np.matmul(f - mode[:, None], root)
    log_near = np.sum(np.log(np.einsum("ncc->nc", root)), axis=1)[:, None] - 0.5 * np.sum(z**2, axis=2)
    log_prior = -0.5 * np.sum((f - mean[:, None]) ** 2 / var[:, None] + np.log(var)[:, None], axis=2)
    value, slope = likelihood.log_prob_slope(y[:, None], f)
    log_ratio = log_prior - np.logaddexp(log_near, log_prior)
    log_weights = power[:, None] * value + log_ratio
    total = logsumexp(log_weights, axis=1)
    log_mass = total - logsumexp(log_ratio, axis=1)  # exactly zero for power zero
    return TiltedPoints(log_mass, f, np.exp(log_weights - total[:, None]), power[:, None, None] * slope)


def power_moments(likelihood: Any, y: np.ndarray, power: np.ndarray, mean: np.ndarray, var: np.ndarray) -> Triple:
    """Return log ∫ N(f | mean, diag var) p(y | f)^power df (n,) and its first two derivatives (n, C) in the means."""
    value, slope, curvature = np.empty(len(mean)), np.empty(mean.shape), np.empty(mean.shape)
    for some in _row_blocks(mean):
        at = tilted_points(likelihood, y[some], power[some], mean[some], var[some])
        u = (at.points - mean[some, None]) / var[some, None]
        centre, pull = (np.einsum("nk,nkc->nc", at.weights, part) for part in (u, at.slope))
        u -= centre[:, None]
        by_moments = np.einsum("nk,nkc->nc", at.weights, u**2) - 1 / var[some]
        by_slopes = np.einsum("nk,nkc->nc", at.weights, u * at.slope)
        # two estimates of the curvature: the error of the first is relative to the width of the product, that of the second
        # to the slope
        left = np.clip(1 + var[some] * by_moments, 0.0, 1.0)  # variance of the product divided by that of N
        value[some] = at.log_mass
        slope[some] = left * pull + (1 - left) * centre
        curvature[some] = left * by_slopes + (1 - left) * by_moments
    return value, slope, curvature


def expected_under_power(likelihood: Any, y, power, mean, var, function: Any) -> np.ndarray:
    """Return the expectations (n,) of function(y (n, 1), f (n, K, C)) under the normalised product."""
    out = np.empty(len(mean))
    for some in _row_blocks(mean):
        at = tilted_points(likelihood, y[some], power[some], mean[some], var[some])
        out[some] = np.einsum("nk,nk->n", at.weights, function(y[some, None], at.points))
    return out


def _row_blocks(mean: np.ndarray) -> Any:
    """Return blocks of rows whose points fit into memory."""
    return blocks(len(mean), POINTS_PER_DATUM * mean.shape[1])


def laplace(likelihood: Any, y, power, mean, var) -> tuple[np.ndarray, np.ndarray]:
    """Return the mode (n, C) of the product and its precision (n, C, C) there, without positive curvatures of log p."""
    _, pull, _ = likelihood.tilted_moments(y, mean, var)
    f = mean + var * pull  # mean of N p: with label noise, the mean of N may lie where p is flat
    value, slope, precision = _log_product(likelihood, y, power, mean, var, f)
    for _ in range(NEWTON_STEPS):
        step = np.linalg.solve(precision, slope[:, :, None])[:, :, 0]
        if np.max(np.abs(step) / np.sqrt(var), initial=0.0) < MODE_TOL:
            break
        part = np.ones(len(f))
        for _ in range(LINE_SEARCH_STEPS):
            there = _log_product(likelihood, y, power, mean, var, f + part[:, None] * step)
            lower = ~(there[0] >= value - 1e-9 * np.abs(value))
            if not lower.any():
                break
            part = np.where(lower, 0.4 * part, part)
        f = f + part[:, None] * step
        value, slope, precision = _log_product(likelihood, y, power, mean, var, f)
    return f, precision


def _log_product(likelihood, y, power, mean, var, f):
    """Return log N p^power without constants, its gradient, and its negative Hessian with curvatures of at least 1/var."""
    value, slope, hessian = likelihood.log_prob(y, f)
    lead = (f - mean) / var
    size, axes = np.linalg.eigh(-power[:, None, None] * hessian)
    bend = np.matmul(axes * np.maximum(size, 0.0)[:, None], np.swapaxes(axes, 1, 2))
    return (
        power * value - 0.5 * np.sum(lead * (f - mean), axis=1),
        power[:, None] * slope - lead,
        bend + (1 / var)[:, :, None] * np.eye(f.shape[1]),
    )
