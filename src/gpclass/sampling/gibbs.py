"""Gibbs sampling for probit models: draws auxiliary variables given latent values and latent values given these, in turn.

[RJV] Riihimäki, Jylänki & Vehtari 2013, section 4.2.2, after Albert & Chib 1993 and Girolami & Rogers 2006.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .chains import Sampler, Walk
from .reference import posterior_roots, root_precisions
from .target import Target


@dataclass(frozen=True, kw_only=True)
class Gibbs(Sampler):
    """Gibbs sampling for likelihoods with auxiliary variables v ~ N(f, I): Probit and MultinomialProbit.

    Every step is accepted. The settings are those of `Sampler`, with n_draws=2000 by default.
    """

    n_draws: int = 2000

    needs = ("draw_auxiliary",)
    latent_steps = 5

    def begin(self, target: Target, F: np.ndarray, rng: np.random.Generator, prior_moves: bool = False) -> Walk:
        return _GibbsWalk(target, F, rng)


class _GibbsWalk(Walk):
    def __init__(self, target, F, rng):
        super().__init__(target, F, rng)
        self.log_likelihood = np.full(F.shape[2], np.nan)  # not computed: it would cost more than the sampling
        self._half = _posterior_roots(target.prior.root)

    def new_prior(self, target):
        self.target = target
        self._half = _posterior_roots(target.prior.root)

    def step(self):
        target = self.target
        V = target.by_class(target.likelihood.draw_auxiliary(target.y[:, None], target.by_datum(self.F), self.rng))
        # f | v ~ N(A v, A) with A = K (K + I)⁻¹ = M Mᵀ
        M = self._half
        inner = np.matmul(np.swapaxes(M, 1, 2), V)
        inner += self.rng.standard_normal(inner.shape)
        self.F = np.matmul(M, inner)
        return np.ones(self.F.shape[2])


def _posterior_roots(roots):
    """Return M with M Mᵀ = K (K + I)⁻¹ for each K = root rootᵀ."""
    return posterior_roots(roots, root_precisions(roots, np.ones(roots.shape[:2])))
