"""Low-rank prior × sites: independent latent functions, each with M inducing variables.

    f_i = g_i + e_i,   g_i = w_iᵀ u = φ_iᵀ v,   u = L v,   L Lᵀ = K_uu,   φ_i = L⁻¹ k_i,   e_i ~ N(0, k_ii - φ_iᵀ φ_i)

A datum depends on u only through the scalar g_i, so its site exp(-½ τ_i g_i² + ν_i g_i) has rank one. With Φ the rows φ_i
the posterior is q(v) = N(μ, A⁻¹), A = I + Φᵀ T Φ, μ = A⁻¹ Φᵀ ν. Between changes of hyperparameters the sites are stored as
natural parameters of u, P = Σ τ_i w_i w_iᵀ and h = Σ ν_i w_i, which do not depend on the prior.

Each inducing variable has noise of `jitter` times its variance, so K_uu always has a Cholesky factor. Two equal inducing
inputs then act as one.

In the context `single_precision` the features Φ are rounded to float32, and with them products of all rows: the variances of
g_i and the outer products in the sum of sites. Everything that is M × M is computed in float64.

The first axis of arrays is that of the latent functions, (C, …); arrays of covariances may be (1, …), shared by all. Latent
functions that share a covariance form a group. Each operation on a group is one matrix product.

[VC] Villacampa-Calvo 2017, chapter 5 and appendix B.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg.lapack import dlauum, dpotrf, dtrtri

from ..numerics import CACHE, NotPositiveDefinite, blas, blocks, factor_dtype, mirror_lower
from .products import stacked, times, times_triangle, transposed_times
from .sites import cavity

SMALLEST_PIVOT = 1e-15  # relative to the variance before elimination; a smaller pivot is a rounding error
GRAM_ROWS = 512  # smallest number of rows whose outer products are added up together
SINGLE_ROWS = 8192  # largest number of rows whose outer products are added up in float32
BLOCK_ROWS = 256  # smallest number of rows of a block, for products with triangles
SMALLEST_RESIDUAL = 1e-12  # residual variance, relative to the prior variance; a smaller one is a rounding error


@dataclass(frozen=True)
class Rows:
    """Features of some data relative to the inducing variables."""

    phi: np.ndarray  # (1 or C, m, M) L⁻¹ k_i
    residual: np.ndarray  # (m, C) variances given the inducing variables

    def some(self, rows: slice) -> Rows:
        return Rows(self.phi[:, rows], self.residual[rows])

    def blocks(self, width: int) -> Iterator[tuple[slice, Rows]]:
        """Yield the range and the rows of each block. `width` is the number of temporary numbers for each row."""
        for some in blocks(len(self.residual), width, least=BLOCK_ROWS):
            yield some, self.some(some)


class LowRankPrior:
    """N(0, K_uu) of the inducing variables, with one factor for all latent functions or one for each."""

    def __init__(self, K_uu: np.ndarray, n_latents: int, jitter: float):
        K_uu = np.asarray(K_uu, float)
        K_uu = K_uu[None] if K_uu.ndim == 2 else K_uu
        self.n_latents, self.jitter, self.M = n_latents, jitter, K_uu.shape[-1]
        self.L = np.stack([_lower_factor(K, jitter) for K in K_uu])  # (1 or C, M, M)
        self.L_inv = np.stack([dtrtri(L.T, lower=0)[0].T for L in self.L])
        self.n_groups = len(self.L)  # 1, or one for each latent function

    @staticmethod
    def no_sites(n_latents: int, M: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the natural parameters without any sites: zeros."""
        return np.zeros((n_latents, M, M)), np.zeros((n_latents, M))

    def site_sums(self, rows: np.ndarray, tau: np.ndarray, nu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the natural parameters of sites on g = (coordinates of u or v)ᵀ `rows`, (1 or C, m, M); τ and ν (m, C)."""
        P, h = self.no_sites(self.n_latents, self.M)
        self.add_sites(P, h, rows, tau, nu)
        mirror_all(P)
        return P, h

    def add_sites(self, P: np.ndarray, h: np.ndarray, rows: np.ndarray, tau: np.ndarray, nu: np.ndarray) -> None:
        """Add the natural parameters of sites as `site_sums` takes them, of P (C, M, M) the lower triangles only.

        P_c becomes P_c + Σ τ_ic x_i x_iᵀ, and h_c becomes h_c + Σ ν_ic x_i.
        """
        for c, out in enumerate(P):
            _add_weighted_gram(out, rows[c if len(rows) > 1 else 0], tau[:, c])
        width = rows.shape[0] * self.M  # of a copy: products with ν are in float64
        for part in blocks(len(tau), width, 8 * CACHE, least=GRAM_ROWS):
            pulls = zip(np.split(nu[part], len(rows), axis=1), rows[:, part], strict=True)
            h += np.concatenate([transposed_times(of, x) for of, x in pulls])

    def moments(self, mu: np.ndarray, root: np.ndarray) -> LowRankMoments:
        """Return the distribution of v with this mean and the covariance RᵀR of a root R."""
        return LowRankMoments(self, mu, root)

    def posterior(self, S: np.ndarray, pull: np.ndarray) -> LowRankPosterior:
        """Return the posterior from the natural parameters of the sites, in coordinates of v."""
        return LowRankPosterior(self, S, pull)

    def grouped(self, parts: np.ndarray) -> np.ndarray:
        """Return an array (C, …) as (groups, latent functions per group, …)."""
        return parts.reshape(self.n_groups, -1, *parts.shape[1:])

    def rows(self, K_fu: np.ndarray, k_diag: np.ndarray) -> Rows:
        """Return the features of rows with K_fu (1 or C, m, M) and k_diag (1 or C, m)."""
        phi = stacked([times_triangle(part, L, transposed=True) for part, L in zip(K_fu, self.L_inv, strict=True)])
        known = np.einsum("cij,cij->ci", phi, phi)
        left = np.maximum(k_diag - known, SMALLEST_RESIDUAL * k_diag)
        residual = np.ascontiguousarray(np.broadcast_to(left, (self.n_latents, left.shape[1])).T)
        return Rows(phi.astype(factor_dtype(), copy=False), residual)

    def whitened(self, P: np.ndarray, h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the natural parameters of v from those of u, (C, M, M) and (C, M)."""
        return self._congruent(P, h, self.L)

    def coloured(self, S: np.ndarray, pull: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the natural parameters of u from those of v."""
        return self._congruent(S, pull, self.L_inv)

    def _congruent(self, P, h, triangles, transposed=False):
        """Return Lᵀ P L and Lᵀ h, or with Lᵀ in place of L. P is symmetric, so the transpose of P L is Lᵀ P."""
        out = np.empty(P.shape)
        for group, of, L in zip(self.grouped(out), self.grouped(P), triangles, strict=True):
            half = times_triangle(of.reshape(-1, self.M), L, transposed).reshape(of.shape)
            half = np.ascontiguousarray(np.swapaxes(half, 1, 2)).reshape(-1, self.M)
            group[:] = times_triangle(half, L, transposed).reshape(of.shape)
        pulls = zip(self.grouped(h), triangles, strict=True)
        return out, np.concatenate([times_triangle(of, L, transposed) for of, L in pulls])

    def coloured_moments(self, mean: np.ndarray, cov: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the moments of u from those of v, (C, M) and (C, M, M)."""
        return self._congruent(cov, mean, self.L, transposed=True)[::-1]

    def weights(self, rows: Rows) -> np.ndarray:
        """Return w_i = K_uu⁻¹ k_i, (1 or C, m, M)."""
        return stacked([times_triangle(part, L_inv) for part, L_inv in zip(rows.phi, self.L_inv, strict=True)])


def mirror_all(P: np.ndarray) -> None:
    """Copy the lower triangle of each matrix (C, M, M) to its upper one."""
    for part in P:
        mirror_lower(part)


def _add_weighted_gram(out: np.ndarray, rows: np.ndarray, weight: np.ndarray) -> None:
    """Add the lower triangle of Σ weight_i x_i x_iᵀ to `out` (M, M), for rows x (m, M).

    Sums of rows in float32 are added up in float64 from time to time, so that their rounding does not grow with the rows.
    """
    if rows.dtype == out.dtype:
        _add_gram(out, rows, weight)
        return
    for i in range(0, len(rows), SINGLE_ROWS):
        some = np.zeros(out.shape, rows.dtype)
        _add_gram(some, rows[i : i + SINGLE_ROWS], weight[i : i + SINGLE_ROWS])
        out += some


def _add_gram(out, rows, weight):
    syrk, root = blas("syrk", rows), np.sqrt(np.abs(weight)).astype(rows.dtype)
    for sign in (1.0, -1.0):  # sites of negative precision are possible
        some = np.flatnonzero(sign * weight > 0)
        for part in blocks(len(some), rows.shape[1], 8 * CACHE, least=GRAM_ROWS):
            chosen = part if len(some) == len(rows) else some[part]
            scaled = rows[chosen] * root[chosen, None]
            syrk(sign, scaled.T, beta=1.0, c=out.T, overwrite_c=1)


class LowRankMoments:
    """q(v) = N(μ, A⁻¹), with means μ (C, M) and lower triangular roots R (C, M, M), A⁻¹ = RᵀR."""

    def __init__(self, prior: LowRankPrior, mu: np.ndarray, root: np.ndarray):
        self.prior, self.mu, self.root = prior, mu, root

    @cached_property
    def _single_root(self) -> np.ndarray:
        """The roots in float32, converted once for all blocks of rows."""
        return self.root.astype(np.float32)

    @cached_property
    def A_inv(self) -> np.ndarray:
        """Covariances of v, in the shape of the roots."""
        out = np.empty(self.root.shape)
        for A, R in zip(out, self.root, strict=True):
            A[:] = dlauum(R.T, lower=0)[0].T
            mirror_lower(A)
        return out

    def marginals(self, rows: Rows, slopes: bool = False) -> Marginals:
        """Return the marginals of g. `slopes` is whether `Marginals.feature_slopes` will be asked for them."""
        M, m = self.prior.M, rows.phi.shape[1]
        means = [times(phi, mu.T) for phi, mu in zip(rows.phi, self.prior.grouped(self.mu), strict=True)]
        if slopes:
            A_inv = self.A_inv.reshape(self.prior.n_groups, -1, M)
            psi = stacked([times(phi, A.T).reshape(m, -1, M) for phi, A in zip(rows.phi, A_inv, strict=True)])
            var = np.concatenate(np.einsum("gikj,gij->gik", psi, rows.phi), axis=1)
        else:
            psi, var = None, np.empty((m, len(self.root)))
            for c, R in enumerate(self.root if rows.phi.dtype == self.root.dtype else self._single_root):
                half = times_triangle(rows.phi[c if self.prior.n_groups > 1 else 0], R, transposed=True)
                var[:, c] = np.einsum("ij,ij->i", half, half)
        return Marginals(rows, self.mu, psi, np.concatenate(means, axis=1, dtype=float), np.maximum(var, 0.0))

    def of_inducing(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the means (C, M) and covariances (C, M, M) of u."""
        return self.prior.coloured_moments(self.mu, self.A_inv)

    def predict(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Return means (m, C) of f, and variances (m, C), or covariances (m, C, C) if latent functions are coupled."""
        at = self.marginals(rows)
        return at.mean, widened(at.spread, rows.residual)


class LowRankPosterior(LowRankMoments):
    """q(v) = N(μ, A⁻¹), A = I + S, with natural parameters S (C, M, M) and `pull` (C, M) of the sites."""

    sites = None  # those of the rows are sums here

    def __init__(self, prior: LowRankPrior, S: np.ndarray, pull: np.ndarray):
        parts = [_inverse_root_plus_identity(part) for part in S]
        roots = np.stack([root for root, _ in parts])
        super().__init__(prior, _solved(roots, pull), roots)
        self.S, self.pull = S, pull
        self.log_det = np.array([log_det for _, log_det in parts])  # (C,) log|A|

    def common_mean(self) -> np.ndarray | None:
        """Return the average (M,) of the latent functions' means; None if their covariances differ or sites couple them."""
        several = self.prior.n_groups == 1 and len(self.mu) > 1
        return self.mu.mean(0) if several else None

    def recentred(self, common: np.ndarray) -> LowRankPosterior:
        """Return the posterior with all sites moved by -φᵀ`common`, for latent values that move by about the same.

        Only ν changes: the slope of a site at the new point equals its slope at the old one. Needs no factorisation.
        """
        new = copy(self)
        new.__dict__.pop("log_partition", None)
        new.pull = self.pull - np.einsum("cij,j->ci", self.S, common)
        new.mu = _solved(self.root, new.pull)
        return new

    def state(self) -> dict[str, np.ndarray]:
        """Return the arrays that `restored` needs besides the prior."""
        return {"S": self.S, "pull": self.pull}

    @staticmethod
    def restored(prior: LowRankPrior, state: Mapping[str, Any]) -> LowRankPosterior:
        """Rebuild the posterior from its `state`."""
        return prior.posterior(state["S"], state["pull"])

    @cached_property
    def log_partition(self) -> float:
        """log ∫ N(v | 0, I) exp(-½ vᵀSv + pullᵀv) dv, summed over latent functions."""
        return 0.5 * float(np.sum(self.pull * self.mu) - np.sum(self.log_det))

    def change_of_moments(self) -> np.ndarray:
        """Return E[v vᵀ] - I (1 or C, M, M) of each latent function, summed over those that share a covariance."""
        mu, A_inv = self.prior.grouped(self.mu), self.prior.grouped(self.A_inv)
        return np.stack([transposed_times(part, part) for part in mu]) + A_inv.sum(1) - mu.shape[1] * np.eye(self.prior.M)

    def divergence(self) -> float:
        """Return KL(q(u) ‖ p(u)), summed over latent functions."""
        trace = np.einsum("cii->", self.A_inv)
        return 0.5 * float(trace + np.sum(self.mu**2) - self.mu.size + np.sum(self.log_det))


@dataclass(frozen=True)
class Marginals:
    """Marginals of g_i, the part of f_i that depends on the inducing variables."""

    rows: Rows
    mu: np.ndarray  # (C, M) mean of the posterior that the marginals come from
    psi: np.ndarray | None  # (groups, m, latent functions per group, M) φ_iᵀ A⁻¹, for `feature_slopes`
    mean: np.ndarray  # (m, C)
    var: np.ndarray  # (m, C)

    @property
    def spread(self) -> np.ndarray:
        """(m, C) variances; covariances (m, C, C) if latent functions are coupled."""
        return self.var

    def feature_slopes(self, prior: LowRankPrior, slope: np.ndarray, spread: np.ndarray) -> list[np.ndarray]:
        """Return Σ_c slope_c μ_c + spread_c A_c⁻¹ φ for each row, (m, M), summed over the latent functions of each group."""
        parts = zip(*(np.split(part, prior.n_groups, axis=1) for part in (slope, spread)), strict=True)
        means = prior.grouped(self.mu)
        assert self.psi is not None, "the marginals were made without `slopes`"
        return [times(p, means[g]) + np.matmul(r[:, None], self.psi[g])[:, 0] for g, (p, r) in enumerate(parts)]

    def without(self, tau: np.ndarray, nu: np.ndarray, least: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the means and variances (m, C) with these sites removed; see `cavity`."""
        left = cavity(self.mean, self.var, tau, nu, least)
        return left.mean, left.var

    def move(self, old: tuple[np.ndarray, np.ndarray], new: tuple[np.ndarray, np.ndarray]) -> float:
        """Return the largest change from old to new sites (τ, ν), in units of their row's posterior; NaN if any is NaN."""
        d_tau, d_nu = (after - before for before, after in zip(old, new, strict=True))
        shift = np.abs(d_nu - d_tau * self.mean) * np.sqrt(self.var)
        return float(np.maximum(np.max(np.abs(d_tau) * self.var, initial=0.0), np.max(shift, initial=0.0)))


def widened(spread: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """Return variances (m, C) or covariances (m, C, C) plus independent variances (m, C)."""
    if spread.ndim == 2:
        return spread + rest
    out = spread.copy()
    np.einsum("icc->ic", out)[...] += rest
    return out


def _lower_factor(K, jitter):
    A = K.copy()
    A[np.diag_indices_from(A)] *= 1 + jitter
    upper, info = dpotrf(A.T, lower=0, overwrite_a=1, clean=1)
    pivots = np.diagonal(upper) ** 2
    if info != 0 or not np.all(pivots > SMALLEST_PIVOT * np.diagonal(K)):
        raise NotPositiveDefinite(
            f"the covariance of {len(K)} inducing variables is not positive definite with noise of {jitter:g} times their "
            "variances. Do several of them coincide? Raise jitter, or use fewer."
        )
    return upper.T


def _inverse_root_plus_identity(S):
    """Return the lower triangular R with RᵀR = (I + S)⁻¹, and log|I + S|."""
    A = S.copy()
    A.flat[:: len(A) + 1] += 1.0
    upper, info = dpotrf(A.T, lower=0, overwrite_a=1, clean=1)
    log_det = 2.0 * float(np.sum(np.log(np.maximum(np.diagonal(upper), 0.0)))) if info == 0 else np.nan
    if not np.isfinite(log_det):
        raise NotPositiveDefinite(
            "the posterior of the inducing variables is not proper: sites of negative precision outweigh the prior"
        )
    return dtrtri(upper, lower=0, overwrite_c=1)[0].T, log_det


def _solved(roots, pull):
    """Return RᵀR x for each root R and x of `pull`."""
    return np.einsum("cji,cj->ci", roots, np.einsum("cij,cj->ci", roots, pull))
