"""The loop that all samplers share: warm-up, drawing, interruption, resumption.

A sampler consists of its settings and a method that creates a `Walk`. A walk is the state of all chains, which move together
as columns.
"""

from __future__ import annotations

import copy
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from ..engines import Engine
from ..engines.fit import check_observed
from ..engines.observations import same_targets
from ..progress import Counter, counted, shown, stops_here
from .draws import Draws
from .reference import Reference
from .target import Target, generator

CHECK_EVERY = 50  # draws between two checks whether there are enough


class Walk(ABC):
    """The state of R chains: latent values (C, n, R) and log likelihoods (R,)."""

    def __init__(self, target: Target, F: np.ndarray, rng: np.random.Generator):
        self.target, self.rng = target, rng
        self.F, self.log_likelihood = F, target.log_likelihood(F)
        self.tried = 0  # steps after the warm-up
        self.moved = np.zeros(F.shape[2])  # sum of their acceptance probabilities

    @abstractmethod
    def step(self) -> np.ndarray:
        """Move every chain once and return the acceptance probabilities (R,)."""

    def warm_up(self, done: float, accepted: np.ndarray) -> None:  # noqa: B027
        """Adapt the walk. Called after each step of the warm-up, of which the fraction `done` is complete."""

    def new_prior(self, target: Target) -> None:
        """Keep the latent values but change the prior, as when hyperparameters move."""
        self.target = target
        self.log_likelihood = target.log_likelihood(self.F)


