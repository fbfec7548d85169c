"""Sampling hyperparameters with the latent values: moves of either in turn, each chain with a kernel of its own.

Given f, hyperparameters θ hardly move, and given the whitened f a strong likelihood holds them as tightly. Surrogate
data g ~ N(f, S) stand between: θ is moved with f = mean(θ, g) + root(θ) η following at fixed g and η, by a slice sampler
along random directions. S is the inverse curvature of the likelihood.

[MA] Murray & Adams 2010, Slice sampling covariance hyperparameters of latent Gaussian models.
"""

from __future__ import annotations

import warnings
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from tqdm import tqdm

from ..gaussian import Prior
from ..learning import log_prior
from ..learning.optimise import FAILURES
from .chains import first_states
from .draws import Draws
from .ensemble import Ensemble
from .target import Target, generator, prepare

WIDTH = 3.0  # of the first bracket, in standard deviations of θ
SHRINKS = 100
SPREAD = 0.5  # of the chains' first θ, in log parameters
FIRST_SD = 1.0  # of θ, before the warm-up knows better


def draw_with_hyper(sampler: Any, objective: Any) -> Draws:
    """Run all chains; see `Sampler.fit_hyper`."""
    rng = generator(sampler.random_state)
    chains = [_Chain(sampler, objective, rng) for _ in range(sampler.n_chains)]
    for i in _bar(sampler, sampler.n_warmup, "warm-up"):
        for chain in chains:
            chain.warm_up((i + 1) / sampler.n_warmup)
    kept: list[list[tuple]] = []
    try:
        for _ in _bar(sampler, sampler.n_draws, "drawing"):
            kept.append([chain.draw(sampler.thin) for chain in chains])
    except KeyboardInterrupt:
        if not kept:
            raise
        warnings.warn(f"interrupted: {len(kept)} of {sampler.n_draws} draws were made", stacklevel=3)
    return _collected(sampler, objective, chains, kept)


def _bar(sampler, number, what):
    return tqdm(range(number), desc=f"{type(sampler).__name__} with hyperparameters, {what}", disable=not sampler.verbose)


def _collected(sampler, objective, chains, kept):
    theta, latent, value = (np.stack([[draw[k] for draw in row] for row in kept], axis=1) for k in range(3))
    walks = [chain.walk for chain in chains]
    acceptance = np.array([float(w.moved[0]) / max(w.tried, 1) for w in walks])
    centre = objective.at(theta.mean((0, 1)))
    draws = HyperDraws(
        sampler, latent, value, acceptance, walks[0].target.y, centre[1], walk=None, theta=theta, objective=objective
    )
    draws.warn()
    return draws


class HyperDraws(Draws):
    """Draws of hyperparameters `theta` (chains, draws, p) beside the latent values."""

    PREDICTING = 200  # draws used for predictions: each costs a factorisation

    def members(self, kernel: Any) -> list[tuple[Any, Ensemble]]:
        """A selection of the draws, each with its kernel; `kernel` is not one of them."""
        latent, theta = self.pooled, np.reshape(self.theta, (len(self.pooled), -1))
        some = np.unique(np.linspace(0, len(latent) - 1, min(len(latent), self.PREDICTING)).astype(int))
        pairs: list[tuple[Any, Ensemble]] = []
        for s in some:
            own_kernel, likelihood = self.objective.at(theta[s])
            pairs.append((own_kernel, _Member(latent[s : s + 1], likelihood, own_kernel, self.objective.X)))
        return pairs

    @property
    def prior(self):  # type: ignore[override]
        raise AttributeError("each draw has its own kernel; predict with `members`")


class _Member(Ensemble):
    """One draw, with its prior made when it is asked for."""

    weights = None

    def __init__(self, pooled, likelihood, kernel, X):
        self.pooled, self.likelihood, self._kernel, self._X = pooled, likelihood, kernel, X

    @cached_property
    def prior(self):  # type: ignore[override]
        return Prior.cholesky(self._kernel(self._X))


