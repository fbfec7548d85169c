"""The interface of a problem for samplers: a prior, and log p(y | f) with its slope, for many columns at a time.

Latent values are (C, n, R): C latent functions (one for two classes) at n points in R columns, one for each chain or run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from ..engines.observations import Data, Observed
from ..gaussian import Places, Prior


@dataclass(frozen=True)
class Target:
    """The posterior ∝ N(f | 0, K) p(y | f)."""

    prior: Prior
    y: Any  # (n,) as the likelihood takes them, or Observed: weighted, and perhaps several for each latent value
    likelihood: Any
    basis: np.ndarray | None = None  # (C, C) orthonormal; F holds coefficients in it, or the latent functions if None

    @cached_property
    def data(self) -> Data:
        """The targets with their weights and places."""
        if not isinstance(self.y, Observed):
            return Data(self.y, self.y, self.likelihood, Places(len(self.y)))
        return Data(self.y, self.y.y, self.likelihood, self.y.places, self.y.weight)

    @property
    def n(self) -> int:
        """Number of values of each latent function."""
        return self.data.n

    @classmethod
    def of(cls, K: np.ndarray, y: Any, likelihood: Any, make: Callable[[np.ndarray], Prior] = Prior.of) -> Target:
        """Return the problem with K (n, n), or (C, n, n) with one matrix per class. `make` chooses the prior's coordinates.

        Classes that share one K are represented by contrasts, which mix far better: the labels inform only about
        differences of the classes, not about their common part. Classes with separate K are not, because their contrasts
        are correlated a priori.
        """
        return cls(make(K), y, likelihood, contrasts(likelihood.n_latents) if K.ndim == 2 else None)

    @property
    def problem(self) -> Target:
        """The problem without auxiliary variables."""
        return self

    def latent(self, F: np.ndarray) -> np.ndarray:
        """Return the latent functions (C, n, R) of the states F of a walk."""
        return F if self.basis is None else np.ascontiguousarray(np.moveaxis(self.by_datum(F), -1, 0))

    def marginal(self, F: np.ndarray, log_likelihood: np.ndarray) -> np.ndarray:
        """Return log p(y | f) (R,) of the states F, given the result of `log_likelihood` for them."""
        return log_likelihood

    @property
    def shape(self) -> tuple[int, int]:
        """Number of latent functions, and number of whitened coordinates of each."""
        return self.likelihood.n_latents, self.prior.rank

    def log_likelihood(self, F: np.ndarray) -> np.ndarray:
        """Return log p(y | f) (R,) of each column of F (C, n, R)."""
        value = self.likelihood.log_prob_value(self.data.y[:, None], self.by_observation(F))
        return self._weighted(value).sum(0)

    def slope(self, F: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return log p(y | f) (R,) and its gradient in f (C, n, R)."""
        value, slope = self.likelihood.log_prob_slope(self.data.y[:, None], self.by_observation(F))
        return self._weighted(value).sum(0), self.by_class(self.data.at_places(slope))

    def curvature(self, F: np.ndarray) -> np.ndarray:
        """Return the negative curvatures (C, n) of log p(y | f) in each f_i, averaged over the columns of F (C, n, R)."""
        hessian = self.likelihood.log_prob(self.data.y[:, None], self.by_observation(F))[2]
        curvature = -self.data.at_places(hessian.mean(1))
        if len(F) > 1:
            basis = np.eye(len(F)) if self.basis is None else self.basis
            curvature = np.einsum("ac,ncd,ad->an", basis, curvature, basis)
        return np.maximum(np.atleast_2d(curvature), 0.0)

    def by_datum(self, F: np.ndarray) -> np.ndarray:
        """Return latent values as likelihoods take them: (n, R) for one latent function, (n, R, C) for several."""
        return by_datum(F) if self.basis is None else by_datum(F) @ self.basis

    def by_observation(self, F: np.ndarray) -> np.ndarray:
        """Return the latent values of each observation: (m, R) for one latent function, (m, R, C) for several."""
        return self.data.places.spread(self.by_datum(F))

    def _weighted(self, value):
        """Return values (m, R) times weights."""
        return value if self.data.plain else np.asarray(self.data.weight)[:, None] * value

    def by_class(self, f: np.ndarray) -> np.ndarray:
        """Undo `by_datum`, for latent values or slopes."""
        if len(f.shape) == 2:
            return f[None]
        return np.ascontiguousarray(np.moveaxis(f if self.basis is None else f @ self.basis.T, -1, 0))


def by_datum(F: np.ndarray) -> np.ndarray:
    """Return F (C, n, R) as (n, R) if C = 1, else as (n, R, C)."""
    return F[0] if len(F) == 1 else np.moveaxis(F, 0, -1)


@lru_cache
def contrasts(n_latents: int) -> np.ndarray | None:
    """Return an orthonormal basis whose first element is constant over the classes, or None for one latent function.

    Labels carry no information about the first coefficient. If all classes have the same prior, the coefficients are
    independent a priori.
    """
    if n_latents == 1:
        return None
    basis = np.linalg.qr(np.column_stack([np.ones(n_latents), np.eye(n_latents)[:, 1:]]))[0].T
    basis.flags.writeable = False  # all callers share it
    return basis


def generator(random_state: Any) -> np.random.Generator:
    """Return a Generator, given None, an integer, a Generator or a RandomState."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    return np.random.default_rng(random_state)
