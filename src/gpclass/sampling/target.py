"""What samplers see of a problem: a prior, and log p(y | f) with its slope, for many columns at a time.

Latent values are (C, n, R): C latent functions (one for two classes) at n points in R columns, one for each chain or run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..gaussian import Prior
from ..inference.fit import require


@dataclass(frozen=True)
class Target:
    """The posterior ∝ N(f | 0, K) p(y | f)."""

    prior: Prior
    y: np.ndarray  # (n,) as the likelihood takes them
    likelihood: Any

    @property
    def shape(self) -> tuple[int, int]:
        """Latent functions, and whitened coordinates of each."""
        return self.likelihood.n_latents, self.prior.rank

    def log_likelihood(self, F: np.ndarray) -> np.ndarray:
        """(R,) log p(y | f) of each column of F (C, n, R)."""
        return self.likelihood.log_prob_slope(self.y[:, None], by_datum(F))[0].sum(0)

    def slope(self, F: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(R,) log p(y | f), and its gradient in f, (C, n, R)."""
        value, slope = self.likelihood.log_prob_slope(self.y[:, None], by_datum(F))
        return value.sum(0), by_class(slope, len(F))

    def curvature_scale(self) -> np.ndarray:
        """(n,) a typical negative curvature of log p(y_i | f_i): at f = 0, over latent functions its mean."""
        f = np.zeros((len(self.y), self.likelihood.n_latents))
        if self.likelihood.n_latents == 1:
            return np.maximum(-self.likelihood.log_prob(self.y, f[:, 0])[2], 1e-12)
        hessian = self.likelihood.log_prob(self.y, f)[2]
        return np.maximum(-np.trace(hessian, axis1=1, axis2=2) / f.shape[1], 1e-12)


def by_datum(F: np.ndarray) -> np.ndarray:
    """Latent values as likelihoods take them: (n, R) for one latent function, (n, R, C) for several."""
    return F[0] if len(F) == 1 else np.moveaxis(F, 0, -1)


def by_class(slope: np.ndarray, n_latents: int) -> np.ndarray:
    """The way back."""
    return slope[None] if n_latents == 1 else np.ascontiguousarray(np.moveaxis(slope, -1, 0))


def prepare(K, y, likelihood, needs: tuple[str, ...], who: str) -> tuple[np.ndarray, np.ndarray]:
    """K, (n, n) or (C, n, n), and y as samplers want them, or an error that says what is wrong."""
    if isinstance(likelihood, type):
        raise TypeError(f"likelihood must be an object; write {likelihood.__name__}(…) instead of {likelihood.__name__}")
    require(likelihood, needs, who)
    y = likelihood.check_targets(y)
    K = np.asarray(K, float)
    C = likelihood.n_latents
    if K.ndim not in (2, 3) or K.shape[-1] != K.shape[-2] or (K.ndim == 3 and (C == 1 or len(K) != C)):
        shapes = "(n, n)" if C == 1 else f"(n, n), shared by all classes, or ({C}, n, n)"
        raise ValueError(f"K must have shape {shapes}, but has {K.shape}")
    if K.shape[-1] != len(y) or not len(y):
        raise ValueError(f"K is {K.shape[-1]}×{K.shape[-1]} but y has {len(y)} labels; there must be one for each row")
    if not np.all(np.isfinite(K)):
        raise ValueError("K contains NaN or infinite entries")
    if not np.allclose(K, np.swapaxes(K, -1, -2), rtol=1e-8, atol=1e-8 * np.abs(K).max()):
        raise ValueError("K is not symmetric: is it a matrix of covariances between all pairs of training points?")
    return K, y


def generator(random_state: Any) -> np.random.Generator:
    """From None, an integer, a Generator, or an old-style RandomState."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    return np.random.default_rng(random_state)