class _Chain:
    """One chain: θ, and a walk of one column under the kernel of that θ."""

    def __init__(self, sampler, objective, rng):
        self.sampler, self.objective, self.rng = sampler, objective, rng
        self.low, self.high = objective.bounds.T
        self.theta, target = self._first()
        self.noise = 1 / target.curvature_scale()  # S
        self.walk = sampler.begin(target, first_states(target, None, 1, rng), rng)
        self.sd = np.full(len(self.theta), FIRST_SD)
        self.seen: list[np.ndarray] = []

    def _first(self):
        start = self.objective.theta
        for spread in (*[SPREAD] * 19, 0.0):
            theta = np.clip(start + spread * self.rng.standard_normal(len(start)), self.low, self.high)
            target = self._target(theta)
            if target is not None:
                return theta, target
        raise LinAlgError("no covariance matrix could be made near the first hyperparameters")

    def _target(self, theta):
        """The problem at θ, or None where there is none."""
        try:
            kernel, likelihood = self.objective.at(theta)
            K, y = prepare(kernel(self.objective.X), self.objective.y, likelihood, self.sampler.needs, "sampling")
            return Target(Prior.cholesky(K), y, likelihood)
        except FAILURES:
            return None

    # moves --------------------------------------------------------------------------------------------------------

    def warm_up(self, done):
        for _ in range(self.sampler.latent_steps):
            self.walk.warm_up(done, self.walk.step(), prior_moves=True)
        self._move_theta()
        self.seen.append(self.theta)
        if len(self.seen) >= 50 and len(self.seen) % 25 == 0:
            recent = np.array(self.seen[len(self.seen) // 2 :])
            self.sd = np.maximum(recent.std(0), 0.05)

    def draw(self, thin):
        for _ in range(thin):
            for _ in range(self.sampler.latent_steps):
                self.walk.moved += self.walk.step()
                self.walk.tried += 1
            self._move_theta()
        F = self.walk.F[:, :, 0]
        return self.theta, F[0] if len(F) == 1 else F.T, float(self.walk.log_likelihood[0])

    def _move_theta(self):
        """[MA] algorithm 4, along a random direction."""
        if not len(self.theta):
            return
        here = _Surrogate(self.walk.target.prior, self.noise)
        F = self.walk.F[:, :, 0].T
        g = F + np.sqrt(self.noise)[:, None] * self.rng.standard_normal(F.shape)
        eta = here.residual(F, g, self.walk.target.prior)
        here_value = self.walk.target.log_likelihood(self.walk.F)[0]
        level = self._log_density(self.theta, here, g, here_value) + np.log1p(-self.rng.random())
        direction = self.sd * self.rng.standard_normal(len(self.theta))
        low = -WIDTH * self.rng.random()
        high = low + WIDTH
        for _ in range(SHRINKS):
            t = low + (high - low) * self.rng.random()
            if self._accept(self.theta + t * direction, g, eta, level):
                return
            low, high = (t, high) if t < 0 else (low, t)

    def _accept(self, theta, g, eta, level):
        if np.any(theta < self.low) or np.any(theta > self.high):
            return False
        target = self._target(theta)
        if target is None:
            return False
        try:
            there = _Surrogate(target.prior, self.noise)
        except LinAlgError:
            return False
        F = there.latent(g, eta).T[:, :, None]
        value = target.log_likelihood(F)[0]
        if not self._log_density(theta, there, g, value) >= level:
            return False
        self.theta, self.walk.F = theta, np.ascontiguousarray(F)
        self.walk.new_prior(target)
        return True

    def _log_density(self, theta, surrogate, g, log_likelihood):
        return log_likelihood + surrogate.log_marginal(g) + log_prior(theta, self.objective.priors)[0]


class _Surrogate:
    """f given surrogate data g = f + noise, under the prior K = L Lᵀ: everything from RᵀR = I + Lᵀ S⁻¹ L."""

    def __init__(self, prior, noise):
        self.L, self.noise = prior.root[0], noise
        self.R = cholesky(np.eye(self.L.shape[1]) + (self.L / noise[:, None]).T @ self.L, overwrite_a=True)
        self.log_det = 2 * float(np.sum(np.log(np.diagonal(self.R))))

    def _pull(self, g):
        """R⁻ᵀ Lᵀ S⁻¹ g."""
        return solve_triangular(self.R, self.L.T @ (g / self.noise[:, None]), trans=1)

    def latent(self, g, eta):
        """f (n, C) of surrogate data and residual."""
        return self.L @ solve_triangular(self.R, self._pull(g) + eta)

    def residual(self, F, g, prior):
        """η of latent values F (n, C): standard normal given g and θ."""
        z = prior.whiten(F.T[:, :, None])[:, :, 0].T
        return self.R @ z - self._pull(g)

    def log_marginal(self, g):
        """log N(g | 0, K + S) for each column, summed, up to what does not depend on K."""
        pull = self._pull(g)
        return -0.5 * (g.shape[1] * self.log_det - float(np.sum(pull * pull)))


__all__ = ["HyperDraws", "draw_with_hyper"]
