"""Mean field for multinomial probit: auxiliary v ~ N(f, I), the largest entry of v is the class, q(v, f) = q(v) q(f).

q(f) has sites of precision one: covariances Σ_c = (K_c⁻¹ + I)⁻¹ whatever the labels, and means Σ_c E[v_c]. The mean of the
cone is E[v] = f + d log p(y | f)/df, so the fixed point m = Σ(m + slope) is K⁻¹m = slope: q's mean is the mode of
log p(y | f) - ½ fᵀK⁻¹f. It is climbed to by Newton steps with a curvature of the coupled structure, not by the fixed point.

[GR] Girolami & Rogers 2006.   [RJV] Riihimäki, Jylänki & Vehtari 2013, section 4.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ..gaussian import CoupledSystem, FullPosterior, Sites
from .coupled_laplace import _Climb
from .fit import CoupledFit, prepare
from .iterate import Status, warn_if_unfinished


@dataclass(frozen=True)
class MeanFieldProbit:
    """The best q(v) q(f) in KL(q‖p), v the noisy latent values of multinomial probit. The evidence is a lower bound."""

    tol: float = 1e-8  # largest move, in posterior standard deviations, that counts as standing still
    max_iter: int = 100  # renewals of the curvature, C + 1 factorisations each

    needs: ClassVar = ("contrast_factor", "log_prob", "log_prob_slope")  # the first: what E[v] = f + slope rests on
    latents: ClassVar = "several"
    gaussian: ClassVar = True

    def fit(self, K, y, likelihood, start: Any = None) -> CoupledFit:
        K, y = prepare(self, K, y, likelihood)
        path = _Climb(K, y, likelihood, start)
        gap, sweep = np.inf, 0
        while gap >= self.tol and sweep < self.max_iter:
            sweep += 1
            gap = path.settle(CoupledSystem(K, star_curvature(y, likelihood, path.f)), self.tol)
        q = UnitPosterior(K, path.alpha, path.f)
        converged = gap < self.tol
        status = Status(converged, sweep, gap, advice="" if converged else f"Raise max_iter (tol={self.tol:g}).")
        warn_if_unfinished(self, status)
        # E_q[log p(y, v, f)/q]: the traces tr K⁻¹Σ + tr Σ cancel against n, what is left is the climbed value and |Σ K⁻¹|
        return CoupledFit(self, q, y, likelihood, status, path.value - 0.5 * q.log_det)

    def evidence_gradient(self, fit: CoupledFit) -> np.ndarray:
        """Σ G_ij dK_ij; (C, n, n) if there is one K for each class. q is stationary: only K itself counts."""
        return fit.posterior.gradient()

    def likelihood_gradient(self, fit: CoupledFit) -> np.ndarray:
        return np.zeros(0)


def star_curvature(y: np.ndarray, likelihood: Any, f: np.ndarray) -> np.ndarray:
    """(n, C) π whose Π has the own class's row of W = -d² log p/df²: π_j/(1ᵀπ) = -W_yj with π_y = 1. [RJV] (12)

    The rows of the other classes, coupled through the noise of the own class alone, then differ little from W's.
    """
    rows = np.arange(len(y))
    W = -likelihood.log_prob(y, f)[2][rows, y]
    own = np.minimum(W[rows, y], 1 - 1e-6)  # it is one less a variance
    pi = np.maximum(-W, 0.0) / (1 - own)[:, None]
    pi[rows, y] = 1.0
    return pi


class UnitPosterior:
    """q(f) = ∏_c N(f_c | m_c, (K_c⁻¹ + I)⁻¹): classes are independent and every site has precision one."""

    def __init__(self, K: np.ndarray, alpha: np.ndarray, mean: np.ndarray):
        self.K, self.alpha, self.mean = K, alpha, mean  # α, mean (n, C)
        one, nu = np.ones(len(mean)), self.sites.nu
        self.classes: list[FullPosterior] = []
        for c in range(mean.shape[1]):
            shared = self.classes[0]._system if c and K.ndim == 2 else None  # one factorisation for all
            k = K if K.ndim == 2 else K[c]
            self.classes.append(FullPosterior(k, Sites(one, nu[:, c]), shared, (alpha[:, c], mean[:, c])))

    @property
    def latent(self) -> UnitPosterior:
        return self

    @property
    def sites(self) -> Sites:
        """τ = 1, ν = E[v]: (n, C) each."""
        return Sites(np.ones_like(self.mean), self.alpha + self.mean)

    @property
    def log_det(self) -> float:
        """Σ_c log|I + K_c|."""
        return sum(q.log_det for q in self.classes)

    @cached_property
    def var(self) -> np.ndarray:
        """(n, C) marginal variances."""
        return np.stack([q.var for q in self.classes], axis=1)

    @property
    def cov(self) -> np.ndarray:
        """(n, C, C) marginal covariances, diagonal."""
        return _diagonal(self.var)

    def cavity(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean (n, C) and covariance (n, C, C) of each datum's latent values with its own site taken out."""
        mean, var = (np.stack(x, axis=1) for x in zip(*(q.cavity() for q in self.classes), strict=True))
        return mean, _diagonal(var)

    def predict(self, Ks: np.ndarray, kd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean (m, C) and covariance (m, C, C) at new points; Ks (n, m) or (C, n, m), kd (m,) or (C, m)."""
        C = len(self.classes)
        Ks = np.broadcast_to(Ks, (C, *Ks.shape)) if Ks.ndim == 2 else Ks
        kd = np.broadcast_to(kd, (C, len(kd))) if kd.ndim == 1 else kd
        each = [q.predict(Ks[c], kd[c]) for c, q in enumerate(self.classes)]
        mean, var = (np.stack(x, axis=1) for x in zip(*each, strict=True))
        return mean, _diagonal(var)

    def gradient(self) -> np.ndarray:
        """½(α αᵀ - (K + I)⁻¹) of each class: their sum (n, n) if K is shared, or (C, n, n)."""
        each = [q.gradient() for q in self.classes]
        return np.sum(each, axis=0) if self.K.ndim == 2 else np.stack(each)


def _diagonal(var: np.ndarray) -> np.ndarray:
    return var[:, :, None] * np.eye(var.shape[1])
