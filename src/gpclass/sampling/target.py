"""What samplers see of a problem: a prior, and log p(y | f) with its slope, for many columns at a time.

Latent values are (C, n, R): C latent functions (one for two classes) at n points in R columns, one for each chain or run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..gaussian import Prior


@dataclass(frozen=True)
class Target:
    """The posterior ∝ N(f | 0, K) p(y | f)."""

    prior: Prior
    y: np.ndarray  # (n,) as the likelihood takes them
    likelihood: Any
    basis: np.ndarray | None = None  # (C, C) orthonormal: F holds its coefficients; None are the latent functions themselves

    @classmethod
    def of(cls, K: np.ndarray, y: np.ndarray, likelihood: Any, make: Callable[[np.ndarray], Prior] = Prior.of) -> Target:
        """The problem with K (n, n), or (C, n, n) with one matrix per class; `make` chooses the prior's coordinates.

        Several classes that share one K are described by contrasts, which mix far better: what all classes have in common
        is known from the prior only, while their differences are known from the labels. Classes with a K of their own keep
        their own coordinates, because contrasts of them are correlated a priori.
        """
        return cls(make(K), y, likelihood, contrasts(likelihood.n_latents) if K.ndim == 2 else None)

    @property
    def problem(self) -> Target:
        """The problem whose latent values are wanted: this one, unless auxiliary variables were added to it."""
        return self

    def latent(self, F: np.ndarray) -> np.ndarray:
        """(C, n, R) latent functions of the states F of a walk."""
        return F if self.basis is None else np.ascontiguousarray(np.moveaxis(self.by_datum(F), -1, 0))

    def marginal(self, F: np.ndarray, log_likelihood: np.ndarray) -> np.ndarray:
        """(R,) log p(y | f) of the states F, given what `log_likelihood` returned for them."""
        return log_likelihood

    @property
    def shape(self) -> tuple[int, int]:
        """Latent functions, and whitened coordinates of each."""
        return self.likelihood.n_latents, self.prior.rank

    def log_likelihood(self, F: np.ndarray) -> np.ndarray:
        """(R,) log p(y | f) of each column of F (C, n, R)."""
        return self.likelihood.log_prob_value(self.y[:, None], self.by_datum(F)).sum(0)

    def slope(self, F: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(R,) log p(y | f), and its gradient in f, (C, n, R)."""
        value, slope = self.likelihood.log_prob_slope(self.y[:, None], self.by_datum(F))
        return value.sum(0), self.by_class(slope)

    def curvature(self, F: np.ndarray) -> np.ndarray:
        """(C, n) negative curvatures of log p(y_i | f_i) in each latent value, averaged over the columns of F (C, n, R)."""
        curvature = -self.likelihood.log_prob(self.y[:, None], self.by_datum(F))[2].mean(1)
        if len(F) > 1:
            basis = np.eye(len(F)) if self.basis is None else self.basis
            curvature = np.einsum("ac,ncd,ad->an", basis, curvature, basis)
        return np.maximum(np.atleast_2d(curvature), 0.0)

    def by_datum(self, F: np.ndarray) -> np.ndarray:
        """Latent values as likelihoods take them: (n, R) for one latent function, (n, R, C) for several."""
        return by_datum(F) if self.basis is None else by_datum(F) @ self.basis

    def by_class(self, f: np.ndarray) -> np.ndarray:
        """The way back, also for slopes."""
        if len(f.shape) == 2:
            return f[None]
        return np.ascontiguousarray(np.moveaxis(f if self.basis is None else f @ self.basis.T, -1, 0))


def by_datum(F: np.ndarray) -> np.ndarray:
    return F[0] if len(F) == 1 else np.moveaxis(F, 0, -1)


def contrasts(n_latents: int) -> np.ndarray | None:
    """An orthonormal basis of which the first element is the same for all classes: there labels tell nothing, and with one
    prior for all classes its coefficients are as independent as the latent functions themselves."""
    if n_latents == 1:
        return None
    return np.linalg.qr(np.column_stack([np.ones(n_latents), np.eye(n_latents)[:, 1:]]))[0].T


def generator(random_state: Any) -> np.random.Generator:
    """From None, an integer, a Generator, or an old-style RandomState."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    return np.random.default_rng(random_state)
