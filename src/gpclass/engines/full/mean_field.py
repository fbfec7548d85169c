"""Mean field for multinomial probit: auxiliary v ~ N(f, I), the largest entry of v is the class, q(v, f) = q(v) q(f).

q(f) has a site of precision one for each observation: covariances Σ_c = (K_c⁻¹ + I)⁻¹ for any labels, and means Σ_c E[v_c].
The mean of the cone is E[v] = f + d log p(y | f)/df, so the fixed point m = Σ(m + slope) is K⁻¹m = slope: the mean of q is
the mode of log p(y | f) - ½ fᵀK⁻¹f. Newton steps with a curvature of the coupled structure find it, not fixed-point
iterations.

[GR] Girolami & Rogers 2006.   [RJV] Riihimäki, Jylänki & Vehtari 2013, section 4.3.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ...gaussian import FullPosterior, Sites, StackedPosterior
from .. import Engine
from ..fit import Fit, independent, prepare_data
from ..iterate import warn_if_unfinished
from ..observations import Data, data_of
from .coupled_laplace import ModeClimb


@dataclass(frozen=True)
class MeanFieldProbit(Engine):
    """The q(v) q(f) that minimises KL(q‖p), v the noisy latent values. The evidence is a lower bound."""

    tol: float = 1e-8  # largest move of a converged run, in posterior standard deviations
    max_iter: int = 100  # updates of the curvature, C + 1 factorisations each

    needs: ClassVar = ("contrast_factor", "log_prob", "log_prob_slope")  # E[v] = f + slope needs the first
    latents: ClassVar = "several"
    weights: ClassVar = "places"

    def fit(self, K, y, likelihood, start: Any = None) -> Fit:
        K, data = prepare_data(self, K, y, likelihood)
        path = ModeClimb(K, data, start)
        _, gap, sweep = path.climb(self, partial(star_curvature, data))
        q = counted_posterior(K, data, path.alpha, path.f)
        status = path.ending(q, sweep, gap, self.tol)
        if not status.converged and not status.advice:
            status = replace(status, advice=f"Raise max_iter (tol={self.tol:g}).")
        warn_if_unfinished(self, status)
        # E_q[log p(y, v, f)/q]: the traces tr K⁻¹Σ + tr Σ cancel with n, which leaves the maximised value and |Σ K⁻¹|
        return Fit(self, q, data.given, likelihood, status, path.value - 0.5 * q.log_det)

    def restore(self, K, y, likelihood, state) -> Fit:
        alpha, mean = (np.reshape(state[name], (likelihood.n_classes, -1)).T for name in ("alpha", "mean"))
        q = counted_posterior(K, data_of(self, y, likelihood), alpha, mean)
        return Fit.restored(self, q, y, likelihood, state)

    def cavity(self, fit: Fit) -> tuple[np.ndarray, np.ndarray]:
        """Return the moments without one copy of each observation, whose site has precision one and mean f + slope."""
        q, data = fit.posterior, fit.targets
        if data.plain:
            return super().cavity(fit)
        mean, var = (data.places.spread(x) for x in (q.latent.mean, q.latent.var))
        part = np.minimum(data.weight, 1.0)[:, None]
        nu = part * (mean + data.likelihood.log_prob_slope(data.y, mean)[1])
        kept = 1 - part * var
        return (mean - var * nu) / kept, independent(var / kept)

    def evidence_gradient(self, fit: Fit) -> np.ndarray:
        """Return G with d log Z = Σ G_ij dK_ij; (C, n, n) if each class has its own K. q is stationary."""
        return fit.posterior.gradient()

    def likelihood_gradient(self, fit: Fit) -> np.ndarray:
        return fit.likelihood.theta_gradient(fit.alpha.sum(0))  # a bias shifts the prior mean


def star_curvature(data: Data, f: np.ndarray) -> np.ndarray:
    """Return π (n, C) whose Π has the own class's row of W = -d² log p/df². [RJV] (12)

    That is π_j/(1ᵀπ) = -W_yj with π_y = 1. The rows of the other classes, coupled only through the noise of the own class,
    then differ little from those of W. If observations of different classes share a latent value, their π are added: good
    enough for steps.
    """
    y, rows = data.y, np.arange(len(data.y))
    W = -data.likelihood.log_prob(y, data.places.spread(f))[2][rows, y]
    own = np.minimum(W[rows, y], 1 - 1e-6)  # it is one minus a variance
    pi = np.maximum(-W, 0.0) / (1 - own)[:, None]
    pi[rows, y] = 1.0
    return data.at_places(pi)


def counted_posterior(K: np.ndarray, data: Data, alpha: np.ndarray, mean: np.ndarray) -> StackedPosterior:
    """Return q(f) = ∏_c N(f_c | m_c, (K_c⁻¹ + N)⁻¹), N the numbers of observations; α and mean are (n, C)."""
    count = data.at_places(np.ones(len(data.y)))
    nu = alpha + count[:, None] * mean
    if K.ndim == 3:
        parts = [FullPosterior(k, Sites(count, nu[:, c]), moments=(alpha[:, c], mean[:, c])) for c, k in enumerate(K)]
        return StackedPosterior(K, parts)
    first = FullPosterior(K, Sites(count, nu[:, 0]), moments=(alpha[:, 0], mean[:, 0]))
    # one factorisation for all classes
    others = [first.shifted(alpha[:, c] - alpha[:, 0], mean[:, c] - mean[:, 0]) for c in range(1, mean.shape[1])]
    return StackedPosterior(K, [first, *others])
