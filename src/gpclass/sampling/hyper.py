"""Sampling of hyperparameters and latent values, which move in turn. Each chain has a separate kernel.

Given f, the hyperparameters θ hardly move. Given the whitened f, they hardly move either if the likelihood is strong. Here θ
moves with f = mean(θ) + root(θ) x at fixed x, where N(mean, root rootᵀ) approximates the posterior at θ: the better the
approximation, the less x depends on θ. The moves are slice sampling along random directions under the exact density of
(θ, x), so the approximation affects only the choice of coordinates.

The warm-up learns the approximation; see `guides`. For two classes its sites follow those of EP as θ changes. For more
classes the sites are the same for all θ.

[MA] Murray & Adams 2010, Slice sampling covariance hyperparameters of latent Gaussian models (with surrogate data as sites).
[MG] Murray & Graham 2016, Pseudo-marginal slice sampling (this is the case of one sample).
"""

from __future__ import annotations

import copy
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, solve_triangular

from ..engines.fit import check_observed
from ..engines.observations import same_targets
from ..gaussian import Prior
from ..learning import log_prior
from ..learning.objective import FAILURES
from .chains import CHECK_EVERY, first_states, report_interruption
from .draws import Draws
from .ensemble import Ensemble
from .guides import new_guides
from .reference import Reference
from .target import Target, generator

BRACKET_WIDTH = 3.0  # of the first bracket of a slice, in standard deviations of θ
MAX_SHRINKS = 100  # reductions of the bracket
START_SD = 0.5  # standard deviation of the chains' first θ, in log parameters
WARMUP_SD = 1.0  # standard deviation of θ assumed at the start of the warm-up
ADDED_SD = 0.05  # its square is added to the estimated variances
MIN_JUMP_RATE = 0.05  # acceptance rate below which jumps are no longer tried
JUMP_DF = 4.0  # degrees of freedom of jumps, whose tails must be heavier than the posterior's


def draw_with_hyper(sampler: Any, objective: Any, start: Any = None) -> Draws:
    """Run all chains; see `Sampler.fit_hyper`."""
    chains = None if start is None else _resumed(sampler, objective, start)
    kept: list[list[tuple]] = []
    with sampler.progress(0 if chains else sampler.n_warmup, " with hyperparameters") as bar:
        chains = chains or _new_chains(sampler, objective, bar)
        try:
            for done in range(1, sampler.n_draws + 1):
                kept.append([chain.draw(sampler.thin) for chain in chains])
                bar.advance()
                look = sampler.enough is not None and done % CHECK_EVERY == 0
                if look and sampler.is_enough(_draws_of(sampler, objective, chains, kept, start)):
                    break
        except KeyboardInterrupt:
            if not kept:
                raise
            report_interruption(len(kept), sampler.n_draws)
    draws = _draws_of(sampler, objective, chains, kept, start)
    draws.warn()
    return draws


def _new_chains(sampler, objective, bar):
    rng = generator(sampler.random_state)
    shape = _Shape(len(objective.theta), sampler.n_chains)
    chains = [_Chain(sampler, objective, rng, shape) for _ in range(sampler.n_chains)]
    for chain, guide in zip(chains, new_guides(objective, [chain.walk.target for chain in chains]), strict=True):
        chain.guide = guide
    for i in range(sampler.n_warmup):
        for chain in chains:
            chain.warm_up((i + 1) / sampler.n_warmup)
        bar.advance()
    return chains


def _resumed(sampler, objective, start):
    if not isinstance(start, HyperDraws):
        raise TypeError(f"start must be earlier draws with hyperparameters, but is of type {type(start).__name__}")
    sampler.check_same(start)
    before = start.objective
    if not (np.array_equal(before.X, objective.X) and same_targets(before.y, objective.y)):
        raise ValueError("start was drawn for other data")
    if before.names != objective.names or before.likelihood != objective.likelihood:
        raise ValueError("start was drawn for another kernel or likelihood")
    return copy.deepcopy(start.walk)  # so that the earlier draws do not change


