"""Scaled Metropolis-Hastings: the state is shrunk a little towards zero and a little of a prior draw added.

The proposal keeps the prior invariant, so only the likelihood decides. The samplers' choice for softmax in
[RJV] Riihimäki, Jylänki & Vehtari 2013, section 4.2.1, after Neal 1998.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .chains import Sampler, Walk
from .target import Target

WANTED = 0.3  # acceptance; the best is between 0.23 and 0.44, and flat


@dataclass(frozen=True, kw_only=True)
class ScaledMetropolis(Sampler):
    """f' = √(1 - s²) f + s × (draw of the prior), s adapted in the warm-up. Any likelihood with log_prob."""

    n_draws: int = 5000
    n_warmup: int = 2000

    latent_steps = 20

    def begin(self, target: Target, F: np.ndarray, rng: np.random.Generator, prior_moves: bool = False) -> Walk:
        return _ScaledWalk(target, F, rng)


class _ScaledWalk(Walk):
    def __init__(self, target, F, rng):
        super().__init__(target, F, rng)
        self.log_odds = np.full(F.shape[2], -2.0)  # of s, for each chain; s is between 0 and 1
        self.steps = 0

    def step(self):
        C, rank = self.target.shape
        R = self.F.shape[2]
        s = 1 / (1 + np.exp(-self.log_odds))
        nu = self.target.prior.colour(self.rng.standard_normal((C, rank, R)))
        F = np.sqrt(1 - s**2) * self.F + s * nu
        value = self.target.log_likelihood(F)
        chance = np.exp(np.minimum(value - self.log_likelihood, 0.0))
        accept = self.rng.random(R) < chance
        self.F = np.where(accept, F, self.F)
        self.log_likelihood = np.where(accept, value, self.log_likelihood)
        return chance

    def warm_up(self, done, accepted):
        self.steps += 1
        self.log_odds += (accepted - WANTED) * 3 / np.sqrt(self.steps)
