"""Integrals of a Gaussian times a likelihood of one latent function, by quadrature, with derivatives in the mean.

tilted_by_quadrature   for a likelihood that changes within about one unit, near a known point
product_nodes          nodes for a factor of any width, such as a high power or a product of likelihoods
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..numerics import gaussian_nodes, nodes_about, nodes_between

BISECTIONS = 30  # accurate enough to place nodes
FLAT_REACH = 10.0  # distance from the centre of a likelihood, and standard deviations, beyond which it is flat or negligible

Triple = tuple[np.ndarray, np.ndarray, np.ndarray]


class WithSlopes:
    """Adds `tilted_slopes` to a class with `tilted_moments`."""

    def tilted_slopes(self, y, mean, var) -> tuple[np.ndarray, np.ndarray]:
        """Return the slope and curvature of `tilted_moments`, without the value."""
        return self.tilted_moments(y, mean, var)[1:]  # type: ignore[attr-defined]


def tilted_by_quadrature(log_prob: Callable[[np.ndarray], Triple], mean, var, centre: float | np.ndarray) -> Triple:
    """Return log ∫ N(f | mean, var) p(f) df and its first two derivatives in `mean`, by quadrature.

    Parameters
    ----------
    log_prob : callable
        Function from nodes (n, q) to log p and its first two derivatives in f there.
    mean, var : ndarray of shape (n,)
        Means and variances.
    centre : float or ndarray of shape (n,)
        The f at which p changes most quickly, within about one unit.

    Returns
    -------
    value, slope, curvature : ndarray of shape (n,)
    """
    nodes, weights = gaussian_nodes(mean, var, centre=centre)
    with np.errstate(divide="ignore"):  # weights that underflow
        return tilted_moments_of(log_prob(nodes), np.log(weights))


def product_nodes(likelihood: Any, log_prob: Callable[[np.ndarray], Triple], mean, var) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and log weights (n, q) for integrals of a Gaussian times products of powers of a likelihood.

    Parameters
    ----------
    likelihood : Likelihood
        The likelihood of one factor.
    log_prob : callable
        Function from nodes (n, q) to the log of the product and its first two derivatives in f there.
    mean, var : ndarray of shape (n,)
        Means and variances.
    """
    if likelihood.log_concave:
        return feature_nodes(log_prob, mean, var)
    # there may be several maxima: use many nodes over the whole range in which the likelihood changes
    reach, centre = FLAT_REACH * np.sqrt(var), likelihood.centre
    low, high = np.minimum(mean - reach, centre - FLAT_REACH), np.maximum(mean + reach, centre + FLAT_REACH)
    return nodes_between(low, high, mean, var)


def feature_nodes(log_prob: Callable[[np.ndarray], Triple], mean, var) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and log weights for integrals of N(f | mean, var) p(f), log p concave, for any width of p.

    Nodes are dense where the density has fallen by one nat from its maximum, on the steeper side.
    """
    var = np.maximum(var, np.finfo(float).tiny)

    def log_density(f):
        value, slope, _ = (part[:, 0] for part in log_prob(f[:, None]))
        return value - 0.5 * (f - mean) ** 2 / var, slope - (f - mean) / var

    mode = _zero(lambda f: log_density(f)[1], *_bracket(log_density, mean, np.sqrt(var)))
    top = log_density(mode)[0]
    ends = [_zero(lambda f: log_density(f)[0] - top + 1, mode, mode + side * 2 * np.sqrt(var)) for side in (-1, 1)]
    nearer = np.where(mode - ends[0] < ends[1] - mode, *ends)
    width = 1 / np.maximum(np.abs(log_density(nearer)[1]), np.finfo(float).tiny)
    return nodes_about(nearer, width, mode, mean, var)


def _bracket(log_density, mean, sd):
    """Return points on both sides of the mode: the slope at the mean gives its direction and bounds its distance."""
    slope = log_density(mean)[1]
    return mean, mean + slope * sd**2 * (1 + 1e-9) + np.sign(slope) * 1e-300


def _zero(function, left, right):
    """Return an approximate zero of a function between two points, (n,) each, by bisection."""
    sign = np.sign(function(left))
    for _ in range(BISECTIONS):
        middle = 0.5 * (left + right)
        same = np.sign(function(middle)) == sign
        left, right = np.where(same, middle, left), np.where(same, right, middle)
    return 0.5 * (left + right)


def tilted_moments_of(found: Triple, log_weights: np.ndarray) -> Triple:
    """Return log mass, slope and curvature in the mean from log p and its derivatives at the nodes, (n, q) each."""
    value, slope, curvature = found
    tilted, log_mass = tilted_weights(log_weights, value)
    d1 = np.einsum("...q,...q->...", tilted, slope)
    d2 = np.einsum("...q,...q->...", tilted, curvature + slope**2) - d1**2
    return log_mass, d1, d2


def tilted_weights(log_weights: np.ndarray, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the normalised weights of cavity × likelihood at the nodes, and its log mass."""
    log_mass = log_weights + value
    top = np.max(log_mass, axis=-1, keepdims=True)
    tilted = np.exp(log_mass - top)
    mass = tilted.sum(-1, keepdims=True)
    return tilted / mass, (top + np.log(mass))[..., 0]
