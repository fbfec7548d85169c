"""One latent function per class, coupled at each datum by sites of precision Π_i = diag(π_i) - π_i π_iᵀ/(1ᵀπ_i).

With D_c = diag(π of class c), A_c = I + √D_c K_c √D_c, B_c = √D_c A_c⁻¹ √D_c and P = Σ_c B_c, the matrix
M = Π (I + KΠ)⁻¹ equals B - B R P⁻¹ Rᵀ B. So C + 1 factorisations of n × n replace one of nC × nC. The product
K_c B_c = D_c^-½ (I - A_c⁻¹) D_c^½ =: H_c needs no matrix product. With L Lᵀ = P the marginals need L⁻¹ H_cᵀ, and the
gradient L⁻¹ B_c = (L⁻¹ - L⁻¹ H_cᵀ) D_c.

At a new point with covariances k, the same for all classes, everything follows from h_c = L⁻¹ B_c k. Since Σ_c h_c = Lᵀk,
kᵀB_c k = h_cᵀ Σ_d h_d: the covariance of classes c ≠ d is h_cᵀh_d, and the variance of class c is the prior's minus the
covariances with the other classes. The last h_c is Lᵀk minus the others, which takes half of a product: L is triangular.

[RJV] Riihimäki, Jylänki & Vehtari 2013, appendix B.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.linalg.blas import dsymm, dsymv, dsyr2k, dsyrk

from ..numerics import (
    CACHE,
    Factor,
    RightFactor,
    blas,
    blocks,
    epsilon,
    factor_dtype,
    mirror_lower,
    refined,
    row_blocks,
    scaled_plus_identity,
    strips_times_lower,
    symmetric_product,
    whole_strips,
)
from .dominant import Dominant, correct_symmetric, dominant_direction
from .products import inner_products
from .rounding import EPS, SMALLEST_VARIANCE, STALL_FACTOR, factor_of_B

# Lower bound of π times the prior variance (or times one, if that is larger: contrasts have noise of variance one besides
# their prior). A site this weak has no visible effect, and the bound avoids division by zero.
WEAKEST_SITE = 1e-10
STRONG_SITE = 1e-3  # π times the prior variance above which variances are computed from A⁻¹
STRONG_SITE_SINGLE = 1e-2  # the same with factors of float32
ACCURATE = 3e-12  # eps × condition of A below which predictions are accurate to 1e-6 without refinement
PREDICTION_REFINEMENTS = 2  # number of refinement steps of other predictions
NEW_POINTS_PER_BLOCK = 384


class CoupledSystem:
    """The linear algebra for one π (n, C) under K (n, n), shared by all classes, or (C, n, n)."""

    def __init__(self, K: np.ndarray, pi: np.ndarray):
        n, C = pi.shape
        self.shared = K.ndim == 2
        self.K = np.broadcast_to(K, (C, n, n)) if self.shared else K
        self.prior_var = np.diagonal(self.K, axis1=1, axis2=2).T  # (n, C)
        self.pi = np.maximum(pi, WEAKEST_SITE / np.maximum(self.prior_var, 1.0))
        self.root = np.sqrt(self.pi)
        self.total = self.pi.sum(1)  # (n,) 1ᵀπ
        self.dtype = factor_dtype()
        factors = [self._factor_of_A(c) for c in range(C)]
        self.log_det_parts = sum(factor.log_det for factor in factors)
        self.inverse = [mirror_lower(factor.into_inverse()) for factor in factors]
        P = np.empty((n, n))
        self._scaled: np.ndarray | None = self._scaled_inverses(P)
        self.dominant = self._dominant(P) if self.dtype == np.float32 else None
        self.P = Factor(P, "the coupling between the classes")
        self.log_det_parts += self.P.log_det  # log |A| + log |P|

    def _factor_of_A(self, c: int) -> Factor:
        return factor_of_B(scaled_plus_identity(self.K[c], self.root[:, c], self.dtype), "I + √D K √D", self.K)

    @cached_property
    def inverse(self) -> list[np.ndarray]:
        """A_c⁻¹ of each class. Predictions free them (see `_halves`); they are recomputed when needed again."""
        return [mirror_lower(self._factor_of_A(c).into_inverse()) for c in range(self.pi.shape[1])]

    @cached_property
    def rounding(self) -> float:
        """Effect of rounding of K on the marginals, in standard deviations: eps × condition of A, where it can matter.

        As for one latent function (`FullPosterior.rounding`): if K has full rank, A⁻¹ is small, and so is its error.
        """
        most = STALL_FACTOR[self.dtype] * epsilon(self.dtype) * (1 + np.max(self.pi * self.prior_var, axis=0))  # (C,)
        kept = [np.max(np.diagonal(inverse)) for inverse in self.inverse]
        return float(np.max(np.where(most < 1e-9, most, most * kept)))

    def _dominant(self, P: np.ndarray) -> Dominant:
        """Return the dominant directions of K, and correct the lower triangle of P along them."""
        u = [dominant_direction(k) for k in (self.K[:1] if self.shared else self.K)]
        U = np.broadcast_to(np.array(u).T, self.pi.shape)
        found = Dominant(U, self.root, lambda X: X + self.root * self.times_K(self.root * X), self._times_rounded_inverse)
        for own, missing in zip(U.T, found.missing.T, strict=True):
            correct_symmetric(P, own, missing)
        return found

    def _scaled_inverses(self, P: np.ndarray | None = None) -> np.ndarray:
        """Return A_c⁻¹ √D_c (n, C, n), and fill P with Σ B_c = Σ √D_c A_c⁻¹ √D_c.

        P is float64: what the classes have in common is determined by the prior alone, so P is tiny along smooth functions.
        """
        n, C = self.pi.shape
        out, root = np.empty((n, C, n), self.dtype), self.root.T.astype(self.dtype)
        for some in blocks(n, C * n, CACHE):
            for c, inverse in enumerate(self.inverse):
                np.multiply(inverse[some], root[c], out=out[some, c])
            if P is not None:
                np.matmul(self.root[some, None, :], out[some], out=P[some, None, :])
        return out

    def _add_B(self, c: int, out: np.ndarray, times: float = 1.0) -> None:
        """Add `times` B_c to the lower triangle of `out`."""
        root, inverse = self.root[:, c].astype(self.dtype), self.inverse[c]
        for i, j in row_blocks(len(out)):
            block = np.multiply.outer(self.dtype(times) * root[i:j], root[:j])
            block *= inverse[i:j, :j]
            out[i:j, :j] += block

    @property
    def log_det(self) -> float:
        """log|I + KΠ|. [RJV] appendix B"""
        return self.log_det_parts - float(np.sum(np.log(self.total)))

    def times_K(self, X: np.ndarray) -> np.ndarray:
        """Return K_c x_c for X (n, C)."""
        if self.shared:  # the transpose has the memory order of LAPACK
            return dsymm(1.0, self.K[0].T, np.asfortranarray(X))
        return np.array([dsymv(1.0, self.K[c].T, X[:, c]) for c in range(X.shape[1])]).T

    def times_B(self, X: np.ndarray) -> np.ndarray:
        return self.root * self._times_inverse(self.root * X)

    def _times_inverse(self, X):
        """Return A_c⁻¹ x_c."""
        rounded = self._times_rounded_inverse
        return rounded(X) if self.dominant is None else self.dominant.times_inverse(X, rounded)

    def _times_rounded_inverse(self, X):
        symv = blas("symv", self.inverse[0])
        return np.array([symv(1.0, a.T, X[:, c]) for c, a in enumerate(self.inverse)], dtype=float).T

    def times_Pi(self, X: np.ndarray) -> np.ndarray:
        return self.pi * (X - (np.sum(self.pi * X, axis=1) / self.total)[:, None])

    def solve(self, nu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return α with α + ΠKα = ν, and the mean Kα, each (n, C). [RJV] (26)"""

        def check(alpha):
            mean = self.times_K(alpha)
            return nu - alpha - self.times_Pi(mean), mean

        return refined(nu, self._alpha, check, dtype=self.dtype)

    def largest_move(self, nu: np.ndarray) -> float:
        """Return the largest √(ν_iᵀ S_i ν_i), where S_i is the covariance that datum i would have without the other data.

        S_i is an upper bound of the marginal covariance. So this bounds how far a change of ν moves its datum, in standard
        deviations.
        """
        alone = self.prior_var / (1 + self.pi * self.prior_var)  # S = E + E π πᵀ E / (1ᵀπ - πᵀE π), E = diag(alone)
        coupled = np.sum(self.pi * alone * nu, axis=1) ** 2 / np.sum(self.pi / (1 + self.pi * self.prior_var), axis=1)
        return float(np.sqrt(np.max(np.sum(alone * nu**2, axis=1) + coupled, initial=0.0)))

    def _alpha(self, nu):
        """Return (I + ΠK)⁻¹ ν in a form whose error grows with the condition of A, not with its square.

        Π = D - D R (1ᵀπ)⁻¹ RᵀD. With g = (I + DK)⁻¹ν the result is g - B R P⁻¹ Rᵀ(g - ν), which does not contain K. In
        the form ν - M K ν the large directions of K would multiply the rounding error of P⁻¹, which is as large as K. As for
        one latent function, g is √D A⁻¹ ν/√D where πK is large, and ν - √D A⁻¹ √D K ν where it is small.
        """
        strong, per_root = self._strong
        scaled = nu * per_root
        if strong is None:
            g = self.root * self._times_inverse(scaled)
        else:
            weak = np.where(strong, 0.0, nu)
            g = weak + self.root * self._times_inverse(scaled - self.root * self.times_K(weak))
        return g - self.times_B(self.P.solve(g.sum(1) - nu.sum(1))[:, None])

    @cached_property
    def _strong(self) -> tuple[np.ndarray | None, np.ndarray]:
        """Where πK is large (n, C), None if everywhere; and 1/√π there, 0 elsewhere."""
        strong = self.pi * self.prior_var > 1
        return None if strong.all() else strong, np.where(strong, 1 / self.root, 0.0)

    @cached_property
    def _white(self) -> np.ndarray:
        """(n, C, n): -√D_c H_c L⁻ᵀ = (A_c⁻¹ - I) √D_c L⁻ᵀ of each class. `forget` frees its memory."""
        out, self._scaled = self._scaled_inverses() if self._scaled is None else self._scaled, None
        np.einsum("ici->ic", out)[...] = self.root * (self._diagonals - 1)
        self.P.invert()
        self.P.rounded(self.dtype).whiten_rows(out.reshape(-1, len(out)))
        return out

    @property
    def _diagonals(self) -> np.ndarray:
        """(n, C) diagonals of A_c⁻¹."""
        return np.array([inverse.diagonal() for inverse in self.inverse]).T

    def forget(self) -> None:
        """Free the arrays that can be recomputed."""
        self.__dict__.pop("_white", None)

    @cached_property
    def cov(self) -> np.ndarray:
        """(n, C, C) marginal covariances at each datum. [RJV] (27)"""
        n, C = self.pi.shape
        out = np.empty((n, C, C))
        for some in blocks(n, C * n, CACHE):
            out[some] = inner_products(self._white[some], self.root[some])
        np.einsum("icc->ic", out)[...] += self._own_var
        return out

    def covariance_parts(self, c: int) -> tuple[np.ndarray, np.ndarray]:
        """Return N_c and W_c (n, n): the covariance of f_c with f_d is W_c W_dᵀ, plus N_c if c = d. In single precision."""
        root = self.root[:, c]
        own = np.divide(self.inverse[c], -root)
        own /= root[:, None]
        own.ravel()[:: len(own) + 1] = self._own_var[:, c]
        return own.astype(np.float32), np.divide(self._white[:, c], -root[:, None]).astype(np.float32)

    @cached_property
    def _own_var(self) -> np.ndarray:
        """Variances (n, C) of each class without the coupling: diag(K - K B K)."""
        var = (1 - self._diagonals) / self.pi
        # diag(K - H K), in blocks of rows, where that form cancels
        weak = self.pi * self.prior_var <= (STRONG_SITE_SINGLE if self.dtype == np.float32 else STRONG_SITE)
        for c in np.flatnonzero(weak.any(0)):
            root, inverse = self.root[:, c], self.inverse[c]
            for i, j in row_blocks(len(var)):
                some = i + np.flatnonzero(weak[i:j, c])
                K = self.K[c][some]
                explained = np.einsum("ij,ij,j->i", inverse[some], K, -root) / root[some] + np.diagonal(K[:, some])
                var[some, c] = self.prior_var[some, c] - explained
        return var

    @cached_property
    def _halves(self) -> tuple[RightFactor, np.ndarray]:
        """Transposes of L⁻¹ B_c of all classes but the last, and L (n, n), for predictions.

        Frees the A_c⁻¹, which need as much memory.
        """
        out = RightFactor(self._half(c) for c in range(self.pi.shape[1] - 1)), self.P.root()
        self.__dict__.pop("inverse", None)
        return out

    def _half(self, c: int) -> np.ndarray:
        """Return the transpose of L⁻¹ B_c, (n, n)."""
        B = self.inverse[c] * self.root[:, c]
        B *= self.root[:, c, None]
        self.P.whiten_rows(B)
        return B

    def predict_cov(self, Ks: np.ndarray, kd: np.ndarray) -> np.ndarray:
        """Return covariances (m, C, C) at new points, for Ks (n, m) or (C, n, m) and kd (m,) or (C, m). [RJV] (27)"""
        C, m = self.pi.shape[1], Ks.shape[-1]
        if m == 0:
            return np.empty((m, C, C))
        if Ks.ndim == 2 and kd.ndim == 1 and self._all_accurate:
            return self._predict_shared(Ks, kd)
        return self._predict_by_class(np.broadcast_to(Ks, (C, *Ks.shape[-2:])), np.broadcast_to(kd, (C, m)))

    def _predict_shared(self, Ks, kd):
        C, m = self.pi.shape[1], Ks.shape[1]
        out = np.empty((m, C, C))
        for some in blocks(m, 1, NEW_POINTS_PER_BLOCK):
            self._inner_products(Ks[:, some], out[some])
        var = np.einsum("mcc->mc", out)
        least = var + SMALLEST_VARIANCE * kd[:, None]
        var[...] = np.maximum(kd[:, None] - (out.sum(2) - var), least)
        return out

    def _inner_products(self, Ks, out):
        """Write the inner products h_cᵀh_d (m, C, C) at new points to `out`, for Ks (n, m)."""
        (n, C), m, strips = self.pi.shape, Ks.shape[1], whole_strips(Ks.T)
        halves, L = self._halves
        rows = np.empty((len(strips), C, n))  # h_c of all classes but the last, and their sum over all classes
        halves.times_strips(strips, rows.reshape(len(strips), C * n))
        rows[:, -1] = strips_times_lower(strips, L)
        np.matmul(rows[:m], np.swapaxes(rows[:m], 1, 2), out=out)
        # from products with the sum to those with the last h_c
        out[:, :, -1] -= out[:, :, :-1].sum(2)
        out[:, -1, -1] -= out[:, :-1, -1].sum(1)
        out[:, -1, :-1] = out[:, :-1, -1]

    def _predict_by_class(self, Ks, kd):
        C, n, m = Ks.shape
        out, half, own = np.empty((m, C, C)), np.empty((C, m, n)), np.empty((C, m))
        for c in range(C):
            K = np.multiply(Ks[c].T, self.root[:, c], order="C")
            Y = dsymm(1.0, self.inverse[c].T, K.T, c=half[c].T, overwrite_c=1).T
            explained = np.einsum("mn,mn->m", K, Y) if self._accurate[c] else self._refined(c, K, Y)
            own[c] = kd[c] - explained
            Y *= self.root[:, c]  # B Ks
            self.P.whiten_rows(Y)
        np.matmul(np.swapaxes(half, 0, 1), np.moveaxis(half, 0, 2), out=out)
        np.einsum("mcc->cm", out)[...] += np.maximum(own, SMALLEST_VARIANCE * kd)
        return out

    @cached_property
    def _accurate(self) -> np.ndarray:
        """(C,) whether A⁻¹ of each class is accurate enough for predictions without refinement."""
        return EPS * (1 + np.max(self.pi * self.prior_var, axis=0)) < ACCURATE

    @cached_property
    def _all_accurate(self) -> bool:
        return bool(np.all(self._accurate))

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
        """Return ½(α αᵀ - M) + Σ ½(u wᵀ + w uᵀ) over pairs, for each class: summed (n, n) if K is shared, else (C, n, n)."""
        n, C = self.pi.shape
        out = np.zeros((1 if self.shared else C, n, n))
        parts = [slice(0, C)] if self.shared else [slice(c, c + 1) for c in range(C)]
        white, roots = self._white, self.root.astype(self.dtype)
        inverse_root = np.ascontiguousarray(self.P.inverse_root().T, self.dtype)
        for G, part in zip(out, parts, strict=True):
            for c in range(C)[part]:
                root = roots[:, c, None]
                half = inverse_root * root
                half += white[:, c]
                half *= root
                self._add_minus_M(c, half, G)
            if self.dominant is not None:
                self._correct_gradient(part, G)
            dsyrk(0.5, np.asfortranarray(alpha[:, part]), beta=1.0, c=G.T, overwrite_c=1)
            for u, w in pairs:
                u, w = np.asfortranarray(u[:, part]), np.asfortranarray(w[:, part])
                dsyr2k(0.5, u, w, beta=1.0, c=G.T, overwrite_c=1)
            mirror_lower(G)
        return out[0] if self.shared else out

    def _correct_gradient(self, part: slice, G: np.ndarray) -> None:
        """Correct G = -½ Σ M_cc, a sum over the classes of `part`, along their common dominant direction."""
        assert self.dominant is not None, "float64 needs no correction"
        u, BU = np.array(self.dominant.U[:, part.start]), self.dominant.BU
        MU = BU - self.times_B(self.P.solve(BU))
        correct_symmetric(G, u, -0.5 * MU[:, part].sum(1) - symmetric_product(G, u))

    def _add_minus_M(self, c: int, half: np.ndarray, G: np.ndarray) -> None:
        """Add ½(halfᵀ half - B_c) to the lower triangle of G. With float32 factors only sums over classes are float64."""
        own = G if half.dtype == G.dtype else np.zeros(G.shape, half.dtype)
        self._add_B(c, own, -0.5)
        blas("syrk", half)(0.5, half.T, trans=1, beta=1.0, c=own.T, overwrite_c=1)
        if own is not G:
            for i, j in row_blocks(len(G)):
                G[i:j, :j] += own[i:j, :j]
