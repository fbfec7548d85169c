"""Integration over hyperparameters: a central composite design around their mode, weighted by evidence times prior.

The log posterior of θ is expanded to second order at its mode θ*. In standardised coordinates z, θ = θ* + root z, the design
has the centre, two points on each axis and, in few dimensions, all corners of a cube, all but the centre on a sphere of
radius f √p. With the weights below, a rule with these points is exact for 1 and zᵀz under a standard normal density; each
weight is multiplied by the ratio of the true density to the normal one. In each direction the axes are stretched to fit
the drop of the log posterior, which need not be symmetric.

[RMC] Rue, Martino & Chopin 2009, Approximate Bayesian inference for latent Gaussian models by using integrated nested
Laplace approximations, section 6.5.   [V] Vanhatalo, Pietiläinen & Vehtari 2010, Approximate inference for disease mapping
with sparse Gaussian processes.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from .learned import Learned
from .members import Member, Mixture
from .objective import FAILURES, SEARCH_TOL, Evaluation, Objective

RADIUS = 1.1  # f: radius of the design, divided by √p
CORNERS = 4  # largest number of directions for which the design has corners
MOST_DIRECTIONS = 12  # only the least certain directions are used; θ stays at its mode along the others
DIFFERENCE = 0.05  # step of the differences of gradients, in log parameters
WIDEST_SD = 2.0  # largest standard deviation of a direction, in log parameters
STRETCH_LIMITS = 0.5, 2.0  # limits of the stretching of an axis
LEAST_POINT_WEIGHT = 1e-3  # members of smaller weight are dropped


def integrated(objective: Objective, learned: Learned) -> Mixture:
    """Return posteriors at the points of a design around the mode, with their weights.

    Parameters
    ----------
    objective : Objective
        The objective, for an engine that uses all rows.
    learned : Learned
        The result of its maximisation.

    Returns
    -------
    Mixture
    """
    mode = objective.fit(learned.theta, learned.posterior)
    root = directions(objective, mode)
    design = central_composite(root.shape[1])
    stretches = _stretches(objective, mode, root)
    members, logs = [], []
    for z in design:
        theta = mode.theta + root @ (z * np.where(z > 0, stretches[1], stretches[0]))
        found = mode if not z.any() else _fit(objective, theta, mode, tol=0.0)
        if found is not None:
            members.append(found)
            logs.append(_log_weight(z, len(design), found.value - mode.value) + _log_volume(z, stretches))
    weights = np.exp(logs - np.max(logs))
    weights /= weights.sum()
    kept = weights >= LEAST_POINT_WEIGHT
    weights /= weights[kept].sum()
    made = [Member(float(w), e.kernel, e.fit, objective.X) for w, e, k in zip(weights, members, kept, strict=True) if k]
    return Mixture.of(made, integrated=True)


def central_composite(p: int) -> np.ndarray:
    """Return the points (N, p) of the design: the centre, two on each axis, and the corners if there are few dimensions."""
    radius = RADIUS * np.sqrt(p)
    axes = radius * np.concatenate([np.eye(p), -np.eye(p)])
    corners = RADIUS * np.array(list(product([-1.0, 1.0], repeat=p))) if 1 < p <= CORNERS else np.zeros((0, p))
    return np.concatenate([np.zeros((1, p)), axes, corners])


def _log_weight(z: np.ndarray, n_points: int, drop: float) -> float:
    """Return the log weight of a point, up to a common constant; `drop` is its log density minus that of the mode.

    The centre has 1 - 1/f² of the mass of a normal density, and the others share 1/f² equally.
    """
    if not z.any():
        return float(np.log(1 - RADIUS**-2))
    return float(-2 * np.log(RADIUS) - np.log(n_points - 1) + 0.5 * z @ z + drop)


def _log_volume(z: np.ndarray, stretches: np.ndarray) -> float:
    """Return the log of the volume of θ per volume of z; on the border between two sides, of their average."""
    sides = np.where(z > 0, stretches[1], np.where(z < 0, stretches[0], stretches.mean(0)))
    return float(np.sum(np.log(sides)))


def directions(objective: Objective, mode: Evaluation) -> np.ndarray:
    """Return the standardised directions at the mode, (p, k): columns are eigenvectors times standard deviations."""
    H = curvature(objective, mode)
    value, vector = np.linalg.eigh(H)  # in increasing order: the least certain directions come first
    sd = 1 / np.sqrt(np.maximum(value, WIDEST_SD**-2))
    return (vector * sd)[:, :MOST_DIRECTIONS]


def curvature(objective: Objective, mode: Evaluation) -> np.ndarray:
    """Return minus the Hessian (p, p) of the objective, by central differences of its gradient within the bounds."""
    p = len(mode.theta)
    low, high = objective.bounds.T
    rows = np.empty((p, p))
    for i in range(p):
        ends = []
        for sign in (1, -1):
            theta = mode.theta.copy()
            theta[i] = np.clip(theta[i] + sign * DIFFERENCE, low[i], high[i])
            ends.append((theta[i], objective.evaluate(theta, mode.fit).gradient))
        (up, at_up), (down, at_down) = ends
        rows[i] = -(at_up - at_down) / (up - down)
    return 0.5 * (rows + rows.T)


def _stretches(objective: Objective, mode: Evaluation, root: np.ndarray) -> np.ndarray:
    """Return factors (2, p) of the axes below and above the mode: a normal density drops by one nat at √2."""
    factors = np.ones((2, root.shape[1]))
    for k in range(root.shape[1]):
        for side, sign in enumerate((-1, 1)):
            found = _fit(objective, mode.theta + sign * np.sqrt(2) * root[:, k], mode)
            drop = np.inf if found is None else mode.value - found.value
            factors[side, k] = np.clip(1 / np.sqrt(max(drop, 1e-6)), *STRETCH_LIMITS)
    return factors


def _fit(objective: Objective, theta: np.ndarray, mode: Evaluation, tol: float = SEARCH_TOL) -> Evaluation | None:
    """Return the posterior at θ, or None if θ is outside the bounds or cannot be evaluated."""
    if np.any(theta < objective.bounds[:, 0]) or np.any(theta > objective.bounds[:, 1]):
        return None
    try:
        found = objective.fit(theta, mode.fit, tol)
    except FAILURES:
        return None
    return found if np.isfinite(found.value) else None