def _draws_of(sampler, objective, chains, kept, earlier):
    theta, latent, value = (np.stack([[draw[k] for draw in row] for row in kept], axis=1) for k in range(3))
    if earlier is not None:
        old = earlier.theta, earlier.latent, earlier.log_likelihood
        theta, latent, value = (np.concatenate(p, axis=1) for p in zip(old, (theta, latent, value), strict=True))
    walks = [chain.walk for chain in chains]
    acceptance = np.array([float(w.moved[0]) / max(w.tried, 1) for w in walks])
    centre = objective.at(theta.mean((0, 1)))
    return HyperDraws(
        sampler, latent, value, acceptance, walks[0].target.y, centre[1], walk=chains, theta=theta, objective=objective
    )


class HyperDraws(Draws):
    """Draws of latent values and hyperparameters; `theta` has shape (chains, draws, p)."""

    PREDICTING = 200  # number of draws used for predictions; each costs a factorisation

    def members(self, kernel: Any) -> list[tuple[Any, Ensemble]]:
        """Return up to 200 of the draws, each with its kernel. `kernel` is not used."""
        latent, theta = self.pooled, np.reshape(self.theta, (len(self.pooled), -1))
        some = np.unique(np.linspace(0, len(latent) - 1, min(len(latent), self.PREDICTING)).astype(int))
        pairs: list[tuple[Any, Ensemble]] = []
        for i, s in enumerate(some):
            own_kernel, likelihood = self.objective.at(theta[s])
            member = _Member(latent[s : s + 1], likelihood, own_kernel, self.objective.X, (i, len(some)))
            pairs.append((own_kernel, member))
        return pairs

    @property
    def prior(self):  # type: ignore[override]
        raise AttributeError("each draw has a different kernel; use `members` for predictions")


class _Member(Ensemble):
    """One draw. Its prior is computed on first use."""

    weights = None

    def __init__(self, pooled, likelihood, kernel, X, place):
        self.pooled, self.likelihood, self._kernel, self._X, self.place = pooled, likelihood, kernel, X, place

    @cached_property
    def prior(self):  # type: ignore[override]
        return Prior.cholesky(self._kernel(self._X))


