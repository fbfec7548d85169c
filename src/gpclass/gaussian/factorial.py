"""Exact prior N(0, K), Gaussian posterior with mean Kα and *diagonal* covariance: the factorial method's.

No diagonal site precision gives such a posterior, so this structure keeps a factor of K itself.
"""

from __future__ import annotations

import numpy as np

from ..numerics import Factor, mirror_lower


class FactorialPosterior:
    """q(f) = N(f | K α, Dg(var)); `factor` is that of K."""

    def __init__(self, factor: Factor, alpha: np.ndarray, mean: np.ndarray, var: np.ndarray, conditional_var: np.ndarray):
        self._factor = factor
        self.alpha, self.mean, self.var = alpha, mean, var  # each (n,)
        self._conditional_var = conditional_var  # (n,) 1/[K⁻¹]_ii, the prior's leave-one-out variance

    @property
    def log_det(self) -> float:
        """log|K V⁻¹|."""
        return self._factor.log_det - float(np.sum(np.log(self.var)))

    @property
    def trace_ratio(self) -> float:
        """tr(V K⁻¹)."""
        return float(np.sum(self.var / self._conditional_var))

    def cavity(self) -> tuple[np.ndarray, np.ndarray]:
        """The leave-one-out Gaussian of each f_i. [NR] (15)"""
        return self.mean - self._conditional_var * self.alpha, self._conditional_var

    def predict(self, Ks: np.ndarray, kd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """[NR] (6) with V = Dg(var): k** - kᵀ(K⁻¹ - K⁻¹ V K⁻¹)k."""
        white = self._factor.whiten(Ks)
        weights = self._factor.unwhiten(white)  # K⁻¹ Ks
        var = kd - np.einsum("ij,ij->j", white, white) + np.einsum("ij,i,ij->j", weights, self.var, weights)
        return Ks.T @ self.alpha, np.maximum(var, 1e-14 * kd)

    def prior_precision(self) -> np.ndarray:
        """K⁻¹ (n, n)."""
        return mirror_lower(self._factor.inverse_lower())
