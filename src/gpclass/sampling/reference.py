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
    """q(f) = N(f | 0, K) ∏ exp(-½ τ_i f_i² + ν_i f_i) / Z_q, or the prior itself (no sites).

    With several latent functions the sites are (C, n), and q is independent between the functions.
    """

    def __init__(self, target: Target, sites: Sites | None = None):
        self.target, self.sited = target, sites is not None
        self.root = target.prior.root  # (1 or C, n, r)
        self.mean: Any = 0.0  # (C, n, 1)
        self.log_partition = 0.0  # log Z_q
        if sites is not None:
            self.tau, self.nu = np.atleast_2d(sites.tau)[:, :, None], np.atleast_2d(sites.nu)[:, :, None]
            self._R = root_precisions(self.root, self.tau[:, :, 0])
            self.root = posterior_roots(self.root, self._R)
            self._pull = np.matmul(np.swapaxes(self.root, 1, 2), self.nu)  # R⁻ᵀ Lᵀ ν
            self.mean = np.matmul(self.root, self._pull)
            log_det = 2 * float(np.sum(np.log(np.diagonal(self._R, axis1=1, axis2=2))))
            self.log_partition = 0.5 * float(np.sum(self.nu * self.mean)) - 0.5 * log_det

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
        return np.matmul(self.root, x) + self.mean if self.sited else np.matmul(self.root, x)

    def coordinates(self, F: np.ndarray) -> np.ndarray:
        """x (C, r, R) of f (C, n, R)."""
        Z = self.target.prior.whiten(F)
        return np.matmul(self._R, Z) - self._pull if self.sited else Z

    def log_ratio(self, F: np.ndarray) -> np.ndarray:
        """(R,) log [p(y | f) N(f | 0, K) / q(f)]."""
        value = self.target.log_likelihood(F)
        return value - self._log_sites(F) if self.sited else value

    def log_ratio_slope(self, F: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same, and its gradient in f (C, n, R)."""
        value, slope = self.target.slope(F)
        return (value - self._log_sites(F), slope + self.tau * F - self.nu) if self.sited else (value, slope)

    def _log_sites(self, F):
        return np.sum(F * (self.nu - 0.5 * self.tau * F), axis=(0, 1)) - self.log_partition


def root_precisions(roots: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """(C, r, r) upper R with RᵀR = I + rootᵀ diag(τ) root, for roots (1 or C, n, r) and τ (C, n)."""
    roots = np.broadcast_to(roots, (len(tau), *roots.shape[1:]))
    out = []
    for L, t in zip(roots, tau, strict=True):
        try:
            out.append(cholesky(np.eye(L.shape[1]) + L.T @ (t[:, None] * L), overwrite_a=True))
        except LinAlgError as error:
            raise NotPositiveDefinite("sites of negative precision outweigh the prior: no proper posterior") from error
    return np.stack(out)


def posterior_roots(roots: np.ndarray, R: np.ndarray) -> np.ndarray:
    """(C, n, r) root R⁻¹, whose squares are the posterior covariances; R as `root_precisions` gives them."""
    roots = np.broadcast_to(roots, (len(R), *roots.shape[1:]))
    return np.stack([solve_triangular(r, L.T, trans=1).T for r, L in zip(R, roots, strict=True)])
