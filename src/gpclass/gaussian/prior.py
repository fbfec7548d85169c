"""The prior N(0, K) in whitened coordinates, f = root z with z ~ N(0, I), as samplers use it.

The root comes from the eigenvectors of K. Directions in which K is zero up to rounding are dropped, so no jitter is needed.
The posterior precision I + rootᵀ W root is nearly diagonal, which suits samplers that scale each coordinate separately.
`Prior.cholesky` is faster; use it for a sequence of K if the root only has to be continuous in K.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.lapack import dpotrf, dtrtrs

from ..numerics import NotPositiveDefinite

JITTERS = (1e-10, 1e-8, 1e-6)  # tried in turn on the diagonal, relative to its mean, by `Prior.cholesky`


class Prior:
    """The prior N(0, K), with one K (n, n) for all latent functions or one for each, (C, n, n).

    Latent values are (C, n, R): C latent functions at n points in R columns (chains, runs). Whitened values are (C, r, R).
    """

    def __init__(self, root: np.ndarray, inverse: np.ndarray):
        self.root = root  # (1 or C, n, r)
        self._inverse = inverse  # (1 or C, r, n), its pseudo-inverse

    @classmethod
    def of(cls, K: np.ndarray) -> Prior:
        """Return the prior, with a root from the eigenvectors of K."""
        pairs = [_eigen(k) for k in (K if K.ndim == 3 else K[None])]
        rank = max(int(np.sum(value > 0)) for value, _ in pairs)
        roots = [vector[:, :rank] * np.sqrt(value[:rank]) for value, vector in pairs]
        inverses = []
        for value, vector in pairs:
            kept = value[:rank] > 0
            inverses.append((vector[:, :rank] * np.where(kept, 1 / np.sqrt(np.where(kept, value[:rank], 1.0)), 0.0)).T)
        return cls(np.stack(roots), np.stack(inverses))

    @classmethod
    def cholesky(cls, K: np.ndarray) -> Prior:
        """Return the prior, with the Cholesky factor of K as root and the smallest of `JITTERS` that suffices."""
        roots, covariances = zip(*(_jittered(k) for k in (K if K.ndim == 3 else K[None])), strict=True)
        return _CholeskyPrior(np.stack(roots), np.stack(covariances))

    @property
    def rank(self) -> int:
        return self.root.shape[2]

    @property
    def covariance(self) -> np.ndarray:
        """K (1 or C, n, n)."""
        return np.matmul(self.root, np.swapaxes(self.root, 1, 2))

    def colour(self, Z: np.ndarray) -> np.ndarray:
        """Return the latent values (C, n, R) from whitened values (C, r, R)."""
        return np.matmul(self.root, Z)

    def whiten(self, F: np.ndarray) -> np.ndarray:
        """Return the whitened coordinates (C, r, R) of latent values (C, n, R)."""
        return np.matmul(self._inverse, F)

    def conditional(self, Ks: np.ndarray, kd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return P (1 or C, r, m) and v (1 or C, m): given z, latent values at new points are N(Pᵀ z, v)."""
        P = self.whiten(Ks if Ks.ndim == 3 else Ks[None])
        explained = np.einsum("crm,crm->cm", P, P)
        return P, np.maximum(kd - explained, 0.0)  # rounding can make variances at training points negative


class _CholeskyPrior(Prior):
    def __init__(self, root, covariance):
        self.root, self._covariance = root, covariance

    @property
    def covariance(self):
        return self._covariance

    def whiten(self, F):
        roots = np.broadcast_to(self.root, (len(F), *self.root.shape[1:]))
        # L.T is in Fortran order, so it is not copied
        return np.stack([dtrtrs(L.T, f, trans=1)[0] for L, f in zip(roots, F, strict=True)])


def _eigen(K):
    """Return eigenvalues in decreasing order, with rounding errors set to zero, and eigenvectors."""
    value, vector = eigh(K)
    value, vector = value[::-1], vector[:, ::-1]
    rounding = len(K) * np.finfo(float).eps * max(value[0], 0.0)
    if value[-1] < -1e3 * rounding or not np.all(np.isfinite(value)):
        raise NotPositiveDefinite(
            f"K is not a covariance matrix: it has eigenvalues from {value[-1]:.3g} to {value[0]:.3g}"
        )
    return np.where(value > rounding, value, 0.0), vector


def _jittered(K):
    """Return the Cholesky factor of K with jitter, and the jittered matrix."""
    n = len(K)
    for jitter in JITTERS:
        A = np.array(K, order="C")
        A.ravel()[:: n + 1] += jitter * max(np.trace(K) / n, np.finfo(float).tiny)
        L, info = dpotrf(A.T, lower=1, clean=1)  # a copy: A is needed too
        if info == 0:
            return L, A
    raise NotPositiveDefinite(
        f"K is not positive definite, even with {JITTERS[-1]:g} times its mean variance added to the diagonal"
    )
