"""Derivatives of the evidence of an active set, with fixed sites, in the covariances.

[SLH] Seeger, Lawrence & Herbrich, Efficient Nonparametric Bayesian Modelling with Sparse Gaussian Process Approximations.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg.blas import dgemm

from ..numerics.linalg import mirror_lower
from .active import Block
from .full import FullPosterior


class EvidenceGradient:
    """d/dK of log_partition + Σ_i g_i(mean_i, var_i) for one function, with fixed sites. [SLH] (14)

    The g_i are given by their derivatives: `slope` in the mean, `growth` in the variance. With R = (K_I + Π⁻¹)⁻¹,
    v = K_I⁻¹ mean_I and E_j = R K_Ij of a row j that has no site,

        d mean_j = v·dK_Ij - E_jᵀ dK_I v        d var_j = dk_jj - 2 E_j·dK_Ij + E_jᵀ dK_I E_j

    and for an active row the same with U_i = (I - R K_I) e_i: d mean_i = U_iᵀ dK_I v, d var_i = U_iᵀ dK_I U_i. A change of
    the sites changes the marginals through V_Ij = Π⁻¹ E_j: `in_tau` and `in_nu` are the derivatives of Σ g_i in the sites.

    Parameters
    ----------
    part : FullPosterior or EmptyPosterior
        The posterior of the active rows.
    slope, growth : ndarray of shape (d,), optional
        The derivatives of g_i of the active rows. Without them the sum is only over rows without sites, and log_partition
        is left out.
    """

    def __init__(self, part: Any, slope: np.ndarray | None = None, growth: np.ndarray | None = None):
        self._part, self._tau = part, part.sites.tau
        d = len(self._tau)
        self._in_mean, self._in_var = np.zeros(d), np.zeros(d)  # derivatives of Σ g in V_I· and in its squares
        if slope is None or growth is None:
            self.gram = np.zeros((d, d))
            return
        self.gram = part.gradient()
        if np.any(slope) or np.any(growth):
            U = _complement(part)
            self.gram += _scaled_square(U, growth) + _symmetric(U @ slope, part.alpha)
            V = part.K @ U
            self._in_mean += V @ slope
            self._in_var += V**2 @ growth

    @property
    def in_nu(self) -> np.ndarray:
        """(d,) derivative of Σ g_i in ν of the sites."""
        return self._in_mean

    @property
    def in_tau(self) -> np.ndarray:
        """(d,) derivative of Σ g_i in τ of the sites."""
        return -self._part.mean * self._in_mean - self._in_var

    def add(self, seen: Block, slope: np.ndarray, growth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Add rows without sites and return the derivatives in their K_Ij (d, m) and k_jj (m,)."""
        v = self._part.alpha
        if not np.any(self._tau):
            return v[:, None] * slope, growth
        system = self._part._system
        E = system.factor.whiten(seen.stubs, transpose=True)
        E *= system.root[:, None]
        summed = E @ slope
        squares = _scaled_square(E, growth)
        tau = np.where(self._tau > 0, self._tau, np.inf)  # a site of zero precision contributes nothing
        self._in_mean += summed / tau
        self._in_var += np.diagonal(squares) / tau**2
        self.gram += squares - _symmetric(summed, v)
        E *= -2 * growth
        E += v[:, None] * slope
        return E, growth


def _complement(part: FullPosterior) -> np.ndarray:
    """Return U = I - R K_I = √τ B⁻¹ / √τ (d, d)."""
    system, tau = part._system, part.sites.tau
    if system.factor is None:
        return np.eye(len(tau))
    U = mirror_lower(system.factor.inverse_lower())
    U *= system.root[:, None]
    U /= np.where(tau > 0, system.root, 1.0)
    zero = tau == 0  # the columns of these sites are e_i - R K_i
    if np.any(zero):
        U[:, zero] = -system.root[:, None] * system.factor.solve(system.root[:, None] * part.K[:, zero])
        U[zero, zero] += 1.0
    return U


def _scaled_square(E: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return E diag(weights) Eᵀ."""
    return dgemm(1.0, E * weights, E, trans_b=1)


def _symmetric(u: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return ½(u wᵀ + w uᵀ)."""
    product = np.multiply.outer(u, w)
    return 0.5 * (product + product.T)
