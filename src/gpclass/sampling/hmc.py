"""Hamiltonian (hybrid) Monte Carlo on the whitened latent function.

The coordinates are z with f = root z, z ~ N(0, I) a priori; `gaussian.prior` explains why each can then be scaled
separately. The warm-up adapts the step size by dual averaging, and the scales (inverse masses) to the variance of the draws.
All chains share both.

[N]  Neal 2011, MCMC using Hamiltonian dynamics.
[HG] Hoffman & Gelman 2014, The no-U-turn sampler, section 3.2 (step size).
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpotrs

from .chains import Sampler, Walk
from .reference import root_precisions
from .shared_noise import smooth_target
from .target import Target

TRAJECTORY_LENGTH = np.pi / 2  # a quarter period, after which a Gaussian with the right scales is independent of its start
METRIC_EVERY = 20  # states between two updates of the metric while the prior moves
AVERAGED_STATES = 200  # states over which the likelihood's curvature is averaged while the prior moves
WINDOWS = (0.1, 0.25, 0.5, 0.85)  # fractions of the warm-up after which the scales are updated


@dataclass(frozen=True, kw_only=True)
class HMC(Sampler):
    """Hamiltonian Monte Carlo with trajectories of random length. It supports any likelihood with `log_prob`.

    Further settings are those of `Sampler`.

    Parameters
    ----------
    target_acceptance : float, default=0.8
        Acceptance rate to which the warm-up adapts the step size.
    max_leapfrogs : int, default=64
        Maximum number of leapfrog steps per trajectory.
    """

    target_acceptance: float = 0.8
    max_leapfrogs: int = 64

    latent_steps = 2

    def check_settings(self) -> None:
        super().check_settings()
        if not 0 < self.target_acceptance < 1:
            raise ValueError(f"target_acceptance must be between 0 and 1, but is {self.target_acceptance}")
        if not isinstance(self.max_leapfrogs, Integral) or self.max_leapfrogs < 1:
            raise ValueError(f"max_leapfrogs must be an integer of at least 1, but is {self.max_leapfrogs!r}")

    def target(self, K: np.ndarray, y: Any, likelihood: Any) -> Target:
        return smooth_target(K, y, likelihood)

    def begin(self, target: Target, F: np.ndarray, rng: np.random.Generator, prior_moves: bool = False) -> Walk:
        return _HamiltonianWalk(target, F, rng, self.target_acceptance, self.max_leapfrogs, prior_moves)


class _HamiltonianWalk(Walk):
    def __init__(self, target, F, rng, wanted, max_leapfrogs, prior_moves):
        super().__init__(target, F, rng)
        self.prior_moves = prior_moves
        self.wanted, self.max_leapfrogs = wanted, max_leapfrogs
        self.typical = target.curvature(np.zeros((target.shape[0], target.n, 1)))  # (C, n) likelihood's curvature
        self.seen = 0  # states that `typical` averages over
        self.new_prior(target)
        self.step_size = StepSize(0.5, wanted)
        self.window: list[np.ndarray] = []
        self.stage = 0  # number of completed windows of the warm-up

    def new_prior(self, target):
        self.target = target
        self.Z = target.prior.whiten(self.F)
        self.F = target.prior.colour(self.Z)
        self.log_likelihood, slope = target.slope(self.F)
        self.slope = np.matmul(np.swapaxes(target.prior.root, 1, 2), slope)
        self.metric = self._new_metric()

    def _new_metric(self):
        """Return the metric from the likelihood's average curvature W: the posterior precision is about I + rootᵀ W root."""
        root = self.target.prior.root
        if self.prior_moves:
            return DenseMetric(root, self.typical)
        precision = 1 + np.matmul(self.typical[:, None], root**2)
        return DiagonalMetric(np.swapaxes(1 / precision, 1, 2))

    def step(self):
        epsilon = self.step_size.value
        length = TRAJECTORY_LENGTH * self.rng.uniform(0.5, 1.5)
        leapfrogs = int(np.clip(np.ceil(length / epsilon), 1, self.max_leapfrogs))
        momentum = self.metric.momentum(self.rng, self.Z.shape)
        before = self._energy(self.Z, self.log_likelihood, momentum)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # a diverged trajectory is rejected
            Z, F, value, slope, momentum = self._trajectory(momentum, epsilon, leapfrogs)
            fall = before - self._energy(Z, value, momentum)
        chance = np.exp(np.minimum(np.where(np.isfinite(fall), fall, -np.inf), 0.0))
        accept = self.rng.random(len(chance)) < chance
        self.Z, self.F = np.where(accept, Z, self.Z), np.where(accept, F, self.F)
        self.slope = np.where(accept, slope, self.slope)
        self.log_likelihood = np.where(accept, value, self.log_likelihood)
        return chance

    def _energy(self, Z, value, momentum):
        return 0.5 * np.sum(Z * Z + momentum * self.metric.velocity(momentum), axis=(0, 1)) - value

    def _trajectory(self, momentum, epsilon, leapfrogs):
        """Return the end of a trajectory of leapfrog steps from the current state. [N] (2.28)-(2.30)"""
        prior = self.target.prior
        transposed = np.swapaxes(prior.root, 1, 2)
        Z, slope = self.Z, self.slope
        momentum = momentum + 0.5 * epsilon * (slope - Z)
        for i in range(leapfrogs):
            Z = Z + epsilon * self.metric.velocity(momentum)
            F = prior.colour(Z)
            value, by_f = self.target.slope(F)
            slope = np.matmul(transposed, by_f)
            momentum = momentum + (epsilon if i < leapfrogs - 1 else 0.5 * epsilon) * (slope - Z)
        return Z, F, value, slope, momentum

    def warm_up(self, done, accepted):
        self.step_size.update(float(np.mean(accepted)))
        if self.prior_moves:  # only the likelihood's curvature can be learned, since the rest depends on the prior
            self.seen += 1
            self.typical += (self.target.curvature(self.F) - self.typical) / min(self.seen, AVERAGED_STATES)
            if self.seen % METRIC_EVERY == 0:
                self.metric = self._new_metric()
        else:
            self.window.append(self.Z.copy())
            stage = sum(done >= w for w in WINDOWS)
            if stage > self.stage:
                self.stage = stage
                self._rescale()
                self.step_size = StepSize(self.step_size.value, self.wanted)
        if done >= 1:
            self.step_size.freeze()
            self.window = []

    def _rescale(self):
        """Set the scales to the variances of the draws in this window, shrunk towards the previous scales."""
        draws = np.concatenate(self.window, axis=2)
        count = draws.shape[2]
        scale2 = (count * draws.var(axis=2, keepdims=True) + 5 * self.metric.scale2) / (count + 5)
        self.metric = DiagonalMetric(scale2)
        self.window = []


