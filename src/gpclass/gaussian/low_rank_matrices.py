"""Covariances of data and inducing variables, checked, and derivatives in them.

[VC] Villacampa-Calvo 2017, chapter 5 and appendix B.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .low_rank import LowRankPosterior, LowRankPrior, Marginals
from .products import stacked, times_triangle, transposed_times


@dataclass(frozen=True)
class LowRankMatrices:
    """Prior covariances, shared by all latent functions or with a leading axis of latent functions."""

    K_uu: np.ndarray  # (M, M) or (C, M, M) of the inducing variables
    K_fu: np.ndarray  # (n, M) or (C, n, M) of data and inducing variables
    k_diag: np.ndarray  # (n,) or (C, n) prior variances of the data

    def checked(self, n: int, n_latents: int) -> LowRankMatrices:
        """Return a copy, after checks, with float arrays that have an axis of latent functions, (1, …) or (C, …)."""
        K_uu, K_fu, k_diag = (np.asarray(part, float) for part in (self.K_uu, self.K_fu, self.k_diag))
        parts = [part[None] if part.ndim == rank else part for part, rank in ((K_uu, 2), (K_fu, 2), (k_diag, 1))]
        names = ("K_uu", "K_fu", "k_diag")
        for part, name, rank in zip(parts, names, (3, 3, 2), strict=True):
            if part.ndim != rank or len(part) not in (1, n_latents):
                raise ValueError(
                    f"{name} must have {rank - 1} axes, optionally preceded by an axis of {n_latents} latent functions, "
                    f"but has shape {part.shape}"
                )
            if not np.isfinite(part.sum()):
                raise ValueError(f"{name} contains NaN or infinite entries (or its sum overflows)")
        M = parts[0].shape[-1]
        shapes = ((M, M), (n, M), (n,))
        for part, name, shape in zip(parts, names, shapes, strict=True):
            if part.shape[1:] != shape:
                raise ValueError(f"{name} must be {shape} for {n} data and {M} inducing variables, but is {part.shape[1:]}")
        if M == 0 or n == 0:
            raise ValueError("there must be at least one datum and one inducing variable")
        if np.any(parts[2] < 0):
            raise ValueError("k_diag has negative variances")
        groups = max(len(part) for part in parts)
        return LowRankMatrices(*(np.ascontiguousarray(np.broadcast_to(p, (groups, *p.shape[1:]))) for p in parts))


@dataclass(frozen=True)
class LowRankGradient:
    """Derivatives in each of the matrices, in the same form: d(value) = Σ uu dK_uu + Σ fu dK_fu + Σ diag dk_diag."""

    uu: np.ndarray  # symmetric
    fu: np.ndarray
    diag: np.ndarray


class GradientSum:
    """Derivatives of log ∫ N(u | 0, K_uu) exp(sites) du + Σ_i log Z_i in the prior matrices, sites fixed, block by block.

    log Z_i depends on a = w_iᵀ m and b = k_ii - k_iᵀ w_i + w_iᵀ V w_i, with m, V of a fixed cavity. The same sum also gives
    the derivatives of Σ_i E[log p(y_i | f_i)] - KL(q(u) ‖ p(u)) with fixed q(u). [VC] (5.19), (5.22), (B.52)
    """

    def __init__(self, prior: LowRankPrior, inner: np.ndarray | None = None):
        self.prior = prior
        # (1 or C, M, M) contribution of the rows to the derivative in K_uu, in terms of v
        self.inner = np.zeros((prior.n_groups, prior.M, prior.M)) if inner is None else inner

    def add(self, at: Marginals, slope: np.ndarray, spread: np.ndarray, excess: np.ndarray, share: float = 1.0):
        """Add rows and return their derivatives in K_fu and k_diag.

        `slope` is d log Z/da, `excess` is d log Z/db, (m, C) each, and `spread` is the factor of V w_i in d log Z/dw_i, with
        V of the posterior that `at` comes from; see `Marginals.feature_slopes`.
        """
        groups, fu = self.prior.n_groups, []
        slopes = at.feature_slopes(self.prior, share * slope, share * spread)
        excesses = np.split(share * excess, groups, axis=1)
        for g, (in_phi, more) in enumerate(zip(slopes, excesses, strict=True)):
            phi = at.rows.phi[g]
            known = more.sum(1)[:, None] * phi
            in_phi -= known
            self.inner[g] -= transposed_times(in_phi, phi)
            in_phi -= known
            fu.append(times_triangle(in_phi, self.prior.L_inv[g]))
        return stacked(fu), share * (excess.T if groups > 1 else excess.sum(1)[None])

    def uu(self, q: LowRankPosterior) -> np.ndarray:
        """Return the derivative (1 or C, M, M) in K_uu of the posterior's own term and of all added rows."""
        inner = self.inner + 0.5 * q.change_of_moments()
        inner = 0.5 * (inner + np.swapaxes(inner, 1, 2))
        halves = [np.ascontiguousarray(times_triangle(part, L).T) for part, L in zip(inner, self.prior.L_inv, strict=True)]
        uu = np.stack([times_triangle(half, L) for half, L in zip(halves, self.prior.L_inv, strict=True)])
        return uu + self.prior.jitter * np.einsum("cii->ci", uu)[:, :, None] * np.eye(self.prior.M)  # of the jittered K_uu
