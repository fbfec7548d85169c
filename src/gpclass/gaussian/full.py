"""Exact prior N(0, K) times scalar sites.

Everything is computed from B = I + √τ K √τ, whose eigenvalues are at least one. K is never inverted. With b = diag(B⁻¹):

    var_i = (1 - b_i)/τ_i      cavity variance = var_i / b_i      tr(V K⁻¹) = Σ b_i      log|V K⁻¹| = -log|B|

so one factorisation and one triangular inverse give everything that a sweep of any engine needs. The mean for another ν
(with the same τ) costs only matrix-vector products: see `shifted`.

[NR] Nickisch & Rasmussen 2008.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from ..numerics import (
    Factor,
    NotPositiveDefinite,
    factor_dtype,
    mirror_lower,
    refined,
    row_blocks,
    scale_lower,
    scaled_plus_identity,
    symmetric_product,
    whole_strips,
)
from .nearby import Response, strong_sites
from .rounding import SMALLEST_VARIANCE, STALL_FACTOR, factor_of_B, rounding_of_B
from .sites import Places, Sites, from_state, sites_and_moments

CANCELS = 1e-6  # 1 - b_i below which (1 - b_i)/τ_i would lose more than nine digits
CANCELS_SINGLE = 1e-2  # the same for more than five digits, with factors of float32


class FullPosterior:
    """q(f) ∝ N(f | 0, K) ∏ exp(-½ τ_i f_i² + ν_i f_i)."""

    def __init__(self, K: np.ndarray, sites: Sites, system=None, moments=None):  # `system` and `moments`: see `shifted`
        if system is None:
            system = _IndefiniteSystem(K, sites.tau) if (sites.tau < 0).any() else _PositiveSystem(K, sites.tau)
        self.K, self.sites, self._system = K, sites, system
        self.prior_var = K.diagonal()  # (n,)
        self.log_det: float = system.log_det  # log|I + KT|
        self.alpha: np.ndarray
        self.mean: np.ndarray
        self.alpha, self.mean = moments or self.covariance_step(sites.nu)  # (n,) K⁻¹ mean, and (n,) mean

    @classmethod
    def without_sites(cls, K: np.ndarray) -> FullPosterior:
        """Return the prior as a posterior without sites."""
        return cls(K, Sites.zeros(len(K)))

    def state(self) -> dict[str, np.ndarray]:
        """Return the arrays that `restored` needs besides K: sites and moments."""
        return sites_and_moments(self)

    @classmethod
    def restored(cls, K: np.ndarray, state: Mapping[str, Any]) -> FullPosterior:
        """Rebuild the posterior from its `state`, with one factorisation."""
        sites, moments = from_state(state)
        return cls(K, sites, moments=moments)

    def renewed(self, sites: Sites, moments=None) -> FullPosterior:
        """Return the posterior with the same prior and new sites; `moments` are (α, mean), if known."""
        return FullPosterior(self.K, sites, moments=moments)

    def shifted(self, alpha: np.ndarray, mean: np.ndarray) -> FullPosterior:
        """Return the posterior with the same τ and `mean` = K `alpha` added to the mean, without a new factorisation."""
        return FullPosterior(
            self.K, self.sites.shifted(alpha, mean), self._system, (self.alpha + alpha, self.mean + mean)
        )

    weight = 1.0  # of each observation; see `SharedPosterior` for other weights

    @property
    def places(self) -> Places:
        """The map from observations to latent values: one to one."""
        return Places(len(self.K))

    @property
    def each(self) -> Sites:
        """The site of one copy of each observation."""
        return self.sites

    @property
    def slope(self) -> np.ndarray:
        """(n,) α of one copy of each observation."""
        return self.alpha

    @property
    def dtype(self) -> Any:
        """The dtype of the factorisation."""
        return self._system.dtype

    @property
    def kept(self) -> np.ndarray:
        """(n,) 1 - τ var, the fraction of the marginal precision that does not come from the datum's own site."""
        return self._system.kept

    @property
    def latent(self) -> FullPosterior:
        """The posterior of the latent values: this object."""
        return self

    @property
    def var(self) -> np.ndarray:
        """(n,) marginal variances."""
        return self._system.var

    @property
    def trace_ratio(self) -> float:
        """tr(V K⁻¹)."""
        return float(np.sum(self._system.kept))

    @property
    def rounding(self) -> float:
        """Effect of rounding of K on the marginals, in standard deviations: eps × condition of B, where it can matter.

        Large only for K of low rank and large scale: if K has full rank, B⁻¹ is small and so is its error.
        """
        most = STALL_FACTOR[self._system.dtype] * self._system.rounding
        return most if most < 1e-9 else most * float(self._system.kept.max())

    @property
    def log_partition(self) -> float:
        """log ∫ N(f | 0, K) ∏ exp(-½ τ_i f_i² + ν_i f_i) df."""
        return 0.5 * float(self.sites.nu @ self.mean) - 0.5 * self.log_det

    def cavity(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean and variance of each f_i with its own site removed. [NR] (12)"""
        var = self._system.cavity_var
        return self.mean - var * self.alpha, var

    def covariance_step(self, nu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (α, mean) for ν under the current τ: V ν = K α."""

        def check(alpha):
            mean = symmetric_product(self.K, alpha)
            return nu - alpha - self.sites.tau * mean, mean

        # under priors of very large scale the first solution loses digits, which refinement restores
        return refined(nu, self._system.alpha, check, dtype=self._system.dtype)

    def response(self) -> Response | None:
        """Return the response of the marginal variances to changes of τ; None if precisions are negative."""
        rows = strong_sites(self.sites.tau, self.var, len(self.K))
        cov = self._system.covariances(rows)
        return None if cov is None else Response([(rows, cov**2)], cov)

    def left_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean and variance of each latent value with its observation left out."""
        return self.cavity()

    def predict(self, Ks: np.ndarray, kd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return latent mean and variance (m,), for cross covariances Ks (n, m) and prior variances kd (m,). [NR] (6)"""
        # contiguous arrays, so that sums are rounded in the same way for one row as for many
        rows, alpha = np.ascontiguousarray(Ks.T), np.ascontiguousarray(self.alpha)
        var = kd - self._system.explained(Ks)
        return np.einsum("mn,n->m", rows, alpha), np.maximum(var, SMALLEST_VARIANCE * kd)

    def covariance(self) -> np.ndarray:
        """Return the posterior covariance V (n, n)."""
        return self._system.covariance()

    def gradient(self, *pairs: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """Return ½(α αᵀ - (K + T⁻¹)⁻¹) + Σ ½(u wᵀ + w uᵀ) over the given pairs: a new symmetric (n, n) array."""
        M = self._system.residual_precision()  # lower triangle, overwritten below unless it is float32
        G = M if M.dtype == np.float64 else np.empty(M.shape)
        products = [(self.alpha, self.alpha), *pairs, *((w, u) for u, w in pairs)]
        for i, j in row_blocks(len(G)):
            block = G[i:j, :j]
            np.negative(M[i:j, :j], out=block)
            for u, w in products:
                block += u[i:j, None] * w[:j]
            block *= 0.5
        return mirror_lower(G)

    def apply_residual_precision(self, x: np.ndarray) -> np.ndarray:
        """Return (K + T⁻¹)⁻¹ x."""
        return self._system.apply_residual_precision(x)


class _PositiveSystem:
    """The linear algebra for K and τ, with all τ ≥ 0."""

    def __init__(self, K: np.ndarray, tau: np.ndarray):
        self.K, self.tau, self.dtype = K, tau, factor_dtype()
        self.root = np.sqrt(tau)
        self.factor = factor_of_B(scaled_plus_identity(K, self.root, self.dtype), "I + √W K √W", K) if tau.any() else None
        self.log_det = self.factor.log_det if self.factor else 0.0

    @cached_property
    def rounding(self):
        return rounding_of_B(self.K, self.tau, self.dtype)

    def apply_residual_precision(self, x):
        return self.root * self.factor.solve(self.root * x) if self.factor else np.zeros_like(x)

    def alpha(self, nu):
        # (I + TK)⁻¹ ν is ν - √τ B⁻¹ √τ K ν, which cancels where τK is large, or √τ B⁻¹ ν/√τ, which needs τ > 0:
        # each datum uses the form that is accurate for it, in one solve
        if self.factor is None or not nu.any():
            return nu.copy()
        strong, per_root = self._strong
        if strong is None:
            return self.root * self.factor.solve(nu * per_root)
        weak = np.where(strong, 0.0, nu)
        return weak + self.root * self.factor.solve(nu * per_root - self.root * symmetric_product(self.K, weak))

    @cached_property
    def _strong(self):
        """Which data use the second form of `alpha`, None if all do; and 1/√τ of these data, 0 of the others."""
        strong = self.tau * self.K.diagonal() > 1
        return None if strong.all() else strong, np.divide(1.0, self.root, out=np.zeros_like(self.root), where=strong)

    @cached_property
    def kept(self):
        """b = diag(B⁻¹) = 1 - τ var, at most one up to rounding."""
        if self.factor is None:
            return np.ones(len(self.tau))
        return self._clipped(self.factor.diag_inverse(), 1.0)

    @cached_property
    def var(self):
        if self.factor is None:
            return self.K.diagonal()
        prior, kept = self.K.diagonal(), self.kept
        weak = (1 - kept < (CANCELS_SINGLE if self.dtype == np.float32 else CANCELS)) & (self.tau * prior < 1)
        if not weak.any():
            return (1 - kept) / self.tau
        var = np.empty_like(self.tau)
        var[~weak] = (1 - kept[~weak]) / self.tau[~weak]
        var[weak] = prior[weak] - self._clipped(self.explained(self.K[:, weak]), prior[weak])
        return var

    @cached_property
    def cavity_var(self):
        return self.var / self.kept

    def _clipped(self, part, whole):
        """Clip `part` to `whole`. Raise if it exceeds `whole` by more than rounding: then K is not a covariance matrix."""
        if (part - whole > 10 * len(self.K) * self.rounding * whole).any():
            raise NotPositiveDefinite(
                "K is not positive semidefinite: a posterior variance is negative. Is the kernel valid for these inputs?"
            )
        return np.minimum(part, whole)

    def explained(self, Ks):
        """Return diag(Ksᵀ (K + T⁻¹)⁻¹ Ks)."""
        if self.factor is None:
            return np.zeros(Ks.shape[1])
        if Ks.shape[1] == 0:
            return np.zeros(0)
        white = whole_strips(Ks.T)
        white = np.multiply(white, self.root, out=None if np.may_share_memory(white, Ks) else white)
        white = white.astype(self.dtype, copy=False)
        self.factor.whiten_strips(white)
        return np.square(white, out=white).sum(axis=1, dtype=float)[: Ks.shape[1]]

    def covariance(self):
        if self.factor is None:
            return self.K.copy()
        white = self.factor.whiten(self.root[:, None] * self.K)
        return self.K - white.T @ white

    def covariances(self, rows):
        """Return the posterior covariances between `rows`, in single precision: V = T^-½ (I - B⁻¹) T^-½."""
        if self.factor is None:
            return self.K[np.ix_(rows, rows)].astype(np.float32)
        cov = mirror_lower(scale_lower(self.factor.inverse_lower(), 1 / np.where(self.tau > 0, self.root, np.inf)))
        np.negative(cov, out=cov)
        cov.ravel()[:: len(cov) + 1] = self.var
        return (cov if len(rows) == len(cov) else cov[np.ix_(rows, rows)]).astype(np.float32)

    def residual_precision(self):
        """Return the lower triangle of (K + T⁻¹)⁻¹ = √τ B⁻¹ √τ, in a new array."""
        if self.factor is None:
            return np.zeros_like(self.K)
        return scale_lower(self.factor.inverse_lower(), self.root)


class _IndefiniteSystem:
    """The linear algebra for K and τ, with some τ < 0, for likelihoods that are not log-concave.

    V = L (I + LᵀTL)⁻¹ Lᵀ with K = L Lᵀ.
    """

    JITTER = 1e-10  # relative to the mean prior variance; bounds the error of V
    dtype = np.float64  # also in the context `single_precision`: this form is less accurate, since it factorises K

    def __init__(self, K: np.ndarray, tau: np.ndarray):
        self.K, self.tau = K, tau
        n = len(K)
        L = np.linalg.cholesky(K + self.JITTER * np.trace(K) / n * np.eye(n))
        try:
            factor = Factor(np.ascontiguousarray(np.eye(n) + L.T @ (tau[:, None] * L)), "the posterior precision")
        except NotPositiveDefinite as error:
            raise NotPositiveDefinite(
                "negative site precisions outweigh the prior, so there is no proper posterior. "
                "Labels and prior contradict each other too strongly: allow more label noise (raise epsilon)."
            ) from error
        self.half = factor.whiten(np.asfortranarray(L.T))  # V = halfᵀ half
        self.log_det = factor.log_det
        self.var = np.einsum("ij,ij->j", self.half, self.half)
        self.kept = 1 - tau * self.var
        self.cavity_var = self.var / self.kept
        self.rounding = rounding_of_B(K, tau)

    def alpha(self, nu):
        return nu - self.tau * (self.half.T @ (self.half @ nu))

    def apply_residual_precision(self, x):
        return self.tau * (x - self.half.T @ (self.half @ (self.tau * x)))  # T - T V T

    def explained(self, Ks):
        scaled = self.tau[:, None] * Ks
        white = self.half @ scaled
        return np.einsum("ij,ij->j", scaled, Ks) - np.einsum("ij,ij->j", white, white)

    def covariance(self):
        return self.half.T @ self.half

    def covariances(self, rows):
        return None  # predicted variances would not be reliable with negative precisions

    def residual_precision(self):
        return np.diag(self.tau) - self.tau[:, None] * (self.half.T @ self.half) * self.tau
