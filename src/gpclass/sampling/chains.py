"""The one loop that every sampler runs: warm-up, drawing, interruption, resumption.

A sampler is its settings and a way to begin a `Walk`; a walk is the state of all chains, moved together as columns.
"""

from __future__ import annotations

import copy
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from tqdm import tqdm

from ..engines import Engine
from ..inference.fit import check_problem
from .draws import Draws
from .reference import Reference
from .target import Target, generator

OFTEN, SELDOM = 0.1, 5.0  # seconds between two looks of the progress bar: on a terminal, and in a log file
LOOK = 50  # draws between two looks at whether there are enough


class Walk(ABC):
    """R chains at (C, n, R) latent values, with their log likelihoods (R,)."""

    def __init__(self, target: Target, F: np.ndarray, rng: np.random.Generator):
        self.target, self.rng = target, rng
        self.F, self.log_likelihood = F, target.log_likelihood(F)
        self.tried = 0  # steps since the warm-up
        self.moved = np.zeros(F.shape[2])  # accepted share of them, summed

    @abstractmethod
    def step(self) -> np.ndarray:
        """One transition of every chain; (R,) the shares accepted."""

    def warm_up(self, done: float, accepted: np.ndarray) -> None:  # noqa: B027
        """Called after each step of the warm-up, of which the share `done` is over: adapt what can be adapted."""

    def new_prior(self, target: Target) -> None:
        """The same latent values under another prior, as when hyperparameters move."""
        self.target = target
        self.log_likelihood = target.log_likelihood(self.F)


@dataclass(frozen=True, kw_only=True)
class Sampler(Engine, ABC):
    """Settings that all samplers share."""

    n_draws: int = 1000  # kept, of each chain
    n_warmup: int = 500  # steps that adapt the sampler and are thrown away
    n_chains: int = 4
    thin: int = 1  # steps per draw
    enough: float | None = None  # effective draws (see `Draws.suffice`) after which drawing stops early; None: never early
    sample_hyper: bool = False  # GPClassifier: sample the hyperparameters too
    random_state: Any = None
    verbose: int = 0  # 1 shows a progress bar

    needs: ClassVar[tuple[str, ...]] = ("log_prob",)
    latents: ClassVar[str] = "any"
    draws: ClassVar[bool] = True
    likelihood_names: ClassVar[tuple[str, ...]] = ("probit", "softmax", "multinomial-probit")
    latent_steps: ClassVar[int] = 1  # between two moves of the hyperparameters

    def target(self, K: np.ndarray, y: np.ndarray, likelihood: Any) -> Target:
        """The problem in the coordinates that the sampler moves in."""
        return Target.of(K, y, likelihood)

    @abstractmethod
    def begin(self, target: Target, F: np.ndarray, rng: np.random.Generator, prior_moves: bool = False) -> Walk:
        """A walk from the latent values F (C, n, R); `prior_moves` if new priors will come in between."""

    def fit(self, K: np.ndarray, y: np.ndarray, likelihood: Any, start: Any = None) -> Draws:
        """Draw from p(f | y) ∝ N(f | 0, K) p(y | f). K (n, n), or (C, n, n) with one matrix per class.

        `start`: earlier draws, which are continued as if they had never stopped (and are part of the answer); or an
        engine's fit, whose Gaussian posterior gives the first states. By default these come from the prior. Ctrl-C ends
        the drawing early with what there is.
        """
        self.check_settings()
        self.check_likelihood(likelihood)
        K, y = check_problem(K, y, likelihood, type(self).__name__)
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
        """Draw hyperparameters and latent values of `objective` (a `gpclass.learning.Objective`) under its priors.

        `start`: earlier draws of the same, which are continued.
        """
        from .hyper import draw_with_hyper  # which needs this class

        self.check_settings()
        return draw_with_hyper(self, objective, start)

    def restore(self, K: np.ndarray, y: np.ndarray, likelihood: Any, state: Mapping[str, Any]) -> Draws:
        """The draws that `Draws.state` was taken of: they predict, but cannot be continued."""
        return Draws.restored(self, y, likelihood, state, whitening=self.target(K, y, likelihood).problem.prior)

    def restore_hyper(self, objective: Any, state: Mapping[str, Any]) -> Draws:
        """The same for draws of hyperparameters, whose kernels are those of `objective`."""
        from .hyper import HyperDraws  # which needs this class

        return HyperDraws.restored(self, objective.y, objective.likelihood, state, objective=objective)

    def check_settings(self) -> None:
        for name, least in (("n_draws", 1), ("n_warmup", 0), ("n_chains", 1), ("thin", 1)):
            value = getattr(self, name)
            if not isinstance(value, Integral) or value < least:
                raise ValueError(f"{name} must be an integer of at least {least}, but is {value!r}")
        if self.enough is not None and not self.enough > 0:
            raise ValueError(f"enough must be a positive number of effective draws, or None, but is {self.enough!r}")

    def check_same(self, start: Draws) -> None:
        """Whether earlier draws are this sampler's to continue."""
        if type(start.sampler) is not type(self) or start.n_chains != self.n_chains:
            raise ValueError(f"start was drawn by {start.sampler!r}: only the same sampler and number of chains can go on")

    def _resumed(self, start, K, y, likelihood):
        if start.walk is None or start.theta is not None:
            raise TypeError("only draws of latent values alone can be continued; these have no state to go on from")
        self.check_same(start)
        if not np.array_equal(start.y, y):
            raise ValueError("start was drawn for other labels")
        if start.likelihood != likelihood:
            raise ValueError(f"start was drawn under {start.likelihood!r}, not {likelihood!r}")
        before = start.prior.covariance
        if not np.allclose(before, K, rtol=1e-6, atol=1e-8 * np.abs(before).max()):
            raise ValueError("start was drawn under another K")
        return copy.deepcopy(start.walk)  # leaves the earlier draws as they are

    def _warm_up(self, walk, bar):
        for i in range(self.n_warmup):
            walk.warm_up((i + 1) / self.n_warmup, walk.step())
            bar.update()

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
                bar.update()
                look = self.enough is not None and done % LOOK == 0
                if look and self.is_enough(Draws.of_walk(self, walk, latent[:done], log_likelihood[:done], earlier)):
                    break
        except KeyboardInterrupt:
            if not done:
                raise
            warnings.warn(f"interrupted: {done} of {self.n_draws} draws were made", stacklevel=3)
        return latent[:done], log_likelihood[:done]

    def is_enough(self, draws: Draws) -> bool:
        """Whether drawing may stop here."""
        return self.enough is not None and draws.suffice(self.enough)

    def progress(self, n_warmup: int, what: str = "") -> Any:
        """A progress bar of the whole run with an estimate of the time left, which `enough` can only shorten."""
        return tqdm(
            total=n_warmup + self.n_draws,
            desc=f"{type(self).__name__}{what}, {n_warmup} steps of warm-up"
            + f" and {'up to ' * (self.enough is not None)}{self.n_draws} draws",
            disable=not self.verbose,
            mininterval=OFTEN if sys.stderr.isatty() else SELDOM,
        )


def first_states(target: Target, start: Any, n_chains: int, rng: np.random.Generator) -> np.ndarray:
    """(C, n, R) draws of the prior, or of the Gaussian posterior of an engine's fit."""
    C, rank = target.shape
    Z = rng.standard_normal((C, rank, n_chains))
    if start is None:
        return target.prior.colour(Z)
    return Reference.of(target, start).latent(Z)
