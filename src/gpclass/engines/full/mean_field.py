"""Mean field for multinomial probit: auxiliary v ~ N(f, I), the largest entry of v is the class, q(v, f) = q(v) q(f).

q(f) has sites of precision one: covariances Σ_c = (K_c⁻¹ + I)⁻¹ for any labels, and means Σ_c E[v_c]. The mean of the
cone is E[v] = f + d log p(y | f)/df, so the fixed point m = Σ(m + slope) is K⁻¹m = slope: the mean of q is the mode of
log p(y | f) - ½ fᵀK⁻¹f. Newton steps with a curvature of the coupled structure find it, not fixed-point iterations.

[GR] Girolami & Rogers 2006.   [RJV] Riihimäki, Jylänki & Vehtari 2013, section 4.3.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ...gaussian import FullPosterior, Sites, StackedPosterior
from .. import Engine
from ..fit import Fit, prepare
from ..iterate import warn_if_unfinished
from .coupled_laplace import ModeClimb


@dataclass(frozen=True)
class MeanFieldProbit(Engine):
    """The q(v) q(f) that minimises KL(q‖p), v the noisy latent values. The evidence is a lower bound."""

    tol: float = 1e-8  # largest move of a converged run, in posterior standard deviations
    max_iter: int = 100  # updates of the curvature, C + 1 factorisations each

    needs: ClassVar = ("contrast_factor", "log_prob", "log_prob_slope")  # E[v] = f + slope needs the first
    latents: ClassVar = "several"

    def fit(self, K, y, likelihood, start: Any = None) -> Fit:
        K, y = prepare(self, K, y, likelihood)
        path = ModeClimb(K, y, likelihood, start)
        _, gap, sweep = path.to_the_top(self, partial(star_curvature, y, likelihood))
        q = unit_posterior(K, path.alpha, path.f)
        status = path.ending(q, sweep, gap, self.tol)
        if not status.converged and not status.advice:
            status = replace(status, advice=f"Raise max_iter (tol={self.tol:g}).")
        warn_if_unfinished(self, status)
        # E_q[log p(y, v, f)/q]: the traces tr K⁻¹Σ + tr Σ cancel with n, which leaves the maximised value and |Σ K⁻¹|
        return Fit(self, q, y, likelihood, status, path.value - 0.5 * q.log_det)

    def restore(self, K, y, likelihood, state) -> Fit:
        alpha, mean = (np.reshape(state[name], (likelihood.n_classes, -1)).T for name in ("alpha", "mean"))
        return Fit.restored(self, unit_posterior(K, alpha, mean), y, likelihood, state)

    def evidence_gradient(self, fit: Fit) -> np.ndarray:
        """G with d log Z = Σ G_ij dK_ij; (C, n, n) if each class has its own K. q is stationary: only K contributes."""
        return fit.posterior.gradient()

    def likelihood_gradient(self, fit: Fit) -> np.ndarray:
        return fit.likelihood.theta_gradient(fit.alpha.sum(0))  # a bias shifts the prior mean


def star_curvature(y: np.ndarray, likelihood: Any, f: np.ndarray) -> np.ndarray:
    """(n, C) π whose Π has the own class's row of W = -d² log p/df²: π_j/(1ᵀπ) = -W_yj with π_y = 1. [RJV] (12)

    The rows of the other classes, coupled only through the noise of the own class, then differ little from those of W.
    """
    rows = np.arange(len(y))
    W = -likelihood.log_prob(y, f)[2][rows, y]
    own = np.minimum(W[rows, y], 1 - 1e-6)  # it is one minus a variance
    pi = np.maximum(-W, 0.0) / (1 - own)[:, None]
    pi[rows, y] = 1.0
    return pi


def unit_posterior(K: np.ndarray, alpha: np.ndarray, mean: np.ndarray) -> StackedPosterior:
    """q(f) = ∏_c N(f_c | m_c, (K_c⁻¹ + I)⁻¹), all sites of precision one; α and mean are (n, C)."""
    one, nu = np.ones(len(mean)), alpha + mean
    if K.ndim == 3:
        parts = [FullPosterior(k, Sites(one, nu[:, c]), moments=(alpha[:, c], mean[:, c])) for c, k in enumerate(K)]
        return StackedPosterior(K, parts)
    first = FullPosterior(K, Sites(one, nu[:, 0]), moments=(alpha[:, 0], mean[:, 0]))
    # one factorisation for all classes
    others = [first.shifted(alpha[:, c] - alpha[:, 0], mean[:, c] - mean[:, 0]) for c in range(1, mean.shape[1])]
    return StackedPosterior(K, [first, *others])
