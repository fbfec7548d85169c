"""Scaled Metropolis-Hastings: the proposal shrinks the state towards zero and adds a scaled draw from the prior.

The proposal leaves the prior invariant, so acceptance depends only on the likelihood. Used for softmax in
[RJV] Riihimäki, Jylänki & Vehtari 2013, section 4.2.1, after Neal 1998.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .chains import Sampler, Walk
from .target import Target

TARGET_ACCEPTANCE = 0.3  # the optimum is flat, between 0.23 and 0.44


@dataclass(frozen=True, kw_only=True)
class ScaledMetropolis(Sampler):
    """Metropolis-Hastings with proposals f' = √(1 - s²) f + s × (draw from the prior), s adapted in the warm-up.

    It supports any likelihood with `log_prob`. The settings are those of `Sampler`, with n_draws=5000 and n_warmup=2000 by
    default.
    """

    n_draws: int = 5000
    n_warmup: int = 2000

    latent_steps = 20

    def begin(self, target: Target, F: np.ndarray, rng: np.random.Generator, prior_moves: bool = False) -> Walk:
        return _ScaledWalk(target, F, rng)


class _ScaledWalk(Walk):
    def __init__(self, target, F, rng):
        super().__init__(target, F, rng)
        self.log_odds = np.full(F.shape[2], -2.0)  # log odds of s, which is between 0 and 1, for each chain
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
        self.log_odds += (accepted - TARGET_ACCEPTANCE) * 3 / np.sqrt(self.steps)
