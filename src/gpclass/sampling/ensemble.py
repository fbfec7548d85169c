"""Predictions from draws of the latent values at the training points, with or without weights."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from ..gaussian import Prior
from ..numerics import blocks
from .target import by_datum

DRAWS_PER_POINT = 1000  # of the latent values at a new point, in all ensembles together; for several classes


class Ensemble:
    """Base class of collections of S latent vectors.

    Attributes
    ----------
    pooled : ndarray of shape (S, n) or (S, n, C)
        The latent vectors.
    weights : ndarray of shape (S,) or None
        Weights that sum to one. None means equal weights.
    prior : Prior
        Prior of the latent values.
    likelihood : Likelihood
        The likelihood.
    place : tuple of int
        Index of this ensemble among those that are averaged, and their number.
    """

    pooled: np.ndarray
    weights: np.ndarray | None
    prior: Prior
    likelihood: Any
    place: tuple[int, int] = (0, 1)

    @cached_property
    def mean(self) -> np.ndarray:
        """Marginal means at the training points, (n,) or (n, C)."""
        return self._average(self.pooled)

    @cached_property
    def var(self) -> np.ndarray:
        """Marginal variances at the training points, (n,) or (n, C)."""
        return self._average((self.pooled - self.mean) ** 2)

    def predict(self, Ks: np.ndarray, kd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the moments of the latent values at new points.

        Parameters
        ----------
        Ks : ndarray of shape (n, m) or (C, n, m)
            Prior covariances of training and new points.
        kd : ndarray of shape (m,) or (C, m)
            Prior variances at the new points.

        Returns
        -------
        mean : ndarray of shape (m,) or (m, C)
            Means; (m,) for two classes.
        cov : ndarray of shape (m,) or (m, C, C)
            Variances for two classes, covariances for more.
        """
        means, var = self._conditional(Ks, kd)  # (C, S, m), (C', m)
        centre = self._average(means, axis=1)
        spread = means - centre[:, None]
        C, m = centre.shape
        if C == 1:
            return centre[0], self._average(spread[0] ** 2) + var[0]
        cov = np.empty((m, C, C))
        for a in range(C):
            for b in range(a + 1):
                cov[:, a, b] = cov[:, b, a] = self._average(spread[a] * spread[b])
        cov[:, np.arange(C), np.arange(C)] += np.broadcast_to(var, (C, m)).T
        return centre.T, cov

    def log_class_probabilities(self, Ks: np.ndarray, kd: np.ndarray) -> np.ndarray:
        """Return log class probabilities (m, C) at new points, averaged over the draws; columns -1, +1 for two classes."""
        with np.errstate(divide="ignore"):  # a class of probability zero in all draws
            return np.concatenate([np.log(self._average(p)) for p in self._per_draw(Ks, kd)])

    def class_probability_std(self, Ks: np.ndarray, kd: np.ndarray) -> np.ndarray:
        """Return the standard deviations (m, C) of the class probabilities under the posterior."""
        out = []
        for p, within in self._per_draw(Ks, kd, spread=True):
            centre = self._average(p)
            out.append(np.sqrt(self._average((p - centre) ** 2 + within)))
        return np.concatenate(out)

    def _average(self, values, axis=0):
        return values.mean(axis) if self.weights is None else np.tensordot(self.weights, values, (0, axis))

    def _conditional(self, Ks, kd):
        """Return means (C, S, m) and variances (C, m) or (1, m) of the latent values at new points given each draw."""
        Ks, kd = np.asarray(Ks, float), np.asarray(kd, float)
        n = self.pooled.shape[1]
        if Ks.ndim not in (2, 3) or Ks.shape[-2] != n or kd.shape[-1] != Ks.shape[-1]:
            raise ValueError(f"Ks must be ({n}, m) and kd (m,), but they are {Ks.shape} and {kd.shape}")
        P, var = self.prior.conditional(Ks, kd)
        return np.matmul(self._whitened, P), var

    @cached_property
    def _whitened(self):
        """(C, S, r) the draws in whitened coordinates."""
        F = self.pooled.reshape(len(self.pooled), -1, self.likelihood.n_latents)
        return np.swapaxes(self.prior.whiten(np.transpose(F, (2, 1, 0))), 1, 2)

    def _per_draw(self, Ks, kd, spread=False):
        """Yield class probabilities (S, m, C) given each draw, for one block of points at a time.

        With `spread`, also yield their variances given the draw.
        """
        Ks, kd = np.asarray(Ks, float), np.asarray(kd, float)
        C, S = self.likelihood.n_latents, len(self.pooled)
        number, ensembles = self.place
        repeats = 1 if C == 1 else -(-DRAWS_PER_POINT // (S * ensembles))
        for some in blocks(Ks.shape[-1], S * C * repeats):
            means, var = self._conditional(Ks[..., some], kd[..., some])
            if C > 1 and len(var) == 1 and not spread and self.likelihood.offers("noisy_probabilities"):
                p = self.likelihood.noisy_probabilities(by_datum(means), var[0][:, None])
                within = None
            elif C == 1:
                p = np.exp(self.likelihood.log_class_probabilities(means[0], var[0]))
                within = self.likelihood.class_probability_std(means[0], var[0]) ** 2 if spread else None
            else:
                # the same noise for every point, so that a prediction does not depend on the other rows
                noise = np.random.default_rng(number).standard_normal((C, repeats, S, 1))
                each = self.likelihood.class_probabilities(by_datum(means[:, None] + np.sqrt(var)[:, None, None] * noise))
                p, within = each.mean(0), each.var(0)
            yield (p, within) if spread else p
