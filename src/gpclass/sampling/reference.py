"""A Gaussian as a reference for sampling: the prior or an engine's posterior, as f = mean + root x, x ~ N(0, I)."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf, dtrtrs

from ..engines.fit import start_sites
from ..gaussian import Sites
from ..numerics import NotPositiveDefinite
from .target import Target


class Reference:
    """q(f) = N(f | 0, K) ∏ exp(-½ τ_i f_i² + ν_i f_i) / Z_q, or the prior if there are no sites.

    With several latent functions the sites are (C, n), and the functions are independent under q.
    """

    def __init__(self, target: Target, sites: Sites | None = None):
        self.target, self.sited = target, sites is not None
        self.mean: Any = 0.0  # (C, n, 1)
        self.log_partition = 0.0  # log Z_q
        if sites is not None:
            self.tau, self.nu = np.atleast_2d(sites.tau)[:, :, None], np.atleast_2d(sites.nu)[:, :, None]
            self._R = root_precisions(target.prior.root, self.tau[:, :, 0])
            by_prior = np.matmul(np.swapaxes(target.prior.root, 1, 2), self.nu)
            self._pull = self._solved(by_prior, transposed=True)  # R⁻ᵀ Lᵀ ν
            self.mean = self._coloured(self._pull)
            log_det = 2 * float(np.sum(np.log(np.diagonal(self._R, axis1=1, axis2=2))))
            self.log_partition = 0.5 * float(np.sum(self.nu * self.mean)) - 0.5 * log_det

    @classmethod
    def of(cls, target: Target, start: Any) -> Reference:
        """Return the prior if `start` is None, else the posterior of a fit with scalar sites."""
        if start is None:
            return cls(target)
        if target.likelihood.n_latents > 1:
            raise TypeError("start must be None for several classes: their posteriors have no scalar sites")
        return cls(target, sites_at_places(target, start))

    @cached_property
    def root(self) -> np.ndarray:
        """(1 or C, n, r) L R⁻¹. Moves of hyperparameters avoid it: a column needs n² operations, this matrix n³."""
        return posterior_roots(self.target.prior.root, self._R) if self.sited else self.target.prior.root

    def latent(self, x: np.ndarray) -> np.ndarray:
        """Return f (C, n, R) from x (C, r, R)."""
        return self._coloured(x) + self.mean if self.sited else self.target.prior.colour(x)

    def _coloured(self, x):
        return self.target.prior.colour(self._solved(x))

    def _solved(self, x, transposed=False):
        """Return R⁻¹ x, or R⁻ᵀ x."""
        # R.T has the order of Fortran, so that it is not copied
        trans = int(not transposed)
        return np.stack([dtrtrs(R.T, part, lower=1, trans=trans)[0] for R, part in zip(self._R, x, strict=True)])

    def coordinates(self, F: np.ndarray) -> np.ndarray:
        """Return x (C, r, R) from f (C, n, R)."""
        Z = self.target.prior.whiten(F)
        return np.matmul(self._R, Z) - self._pull if self.sited else Z

    def log_ratio(self, F: np.ndarray) -> np.ndarray:
        """Return log [p(y | f) N(f | 0, K) / q(f)], (R,)."""
        value = self.target.log_likelihood(F)
        return value - self._log_sites(F) if self.sited else value

    def log_ratio_slope(self, F: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the log ratio (R,) and its gradient in f (C, n, R)."""
        value, slope = self.target.slope(F)
        return (value - self._log_sites(F), slope + self.tau * F - self.nu) if self.sited else (value, slope)

    def _log_sites(self, F):
        return np.sum(F * (self.nu - 0.5 * self.tau * F), axis=(0, 1)) - self.log_partition


def sites_at_places(target: Target, start: Any) -> Sites:
    """Return the sites (n,) of an engine's fit, summed over the observations of each latent value."""
    sites = start_sites(start, len(target.data.y))
    assert sites is not None, "there is a start"
    return Sites(target.data.places.sum(sites.tau), target.data.places.sum(sites.nu))


def root_precisions(roots: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """Return upper triangular R (C, r, r) with RᵀR = I + rootᵀ diag(τ) root, for roots (1 or C, n, r) and τ (C, n)."""
    roots = np.broadcast_to(roots, (len(tau), *roots.shape[1:]))
    out = []
    for L, t in zip(roots, tau, strict=True):
        R, info = dpotrf(_plus_identity(L, t).T, clean=1, overwrite_a=1)
        if info:
            raise NotPositiveDefinite("sites of negative precision outweigh the prior: no proper posterior")
        out.append(R)
    return np.stack(out)


def _plus_identity(L, tau):
    """Return I + Lᵀ diag(τ) L."""
    if np.all(tau >= 0):
        half = np.sqrt(tau)[:, None] * L
        A = half.T @ half  # half the work of two different matrices
    else:
        A = L.T @ (tau[:, None] * L)
    A.ravel()[:: len(A) + 1] += 1.0
    return A


def posterior_roots(roots: np.ndarray, R: np.ndarray) -> np.ndarray:
    """Return A = root R⁻¹ (C, n, r), with A Aᵀ the posterior covariances, for R from `root_precisions`."""
    roots = np.broadcast_to(roots, (len(R), *roots.shape[1:]))
    return np.stack([solve_triangular(r, L.T, trans=1).T for r, L in zip(R, roots, strict=True)])
