"""Gibbs sampling for probit models: draws auxiliary variables given latent values and latent values given these, in turn.

[RJV] Riihimäki, Jylänki & Vehtari 2013, section 4.2.2, after Albert & Chib 1993 and Girolami & Rogers 2006.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..engines.observations import whole_copies
from ..gaussian import Places
from .chains import Sampler, Walk
from .reference import posterior_roots, root_precisions
from .target import Target


@dataclass(frozen=True, kw_only=True)
class Gibbs(Sampler):
    """Gibbs sampling for likelihoods with auxiliary variables v ~ N(f, I): Probit and MultinomialProbit.

    Each copy of an observation has its own auxiliary variables, so weights must be whole numbers. Every step is accepted.
    The settings are those of `Sampler`, with n_draws=2000 by default.
    """

    n_draws: int = 2000

    needs = ("draw_auxiliary",)
    latent_steps = 5

    def begin(self, target: Target, F: np.ndarray, rng: np.random.Generator, prior_moves: bool = False) -> Walk:
        copies = whole_copies(target.y)
        if copies is None:
            raise TypeError("Gibbs needs weights that are whole numbers: each copy has auxiliary variables; use HMC")
        return _GibbsWalk(target, F, rng, copies)


class _GibbsWalk(Walk):
    def __init__(self, target, F, rng, copies):
        super().__init__(target, F, rng)
        self.log_likelihood = np.full(F.shape[2], np.nan)  # not computed: it would cost more than the sampling
        data = target.data
        self._labels = data.y[copies][:, None]
        self._places = Places(data.n, data.places.spread(np.arange(data.n))[copies])
        self._counts = self._places.sum(np.ones(len(copies)))  # copies at each place
        self._half = _posterior_roots(target.prior.root, self._counts)

    def new_prior(self, target):
        self.target = target
        self._half = _posterior_roots(target.prior.root, self._counts)

    def step(self):
        target, places = self.target, self._places
        drawn = target.likelihood.draw_auxiliary(self._labels, places.spread(target.by_datum(self.F)), self.rng)
        V = target.by_class(places.sum(drawn))
        # f | v ~ N(A V, A) with V the sums of v at each place, D the numbers of copies and A = (K⁻¹ + D)⁻¹ = M Mᵀ
        M = self._half
        inner = np.matmul(np.swapaxes(M, 1, 2), V)
        inner += self.rng.standard_normal(inner.shape)
        self.F = np.matmul(M, inner)
        return np.ones(self.F.shape[2])


def _posterior_roots(roots, counts):
    """Return M with M Mᵀ = (K⁻¹ + diag(counts))⁻¹ for each K = root rootᵀ."""
    return posterior_roots(roots, root_precisions(roots, np.broadcast_to(counts, roots.shape[:2])))
