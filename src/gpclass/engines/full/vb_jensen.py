"""Derivatives of the Jensen bound at VB's posterior, by implicit differentiation of VB's fixed point.

VB's sites s = (ν, τ) are those of the best bounds under the marginals: s = s(t), t = t(m, v), with one number t per
observation. The posterior of prior × sites has

    dm = A dK α + V (dν - m dτ),    dv = diag(A dK Aᵀ) - (V∘V) dτ,    A = V K⁻¹ = I - V T

so (I - D) dt = t_m (A dK α) + t_v diag(A dK Aᵀ). The Jensen bound is not stationary in the sites: besides its
explicit derivative in K it moves by g_m dm + g_v dv. One system with (I - D)ᵀ gives the adjoints h of m and v, which collect
both effects.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..fit import Fit


class Adjoints(NamedTuple):
    """Derivatives of the Jensen bound in shifts of the marginals and of the sites, if VB's fixed point follows them."""

    mean: np.ndarray  # (n,)
    var: np.ndarray  # (n,)
    nu: np.ndarray  # (m,) of one copy of each observation
    tau: np.ndarray  # (m,)


def adjoints(fit: Fit, V: np.ndarray) -> Adjoints:
    """Return the adjoints at the posterior covariance V (n, n)."""
    q, data = fit.posterior, fit.targets
    latent, sum_at = q.latent, data.at_places
    _, slope, curvature = fit.likelihood.expected_log_prob(data.y, q.mean, q.var)
    g_mean = sum_at(slope) - latent.alpha
    g_var = 0.5 * (sum_at(curvature) + latent.sites.tau)
    moves = fit.likelihood.bound_slopes(data.y, q.mean, q.var)
    place = data.places.spread(np.arange(data.n))

    def in_sites(mean, var):
        """Return the derivatives in the sites of a function with these derivatives in the marginals."""
        pull = V @ mean
        return data.places.spread(pull), data.places.spread(-latent.mean * pull - V**2 @ var)

    def in_moves(nu, tau):
        return data.weight * (moves.nu * nu + moves.tau * tau)

    step = data.weight * (moves.nu - q.mean * moves.tau)  # of ν - m τ, all copies
    among = V[np.ix_(place, place)]
    D = moves.in_mean[:, None] * among * step - moves.in_var[:, None] * among**2 * (data.weight * moves.tau)
    z = np.linalg.solve(np.eye(len(D)) - D.T, in_moves(*in_sites(g_mean, g_var)))
    mean, var = g_mean + data.places.sum(moves.in_mean * z), g_var + data.places.sum(moves.in_var * z)
    return Adjoints(mean, var, *in_sites(mean, var))


def jensen_gradient(fit: Fit) -> np.ndarray:
    """Return G (n, n) with d (Jensen bound) = Σ G_ij dK_ij."""
    latent = fit.posterior.latent
    V, tau = latent.covariance(), latent.sites.tau
    h = adjoints(fit, V)
    A = np.eye(len(V)) - V * tau
    return latent.gradient((A.T @ h.mean, latent.alpha)) + A.T @ (h.var[:, None] * A)


def jensen_likelihood_gradient(fit: Fit) -> Any:
    """Return d (Jensen bound) / d likelihood.theta."""
    q, data = fit.posterior, fit.targets
    h = adjoints(fit, q.latent.covariance())
    nu, tau = fit.likelihood.bound_sites_theta(data.y, q.mean, q.var)
    return data.total(fit.likelihood.expected_log_prob_theta(data.y, q.mean, q.var) + h.nu * nu + h.tau * tau)