class _Chain:
    """One chain: θ, and a walk of one column under the kernel of that θ."""

    def __init__(self, sampler, objective, rng, shape):
        self.sampler, self.objective, self.rng = sampler, objective, rng
        self.low, self.high = objective.bounds.T
        K, likelihood = objective.kernel(objective.X), objective.likelihood
        self.y = check_observed(K, objective.y, likelihood, type(sampler).__name__)[1]
        self.theta, target = self._start()
        self.walk = sampler.begin(target, first_states(target, None, 1, rng), rng, prior_moves=True)
        self.guide: Any = None  # set before the first step
        self.reference: Reference | None = None  # of the guide, at the current θ
        self.version = -1  # of the guide that made it
        self.shape = shape

    def _start(self):
        start = self.objective.theta
        for spread in (*[START_SD] * 19, 0.0):
            theta = np.clip(start + spread * self.rng.standard_normal(len(start)), self.low, self.high)
            target = self._target(theta)
            if target is not None:
                return theta, target
        raise LinAlgError("no valid covariance matrix was found near the first hyperparameters")

    def _target(self, theta):
        """Return the problem at θ, or None if its covariance matrix is invalid."""
        try:
            kernel, likelihood = self.objective.at(theta)
            return Target.of(kernel(self.objective.X), self.y, likelihood, Prior.cholesky)
        except FAILURES:
            return None

    # moves --------------------------------------------------------------------------------------------------------

    def warm_up(self, done):
        for _ in range(self.sampler.latent_steps):
            self.walk.warm_up(done, self.walk.step())
        self._move_theta()
        self.shape.record(self.theta)
        self.guide.learn(self.theta, self.walk.target, self.walk.F)

    def draw(self, thin):
        for _ in range(thin):
            for _ in range(self.sampler.latent_steps):
                self.walk.moved += self.walk.step()
                self.walk.tried += 1
            self._move_theta()
        f = self.walk.target.by_datum(self.walk.F)[:, 0]
        return self.theta, f, float(self.walk.log_likelihood[0])

    def _move_theta(self):
        """Move θ at fixed x, leaving the density of (θ, x) invariant: by a slice and, once the shape is known, by a jump."""
        if not len(self.theta):
            return
        if self.version != self.guide.version:
            self.reference, self.version = None, self.guide.version
        self.reference = self.reference or self.guide.reference(self.theta, self.walk.target)
        if self.reference is None:
            return
        self._slice()
        if self.shape.jumps:
            self.shape.jumped(self._jump())

    def _slice(self):
        """Move θ by slice sampling along a random direction (Neal 2003)."""
        x, level = self._coordinates_and_level()
        level += np.log1p(-self.rng.random())
        direction = self.shape.direction(self.rng)
        low = -BRACKET_WIDTH * self.rng.random()
        high = low + BRACKET_WIDTH
        for _ in range(MAX_SHRINKS):
            t = low + (high - low) * self.rng.random()
            if self._accept(self.theta + t * direction, x, level):
                return
            low, high = (t, high) if t < 0 else (low, t)

    def _jump(self):
        """Propose a draw from the approximation of θ's posterior (independence sampler). Return whether it is accepted."""
        x, level = self._coordinates_and_level()
        there = self.shape.draw(self.rng)
        level += self.shape.log_density(there) - self.shape.log_density(self.theta)
        return self._accept(there, x, level + np.log1p(-self.rng.random()))

    def _coordinates_and_level(self):
        assert self.reference is not None, "moves of θ begin with it"
        return self.reference.coordinates(self.walk.F), self._log_density(self.theta, self.reference, self.walk.F)

    def _accept(self, theta, x, level):
        if np.any(theta < self.low) or np.any(theta > self.high):
            return False
        target = self._target(theta)
        there = None if target is None else self.guide.reference(theta, target)
        if there is None:
            return False
        F = there.latent(x)
        if not self._log_density(theta, there, F) >= level:
            return False
        self.theta, self.reference, self.walk.F = theta, there, np.ascontiguousarray(F)
        self.walk.new_prior(target)
        return True

    def _log_density(self, theta, reference, F):
        return reference.log_ratio(F)[0] + log_prior(theta, self.objective.priors)[0]


class _Shape:
    """Student t approximation of the posterior of θ, learned from all chains during the warm-up."""

    def __init__(self, p, n_chains):
        self.centre: np.ndarray = np.zeros(p)
        self.root: np.ndarray = WARMUP_SD * np.eye(p)  # the scale matrix is root rootᵀ
        self.seen: list[np.ndarray] = []
        self.n_chains = n_chains
        self.jumps = False  # whether jumps are tried
        self.tried, self.accepted = 0, 0  # numbers of jumps

    def jumped(self, accepted):
        """Record the outcome of a jump."""
        self.tried += 1
        self.accepted += accepted

    def record(self, theta):
        """Record θ after a round of a chain's warm-up. Update the approximation every 25 rounds from the last half."""
        self.seen.append(theta)
        rounds = len(self.seen) / self.n_chains
        if rounds >= 50 and rounds % 25 == 0:
            recent = np.array(self.seen[len(self.seen) // 2 :])
            spread = np.atleast_2d(np.cov(recent.T)) + ADDED_SD**2 * np.eye(recent.shape[1])
            self.centre, self.root = recent.mean(0), np.linalg.cholesky(spread)
            self.jumps = not self.tried or self.accepted > MIN_JUMP_RATE * self.tried
            self.tried, self.accepted = 0, 0

    def direction(self, rng):
        return self.root @ rng.standard_normal(len(self.centre))

    def draw(self, rng):
        return self.centre + self.direction(rng) / np.sqrt(rng.chisquare(JUMP_DF) / JUMP_DF)

    def log_density(self, theta):
        """Return the log density up to a constant."""
        x = solve_triangular(self.root, theta - self.centre, lower=True)
        return -0.5 * (JUMP_DF + len(x)) * np.log1p(x @ x / JUMP_DF)


__all__ = ["HyperDraws", "draw_with_hyper"]
