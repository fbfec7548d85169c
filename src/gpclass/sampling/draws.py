"""Draws from a posterior, with what is wanted of them: moments, class probabilities, and whether to trust them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..gaussian import Prior
from .diagnostics import FEWEST, HIGH_K, effective_size, r_hat, smooth_weights
from .ensemble import Ensemble

HIGH_R_HAT = 1.05
LOW_R_HAT = 1.02  # below it drawing may stop early
WATCHED = 16  # latent values looked at for the warning; `r_hat` has them all


@dataclass(frozen=True)
class Draws(Ensemble):
    """Draws of the latent values at n points: (chains, draws, n), or (chains, draws, n, C) for several classes."""

    sampler: Any
    latent: np.ndarray
    log_likelihood: np.ndarray  # (chains, draws); NaN where the sampler does without (Gibbs)
    acceptance: np.ndarray  # (chains,) share of steps, after the warm-up, that were accepted
    y: np.ndarray
    likelihood: Any
    walk: Any = None  # the state to go on from
    theta: Any = None  # (chains, draws, p) hyperparameters, where they were sampled
    objective: Any = None  # what theta belongs to
    whitening: Prior | None = None  # N(0, K) at the points; None where each draw has a kernel of its own
    weights: None = None

    @classmethod
    def made(cls, sampler, walk, latent, log_likelihood, earlier: Draws | None = None) -> Draws:
        """From the loop's arrays (draws, C, n, R) and (draws, R), after a warning if they cannot be trusted."""
        made = cls.of_walk(sampler, walk, latent, log_likelihood, earlier)
        made.warn()
        return made

    @classmethod
    def of_walk(cls, sampler, walk, latent, log_likelihood, earlier: Draws | None = None) -> Draws:
        """The same without a look at them; what came earlier is put in front."""
        latent = np.moveaxis(latent, (3, 0, 2, 1), (0, 1, 2, 3))
        latent = latent[..., 0] if latent.shape[3] == 1 else latent
        log_likelihood = log_likelihood.T
        if earlier is not None:
            latent = np.concatenate([earlier.latent, latent], axis=1)
            log_likelihood = np.concatenate([earlier.log_likelihood, log_likelihood], axis=1)
        problem = walk.target.problem
        accepted = walk.moved / max(walk.tried, 1)
        own = {"walk": walk, "whitening": problem.prior}
        return cls(sampler, latent, log_likelihood, accepted, problem.y, problem.likelihood, **own)

    def state(self) -> dict[str, Any]:
        """What a model file keeps: the draws, but not where the chains are and how they are tuned."""
        kept = {name: getattr(self, name) for name in ("latent", "log_likelihood", "acceptance")}
        return kept if self.theta is None else {**kept, "theta": self.theta}

    @classmethod
    def restored(cls, sampler: Any, y: np.ndarray, likelihood: Any, state: Mapping[str, Any], **more: Any) -> Draws:
        """The draws that a `state` was taken of; `more` is the `whitening`, or the `objective`."""
        kept = {name: state[name] for name in ("latent", "log_likelihood", "acceptance", "theta") if name in state}
        return cls(sampler=sampler, y=likelihood.check_targets(y), likelihood=likelihood, **kept, **more)

    # shape and moments --------------------------------------------------------------------------------------------

    @property
    def n_chains(self) -> int:
        return self.latent.shape[0]

    @property
    def n_draws(self) -> int:
        """Of each chain."""
        return self.latent.shape[1]

    @property
    def pooled(self) -> np.ndarray:  # type: ignore[override]
        """(S, n) or (S, n, C): all chains one after the other."""
        return self.latent.reshape(-1, *self.latent.shape[2:])

    @property
    def prior(self):  # type: ignore[override]
        return self.whitening

    @property
    def mean_error(self) -> np.ndarray:
        """Monte Carlo standard errors of `mean`."""
        return np.sqrt(self.var / self.effective_size)

    @property
    def log_evidence(self) -> float:
        raise AttributeError("draws of a posterior hold no evidence; gpclass.sampling.annealed_importance estimates it")

    # trust --------------------------------------------------------------------------------------------------------

    @cached_property
    def r_hat(self) -> np.ndarray:
        """R-hat of each latent value, (n,) or (n, C)."""
        return r_hat(self.latent)

    @cached_property
    def effective_size(self) -> np.ndarray:
        """Effective number of draws for the mean of each latent value, (n,) or (n, C)."""
        return effective_size(self.latent)

    @cached_property
    def worst_r_hat(self) -> float:
        """Largest R-hat of the log likelihood, the hyperparameters and a sample of the latent values."""
        values = np.concatenate([r_hat(q) for q in self._watched()])
        if self.n_draws >= FEWEST and np.all(np.isnan(values)):
            return 1.0  # nothing varies: the posterior is a point
        return float(np.nanmax(values)) if self.n_draws >= FEWEST else np.nan

    @cached_property
    def least_effective_size(self) -> float:
        values = np.concatenate([effective_size(q) for q in self._watched()])
        return float(np.nanmin(values)) if np.any(np.isfinite(values)) else np.nan

    @property
    def converged(self) -> bool:
        return bool(self.worst_r_hat < HIGH_R_HAT)

    def suffice(self, enough: float) -> bool:
        """Whether chains agree (R-hat below 1.02) and all that is watched has so many effective draws."""
        return bool(self.worst_r_hat < LOW_R_HAT and self.least_effective_size >= enough)

    @property
    def n_iter(self) -> int:
        return self.n_draws

    def _watched(self):
        points = self.latent.shape[2]
        some = np.unique(np.linspace(0, points - 1, min(points, WATCHED)).astype(int))
        out = [self.latent[:, :, some].reshape(self.n_chains, self.n_draws, -1)]
        if np.all(np.isfinite(self.log_likelihood)):
            out.append(self.log_likelihood[..., None])
        return out if self.theta is None else [*out, self.theta]

    def warn(self) -> None:
        """Say it where the draws cannot be trusted."""
        still = _unmoved(self.latent) & (self.acceptance < 0.5)  # where the posterior is a point all steps are accepted
        if self.theta is not None and self.theta.shape[2]:
            still |= _unmoved(self.theta)
        stuck = np.flatnonzero(still)
        name = type(self.sampler).__name__
        if self.n_draws > 1 and len(stuck):
            warnings.warn(
                f"{name}: chain {', '.join(map(str, stuck))} of {self.n_chains} never moved; give it a longer warm-up "
                f"(n_warmup is {self.sampler.n_warmup}) or use EllipticalSlice, which needs no tuning",
                ConvergenceWarning,
                stacklevel=4,
            )
        elif self.n_draws >= FEWEST and not self.converged:
            warnings.warn(
                f"{name}: chains disagree (R-hat {self.worst_r_hat:.3f}, effective draws "
                f"{self.least_effective_size:.0f}); raise n_draws ({self.sampler.n_draws}) or n_warmup "
                f"({self.sampler.n_warmup})",
                ConvergenceWarning,
                stacklevel=4,
            )

    def __repr__(self) -> str:
        size = " × ".join(map(str, self.latent.shape[2:]))
        hyper = "" if self.theta is None else f" and {self.theta.shape[2]} hyperparameters"
        return (
            f"{type(self.sampler).__name__} draws of {size} latent values{hyper}: {self.n_chains} chains × {self.n_draws}, "
            f"acceptance {np.mean(self.acceptance):.2f}, R-hat at most {self.worst_r_hat:.3f}, "
            f"effective draws at least {self.least_effective_size:.0f}"
        )

    # leaving one out ----------------------------------------------------------------------------------------------

    def loo(self) -> np.ndarray:
        """(n,) log probability of each label given all others, by Pareto smoothed importance sampling."""
        with np.errstate(divide="ignore"):
            return np.log(self.loo_class_probabilities()[np.arange(len(self.y)), self._own_columns])

    @property
    def _own_columns(self):
        """(n,) columns of the labels among the class probabilities."""
        return self.y.astype(int) if self.likelihood.n_latents > 1 else (self.y > 0).astype(int)

    def loo_class_probabilities(self) -> np.ndarray:
        """(n, C) class probabilities given all other data: draws reweighted by 1/p(y_i | f_i), weights Pareto smoothed."""
        p = self._class_probabilities_of_draws()  # (S, n, C)
        out, shapes = np.empty(p.shape[1:]), np.empty(p.shape[1])
        with np.errstate(divide="ignore"):
            log_own = np.maximum(np.log(p[:, np.arange(p.shape[1]), self._own_columns]), -700.0)
        for i in range(len(out)):  # each row's weights are smoothed by themselves
            log_weights, shapes[i] = smooth_weights(-log_own[:, i])
            out[i] = np.exp(log_weights) @ p[:, i]
        if np.any(shapes > HIGH_K):
            warnings.warn(
                f"leave-one-out probabilities of {np.sum(shapes > HIGH_K)} of {len(out)} rows rest on few draws (Pareto k̂ "
                f"up to {np.nanmax(shapes):.2f}, above {HIGH_K})",
                UserWarning,
                stacklevel=3,
            )
        return out

    def _class_probabilities_of_draws(self):
        """(S, n, C) class probabilities at the training points given each draw."""
        f = self.pooled
        if self.objective is None:
            return class_probabilities(self.likelihood, f)
        thetas = np.reshape(self.theta, (len(f), -1))
        return np.stack([class_probabilities(self.objective.at(t)[1], x) for t, x in zip(thetas, f, strict=True)])

    def members(self, kernel: Any) -> list[tuple[Any, Ensemble]]:
        """(kernel, posterior) pairs that predictions average over."""
        return [(kernel, self)]


def class_probabilities(likelihood: Any, f: np.ndarray) -> np.ndarray:
    """(…, C) class probabilities given latent values (…) or (…, C)."""
    if likelihood.n_latents > 1:
        return likelihood.class_probabilities(f)
    return np.exp(np.stack([likelihood.log_prob_value(label, f) for label in (-1.0, 1.0)], axis=-1))


def _unmoved(values: np.ndarray) -> np.ndarray:
    """(chains,) whether all draws of a chain are the same."""
    return np.all(values == values[:, :1], axis=tuple(range(1, values.ndim)))
