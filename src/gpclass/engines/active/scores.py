"""Scores of rows that could be included in an active set, exact and rough, and the sites that they would have.

A score is minus the information gain about a candidate's own latent value, and so about all: the smallest is best.
(Algorithm 1 as printed has argmax, which picks the least informative row.)

[SLH] Seeger, Lawrence & Herbrich, sections 3.2 and 4.2, algorithm 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...gaussian import Sites, matched_sites
from ...likelihoods.multiclass import own_first, restore_order
from ...likelihoods.tempered import Tempered, split_targets, tempered_targets
from ...numerics import CACHE, blocks
from ..full.independent_ep import inner_sites
from ..observations import Observed

SCORING_WIDTH = 8  # array entries per row during scoring
MODE_STEPS = 2  # Newton steps in a rough score
SCORES = ("information", "entropy")


def row_targets(y: Any) -> np.ndarray:
    """Return targets in the form of this package: with weights, records (y, power) of powers p(y | f)^weight (`Tempered`).

    The site of a row is set once, so a row of weight w is one row with the likelihood p^w, for any w.
    """
    return tempered_targets(y.y, y.weight) if isinstance(y, Observed) else y


def of_targets(likelihood, y: np.ndarray) -> Any:
    """Return the likelihood, or its powers if the targets are records."""
    return Tempered(likelihood) if y.dtype.names else likelihood


def tilted(likelihood, y: np.ndarray, mean: np.ndarray, var: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return log Z (m,), slopes and curvatures (m, C) in the means, for one or several latent functions."""
    if likelihood.n_latents > 1:
        return of_targets(likelihood, y).tilted_moments(y, mean, var)
    value, slope, curvature = of_targets(likelihood, y).tilted_moments(y, mean[:, 0], var[:, 0])
    return value, slope[:, None], curvature[:, None]


def exact_moments(likelihood, y: np.ndarray, mean: np.ndarray, var: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the slopes and curvatures (m, C) of log Z in the means."""
    if likelihood.n_latents > 1 or y.dtype.names:
        return tilted(likelihood, y, mean, var)[1:]
    slope, curvature = likelihood.tilted_slopes(y, mean[:, 0], var[:, 0])
    return slope[:, None], curvature[:, None]


def rough_moments(likelihood, y: np.ndarray, mean: np.ndarray, var: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the slopes and curvatures (m, C) for screening, at about a hundredth of the cost.

    For probit by two sweeps of EP on its contrasts; for other likelihoods with a `log_prob`, and with weights, by Laplace's
    method; otherwise exact.
    """
    if not likelihood.offers("contrast_factor") or y.dtype.names:
        rough = _at_mode if likelihood.offers("log_prob") else exact_moments
        return rough(likelihood, y, mean, var)
    mean, var = own_first(y, mean + likelihood.offset), own_first(y, var)
    factor, others = likelihood.contrast_factor(), var[:, 1:]
    sites, cavity = inner_sites(mean[:, :1] - mean[:, 1:], others, 1 + var[:, 0], factor, sweeps=2)
    pull = factor.tilted_moments(1.0, *cavity)[1]
    received = np.sum(sites.tau / (1 + others * sites.tau), axis=1, keepdims=True)  # precision of messages to f_y + noise
    tau = np.hstack([received / (1 + received), sites.tau / (1 + sites.tau * (cavity[1] - others))])
    slope = np.hstack([pull.sum(1, keepdims=True), -pull])
    return restore_order(y, slope), restore_order(y, -tau / (1 + tau * var))


def _at_mode(likelihood, y, mean, var):
    """Return the slopes and curvatures of log Z by Laplace's method, for each latent value of a row separately."""
    f = mean
    for _ in range(MODE_STEPS):
        slope, weight = _local(likelihood, y, f)
        f = mean + var * (slope + weight * (f - mean)) / (1 + var * weight)  # Newton's step for each latent value
    slope, weight = _local(likelihood, y, f)
    return slope, -weight / (1 + var * weight)


def _local(likelihood, y, f):
    """Return slope and negative curvature of log p for each latent value of a row; curvatures above zero count as zero."""
    y, power = split_targets(y)
    _, slope, hessian = likelihood.log_prob(y, f)
    weight = np.maximum(-np.einsum("mcc->mc", hessian), 0.0)
    return (slope, weight) if power is None else (power[:, None] * slope, power[:, None] * weight)


def scoring_blocks(n: int) -> Iterator[slice]:
    return blocks(n, SCORING_WIDTH, CACHE)


def log_masses(likelihood, y: np.ndarray, mean: np.ndarray, var: np.ndarray) -> float:
    """Return the sum of log Z of rows, given their cavities (m, C)."""
    masses = (tilted(likelihood, y[some], mean[some], var[some])[0] for some in scoring_blocks(len(y)))
    return sum(float(np.sum(part)) for part in masses)


def concave_sites(mean, var, slope, curvature) -> Sites:
    """Return the sites that give N(mean, var) the tilted moments. B.1; only the mean if the curvature is positive: (7)"""
    return matched_sites(mean, var, slope, np.minimum(curvature, 0.0))


def score(kind: str, var: np.ndarray, slope: np.ndarray, curvature: np.ndarray, threshold: float) -> np.ndarray:
    """Return the scores, smallest is best; infinite if an inclusion hardly reduces the variance, or increases it. (5)"""
    lost = var * curvature  # 1 + lost is the new variance divided by the old
    left = 1 + lost
    useless = ~((-lost > threshold * left) & (left > 0))  # τ var is not above the threshold
    if useless.any():
        lost[useless] = 0.0
    value = np.log1p(lost)
    if kind == "information":
        value -= lost
        value -= var * slope**2
    value *= 0.5
    value[useless] = np.inf
    return value
