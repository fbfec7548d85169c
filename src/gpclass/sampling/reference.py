"""A Gaussian to sample from or to anneal from: the prior, or an engine's posterior, as f = mean + root x, x ~ N(0, I)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from ..gaussian import Sites
from ..inference.fit import start_sites
from ..numerics import NotPositiveDefinite
from .target import Target


class Reference:
    """q(f) = N(f | 0, K) ∏ exp(-½ τ_i f_i² + ν_i f_i) / Z_q, or the prior itself (no sites)."""

    def __init__(self, target: Target, sites: Sites | None = None):
        self.target = target
        self.sites: Any = sites
        prior_root = target.prior.root
        self.root = prior_root  # (1 or C, n, r)
        self.mean = np.zeros((1, prior_root.shape[1], 1))
        self.log_det = 0.0  # of the prior's precision over this one's: -log|I + KT|
        self.log_partition = 0.0  # log Z_q
        if sites is not None:
            L = prior_root[0]
            precision = np.eye(L.shape[1]) + L.T @ (sites.tau[:, None] * L)
            try:
                R = cholesky(precision, overwrite_a=True)
            except LinAlgError as error:
                raise NotPositiveDefinite("the sites of `start` do not make a proper posterior with this K") from error
            root = solve_triangular(R, L.T, trans=1).T  # L R⁻¹: its square is the posterior covariance
            mean = root @ (root.T @ sites.nu)
            self.root, self.mean = root[None], mean[None, :, None]
            self.log_det = -2 * float(np.sum(np.log(np.diagonal(R))))
            self.log_partition = 0.5 * float(sites.nu @ mean) + 0.5 * self.log_det

    @classmethod
    def of(cls, target: Target, start: Any) -> Reference:
        """The prior for None, else the posterior of a fit made of scalar sites."""
        if start is None:
            return cls(target)
        if target.likelihood.n_latents > 1:
            raise TypeError("start must be None for several classes: their posteriors are not made of scalar sites")
        return cls(target, start_sites(start, len(target.y)))

    def latent(self, x: np.ndarray) -> np.ndarray:
        """f (C, n, R) of x (C, r, R)."""
        F = np.matmul(self.root, x)
        return F if self.sites is None else F + self.mean

    def log_ratio(self, F: np.ndarray) -> np.ndarray:
        """(R,) log [p(y | f) N(f | 0, K) / q(f)]."""
        value = self.target.log_likelihood(F)
        return value if self.sites is None else value - self._log_sites(F)

    def log_ratio_slope(self, F: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same, and its gradient in f (C, n, R)."""
        value, slope = self.target.slope(F)
        if self.sites is None:
            return value, slope
        return value - self._log_sites(F), slope + self.sites.tau[:, None] * F - self.sites.nu[:, None]

    def _log_sites(self, F):
        tau, nu = self.sites.tau[:, None], self.sites.nu[:, None]
        return np.sum(F[0] * (nu - 0.5 * tau * F[0]), axis=0) - self.log_partition
