"""Exact prior N(0, K), Gaussian posterior with mean Kα and *diagonal* covariance (factorial variational method).

Diagonal site precisions cannot give such a posterior, so this structure stores a factor of K.

[NR] Nickisch & Rasmussen 2008.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..numerics import Factor, mirror_lower
from .rounding import SMALLEST_VARIANCE


class FactorialPosterior:
    """q(f) = N(f | K α, Dg(var)); `factor` is the Cholesky factor of K."""

    def __init__(
        self,
        K: np.ndarray,
        factor: Factor,
        *,
        alpha: np.ndarray,
        mean: np.ndarray,
        var: np.ndarray,
        conditional_var: np.ndarray,
        response: np.ndarray,
    ):
        self.K, self._factor = K, factor
        self.alpha, self.mean, self.var = alpha, mean, var  # each (n,)
        self._conditional_var = conditional_var  # (n,) 1/[K⁻¹]_ii, the prior's leave-one-out variance
        self._response = response  # (n,) change of mean_i per unit of α_i, with all other factors re-optimised

    def state(self) -> dict[str, np.ndarray]:
        """Return the arrays that `restored` needs besides K and its factor."""
        return {"alpha": self.alpha, "mean": self.mean, "var": self.var, "response": self._response}

    @classmethod
    def restored(cls, K: np.ndarray, factor: Factor, state: Mapping[str, Any]) -> FactorialPosterior:
        """Rebuild the posterior from its `state`."""
        parts = {name: state[name] for name in ("alpha", "mean", "var", "response")}
        return cls(K, factor, conditional_var=1 / factor.diag_inverse(), **parts)

    @property
    def latent(self) -> FactorialPosterior:
        """The posterior of the latent values."""
        return self

    sites = None  # no scalar sites give a diagonal covariance

    @property
    def log_det(self) -> float:
        """log|K V⁻¹|."""
        return self._factor.log_det - float(np.sum(np.log(self.var)))

    @property
    def trace_ratio(self) -> float:
        """tr(V K⁻¹)."""
        return float(np.sum(self.var / self._conditional_var))

    def conditional(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean and variance of the prior of each f_i, given all others at their means. [NR] (15)"""
        return self.mean - self._conditional_var * self.alpha, self._conditional_var

    def cavity(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean and variance of each f_i as predicted from the other data.

        The means of the other data are corrected, to first order, for the removal of datum i; their variances are not. In
        contrast, `conditional` leaves these means as they are and treats them as known.
        """
        P = self.prior_precision()
        np.fill_diagonal(P, 0.0)
        # f_i given the others has weights -σ_i² P_ij on them
        var = self._conditional_var + self._conditional_var**2 * (P**2 @ self.var)
        return self.mean - self._response * self.alpha, var

    def left_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean and variance of each latent value with its observation left out."""
        return self.cavity()

    def predict(self, Ks: np.ndarray, kd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the latent mean and variance (m,). [NR] (6) with V = Dg(var): k** - kᵀ(K⁻¹ - K⁻¹ V K⁻¹)k."""
        white = self._factor.whiten(Ks)
        weights = self._factor.whiten(white, transpose=True)  # K⁻¹ Ks
        var = kd - np.einsum("ij,ij->j", white, white) + np.einsum("ij,i,ij->j", weights, self.var, weights)
        return Ks.T @ self.alpha, np.maximum(var, SMALLEST_VARIANCE * kd)

    def prior_precision(self) -> np.ndarray:
        """Return K⁻¹ (n, n)."""
        return mirror_lower(self._factor.inverse_lower())