class DiagonalMetric:
    """Inverse masses `scale2` (C, r, 1), one for each coordinate."""

    def __init__(self, scale2):
        self.scale2 = scale2

    def momentum(self, rng, shape):
        return rng.standard_normal(shape) / np.sqrt(self.scale2)

    def velocity(self, momentum):
        return self.scale2 * momentum


class DenseMetric:
    """Masses RᵀR = I + rootᵀ W root, used where the scales cannot be estimated from draws."""

    def __init__(self, root, W):
        self.R = root_precisions(root, W)

    def momentum(self, rng, shape):
        return np.matmul(np.swapaxes(self.R, 1, 2), rng.standard_normal(shape))

    def velocity(self, momentum):
        # R.T has the order of Fortran, so that it is not copied
        return np.stack([dpotrs(R.T, p, lower=1)[0] for R, p in zip(self.R, momentum, strict=True)])


class StepSize:
    """Dual averaging of the log step size towards the wanted acceptance rate. [HG] (6)"""

    def __init__(self, first: float, wanted: float):
        self.value = first
        self._wanted, self._centre = wanted, np.log(first)  # not log(10 first) as in [HG]: a short warm-up would end there
        self._gap, self._mean, self._t = 0.0, np.log(first), 0

    def update(self, acceptance: float) -> None:
        self._t += 1
        self._gap += (self._wanted - acceptance - self._gap) / (self._t + 10)
        log_step = self._centre - np.sqrt(self._t) / 0.05 * self._gap
        weight = self._t**-0.75
        self._mean = weight * log_step + (1 - weight) * self._mean
        self.value = float(np.exp(np.clip(log_step, -30, 3)))

    def freeze(self) -> None:
        self.value = float(np.exp(np.clip(self._mean, -30, 3)))
