"""E[log p(y | f)] for latent values that are independent of each other, f_c ~ N(mean_c, var_c), and its derivatives."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..likelihoods import MultinomialProbit, RobustMax, Softmax
from ..likelihoods.multiclass import _nodes, own_first, restore_order
from ..likelihoods.robust_max import positive
from ..likelihoods.softmax import normalise
from ..numerics import gaussian_nodes, hazard_curvature, largest, log_ndtr_and_hazard

NODES = 256  # of the quasi-random rule for softmax
BLOCK = 1 << 16  # numbers in an array of them: stays in a core's cache


class Expected(NamedTuple):
    """E[log p], and its derivatives."""

    value: np.ndarray  # (m,)
    slope: np.ndarray  # (m, C) in the means
    curvature: np.ndarray  # (m, C) second derivatives, twice those in the variances
    theta: np.ndarray  # (p,) in the likelihood's parameters, summed over rows


def expected_log_prob(likelihood: Any, y: np.ndarray, mean: np.ndarray, var: np.ndarray) -> Expected:
    """From mean and var (m, C)."""
    if likelihood.n_latents == 1:
        value, slope, curvature = likelihood.expected_log_prob(y, mean[:, 0], var[:, 0])
        few = len(likelihood.theta)
        theta = likelihood.expected_log_prob_theta(y, mean[:, 0], var[:, 0]).sum(1) if few else np.zeros(0)
        return Expected(value, slope[:, None], curvature[:, None], theta)
    for kind, answer in ((RobustMax, _robust_max), (Softmax, _softmax), (MultinomialProbit, _multinomial_probit)):
        if isinstance(likelihood, kind):
            return answer(likelihood, y, mean, var)
    raise TypeError(
        f"E[log p] of {type(likelihood).__name__} under independent latent values is not known. Likelihoods that serve: "
        "RobustMax, Softmax, MultinomialProbit."
    )


def _robust_max(likelihood, y, mean, var):
    """log p takes two values: E is linear in the probability of the better one."""
    var = positive(own_first(y, var))
    at = largest(own_first(y, mean + likelihood.offset), var)
    C, eps = likelihood.n_classes, likelihood.epsilon
    wrong = np.log(eps / (C - 1))
    gain, p = np.log1p(-eps) - wrong, np.exp(at.log_mass)[:, None]
    slope = restore_order(y, gain * p * at.slope)
    curvature = restore_order(y, gain * p * (at.slope**2 - at.known / var))
    theta = likelihood.theta_gradient(slope.sum(0))
    if likelihood.learn_epsilon:
        theta = np.append(theta, np.sum(1 - p) - np.sum(p) * eps / (1 - eps))
    return Expected(wrong + gain * p[:, 0], slope, curvature, theta)


def _softmax(likelihood, y, mean, var):
    """By a quasi-random rule on all but the linear part, the same for every row."""
    C = likelihood.n_classes
    nodes = np.ascontiguousarray(_nodes(NODES, C).T)[:, None]  # (C, 1, nodes)
    rule = np.stack([np.full((C, NODES), 1 / NODES), nodes[:, 0] / NODES], axis=2)  # for E[p] and E[p times node]
    value, slope, curvature = np.empty(len(y)), np.empty(mean.shape), np.empty(mean.shape)
    size = max(1, BLOCK // (NODES * C))
    for i in range(0, len(y), size):
        some = slice(i, i + size)
        sd = np.sqrt(np.maximum(var[some], 1e-200))
        p = sd.T[:, :, None] * nodes  # (C, rows, nodes), and in place from f to probabilities
        p += (mean[some] + likelihood.offset).T[:, :, None]
        value[some] = normalise(p, axis=0).mean(1)
        first, second = np.moveaxis(np.matmul(p, rule), 2, 0)
        slope[some] = first.T
        # twice the derivative of the rule in the variances: the rule's bound has the derivatives that it is climbed by
        curvature[some] = -second.T / sd
    own = y[:, None] == np.arange(C)
    value = np.sum(mean + likelihood.offset, axis=1, where=own) - value
    slope = own - slope
    return Expected(value, slope, curvature, likelihood.theta_gradient(slope.sum(0)))


def _multinomial_probit(likelihood, y, mean, var):
    """Σ_c E[log P(x_y > x_c | f)], a lower bound: the events share x_y and are positively dependent."""
    mean_first, var_first = own_first(y, mean + likelihood.offset), own_first(y, var)
    scale = np.sqrt(2 * likelihood.noise)
    lead = (mean_first[:, :1] - mean_first[:, 1:]) / scale
    nodes, weights = gaussian_nodes(lead, (var_first[:, :1] + var_first[:, 1:]) / scale**2)
    log_p, ratio = log_ndtr_and_hazard(nodes)
    pull = np.einsum("icq,icq->ic", weights, ratio) / scale
    bend = -np.einsum("icq,icq->ic", weights, hazard_curvature(nodes, ratio)) / scale**2
    slope = restore_order(y, np.column_stack([pull.sum(1), -pull]))
    curvature = restore_order(y, np.column_stack([bend.sum(1), bend]))
    value = np.einsum("icq,icq->i", weights, log_p)
    return Expected(value, slope, curvature, likelihood.theta_gradient(slope.sum(0)))
