"""One latent function per class, coupled at each datum by sites of precision Π_i = diag(π_i) - π_i π_iᵀ/(1ᵀπ_i).

With D_c = diag(π of class c), A_c = I + √D_c K_c √D_c, B_c = √D_c A_c⁻¹ √D_c and P = Σ_c B_c, the matrix
M = Π (I + KΠ)⁻¹ equals B - B R P⁻¹ Rᵀ B. So C + 1 factorisations of n × n replace one of nC × nC. The product
K_c B_c = D_c^-½ (I - A_c⁻¹) D_c^½ =: H_c needs no matrix product. With L Lᵀ = P the marginals need L⁻¹ H_cᵀ, and the
gradient L⁻¹ B_c = (L⁻¹ - L⁻¹ H_cᵀ) D_c.

[RJV] Riihimäki, Jylänki & Vehtari 2013, appendix B.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg.blas import dsymm, dsymv, dsyr2k, dsyrk

from ..numerics import CACHE, Factor, blocks, mirror_lower, refined, row_blocks, scaled_plus_identity
from .full import factor_of_B
from .sites import Sites, matrix_cavity

EPS = np.finfo(float).eps
# Lower bound of π times the prior variance (or times one, if that is larger: contrasts have noise of variance one besides
# their prior). A site this weak has no visible effect, and the bound avoids division by zero.
WEAKEST = 1e-10
STRONG = 1e-3  # value of the same product above which variances are computed from A⁻¹
PRECISE = 3e-12  # largest eps × condition of A at which predictions need no refinement: they are accurate to 1e-6 then
PREDICTION_REFINEMENTS = 2  # number of refinement steps above PRECISE


class CoupledSystem:
    """The linear algebra for one π (n, C) under K (n, n), shared by all classes, or (C, n, n)."""

    def __init__(self, K: np.ndarray, pi: np.ndarray):
        n, C = pi.shape
        self.shared = K.ndim == 2
        self.K = np.broadcast_to(K, (C, n, n)) if self.shared else K
        self.prior_var = np.stack([np.diagonal(k) for k in self.K], axis=1)  # (n, C)
        self.pi = np.maximum(pi, WEAKEST / np.maximum(self.prior_var, 1.0))
        self.root = np.sqrt(self.pi)
        self.total = self.pi.sum(1)  # (n,) 1ᵀπ
        self.inverse, P = [], np.zeros((n, n))
        self.log_det_parts = 0.0
        for c in range(C):
            factor = factor_of_B(scaled_plus_identity(self.K[c], self.root[:, c]), "I + √D K √D", self.K)
            self.log_det_parts += factor.log_det
            self.inverse.append(mirror_lower(factor.into_inverse()))  # A_c⁻¹
            self._add_B(c, P)
        self.P = Factor(P, "the coupling between the classes")
        self.log_det_parts += self.P.log_det  # log |A| + log |P|

    @cached_property
    def rounding(self) -> float:
        """Effect of rounding of K on the marginals, in standard deviations: eps × condition of A, where it can matter.

        As for one latent function (`FullPosterior.rounding`): if K has full rank, A⁻¹ is small, and so is its error.
        """
        most = 8 * EPS * (1 + np.max(self.pi * self.prior_var, axis=0))  # (C,)
        kept = [np.max(np.diagonal(inverse)) for inverse in self.inverse]
        return float(np.max(np.where(most < 1e-9, most, most * kept)))

    def _add_B(self, c: int, out: np.ndarray, times: float = 1.0) -> None:
        """Add `times` B_c to the lower triangle of `out`."""
        root, inverse = self.root[:, c], self.inverse[c]
        for i, j in row_blocks(len(out)):
            block = inverse[i:j, :j] * root[:j]
            block *= times * root[i:j, None]
            out[i:j, :j] += block

    @property
    def log_det(self) -> float:
        """log|I + KΠ|. [RJV] appendix B"""
        return self.log_det_parts - float(np.sum(np.log(self.total)))

    def times_K(self, X: np.ndarray) -> np.ndarray:
        """K_c x_c for X (n, C)."""
        if self.shared:  # Kᵀ = K gives LAPACK's order
            return dsymm(1.0, self.K[0].T, np.asfortranarray(X))
        return np.array([dsymv(1.0, self.K[c].T, X[:, c]) for c in range(X.shape[1])]).T

    def times_B(self, X: np.ndarray) -> np.ndarray:
        return self.root * self._times_inverse(self.root * X)

    def _times_inverse(self, X):
        """A_c⁻¹ x_c."""
        return np.array([dsymv(1.0, a.T, X[:, c]) for c, a in enumerate(self.inverse)]).T

    def times_Pi(self, X: np.ndarray) -> np.ndarray:
        return self.pi * (X - (np.sum(self.pi * X, axis=1) / self.total)[:, None])

    def solve(self, nu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """α with α + ΠKα = ν, and the mean Kα, each (n, C). [RJV] (26)"""

        def check(alpha):
            mean = self.times_K(alpha)
            return nu - alpha - self.times_Pi(mean), mean

        return refined(nu, self._alpha, check)

    def largest_move(self, nu: np.ndarray) -> float:
        """Largest √(ν_iᵀ S_i ν_i), where S_i is the covariance that datum i would have without the other data.

        S_i is an upper bound of the marginal covariance. So this bounds how far a change of ν moves its datum, in standard
        deviations.
        """
        alone = self.prior_var / (1 + self.pi * self.prior_var)  # S = E + E π πᵀ E / (1ᵀπ - πᵀE π), E = diag(alone)
        coupled = np.sum(self.pi * alone * nu, axis=1) ** 2 / np.sum(self.pi / (1 + self.pi * self.prior_var), axis=1)
        return float(np.sqrt(np.max(np.sum(alone * nu**2, axis=1) + coupled, initial=0.0)))

    def _alpha(self, nu):
        """(I + ΠK)⁻¹ ν in a form whose error grows with the condition of A, not with its square.

        Π = D - D R (1ᵀπ)⁻¹ RᵀD. With g = (I + DK)⁻¹ν the result is g - B R P⁻¹ Rᵀ(g - ν), which does not contain K. In
        the form ν - M K ν the large directions of K would multiply the rounding error of P⁻¹, which is as large as K. As for
        one latent function, g is √D A⁻¹ ν/√D where πK is large, and ν - √D A⁻¹ √D K ν where it is small.
        """
        strong = self.pi * self.prior_var > 1
        weak = np.where(strong, 0.0, nu)
        scaled = np.where(strong, nu, 0.0) / np.where(strong, self.root, 1.0) - self.root * self.times_K(weak)
        g = weak + self.root * self._times_inverse(scaled)
        return g - self.times_B(self.P.solve(g.sum(1) - nu.sum(1))[:, None])

    @cached_property
    def _white(self) -> list[np.ndarray]:
        """Transposes of L⁻¹ H_cᵀ, (n, n) each. They take as much memory as `inverse`; `forget` frees it."""
        halves = [self._H(c) for c in range(self.pi.shape[1])]
        for half in halves:
            self.P.whiten_rows(half)
        return halves

    def _H(self, c: int) -> np.ndarray:
        root, inverse = self.root[:, c], self.inverse[c]
        out = np.empty_like(inverse)
        for i, j in row_blocks(len(out)):
            np.multiply(inverse[i:j], -root, out=out[i:j])
            out[i:j] *= 1 / root[i:j, None]
        out.ravel()[:: len(out) + 1] = 1 - np.diagonal(inverse)
        return out

    def forget(self) -> None:
        """Free the arrays that can be recomputed."""
        self.__dict__.pop("_white", None)

    @cached_property
    def cov(self) -> np.ndarray:
        """(n, C, C) marginal covariances at each datum. [RJV] (27)"""
        n, C = self.pi.shape
        out = np.empty((n, C, C))
        for some in blocks(n, C * n, CACHE):
            by_datum = np.stack([half[some] for half in self._white], axis=1)
            np.matmul(by_datum, np.swapaxes(by_datum, 1, 2), out=out[some])
        for c in range(C):
            out[:, c, c] += self._own_var(c)
        return out

    def covariance_parts(self, c: int) -> tuple[np.ndarray, np.ndarray]:
        """N_c and W_c (n, n): the covariance of f_c with f_d is W_c W_dᵀ, plus N_c if c = d. In single precision."""
        root = self.root[:, c]
        own = np.divide(self.inverse[c], -root)
        own /= root[:, None]
        own.ravel()[:: len(own) + 1] = self._own_var(c)
        return own.astype(np.float32), self._white[c].astype(np.float32)

    def _own_var(self, c: int) -> np.ndarray:
        """(n,) variances of class c without the coupling: diag(K - K B K)."""
        pi, prior, root, inverse = self.pi[:, c], self.prior_var[:, c], self.root[:, c], self.inverse[c]
        var = (1 - np.diagonal(inverse)) / pi
        weak = pi * prior <= STRONG  # where that form cancels: diag(K - H K), in blocks of rows
        for i, j in row_blocks(len(pi)):
            some = i + np.flatnonzero(weak[i:j])
            if len(some):
                K = self.K[c][some]
                explained = np.einsum("ij,ij,j->i", inverse[some], K, -root) / root[some] + np.diagonal(K[:, some])
                var[some] = prior[some] - explained
        return var

    def predict_cov(self, Ks: np.ndarray, kd: np.ndarray) -> np.ndarray:
        """(m, C, C) covariances at new points, from Ks (C, n, m) and kd (C, m). [RJV] (27)"""
        C, n, m = Ks.shape
        out, half, own = np.empty((m, C, C)), np.empty((C, m, n)), np.empty((C, m))
        if m == 0:
            return out
        for c in range(C):
            K = np.multiply(Ks[c].T, self.root[:, c], order="C")
            Y = dsymm(1.0, self.inverse[c].T, K.T, c=half[c].T, overwrite_c=1).T
            explained = np.einsum("mn,mn->m", K, Y) if self._precise(c) else self._refined(c, K, Y)
            own[c] = kd[c] - explained
            Y *= self.root[:, c]  # B Ks
            self.P.whiten_rows(Y)
        np.matmul(np.swapaxes(half, 0, 1), np.moveaxis(half, 0, 2), out=out)
        np.einsum("mcc->cm", out)[...] += np.maximum(own, 1e-14 * kd)
        return out

    def _precise(self, c: int) -> bool:
        """Whether A⁻¹ of class c is accurate enough for predictions without refinement."""
        return bool(EPS * (1 + np.max(self.pi[:, c] * self.prior_var[:, c])) < PRECISE)

    def _refined(self, c: int, K: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """Improve Y = A⁻¹ K, rows (m, n), in place and return diag(K A⁻¹ Kᵀ).

        The diagonal is the maximum over y of 2 kᵀy - yᵀA y = (k + residual)ᵀy, so its error is of second order in that of y.
        """
        root, prior = self.root[:, c], self.K[c]
        missing = K - Y - root * dsymm(1.0, prior.T, (root * Y).T).T
        for _ in range(PREDICTION_REFINEMENTS):
            Y += dsymm(1.0, self.inverse[c].T, missing.T).T
            missing = K - Y - root * dsymm(1.0, prior.T, (root * Y).T).T
        return np.einsum("mn,mn->m", K + missing, Y)

    def gradient(self, alpha: np.ndarray, *pairs: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """½(α αᵀ - M) + ½(u wᵀ + w uᵀ) over the pairs, block by class: summed (n, n) if K is shared, else (C, n, n)."""
        n, C = self.pi.shape
        out = np.zeros((1 if self.shared else C, n, n))
        parts = [slice(0, C)] if self.shared else [slice(c, c + 1) for c in range(C)]
        white, inverse_root = self._white, np.ascontiguousarray(self.P.inverse_root().T)
        self.forget()  # its memory is overwritten below
        for G, part in zip(out, parts, strict=True):
            for c in range(C)[part]:
                self._add_B(c, G, -0.5)
                half = np.subtract(inverse_root, white[c], out=white[c])
                half *= self.pi[:, c, None]
                dsyrk(0.5, half.T, trans=1, beta=1.0, c=G.T, overwrite_c=1)
            dsyrk(0.5, np.asfortranarray(alpha[:, part]), beta=1.0, c=G.T, overwrite_c=1)
            for u, w in pairs:
                u, w = np.asfortranarray(u[:, part]), np.asfortranarray(w[:, part])
                dsyr2k(0.5, u, w, beta=1.0, c=G.T, overwrite_c=1)
            mirror_lower(G)
        return out[0] if self.shared else out


def precisions(pi: np.ndarray) -> np.ndarray:
    """Π = diag(π) - ππᵀ/(1ᵀπ) (n, C, C) for π (n, C)."""
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
        """Everything that `restored` needs except K."""
        return {"pi": self.pi, "nu": self.nu, "alpha": self.alpha, "mean": self.mean}

    @classmethod
    def restored(cls, K: np.ndarray, state: Mapping[str, Any]) -> CoupledPosterior:
        """Posterior from its `state`."""
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
        """Mean (n, C) and covariance (n, C, C) of each datum's latent values with its own site removed."""
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
        """Moments of the latent values of each observation without it."""
        return self.cavity()

    def predict(self, Ks: np.ndarray, kd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean (m, C) and covariance (m, C, C) at new points; Ks (n, m) or (C, n, m), kd (m,) or (C, m)."""
        C = self.nu.shape[1]
        Ks = np.broadcast_to(Ks, (C, *Ks.shape)) if Ks.ndim == 2 else Ks
        kd = np.broadcast_to(kd, (C, len(kd))) if kd.ndim == 1 else kd
        mean = np.stack([Ks[c].T @ self.alpha[:, c] for c in range(C)], axis=1)
        return mean, self.system.predict_cov(Ks, kd)

    def gradient(self, *pairs: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        return self.system.gradient(self.alpha, *pairs)
