"""Factorial variational method: the product of one-dimensional distributions that minimises KL(q‖p).

[NR] Nickisch & Rasmussen 2008, section 7. The first term of the evidence bound is corrected: it is the tilted mass of the
leave-one-out Gaussian, not a sigmoid at the mean, which gives no bound.
Each factor is N(f_i | μ_i, σ_i²) p(y_i | f_i) with σ_i² = 1/[K⁻¹]_ii and μ = (K - Dg σ²) α: the equations of the naive
mean field with other variances, solved by the same Newton iteration.
The bound holds for K with its ridge. For K of very large scale and low rank the ridge is not small, and the evidence of K
itself may lie below the bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...gaussian import FactorialPosterior, FullPosterior, newton_sites
from ...numerics import Factor, symmetric_product
from .. import Engine
from ..fit import Fit, prepare_data, start_sites
from ..iterate import warn_if_unfinished
from .tap import rule_given_cavities, solve

TINY_SCALE = 1e-100  # scale of the ridge if all prior variances are zero


@dataclass(frozen=True)
class FV(Engine):
    """The best factorial approximation; predictions use a Gaussian with its means and variances."""

    ridge: float = 1e-6  # added to the diagonal of K, relative to its mean, so that K⁻¹ exists ([NR] section 11)
    damping: float = 1.0  # fraction of each curvature step; 1 is Newton's method
    tol: float = 1e-8  # largest move of a converged run, in standard deviations
    max_iter: int = 200  # Newton steps with a new factorisation

    needs: ClassVar = ("tilted_moments",)
    weights: ClassVar = "places"

    def needed_by_weights(self, likelihood, weight) -> tuple[str, ...]:
        return ("log_prob",)

    def cavity(self, fit: Fit) -> tuple[np.ndarray, np.ndarray]:
        """Return the moments given the other data, updated by the remaining observations of the same latent value."""
        data = fit.targets
        mean, var = (data.places.spread(x) for x in fit.posterior.cavity())
        if data.plain:
            return mean, var
        _, d1, d2 = data.others().tilted_moments(None, mean, var)
        return mean + var * d1, var * (1 + var * d2)

    def fit(self, K, y, likelihood, start: Any = None) -> Fit:
        K, data = prepare_data(self, K, y, likelihood)
        one = data.joint()
        given, K = K, self._ridged(K)
        factor = Factor(K.copy(), "K with its ridge")
        conditional = 1 / factor.diag_inverse()
        rule = factor_rule(one.y, one.likelihood, conditional)
        q, status = solve(self, FullPosterior.without_sites(K), rule, self._start(start, K))
        warn_if_unfinished(self, status)
        cavity_mean = q.mean - conditional * q.alpha
        log_mass, d1, d2 = one.likelihood.tilted_moments(one.y, cavity_mean, conditional)
        posterior = FactorialPosterior(
            given,
            factor,
            alpha=q.alpha,
            mean=cavity_mean + conditional * d1,
            var=conditional * (1 + conditional * d2),  # no square: it may overflow
            conditional_var=conditional,
            response=q.cavity()[1],
        )
        evidence = np.sum(log_mass) - 0.5 * q.alpha @ cavity_mean - 0.5 * factor.log_det + 0.5 * np.sum(np.log(conditional))
        return Fit(self, posterior, data.given, likelihood, status, float(evidence))

    def restore(self, K, y, likelihood, state) -> Fit:
        factor = Factor(self._ridged(K), "K with its ridge")
        return Fit.restored(self, FactorialPosterior.restored(K, factor, state), y, likelihood, state)

    def _ridged(self, K):
        scale = np.mean(np.diagonal(K)) or TINY_SCALE  # with zero prior variance f = 0, and any small ridge gives that
        return K + self.ridge * scale * np.eye(len(K))

    @staticmethod
    def _start(start, K):
        """Return the sites with an earlier fit's α and the curvature implied by its marginal variances."""
        old = getattr(start, "posterior", start)
        if not isinstance(old, FactorialPosterior):
            return start_sites(start, len(K))
        if len(old.mean) != len(K):
            raise ValueError(f"start is a fit to {len(old.mean)} training points, but there are {len(K)}")
        tau = np.maximum(1 / old.var - 1 / old.conditional()[1], 0.0)
        return newton_sites(symmetric_product(K, old.alpha), old.alpha, -tau)

    def evidence_gradient(self, fit: Fit) -> np.ndarray:
        """Return the explicit derivative, through K, log|K| and σ_i² = 1/[K⁻¹]_ii: the bound is stationary in α."""
        q: Any = fit.posterior
        mean, var = q.conditional()
        one = fit.targets.joint()
        _, d1, d2 = one.likelihood.tilted_moments(one.y, mean, var)
        # derivative in σ_i², then dσ_i² = σ_i⁴ [K⁻¹ dK K⁻¹]_ii
        weight = (0.5 * (d2 + d1**2) + 0.5 * q.alpha**2 - d1 * q.alpha + 0.5 / var) * var**2
        P = q.prior_precision()
        G = (P * weight) @ P - 0.5 * P + 0.5 * np.outer(q.alpha, q.alpha)
        # the ridge is a fixed fraction of the mean of K's diagonal
        np.fill_diagonal(G, np.diagonal(G) + self.ridge / len(G) * np.trace(G))
        return G

    def likelihood_gradient(self, fit: Fit) -> np.ndarray:
        q: Any = fit.posterior
        one = fit.targets.joint()
        return one.likelihood.tilted_theta(one.y, *q.conditional()).sum(1)


def factor_rule(y: np.ndarray, likelihood, var: np.ndarray):
    """Return the EP rule with τ clipped at zero.

    Here τ only helps to find α, and zero gives a safer step than a negative value.
    """
    rule = rule_given_cavities(y, likelihood, var)

    def clipped(q):
        target = rule(q)
        return target._replace(curvature=np.minimum(target.curvature, 0.0))

    return clipped
