"""Draws from a posterior: moments, class probabilities and convergence diagnostics."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..engines.observations import Observed, data_of, weights_of
from ..gaussian import Prior
from .diagnostics import HIGH_K, MIN_DRAWS, effective_size, r_hat, smooth_weights
from .ensemble import Ensemble

HIGH_R_HAT = 1.05  # above it the chains have not converged
LOW_R_HAT = 1.02  # below it drawing may stop early
N_CHECKED = 16  # latent values that are checked for the warning; `r_hat` covers all


@dataclass(frozen=True)
class Draws(Ensemble):
    """Draws of the latent values at n points.

    Attributes
    ----------
    sampler : Sampler
        The sampler that made the draws.
    latent : ndarray of shape (chains, draws, n) or (chains, draws, n, C)
        The latent values.
    log_likelihood : ndarray of shape (chains, draws)
        log p(y | f) of each draw; NaN if the sampler does not compute it (Gibbs).
    acceptance : ndarray of shape (chains,)
        Fraction of accepted steps after the warm-up.
    y : ndarray of shape (n,) or Observed
        The labels.
    likelihood : Likelihood
        The likelihood; with sampled hyperparameters, that at their mean.
    walk : object
        The state from which drawing can continue.
    theta : ndarray of shape (chains, draws, p) or None
        The hyperparameters, if they were sampled.
    objective : gpclass.learning.Objective or None
        The problem that `theta` belongs to.
    whitening : Prior or None
        N(0, K) at the points; None if each draw has a different kernel.
    """

    sampler: Any
    latent: np.ndarray
    log_likelihood: np.ndarray
    acceptance: np.ndarray
    y: Any
    likelihood: Any
    walk: Any = None
    theta: Any = None
    objective: Any = None
    whitening: Prior | None = None
    weights: None = None

    @classmethod
    def made(cls, sampler, walk, latent, log_likelihood, earlier: Draws | None = None) -> Draws:
        """Return the draws from arrays (draws, C, n, R) and (draws, R), and warn if the chains have not converged."""
        made = cls.of_walk(sampler, walk, latent, log_likelihood, earlier)
        made.warn()
        return made

    @classmethod
    def of_walk(cls, sampler, walk, latent, log_likelihood, earlier: Draws | None = None) -> Draws:
        """Return the draws from the same arrays without a warning. Earlier draws are put in front."""
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
        """Return the contents for a model file: the draws, without the state and the tuning of the chains."""
        kept = {name: getattr(self, name) for name in ("latent", "log_likelihood", "acceptance")}
        return kept if self.theta is None else {**kept, "theta": self.theta}

    @classmethod
    def restored(cls, sampler: Any, y: Any, likelihood: Any, state: Mapping[str, Any], **more: Any) -> Draws:
        """Return the draws of a saved `state`; `more` is the `whitening` or the `objective`."""
        kept = {name: state[name] for name in ("latent", "log_likelihood", "acceptance", "theta") if name in state}
        given = data_of(sampler, y, likelihood).given
        return cls(sampler=sampler, y=given, likelihood=likelihood, **kept, **more)

    # shape and moments --------------------------------------------------------------------------------------------

    @property
    def n_chains(self) -> int:
        """Number of chains."""
        return self.latent.shape[0]

    @property
    def n_draws(self) -> int:
        """Number of draws per chain."""
        return self.latent.shape[1]

    @property
    def pooled(self) -> np.ndarray:  # type: ignore[override]
        """(S, n) or (S, n, C): the draws of all chains, concatenated."""
        return self.latent.reshape(-1, *self.latent.shape[2:])

    @property
    def prior(self):  # type: ignore[override]
        return self.whitening

    @property
    def log_evidence(self) -> float:
        raise AttributeError("draws do not give the evidence; gpclass.sampling.annealed_importance estimates it")

    # convergence --------------------------------------------------------------------------------------------------

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
        values = np.concatenate([r_hat(q) for q in self._checked_values()])
        if self.n_draws >= MIN_DRAWS and np.all(np.isnan(values)):
            return 1.0  # all constant: the posterior is a point
        return float(np.nanmax(values)) if self.n_draws >= MIN_DRAWS else np.nan

    @cached_property
    def least_effective_size(self) -> float:
        """Smallest effective size of the log likelihood, the hyperparameters and a sample of the latent values."""
        values = np.concatenate([effective_size(q) for q in self._checked_values()])
        return float(np.nanmin(values)) if np.any(np.isfinite(values)) else np.nan

    @property
    def converged(self) -> bool:
        """Whether the largest R-hat is below 1.05."""
        return bool(self.worst_r_hat < HIGH_R_HAT)

    def suffice(self, enough: float) -> bool:
        """Return whether the largest R-hat is below 1.02 and the smallest effective size is at least `enough`."""
        return bool(self.worst_r_hat < LOW_R_HAT and self.least_effective_size >= enough)

    @property
    def n_iter(self) -> int:
        """Number of draws per chain."""
        return self.n_draws

    def _checked_values(self):
        points = self.latent.shape[2]
        some = np.unique(np.linspace(0, points - 1, min(points, N_CHECKED)).astype(int))
        out = [self.latent[:, :, some].reshape(self.n_chains, self.n_draws, -1)]
        if np.all(np.isfinite(self.log_likelihood)):
            out.append(self.log_likelihood[..., None])
        return out if self.theta is None else [*out, self.theta]

    def warn(self) -> None:
        """Warn if a chain never moved or the chains disagree."""
        still = _unmoved(self.latent) & (self.acceptance < 0.5)  # if the posterior is a point, all steps are accepted
        if self.theta is not None and self.theta.shape[2]:
            still |= _unmoved(self.theta)
        stuck = np.flatnonzero(still)
        name = type(self.sampler).__name__
        if self.n_draws > 1 and len(stuck):
            warnings.warn(
                f"{name}: chain {', '.join(map(str, stuck))} of {self.n_chains} never moved; raise "
                f"n_warmup ({self.sampler.n_warmup}) or use EllipticalSlice, which needs no tuning",
                ConvergenceWarning,
                stacklevel=4,
            )
        elif self.n_draws >= MIN_DRAWS and not self.converged:
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
        """Return the log probability (m,) of each label given all others, by Pareto smoothed importance sampling.

        Of an observation with a weight above one, one copy is left out.
        """
        return self.loo_log_class_probabilities()[np.arange(len(self.y)), self._own_columns]

    @property
    def _own_columns(self):
        """(n,) the column of each label in the class probabilities."""
        return np.searchsorted(self.likelihood.class_targets, np.asarray(self.y))

    def loo_class_probabilities(self) -> np.ndarray:
        """Return the class probabilities (m, C) of each observation given all others.

        Draws are reweighted by 1/p(y_i | f_i), with Pareto smoothed weights; for a weight below one, by that power of it.
        """
        p = self._class_probabilities_of_draws()  # (S, m, C)
        out, shapes = np.empty(p.shape[1:]), np.empty(p.shape[1])
        with np.errstate(divide="ignore"):
            log_own = np.maximum(np.log(p[:, np.arange(p.shape[1]), self._own_columns]), -700.0)
        log_own = np.minimum(weights_of(self.y), 1.0) * log_own
        for i in range(len(out)):  # the weights of each row are smoothed separately
            log_weights, shapes[i] = smooth_weights(-log_own[:, i])
            out[i] = np.exp(log_weights) @ p[:, i]
        if np.any(shapes > HIGH_K):
            warnings.warn(
                f"leave-one-out probabilities of {np.sum(shapes > HIGH_K)} of {len(out)} rows depend on few draws (Pareto k̂ "
                f"up to {np.nanmax(shapes):.2f}, above {HIGH_K})",
                UserWarning,
                stacklevel=3,
            )
        return out

    def loo_log_class_probabilities(self) -> np.ndarray:
        """Return the logs of `loo_class_probabilities`."""
        with np.errstate(divide="ignore"):
            return np.log(self.loo_class_probabilities())

    def _class_probabilities_of_draws(self):
        """Return the class probabilities (S, m, C) of the observations' latent values given each draw."""
        f = self.pooled
        if isinstance(self.y, Observed) and self.y.place is not None:
            f = f[:, self.y.place]
        if self.objective is None:
            return class_probabilities(self.likelihood, f)
        thetas = np.reshape(self.theta, (len(f), -1))
        return np.stack([class_probabilities(self.objective.at(t)[1], x) for t, x in zip(thetas, f, strict=True)])

    def members(self, kernel: Any) -> list[tuple[Any, Ensemble]]:
        """Return the pairs (kernel, posterior) that predictions average over."""
        return [(kernel, self)]


def class_probabilities(likelihood: Any, f: np.ndarray) -> np.ndarray:
    """Return the class probabilities (…, C) given latent values (…) or (…, C)."""
    if likelihood.n_latents > 1:
        return likelihood.class_probabilities(f)
    return np.exp(np.stack([likelihood.log_prob_value(label, f) for label in likelihood.class_targets], axis=-1))


def _unmoved(values: np.ndarray) -> np.ndarray:
    """Return for each chain whether all its draws are the same, (chains,)."""
    return np.all(values == values[:, :1], axis=tuple(range(1, values.ndim)))
