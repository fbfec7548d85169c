"""One latent function per class, coupled at each datum by sites of any precision W_i (C × C) with W_i 1 = 0.

Under softmax only differences of a datum's latent values matter, so W_i 1 = 0 and W_i = R_i R_iᵀ with R_i (C, C - 1).
Everything is computed from B = I + RᵀKR of size n (C - 1), with R block diagonal. Neither K nor W is inverted. The classes
may be correlated: K is (n, n), shared by all classes, (C, n, n), or Separable. In each case it is a sum of products

    K = Σ_r K_r ⊗ F_r F_rᵀ        K_r (n, n), F_r (C, q)

Rows and columns of B are ordered by class, then by datum: entry (a n + i, b n + j).

[C] Chai 2012, appendix E.2.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg.blas import dgemm

from ..numerics import Factor, NotPositiveDefinite, mirror_lower, refined
from ..numerics.classes import contrast_basis
from ..numerics.separable import Separable, classes_of, combined, inputs_of
from .rounding import EPS, SMALLEST_VARIANCE, STALL_FACTOR, factor_of_B
from .sites import Sites, matrix_cavity

WEAK_SITE = 1e-9  # W times prior variance below which marginal covariances are not computed from B⁻¹

Covariance = np.ndarray | Separable


def class_factor(classes: np.ndarray) -> np.ndarray:
    """Return F (C, C) with F Fᵀ = `classes`, a covariance matrix that may be singular."""
    value, vector = np.linalg.eigh(classes)
    if value[0] < -1e-10 * max(value[-1], 0.0) or not value[-1] > 0:
        raise NotPositiveDefinite(
            f"the covariance matrix of the classes has eigenvalues from {value[0]:.3g} to {value[-1]:.3g}: "
            "it may be singular, but must be positive semidefinite and not zero"
        )
    return vector * np.sqrt(np.maximum(value, 0.0))


def checked_classes(classes: Any, n_classes: int) -> np.ndarray:
    """Return the covariances between classes as a float array, after checks."""
    classes = np.asarray(classes, float)
    if classes.shape != (n_classes, n_classes) or not np.allclose(classes, classes.T, rtol=1e-8, atol=1e-12, equal_nan=True):
        shape = f"({n_classes}, {n_classes})"
        raise ValueError(f"the covariances between classes must be a symmetric {shape} matrix, but are {classes!r}")
    if not np.all(np.isfinite(classes)):
        raise ValueError("the covariances between classes contain NaN or infinite entries")
    class_factor(classes)  # raises if it is not a covariance matrix
    return classes


def products(K: Covariance, n_classes: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the pairs (K_r, F_r) of K."""
    inputs, classes, each = inputs_of(K), classes_of(K), np.eye(n_classes)
    if inputs.ndim == 2:
        return [(inputs, each if classes is None else class_factor(classes))]
    return [(k, each[:, [c]]) for c, k in enumerate(inputs)]


class _BlockFactor(Factor):
    def inverse_blocks(self, n: int) -> np.ndarray:
        """Return the entries (a n + i, b n + i) of the inverse, (n, q, q), for a matrix of q × q blocks of size n."""
        self.invert()
        L = self._lower
        size = len(L) // n
        out = np.empty((n, size, size))
        for b in range(size):
            own, below = slice(b * n, (b + 1) * n), slice((b + 1) * n, None)
            right = np.tril(L[own, own]), L[below, own]
            for a in range(b + 1):
                other = slice(a * n, (a + 1) * n)
                left = right if a == b else (L[own, other], L[below, other])
                out[:, a, b] = sum(np.einsum("ki,ki->i", x, y) for x, y in zip(left, right, strict=True))
                out[:, b, a] = out[:, a, b]
        return out


