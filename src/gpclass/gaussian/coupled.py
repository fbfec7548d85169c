"""One latent function per class, coupled at each datum by sites of precision Π_i = diag(π_i) - π_i π_iᵀ/(1ᵀπ_i).

With D_c = diag(π of class c), A_c = I + √D_c K_c √D_c, B_c = √D_c A_c⁻¹ √D_c and P = Σ_c B_c the posterior precision's
missing piece is M = B - B R P⁻¹ Rᵀ B, so C + 1 factorisations of n × n do what one of nC × nC would. The product
K_c B_c = D_c^-½ (I - A_c⁻¹) D_c^½ =: H_c comes without a matrix product.

[RJV] Riihimäki, Jylänki & Vehtari 2013, appendix B.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.linalg.blas import dsymv, dsyrk

from ..numerics import Factor, mirror_lower, scaled_plus_identity
from .sites import Sites

WEAKEST = 1e-10  # π times prior variance below which it is raised to that: a site too weak to be seen, but safe to divide by
STRONG = 1e-3  # the same product above which variances are read off A⁻¹
REFINEMENTS = 3  # of the linear solve for the mean


def other_classes(y: np.ndarray, n_classes: int) -> np.ndarray:
    """(n, C - 1) all classes but the own one, in order."""
    rest = np.arange(n_classes - 1)
    return rest + (rest >= y[:, None])


class CoupledSystem:
    """The linear algebra of one set of π (n, C) under K (n, n), shared by all classes, or (C, n, n)."""

    def __init__(self, K: np.ndarray, pi: np.ndarray):
        n, C = pi.shape
        self.shared = K.ndim == 2
        self.K = np.broadcast_to(K, (C, n, n)) if self.shared else K
        self.prior_var = np.stack([np.diagonal(k) for k in self.K], axis=1)  # (n, C)
        floor = WEAKEST / np.maximum(self.prior_var, np.finfo(float).tiny)
        self.pi = np.maximum(pi, np.minimum(floor, WEAKEST * 1e100))
        self.root = np.sqrt(self.pi)
        self.total = self.pi.sum(1)  # (n,) 1ᵀπ
        self.inverse, P = [], np.zeros((n, n))
        self.log_det_parts = 0.0
        for c in range(C):
            factor = Factor(scaled_plus_identity(self.K[c], self.root[:, c]), "I + √D K √D")
            self.log_det_parts += factor.log_det
            inverse = mirror_lower(factor.inverse_lower())  # A_c⁻¹
            self.inverse.append(inverse)
            P += self.root[:, c, None] * inverse * self.root[:, c]
        self.P = Factor(P, "the coupling between the classes")
        self.log_det_parts += self.P.log_det  # log |A| + log |P|

    @property
    def log_det(self) -> float:
        """log|I + KΠ|. [RJV] appendix B"""
        return self.log_det_parts - float(np.sum(np.log(self.total)))

    def times_K(self, X: np.ndarray) -> np.ndarray:
        """K_c x_c for X (n, C)."""
        return np.stack([dsymv(1.0, self.K[c].T, X[:, c]) for c in range(X.shape[1])], axis=1)

    def times_B(self, X: np.ndarray) -> np.ndarray:
        scaled = self.root * X
        return self.root * np.stack([dsymv(1.0, a.T, scaled[:, c]) for c, a in enumerate(self.inverse)], axis=1)

    def times_Pi(self, X: np.ndarray) -> np.ndarray:
        return self.pi * (X - (np.sum(self.pi * X, axis=1) / self.total)[:, None])

    def apply_M(self, X: np.ndarray) -> np.ndarray:
        """M x = Π (I + KΠ)⁻¹ x."""
        b = self.times_B(X)
        return b - self.times_B(np.broadcast_to(self.P.solve(b.sum(1))[:, None], X.shape))

    def solve(self, nu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """α with α + ΠKα = ν, and the mean Kα, each (n, C). [RJV] (26)"""
        alpha = nu - self.apply_M(self.times_K(nu))
        mean = self.times_K(alpha)
        for _ in range(REFINEMENTS):
            missing = nu - alpha - self.times_Pi(mean)
            if np.max(np.abs(missing), initial=0.0) <= 1e-9 * np.max(np.abs(nu), initial=0.0):
                break
            alpha = alpha + missing - self.apply_M(self.times_K(missing))
            mean = self.times_K(alpha)
        return alpha, mean

    @cached_property
    def cov(self) -> np.ndarray:
        """(n, C, C) marginal covariances at each datum. [RJV] (27)"""
        n, C = self.pi.shape
        out = np.zeros((n, C, C))
        halves = []
        for c, inverse in enumerate(self.inverse):
            root = self.root[:, c]
            Ht = -inverse * root[:, None]
            Ht.ravel()[:: n + 1] += root
            Ht /= root  # Hᵀ = √D (I - A⁻¹)/√D
            strength = self.pi[:, c] * self.prior_var[:, c]
            read = (1 - np.diagonal(inverse)) / self.pi[:, c]
            weak = self.prior_var[:, c] - np.einsum("ji,ij->i", Ht, self.K[c])
            out[:, c, c] = np.where(strength > STRONG, read, weak)
            halves.append(self.P.whiten(Ht))
        return _add_products(out, halves)

    def predict_cov(self, Ks: np.ndarray, kd: np.ndarray) -> np.ndarray:
        """(m, C, C) covariances at new points, from Ks (C, n, m) and kd (C, m). [RJV] (27)"""
        C, _, m = Ks.shape
        out = np.zeros((m, C, C))
        halves = []
        for c in range(C):
            Y = self.root[:, c, None] * (self.inverse[c] @ (self.root[:, c, None] * Ks[c]))  # B Ks
            out[:, c, c] = np.maximum(kd[c] - np.einsum("nm,nm->m", Ks[c], Y), 1e-14 * kd[c])
            halves.append(self.P.whiten(Y))
        return _add_products(out, halves)

    def gradient(self, alpha: np.ndarray, *pairs: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """½(α αᵀ - M) + ½(u wᵀ + w uᵀ) over the pairs, the blocks of each class: their sum (n, n), or (C, n, n)."""
        n, C = self.pi.shape
        out = np.zeros((1 if self.shared else C, n, n))
        for c in range(C):
            G = out[0 if self.shared else c]
            B = self.root[:, c, None] * self.inverse[c] * self.root[:, c]
            G -= 0.5 * B
            half = self.P.whiten(B)
            G += mirror_lower(dsyrk(0.5, half, trans=1, lower=0).T)
            G += 0.5 * np.outer(alpha[:, c], alpha[:, c])
            for u, w in pairs:
                G += 0.5 * (np.outer(u[:, c], w[:, c]) + np.outer(w[:, c], u[:, c]))
        return out[0] if self.shared else out


def _add_products(out, halves):
    """out (m, C, C) plus the inner products of the columns of `halves`, C matrices (n, m)."""
    for a in range(len(halves)):
        for b in range(a + 1):
            shared = np.einsum("km,km->m", halves[a], halves[b])
            out[:, a, b] += shared
            if a != b:
                out[:, b, a] += shared
    return out


class CoupledPosterior:
    """q(f) ∝ ∏_c N(f_c | 0, K_c) ∏_i exp(-½ f_iᵀ Π_i f_i + ν_iᵀ f_i), with π, ν (n, C)."""

    def __init__(self, K: np.ndarray, pi: np.ndarray, nu: np.ndarray, system: CoupledSystem | None = None, moments=None):
        self.K = K
        self.system = system or CoupledSystem(K, pi)
        self.nu = nu
        self.alpha: np.ndarray
        self.mean: np.ndarray
        self.alpha, self.mean = moments or self.system.solve(nu)  # (n, C) each

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
        """Mean (n, C) and covariance (n, C, C) of each datum's latent values with its own site taken out."""
        pi = self.pi
        Pi = pi[:, :, None] * (np.eye(pi.shape[1]) - (pi / self.system.total[:, None])[:, None, :])
        left = np.eye(pi.shape[1]) - self.cov @ Pi
        cov = np.linalg.solve(left, self.cov)
        mean = self.mean - np.einsum("icd,id->ic", self.cov, self.nu)
        return np.linalg.solve(left, mean[:, :, None])[:, :, 0], 0.5 * (cov + np.swapaxes(cov, 1, 2))

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

    def predict(self, Ks: np.ndarray, kd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean (m, C) and covariance (m, C, C) at new points; Ks (n, m) or (C, n, m), kd (m,) or (C, m)."""
        C = self.nu.shape[1]
        Ks = np.broadcast_to(Ks, (C, *Ks.shape)) if Ks.ndim == 2 else Ks
        kd = np.broadcast_to(kd, (C, len(kd))) if kd.ndim == 1 else kd
        mean = np.stack([Ks[c].T @ self.alpha[:, c] for c in range(C)], axis=1)
        return mean, self.system.predict_cov(Ks, kd)

    def gradient(self, *pairs: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        return self.system.gradient(self.alpha, *pairs)


class ContrastPosterior:
    """Scalar sites on g_ij = f_i^y - f_i^j + u_i, j ≠ y_i, u_i ~ N(0, 1): what multinomial probit is made of.

    As a posterior of the n (C - 1) contrasts it offers all that `FullPosterior` does, so rules and loop of the binary
    engines apply; with u integrated out it is a `CoupledPosterior` with π = (τ, and 1 for the own class). [RJV] (12)-(16)
    """

    def __init__(self, K: np.ndarray, y: np.ndarray, n_classes: int, sites: Sites, system=None, moments=None):
        self.K, self.y, self.n_classes, self.sites = K, y, n_classes, sites
        self.others = other_classes(y, n_classes)
        self._rows = np.arange(len(y))[:, None]
        self._system = system or (CoupledSystem(K, self._pi()) if np.any(sites.tau) else None)
        self.alpha: np.ndarray
        self.mean: np.ndarray
        self.alpha, self.mean = moments or self.covariance_step(sites.nu)

    # between contrasts (n (C - 1),) and classes (n, C) --------------------------------------------------------------

    def _table(self, x):
        return x.reshape(len(self.y), self.n_classes - 1)

    def _pi(self):
        """[RJV] (12)"""
        pi = np.ones((len(self.y), self.n_classes))
        pi[self._rows, self.others] = self._table(self.sites.tau)
        return pi

    def _to_classes(self, x):
        """B x: the own class gets the sum, the others what they lose."""
        x = self._table(x)
        out = np.empty((len(self.y), self.n_classes))
        out[self._rows, self.others] = -x
        out[self._rows[:, 0], self.y] = x.sum(1)
        return out

    def _to_contrasts(self, f):
        """Bᵀ f, (n, C - 1)."""
        return f[self._rows, self.y[:, None]] - f[self._rows, self.others]

    # what the loop asks for -----------------------------------------------------------------------------------------

    def renewed(self, sites: Sites, moments=None) -> ContrastPosterior:
        """The same prior with other sites."""
        return ContrastPosterior(self.K, self.y, self.n_classes, sites, moments=moments)

    def shifted(self, alpha: np.ndarray, mean: np.ndarray) -> ContrastPosterior:
        """The same τ, with `mean` = (prior covariance) `alpha` added to the mean: no new factorisation."""
        tau = self.sites.tau
        sites, moments = Sites(tau, self.sites.nu + alpha + tau * mean), (self.alpha + alpha, self.mean + mean)
        return ContrastPosterior(self.K, self.y, self.n_classes, sites, self._system, moments)

    def covariance_step(self, nu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(α, mean) of the contrasts that belong to ν under the current τ."""
        tau, table = self._table(self.sites.tau), self._table(nu)
        if self._system is None:
            return nu, self._prior_times(nu)
        # u integrated out: ν of the latent values is B(ν - τ a), a = 1ᵀν/(1ᵀπ). [RJV] (15)
        a = table.sum(1) / (1 + tau.sum(1))
        _, f = self._system.solve(self._to_classes((table - tau * a[:, None]).ravel()))
        d = self._to_contrasts(f)
        g = d + (a - np.sum(tau * d, axis=1) / (1 + tau.sum(1)))[:, None]
        return nu - self.sites.tau * g.ravel(), g.ravel()

    def _prior_times(self, alpha):
        """Prior covariance of the contrasts times α."""
        by_class = self._to_classes(alpha)
        K = np.broadcast_to(self.K, (self.n_classes, *self.K.shape)) if self.K.ndim == 2 else self.K
        f = np.stack([K[c] @ by_class[:, c] for c in range(self.n_classes)], axis=1)
        return (self._to_contrasts(f) + by_class[self._rows, self.y[:, None]]).ravel()

    @property
    def size(self) -> int:
        return len(self.sites.tau)

    @cached_property
    def prior_var(self) -> np.ndarray:
        diagonal = np.diagonal(self.K, axis1=-2, axis2=-1)
        by_class = np.broadcast_to(diagonal, (self.n_classes, len(self.y))).T
        return (by_class[self._rows, self.y[:, None]] + by_class[self._rows, self.others] + 1).ravel()

    @cached_property
    def var(self) -> np.ndarray:
        """Marginal variances of the contrasts."""
        if self._system is None:
            return self.prior_var
        tau = self._table(self.sites.tau)
        total = 1 + tau.sum(1)
        S, own = self._system.cov, self.y[:, None]
        rows, j = self._rows, self.others
        # covariances of d_j = f_y - f_j with each other, contracted with τ/(1ᵀπ): g_j = d_j - τᵀd/(1ᵀπ) + noise
        weights = tau / total[:, None]
        plain = S[rows, own, own] - 2 * S[rows, own, j] + S[rows, j, j]
        w = np.zeros_like(S[:, 0])  # τᵀd/(1ᵀπ) as a combination of latent values
        w[rows[:, 0], self.y] = weights.sum(1)
        w[rows, j] -= weights
        Sw = np.einsum("icd,id->ic", S, w)
        crossed = Sw[rows, own] - Sw[rows, j]
        return (plain - 2 * crossed + (np.einsum("ic,ic->i", w, Sw) + 1 / total)[:, None]).ravel()

    @property
    def kept(self) -> np.ndarray:
        """1 - τ var."""
        return 1 - self.sites.tau * self.var

    def cavity(self) -> tuple[np.ndarray, np.ndarray]:
        var = self.var / self.kept
        return self.mean - var * self.alpha, var

    @property
    def log_det(self) -> float:
        """log|I + (prior covariance of the contrasts) T| = log|A| + log|P|."""
        return self._system.log_det_parts if self._system else 0.0

    @property
    def log_partition(self) -> float:
        return 0.5 * float(self.sites.nu @ self.mean) - 0.5 * self.log_det

    @property
    def rounding(self) -> float:
        """How far rounding moves marginals, in standard deviations: eps × condition of A."""
        return 8 * np.finfo(float).eps * (1 + float(np.max(self.prior_var * self.sites.tau)) * len(self.y))

    # in terms of the classes ----------------------------------------------------------------------------------------

    @cached_property
    def latent(self) -> CoupledPosterior:
        """The posterior of the latent functions, the u integrated out."""
        tau, nu = self._table(self.sites.tau), self._table(self.sites.nu)
        a = nu.sum(1) / (1 + tau.sum(1))
        return CoupledPosterior(self.K, self._pi(), self._to_classes((nu - tau * a[:, None]).ravel()), self._system)

    def predict(self, Ks: np.ndarray, kd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.latent.predict(Ks, kd)

    def gradient(self) -> np.ndarray:
        return self.latent.gradient()
