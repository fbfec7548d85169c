"""Elliptical slice sampling, which has no settings to tune. The warm-up shortens the first bracket to save evaluations.

[MAM] Murray, Adams & MacKay 2010, Elliptical slice sampling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .chains import Sampler, Walk
from .target import Target

PRIOR_DRAWS = 128  # prior draws computed by one matrix product
MAX_SHRINKS = 200  # reductions of the bracket; 2⁻²⁰⁰ of a turn is no move
BRACKET_FACTOR = 5.0  # first bracket divided by the average angle; a slice of length 4 has an average distance of 1
AVERAGED_TURNS = 100  # number of angles in the average


@dataclass(frozen=True, kw_only=True)
class EllipticalSlice(Sampler):
    """Elliptical slice sampling: moves along ellipses through the current state and a draw from the prior.

    It supports any likelihood with `log_prob`. The settings are those of `Sampler`.
    """

    latent_steps = 10

    def begin(self, target: Target, F: np.ndarray, rng: np.random.Generator, prior_moves: bool = False) -> Walk:
        return _EllipticalWalk(target, F, rng)


class _EllipticalWalk(Walk):
    def __init__(self, target, F, rng):
        super().__init__(target, F, rng)
        self._prior_draws: list[np.ndarray] = []
        self._bracket = np.full(F.shape[2], 2 * np.pi)  # first bracket of each chain; any fixed length is valid
        self._usual, self._seen = np.zeros(F.shape[2]), 0

    def new_prior(self, target):
        super().new_prior(target)
        self._prior_draws = []

    def _prior_draw(self):
        if not self._prior_draws:
            C, rank = self.target.shape
            R = self.F.shape[2]
            blocks = max(1, PRIOR_DRAWS // R)
            drawn = self.target.prior.colour(self.rng.standard_normal((C, rank, blocks * R)))
            self._prior_draws = list(np.ascontiguousarray(np.moveaxis(drawn.reshape(C, -1, blocks, R), 2, 0)))
        return self._prior_draws.pop()

    def step(self):
        nu, R = self._prior_draw(), self.F.shape[2]
        level = self.log_likelihood + np.log1p(-self.rng.random(R))
        low: Any = -self._bracket * self.rng.random(R)
        high = low + self._bracket
        angle = low + self._bracket * self.rng.random(R)
        F, value = self._turn(slice(None), nu, angle)
        left = np.flatnonzero(~(value >= level))
        for _ in range(MAX_SHRINKS):
            if not len(left):
                break
            below = angle[left] < 0
            low[left[below]], high[left[~below]] = angle[left[below]], angle[left[~below]]
            angle[left] = low[left] + (high[left] - low[left]) * self.rng.random(len(left))
            F[:, :, left], value[left] = self._turn(left, nu, angle[left])
            left = left[~(value[left] >= level[left])]
        if len(left):  # rounding put the level above the current state: stay there
            F[:, :, left], value[left] = self.F[:, :, left], self.log_likelihood[left]
        self.F, self.log_likelihood, self._turned = F, value, np.abs(angle)
        accepted = np.ones(R)
        accepted[left] = 0.0
        return accepted

    def warm_up(self, done, accepted):
        self._seen += 1
        self._usual += (self._turned - self._usual) / min(self._seen, AVERAGED_TURNS)
        if self._seen >= 10:
            self._bracket = np.minimum(BRACKET_FACTOR * self._usual, 2 * np.pi)

    def _turn(self, which, nu, angle):
        F = self.F[:, :, which] * np.cos(angle) + nu[:, :, which] * np.sin(angle)
        return F, self.target.log_likelihood(F)
