"""Posterior of one latent function per class, coupled at each datum by sites of precision Π_i = diag(π_i) - π_iπ_iᵀ/(1ᵀπ_i).

The linear algebra is in `coupled_system`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from ..numerics import RightFactor, whole_strips
from .coupled_system import CoupledSystem
from .sites import Sites, matrix_cavity


def precisions(pi: np.ndarray) -> np.ndarray:
    """Return Π = diag(π) - ππᵀ/(1ᵀπ) (n, C, C) for π (n, C)."""
    return pi[:, :, None] * (np.eye(pi.shape[1]) - (pi / pi.sum(1, keepdims=True))[:, None, :])


class CoupledPosterior:
    """q(f) ∝ ∏_c N(f_c | 0, K_c) ∏_i exp(-½ f_iᵀ Π_i f_i + ν_iᵀ f_i), with π, ν (n, C)."""

    def __init__(self, K: np.ndarray, pi: np.ndarray, nu: np.ndarray, system: CoupledSystem | None = None, moments=None):
        self.K = K
        self.system = system or CoupledSystem(K, pi)
        self.nu = nu
        self.alpha: np.ndarray
        self.mean: np.ndarray
        self.alpha, self.mean = moments or self.system.solve(nu)  # (n, C) each

    def state(self) -> dict[str, np.ndarray]:
        """Return the arrays that `restored` needs besides K."""
        return {"pi": self.pi, "nu": self.nu, "alpha": self.alpha, "mean": self.mean}

    @classmethod
    def restored(cls, K: np.ndarray, state: Mapping[str, Any]) -> CoupledPosterior:
        """Rebuild the posterior from its `state`."""
        return cls(K, state["pi"], state["nu"], moments=(state["alpha"], state["mean"]))

    @property
    def pi(self) -> np.ndarray:
        return self.system.pi

    @property
    def latent(self) -> CoupledPosterior:
        return self

    @property
    def sites(self) -> Sites:
        """(π, ν), for a warm start."""
        return Sites(self.pi, self.nu)

    def cavity(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean (n, C) and covariance (n, C, C) of each datum's latent values with its own site removed."""
        return matrix_cavity(self.mean, self.cov, precisions(self.pi), self.nu)

    @property
    def cov(self) -> np.ndarray:
        """(n, C, C) marginal covariances."""
        return self.system.cov

    @property
    def var(self) -> np.ndarray:
        """(n, C) marginal variances."""
        return np.diagonal(self.cov, axis1=1, axis2=2)

    @property
    def log_det(self) -> float:
        """log|I + KΠ|."""
        return self.system.log_det

    @property
    def rounding(self) -> float:
        """Effect of rounding on the marginals, in standard deviations."""
        return self.system.rounding

    def left_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean and covariance of each datum's latent values with the datum left out."""
        return self.cavity()

    def predict(self, Ks: np.ndarray, kd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean (m, C) and covariance (m, C, C) at new points; Ks (n, m) or (C, n, m), kd (m,) or (C, m)."""
        m = Ks.shape[-1]
        if m == 0:
            mean = np.empty((0, self.nu.shape[1]))
        elif Ks.ndim == 2:
            mean = self._alpha_columns.times_strips(whole_strips(Ks.T))[:m]
        else:
            mean = np.stack([k.T @ a for k, a in zip(Ks, self.alpha.T, strict=True)], axis=1)
        return mean, self.system.predict_cov(Ks, kd)

    @cached_property
    def _alpha_columns(self) -> RightFactor:
        """α, as a factor of products for predictions."""
        return RightFactor([self.alpha])

    def gradient(self, *pairs: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        return self.system.gradient(self.alpha, *pairs)
