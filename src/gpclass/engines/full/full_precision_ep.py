"""EP for multinomial probit with site precisions that match all tilted covariances of a datum's classes (Q5, Q10).

The moments are those of `quadrature_ep`: with the contrasts g = B f + u of a datum, f ~ N(μ, S) its cavity, log Ẑ has the
slope Bᵀs in μ and the Hessian -BᵀDB. The site that gives the cavity the tilted mean and covariance of f has

    W = Bᵀ (I - D BSBᵀ)⁻¹ D B        slope Bᵀs at the tilted mean μ + S Bᵀs

which is the full Λ of [RJV] (19) with u integrated out. It is not of the form diag(π) - ππᵀ/(1ᵀπ), so the dense system of
n (C - 1) rows takes the place of C + 1 factorisations of n × n. All moments are matched, so the evidence is stationary.

[RJV] Riihimäki, Jylänki & Vehtari 2013, sections 3.3 and 5.1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...gaussian import DenseCoupledPosterior, Sites, other_classes
from ...numerics import anderson
from ..class_precisions import is_moderate, precision_move
from ..climb import MixedSteps
from ..iterate import Status, ending, require_finite, stands_still

Moments = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]


def contrast_maps(y: np.ndarray, n_classes: int) -> np.ndarray:
    """Return B (n, C - 1, C) of each datum: own class minus each other class."""
    rows, others = np.arange(len(y)), other_classes(y, n_classes)
    B = np.zeros((len(y), n_classes - 1, n_classes))
    B[rows, :, y] = 1.0
    B[rows[:, None], np.arange(n_classes - 1), others] = -1.0
    return B


def matched_precisions(B: np.ndarray, moments: Moments, mean: np.ndarray, cov: np.ndarray) -> tuple[np.ndarray, Sites]:
    """Return log masses (n,), and the sites that give cavities N(mean, cov), (n, C) and (n, C, C), their tilted moments."""
    Bt = np.swapaxes(B, 1, 2)
    inner = B @ cov @ Bt
    log_mass, slope, lost = moments(np.einsum("ijc,ic->ij", B, mean), inner + 1.0)
    lost = 0.5 * (lost + np.swapaxes(lost, 1, 2))
    pull = np.einsum("ijc,ij->ic", B, slope)
    X = np.linalg.solve(np.eye(inner.shape[1]) - lost @ inner, lost)
    W = Bt @ (0.5 * (X + np.swapaxes(X, 1, 2))) @ B
    tilted_mean = mean + np.einsum("icd,id->ic", cov, pull)
    return log_mass, Sites(W, pull + np.einsum("icd,id->ic", W, tilted_mean))


def full_evidence(q: DenseCoupledPosterior, log_mass: np.ndarray, mean: np.ndarray, cov: np.ndarray) -> float:
    """Return the log evidence; each site is scaled so that its cavity N(mean, cov) keeps the tilted mass. [RJV] (28)"""
    W, nu = q.precision, q.sites.nu
    grown = np.eye(W.shape[1]) + cov @ W
    settled = np.linalg.solve(grown, (mean + np.einsum("icd,id->ic", cov, nu))[..., None])[..., 0]
    pulled = nu - np.einsum("icd,id->ic", W, settled)
    local = 0.5 * np.sum(nu * settled + mean * pulled, axis=1) - 0.5 * np.linalg.slogdet(grown)[1]
    partition = 0.5 * float(np.sum(nu * q.mean)) - 0.5 * q.log_det
    return partition + float(np.sum(log_mass - local))


def fit_full(engine: Any, K: np.ndarray, y: np.ndarray, n_classes: int, moments: Moments, start: Sites | None) -> Any:
    """Return the posterior, how the run ended, and the evidence.

    All sites are updated together. Moves are measured in posterior standard deviations, damped if they grow, and mixed
    (Anderson) near convergence.
    """
    B = contrast_maps(y, n_classes)
    if start is None:
        prior = DenseCoupledPosterior(K, np.zeros((len(y), n_classes, n_classes - 1)), np.zeros((len(y), n_classes)))
        start = matched_precisions(B, moments, prior.mean, prior.prior_cov)[1]
    q, steps = DenseCoupledPosterior.from_sites(K, start), MixedSteps(engine.damping)
    for sweep in range(1, engine.max_iter + 1):
        cavity = q.cavity()
        log_mass, wanted = matched_precisions(B, moments, *cavity)
        change = moved(q, wanted)
        require_finite(engine, change, q.prior_cov)
        if stands_still(q, change, engine.tol) or sweep == engine.max_iter:
            break
        steps.record(packed(q.sites), packed(wanted), change)
        q = DenseCoupledPosterior.from_sites(K, mixed(q, steps))
    status: Status = ending(q, sweep, change, engine.tol)
    return q, status, full_evidence(q, log_mass, *cavity)


def moved(q: DenseCoupledPosterior, wanted: Sites) -> float:
    """Return the move to new sites in posterior standard deviations: of the mean, and of any marginal covariance."""
    missing = wanted.nu - np.einsum("icd,id->ic", wanted.tau, q.mean) - q.alpha
    gap = np.sqrt(abs(np.sum(missing * q.system.solve(missing)[1])))
    return float(np.maximum(gap, precision_move(q, wanted.tau)))


def packed(sites: Sites) -> np.ndarray:
    """Return sites as one array (n, C, C + 1)."""
    return np.concatenate([sites.tau, sites.nu[:, :, None]], axis=2)


def mixed(q: DenseCoupledPosterior, steps: MixedSteps) -> Sites:
    """Return the next sites: a damped step, or a mix of the last sweeps."""
    points, goals = np.moveaxis(np.array(steps.seen), 1, 0)
    residuals = goals - points
    plain = points[-1] + steps.part * residuals[-1]
    if len(points) > 1:
        width = np.sqrt(np.einsum("icc->ic", q.contrast_cov))
        mean_part = residuals[..., -1] - np.einsum("kicd,id->kic", residuals[..., :-1], q.mean)
        measured = residuals * width[:, :, None]
        measured[..., :-1] *= width[:, None, :]
        measured[..., -1] = mean_part * width
        trial = anderson(points, residuals, steps.part, measured)
        plain = np.where(is_moderate(trial[:, :, :-1], plain[:, :, :-1]), trial, plain)
    return Sites(plain[:, :, :-1], plain[:, :, -1])