@dataclass(frozen=True, kw_only=True)
class Sampler(Engine, ABC):
    """Base class of samplers.

    Parameters
    ----------
    n_draws : int, default=1000
        Number of draws kept per chain.
    n_warmup : int, default=500
        Number of steps that adapt the sampler and are discarded.
    n_chains : int, default=4
        Number of chains.
    thin : int, default=1
        Number of steps per draw.
    enough : float, optional
        Stop early after this many effective draws, see `Draws.suffice`. By default all draws are made.
    sample_hyper : bool, default=False
        Whether GPClassifier samples the hyperparameters too.
    random_state : int, Generator, RandomState or None, optional
        Seed or source of random numbers.
    verbose : int, default=0
        1 shows the progress on stderr.
    """

    n_draws: int = 1000
    n_warmup: int = 500
    n_chains: int = 4
    thin: int = 1
    enough: float | None = None
    sample_hyper: bool = False
    random_state: Any = None
    verbose: int = 0

    needs: ClassVar[tuple[str, ...]] = ("log_prob",)
    latents: ClassVar[str] = "any"
    draws: ClassVar[bool] = True
    weights: ClassVar[str] = "places"
    likelihood_names: ClassVar[tuple[str, ...]] = ("probit", "softmax", "multinomial-probit")
    latent_steps: ClassVar[int] = 1  # steps of the latent values between two moves of the hyperparameters

    def target(self, K: np.ndarray, y: Any, likelihood: Any) -> Target:
        """Return the problem in the coordinates in which the sampler moves."""
        return Target.of(K, y, likelihood)

    @abstractmethod
    def begin(self, target: Target, F: np.ndarray, rng: np.random.Generator, prior_moves: bool = False) -> Walk:
        """Return a walk from the latent values F (C, n, R). `prior_moves` says whether the prior will change."""

    def fit(self, K: np.ndarray, y: Any, likelihood: Any, start: Any = None) -> Draws:
        """Draw from p(f | y) ∝ N(f | 0, K) p(y | f).

        Ctrl-C ends the drawing early and returns the draws made so far.

        Parameters
        ----------
        K : ndarray of shape (n, n) or (C, n, n)
            Prior covariance, or one per class.
        y : ndarray of shape (n,) or Observed
            Labels as the likelihood takes them; with weights as `Observed`.
        likelihood : Likelihood
            A likelihood with the methods in `needs`.
        start : Draws or Fit, optional
            Earlier draws, which are continued without a new warm-up and included in the result; or an engine's fit, whose
            Gaussian posterior gives the first states. By default the first states are drawn from the prior.

        Returns
        -------
        Draws
        """
        self.check_settings()
        self.check_likelihood(likelihood)
        K, y = check_observed(K, y, likelihood, type(self).__name__)
        if isinstance(start, Draws):
            walk, earlier = self._resumed(start, K, y, likelihood), start
        else:
            rng, target = generator(self.random_state), self.target(K, y, likelihood)
            walk, earlier = self.begin(target, first_states(target, start, self.n_chains, rng), rng), None
        with self.progress(0 if earlier else self.n_warmup) as bar:
            if earlier is None:
                self._warm_up(walk, bar)
            latent, log_likelihood = self._draw(walk, bar, earlier)
        return Draws.made(self, walk, latent, log_likelihood, earlier)

    def fit_hyper(self, objective: Any, start: Any = None) -> Draws:
        """Draw hyperparameters and latent values.

        Parameters
        ----------
        objective : gpclass.learning.Objective
            The problem and the priors of its hyperparameters.
        start : HyperDraws, optional
            Earlier draws of the same problem, which are continued.

        Returns
        -------
        HyperDraws
        """
        from .hyper import draw_with_hyper  # hyper imports this module

        self.check_settings()
        return draw_with_hyper(self, objective, start)

    def restore(self, K: np.ndarray, y: Any, likelihood: Any, state: Mapping[str, Any]) -> Draws:
        """Return the draws of a saved `Draws.state`. They can predict, but cannot be continued."""
        return Draws.restored(self, y, likelihood, state, whitening=self.target(K, y, likelihood).problem.prior)

    def restore_hyper(self, objective: Any, state: Mapping[str, Any]) -> Draws:
        """Return the draws with hyperparameters of a saved `Draws.state`, whose kernels are those of `objective`."""
        from .hyper import HyperDraws  # hyper imports this module

        return HyperDraws.restored(self, objective.y, objective.likelihood, state, objective=objective)

    def check_settings(self) -> None:
        """Raise a ValueError if a setting is invalid."""
        for name, least in (("n_draws", 1), ("n_warmup", 0), ("n_chains", 1), ("thin", 1)):
            value = getattr(self, name)
            if not isinstance(value, Integral) or value < least:
                raise ValueError(f"{name} must be an integer of at least {least}, but is {value!r}")
        if self.enough is not None and not self.enough > 0:
            raise ValueError(f"enough must be a positive number of effective draws, or None, but is {self.enough!r}")

    def check_same(self, start: Draws) -> None:
        """Raise a ValueError if this sampler cannot continue earlier draws."""
        if type(start.sampler) is not type(self) or start.n_chains != self.n_chains:
            raise ValueError(
                f"start was drawn by {start.sampler!r}: only the same sampler with the same number of chains can continue it"
            )

    def _resumed(self, start, K, y, likelihood):
        if start.walk is None or start.theta is not None:
            raise TypeError("fit can continue only draws of latent values without hyperparameters, and with their state")
        self.check_same(start)
        if not same_targets(start.y, y):
            raise ValueError("start was drawn for other labels")
        if start.likelihood != likelihood:
            raise ValueError(f"start was drawn under {start.likelihood!r}, not {likelihood!r}")
        before = start.prior.covariance
        if not np.allclose(before, K, rtol=1e-6, atol=1e-8 * np.abs(before).max()):
            raise ValueError("start was drawn under another K")
        return copy.deepcopy(start.walk)  # so that the earlier draws do not change

    def _warm_up(self, walk, bar):
        for i in range(self.n_warmup):
            walk.warm_up((i + 1) / self.n_warmup, walk.step())
            bar.advance()

    def _draw(self, walk, bar, earlier):
        shape = walk.target.latent(walk.F).shape
        latent, log_likelihood = np.empty((self.n_draws, *shape)), np.empty((self.n_draws, shape[2]))
        done = 0
        try:
            for i in range(self.n_draws):
                for _ in range(self.thin):
                    walk.moved += walk.step()
                    walk.tried += 1
                latent[i] = walk.target.latent(walk.F)
                log_likelihood[i] = walk.target.marginal(walk.F, walk.log_likelihood)
                done = i + 1
                bar.advance()
                look = self.enough is not None and done % CHECK_EVERY == 0
                if look and self.is_enough(Draws.of_walk(self, walk, latent[:done], log_likelihood[:done], earlier)):
                    break
        except KeyboardInterrupt:
            if not done:
                raise
            report_interruption(done, self.n_draws)
        return latent[:done], log_likelihood[:done]

    def is_enough(self, draws: Draws) -> bool:
        """Return whether drawing may stop."""
        return self.enough is not None and draws.suffice(self.enough)

    @contextmanager
    def progress(self, n_warmup: int, what: str = "") -> Iterator[Counter]:
        """Name the phase of drawing, and yield the counter of its steps. With `enough` the run may end earlier."""
        exact = self.enough is None
        draws = f"{'' if exact else 'up to '}{self.n_draws} draws"
        name = f"{type(self).__name__}{what}, {n_warmup} steps of warm-up and {draws}"
        with shown(self.verbose), counted(name, n_warmup + self.n_draws, exact=exact) as counter:
            yield counter


def report_interruption(done: int, wanted: int) -> None:
    """Tell listeners and warn that Ctrl-C ended the drawing early."""
    stops_here(f"{done} of {wanted} draws")
    warnings.warn(f"interrupted: {done} of {wanted} draws were made", stacklevel=4)


def first_states(target: Target, start: Any, n_chains: int, rng: np.random.Generator) -> np.ndarray:
    """Return draws (C, n, R) from the prior, or from the Gaussian posterior of an engine's fit."""
    C, rank = target.shape
    Z = rng.standard_normal((C, rank, n_chains))
    if start is None:
        return target.prior.colour(Z)
    return Reference.of(target, start).latent(Z)