class DenseSystem:
    """The linear algebra for one set of roots R (n, C, C - 1) under K."""

    def __init__(self, K: Covariance, root: np.ndarray):
        self.root = root
        n, C, size = root.shape
        self.products = products(K, C)
        # rows R_i ᵀF_r, class by class: (C - 1, n, q)
        self.loads = [np.ascontiguousarray(np.transpose(root, (2, 0, 1)) @ F) for _, F in self.products]
        B = np.empty((size * n, size * n))
        for a in range(size):
            for b in range(a + 1):
                B[a * n : (a + 1) * n, b * n : (b + 1) * n] = self._block(a, b)
        B.ravel()[:: size * n + 1] += 1.0
        self.factor = factor_of_B(B, "I + RᵀKR", self.products[0][0], _BlockFactor)

    @cached_property
    def rounding(self) -> float:
        """Effect of rounding on the marginals, in standard deviations: eps × condition of B."""
        strength = np.einsum("ica,ica->i", self.root, self.prior_cov @ self.root)  # tr(W K) at each datum
        return STALL_FACTOR[np.float64] * EPS * (1 + len(self.root) * float(np.max(strength)))

    def _block(self, a, b):
        """Return RᵀKR between the a-th and b-th column of all roots, (n, n)."""
        pairs = zip(self.products, self.loads, strict=True)
        return sum(k * dgemm(1.0, load[a].T, load[b].T, trans_a=1) for (k, _), load in pairs)

    @property
    def log_det(self) -> float:
        """log|I + KW|."""
        return self.factor.log_det

    @cached_property
    def explained(self) -> np.ndarray:
        """(n, C-1, C-1) RᵀVR at each datum: the diagonal blocks of I - B⁻¹."""
        return np.eye(self.root.shape[2]) - self.factor.inverse_blocks(len(self.root))

    @cached_property
    def prior_cov(self) -> np.ndarray:
        """(n, C, C) prior covariances at each datum."""
        return _diagonal_blocks((np.diagonal(k), F) for k, F in self.products)

    @cached_property
    def cov(self) -> np.ndarray:
        """(n, C, C) posterior covariances at each datum."""
        return self.covariances([k for k, _ in self.products], self.prior_cov)

    @cached_property
    def contrast_cov(self) -> np.ndarray:
        """(n, C, C) posterior covariances of the latent values minus their mean over classes: (I - B⁻¹)/W."""
        C = self.root.shape[1]
        H = contrast_basis(C)
        inner = H.T @ self.root  # R = H E
        back = _inverses(inner)
        # 1/|E⁻¹|² is about the smallest eigenvalue of W
        weak = np.einsum("icc->i", self.prior_cov) < WEAK_SITE * np.einsum("iab,iab->i", back, back)
        D = np.swapaxes(back, 1, 2) @ self.explained @ back
        if weak.any():  # the quotient would lose all significant digits
            rows = np.flatnonzero(weak)
            D[rows] = H.T @ self.covariances([k[:, rows] for k, _ in self.products], self.prior_cov[rows]) @ H
        cov = H @ D @ H.T
        return 0.5 * (cov + np.swapaxes(cov, 1, 2))

    def times_K(self, X: np.ndarray) -> np.ndarray:
        """Return K x for X (n, C)."""
        return sum(dgemm(1.0, k.T, dgemm(1.0, X, F)).dot(F.T) for k, F in self.products)

    def times_W(self, X: np.ndarray) -> np.ndarray:
        return np.einsum("ica,ia->ic", self.root, np.einsum("ica,ic->ia", self.root, X))

    def apply_M(self, X: np.ndarray) -> np.ndarray:
        """Return W (I + KW)⁻¹ x = R B⁻¹ Rᵀ x for X (n, C)."""
        inner = np.einsum("ica,ic->ai", self.root, X)
        solved = self.factor.solve(inner.ravel()).reshape(inner.shape)
        return np.einsum("ica,ai->ic", self.root, solved)

    def solve(self, nu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return α with α + WKα = ν, and the mean Kα, each (n, C)."""

        def check(alpha):
            mean = self.times_K(alpha)
            return nu - alpha - self.times_W(mean), mean

        return refined(nu, lambda x: x - self.apply_M(self.times_K(x)), check)

    def split(self, K: Any, rank: int) -> list[np.ndarray]:
        """Return the K_r of cross covariances (`rank` 2) or of variances (`rank` 1)."""
        inputs = inputs_of(K)
        return [inputs] * len(self.products) if inputs.ndim == rank else list(inputs)

    def covariances(self, cross: list[np.ndarray], prior: np.ndarray) -> np.ndarray:
        """Return posterior covariances (m, C, C) at points with cross covariances (n, m) of each K_r; `prior` (m, C, C)."""
        halves = []  # L⁻¹RᵀK for each column of the F_r
        for k, load in zip(cross, self.loads, strict=True):
            columns = ((load[:, :, p, None] * k).reshape(-1, k.shape[1]) for p in range(load.shape[2]))
            halves += [self.factor.whiten(c) for c in columns]
        P = len(halves)
        known = np.empty((len(prior), P, P))
        for a in range(P):
            for b in range(a + 1):
                known[:, a, b] = known[:, b, a] = np.einsum("km,km->m", halves[a], halves[b])
        F = np.concatenate([F for _, F in self.products], axis=1)
        cov = prior - F @ known @ F.T
        cov = 0.5 * (cov + np.swapaxes(cov, 1, 2))
        each = np.arange(cov.shape[1])
        cov[:, each, each] = np.maximum(cov[:, each, each], SMALLEST_VARIANCE * prior[:, each, each])
        return cov

    def inverse(self) -> np.ndarray:
        """Return B⁻¹, symmetric."""
        return mirror_lower(self.factor.inverse_lower())


class DenseCoupledPosterior:
    """q(f) = N(f | Kα, (K⁻¹ + W)⁻¹) with W_i = R_i R_iᵀ, from roots R (n, C, C - 1) and α (n, C)."""

    def __init__(self, K: Covariance, root: np.ndarray, alpha: np.ndarray, system: DenseSystem | None = None, mean=None):
        self.K, self.alpha = K, alpha
        self.system = system or DenseSystem(K, root)
        self.mean: np.ndarray = self.system.times_K(alpha) if mean is None else mean  # (n, C)

    @classmethod
    def from_sites(cls, K: Covariance, sites: Sites) -> DenseCoupledPosterior:
        """Return the posterior for precisions τ (n, C, C) and ν (n, C)."""
        system = DenseSystem(K, precision_root(sites.tau))
        alpha, mean = system.solve(sites.nu)
        return cls(K, system.root, alpha, system, mean)

    def state(self) -> dict[str, np.ndarray]:
        """Return the arrays that `restored` needs besides K."""
        return {"root": self.root, "alpha": self.alpha, "mean": self.mean}

    @classmethod
    def restored(cls, K: Covariance, state: Mapping[str, Any]) -> DenseCoupledPosterior:
        """Rebuild the posterior from its `state`."""
        return cls(K, state["root"], state["alpha"], mean=state["mean"])

    def shifted(self, alpha: np.ndarray, mean: np.ndarray) -> DenseCoupledPosterior:
        """Return the posterior with the same precisions and `mean` = K `alpha` added, without a new factorisation."""
        return DenseCoupledPosterior(self.K, self.root, self.alpha + alpha, self.system, self.mean + mean)

    @property
    def root(self) -> np.ndarray:
        return self.system.root

    @property
    def latent(self) -> DenseCoupledPosterior:
        return self

    @cached_property
    def precision(self) -> np.ndarray:
        """(n, C, C) W."""
        return self.root @ np.swapaxes(self.root, 1, 2)

    @property
    def sites(self) -> Sites:
        """(W, ν), for a warm start."""
        return Sites(self.precision, self.alpha + self.system.times_W(self.mean))

    @property
    def log_det(self) -> float:
        """log|I + KW|."""
        return self.system.log_det

    @property
    def trace_ratio(self) -> float:
        """tr(V K⁻¹)."""
        return self.alpha.size - float(np.einsum("iaa->", self.system.explained))

    @property
    def divergence(self) -> float:
        """KL(q ‖ prior)."""
        return 0.5 * (self.trace_ratio - self.alpha.size + float(np.sum(self.alpha * self.mean)) + self.log_det)

    @property
    def prior_cov(self) -> np.ndarray:
        """(n, C, C) prior covariances at each datum."""
        return self.system.prior_cov

    @property
    def rounding(self) -> float:
        """Effect of rounding on the marginals, in standard deviations."""
        return self.system.rounding

    @property
    def cov(self) -> np.ndarray:
        """(n, C, C) marginal covariances."""
        return self.system.cov

    @property
    def contrast_cov(self) -> np.ndarray:
        """(n, C, C) marginal covariances of each datum's latent values minus their mean over classes; cheaper than `cov`."""
        return self.system.contrast_cov

    @property
    def var(self) -> np.ndarray:
        """(n, C) marginal variances."""
        return np.diagonal(self.cov, axis1=1, axis2=2)

    def cavity(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean (n, C) and covariance (n, C, C) of each datum's latent values with its own site removed."""
        return matrix_cavity(self.mean, self.cov, self.precision, self.sites.nu)

    def left_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean and covariance of each datum's latent values with the datum left out."""
        return self.cavity()

    def predict(self, Ks: Any, kd: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean (m, C) and covariance (m, C, C) at new points; Ks (n × m) and kd (m) have the structure of K."""
        loadings = [F for _, F in self.system.products]
        cross, variances = self.system.split(Ks, 2), self.system.split(kd, 1)
        mean = sum(k.T @ (self.alpha @ F) @ F.T for k, F in zip(cross, loadings, strict=True))
        return mean, self.system.covariances(cross, _diagonal_blocks(zip(variances, loadings, strict=True)))

    def gradient(self) -> Any:
        """Return ½(α αᵀ - W(I + KW)⁻¹) contracted to the structure of K: (n, n), (C, n, n) or Separable."""
        inverse = self.system.inverse()
        out = [self._in_inputs(r, inverse) for r in range(len(self.system.products))]
        of_classes = None if classes_of(self.K) is None else self._in_classes(inverse)
        return combined(out[0] if len(out) == 1 else np.stack(out), of_classes)

    def _in_inputs(self, r, inverse):
        """Return Σ_cd (F Fᵀ)_cd G_(ic)(jd)."""
        n, size = len(self.alpha), self.root.shape[2]
        load = self.system.loads[r]
        pull = dgemm(1.0, self.alpha, self.system.products[r][1])
        G = 0.5 * dgemm(1.0, pull, pull, trans_b=1)
        for a in range(size):
            for b in range(size):
                block = inverse[a * n : (a + 1) * n, b * n : (b + 1) * n]
                G -= 0.5 * block * dgemm(1.0, load[a].T, load[b].T, trans_a=1)
        return G

    def _in_classes(self, inverse):
        """Return Σ_ij K_ij G_(ic)(jd)."""
        n, _, size = self.root.shape
        k = self.system.products[0][0]
        G = 0.5 * self.alpha.T @ dgemm(1.0, k.T, self.alpha)
        for a in range(size):
            for b in range(size):
                block = inverse[a * n : (a + 1) * n, b * n : (b + 1) * n] * k
                G -= 0.5 * self.root[:, :, a].T @ dgemm(1.0, block.T, self.root[:, :, b], trans_a=1)
        return 0.5 * (G + G.T)


def _inverses(E):
    """Return the inverse of each matrix, or 1e100 · I if it is singular."""
    try:
        return np.linalg.inv(E)
    except np.linalg.LinAlgError:
        out = np.tile(1e100 * np.eye(E.shape[1]), (len(E), 1, 1))
        exists = np.linalg.cond(E) < 1e300
        out[exists] = np.linalg.inv(E[exists])
        return out


def precision_root(W: np.ndarray) -> np.ndarray:
    """Return R (n, C, C - 1) with R Rᵀ = W, for positive semidefinite W (n, C, C) with W 1 = 0."""
    H = contrast_basis(W.shape[1])
    value, vector = np.linalg.eigh(H.T @ W @ H)
    return H @ (vector * np.sqrt(np.maximum(value, 0.0))[:, None, :])


def _diagonal_blocks(variances):
    """Return Σ_r k_r F_r F_rᵀ (m, C, C) for pairs (k_r (m,), F_r)."""
    return sum(k[:, None, None] * (F @ F.T) for k, F in variances)
