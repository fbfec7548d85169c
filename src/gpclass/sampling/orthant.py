"""Evidence of probit models as a Gaussian orthant probability, by minimax exponential tilting.

With independent noise on each latent value, a label of a probit model is a comparison of Gaussians, so Z = P(g > lower) for
a Gaussian vector g: one dimension per datum, or C - 1 of them for C classes. Genz's transformation draws g coordinate by
coordinate, each truncated given the previous ones. Tilting the proposal makes the weights nearly constant (Botev 2017: the
relative error stays bounded). The points are scrambled Sobol points, and independent scramblings give the standard error.

[B] Botev 2017, The normal law under linear restrictions.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import scipy
from scipy.linalg import LinAlgWarning, solve
from scipy.special import ndtri_exp

from ..engines.contract import require
from ..engines.fit import check_observed
from ..engines.observations import Observed, whole_copies
from ..likelihoods import MultinomialProbit, Probit
from ..numerics import hazard, hazard_curvature, log_ndtr
from ..progress import phase, shown
from .target import generator

MAX_NEWTON_STEPS = 200  # for the tilt; a dozen usually suffice
MAX_DIMENSIONS = 1024  # of the orthant


@dataclass(frozen=True)
class OrthantEvidence:
    """log Z of a probit model.

    Attributes
    ----------
    log_evidence : float
        The estimate of log Z.
    standard_error : float
        Standard error of `log_evidence`, from independent repetitions.
    n_dimensions : int
        Dimension of the orthant.
    """

    log_evidence: float
    standard_error: float
    n_dimensions: int

    def __repr__(self) -> str:
        return f"log Z = {self.log_evidence:.5f} ± {self.standard_error:.1g}  (orthant of {self.n_dimensions} dimensions)"


def orthant_evidence(
    K: np.ndarray,
    y: Any,
    likelihood: Any = None,
    *,
    n_samples: int = 4096,
    n_repeats: int = 12,
    random_state: Any = 0,
    verbose: int = 0,
) -> OrthantEvidence:
    """Estimate log Z under Probit or MultinomialProbit.

    The orthant has n dimensions for Probit and n (C - 1) for MultinomialProbit. A few hundred dimensions are practical.

    Parameters
    ----------
    K : ndarray of shape (n, n) or (C, n, n)
        Prior covariance, or one per class.
    y : ndarray of shape (n,) or Observed
        Labels: -1 and +1 for Probit, 0 … C-1 for MultinomialProbit; with weights as `Observed`, which must be whole numbers.
    likelihood : Probit or MultinomialProbit, optional
        By default chosen from the labels.
    n_samples : int, default=4096
        Number of quasi-random points per repetition, a power of two.
    n_repeats : int, default=12
        Number of repetitions.
    random_state : int, Generator, RandomState or None, default=0
        Seed or source of random numbers.
    verbose : int, default=0
        1 shows the progress on stderr.

    Returns
    -------
    OrthantEvidence
    """
    whole = isinstance(n_repeats, Integral) and isinstance(n_samples, Integral)
    if not whole or n_repeats < 2 or n_samples < 2 or n_samples & (n_samples - 1):
        raise ValueError(f"n_samples must be a power of two and n_repeats at least 2, but they are {n_samples}, {n_repeats}")
    if likelihood is None:
        labels = np.asarray(y)
        if not (np.issubdtype(labels.dtype, np.number) and np.all(np.isfinite(labels))):
            raise ValueError("labels must be -1 and +1, or integers from 0; GPClassifier takes labels of any type")
        likelihood = Probit() if np.any(labels < 0) else MultinomialProbit(max(2, int(labels.max(initial=1)) + 1))
    require(likelihood, ("orthant",), "orthant_evidence")
    K, y = _copied(*check_observed(K, y, likelihood, "orthant_evidence"))
    covariance, lower = likelihood.orthant(y, K)
    if len(lower) > MAX_DIMENSIONS:
        raise ValueError(f"{len(lower)} dimensions are too many for an orthant probability (at most {MAX_DIMENSIONS})")
    with shown(verbose), phase("orthant probability"):
        log_p, error = log_orthant(covariance, lower, n_samples, n_repeats, generator(random_state))
    if error > 0.1:
        warnings.warn(
            f"orthant_evidence: the standard error is {error:.2g}; raise n_samples ({n_samples})", UserWarning, stacklevel=2
        )
    return OrthantEvidence(log_p, error, len(lower))


def _copied(K, y):
    """Return K and labels with a row for each copy of each observation."""
    copies = whole_copies(y)
    if copies is None:
        raise TypeError("orthant_evidence needs weights that are whole numbers; use annealed_importance")
    if not isinstance(y, Observed):
        return K, y
    rows = copies if y.place is None else y.place[copies]
    return K[..., rows[:, None], rows], y.y[copies]


def log_orthant(covariance, lower, n_samples, n_repeats, rng) -> tuple[float, float]:
    """Return log P(g > lower) for g ~ N(0, covariance), and its standard error."""
    L, lower = _ordered_root(covariance, lower)
    D = np.diagonal(L)
    ratio, lower = np.tril(L, -1) / D[:, None], lower / D  # g > lower means x_k > lower_k - Σ_j ratio_kj x_j for all k
    tilt = _tilt(ratio, lower)
    means = np.array(
        [
            _repetition(ratio, lower, tilt, scipy.stats.qmc.Sobol(len(lower), rng=rng).random(n_samples).T)
            for _ in range(n_repeats)
        ]
    )
    top = means.max()
    p = np.exp(means - top)
    return float(top + np.log(p.mean())), float(p.std(ddof=1) / np.sqrt(n_repeats) / p.mean())


def _repetition(ratio, lower, tilt, uniform):
    """Return the log of the mean weight over the points `uniform` (d, S)."""
    d, S = uniform.shape
    x, log_weight = np.zeros((d, S)), np.zeros(S)
    for k in range(d):  # sequential: the limit of each coordinate depends on the previous ones
        limit = lower[k] - ratio[k, :k] @ x[:k] - tilt[k]
        tail = log_ndtr(-limit)
        x[k] = tilt[k] - ndtri_exp(np.log(np.maximum(uniform[k], 1e-300)) + tail)
        log_weight += tail + tilt[k] * (0.5 * tilt[k] - x[k])
    return np.logaddexp.reduce(log_weight) - np.log(S)


def _ordered_root(A, lower):
    """Return the Cholesky factor with reordered coordinates, and the limits in that order. [B] section 4

    The next coordinate is always the least likely one, given the expected values of the previous ones.
    """
    A, lower = A.copy(), np.array(lower, float)
    d = len(A)
    L, expected = np.zeros((d, d)), np.zeros(d)
    for k in range(d):
        left = np.maximum(np.diagonal(A)[k:] - np.sum(L[k:, :k] ** 2, axis=1), 1e-300)
        limit = (lower[k:] - L[k:, :k] @ expected[:k]) / np.sqrt(left)
        j = k + int(np.argmin(log_ndtr(-limit)))
        A[[k, j]] = A[[j, k]]
        A[:, [k, j]] = A[:, [j, k]]
        L[[k, j]], lower[[k, j]] = L[[j, k]], lower[[j, k]]
        L[k, k] = np.sqrt(left[j - k])
        L[k + 1 :, k] = (A[k + 1 :, k] - L[k + 1 :, :k] @ L[k, :k]) / L[k, k]
        expected[k] = hazard(-limit[j - k])
    return L, lower


def _tilt(ratio, lower):
    """Return the tilt at the saddle point of [B] (8): the maximum of the log weight over x, the minimum over the tilt.

    Its two conditions are tilt = ratioᵀ h and x = tilt + h with h = hazard(z), z = tilt - lower + ratio x. So z solves
    A h - lower - z = 0 with A = (I + ratio)(I + ratio)ᵀ - I. The left side is the gradient in h of the convex function
    ½ hᵀAh - lowerᵀh - zᵀh + Σ log Φ(z). It is minimised by Newton steps in z, shortened until the function decreases.
    """
    n = len(lower)
    unit = ratio + np.eye(n)
    A = unit @ unit.T - np.eye(n)

    def objective(z):
        h = hazard(z)
        return float(0.5 * h @ A @ h - (lower + z) @ h + np.sum(log_ndtr(z)))

    z = -lower
    value = objective(z)
    for _ in range(MAX_NEWTON_STEPS):
        h = hazard(z)
        residual = A @ h - lower - z
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LinAlgWarning)  # the weights are correct for any tilt
            step = solve(np.eye(n) + A * hazard_curvature(z, h), residual)
        share = 1.0
        while objective(z + share * step) > value + 1e-12 * (1 + abs(value)) and share > 1e-8:
            share *= 0.5
        z, value = z + share * step, objective(z + share * step)
        if np.max(np.abs(share * step)) <= 1e-8 * (1 + np.max(np.abs(z))):
            return ratio.T @ hazard(z)
    raise FloatingPointError("no tilt was found for this orthant: are some variances infinite or zero?")
