"""Softmax, the multinomial logit: p(y | f) = exp(f_y) / Σ_c exp(f_c)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..numerics import CACHE, blocks, expected_softmax, quasi_random_normal
from ..numerics.product import softmax_moments
from .mnl_bound import DEFAULT_TOL, BoundOptimum, maximise_bound
from .multiclass import Multiclass, full_covariances, latent_values, own_first, restore_order
from .tilted import Triple

MEAN_NODES = 8192  # quadrature points for E[log p] under any covariance
EXPECTED_NODES = 256  # quadrature points under independent latent values


@dataclass(frozen=True)
class Softmax(Multiclass):
    """Softmax likelihood, p(y | f) = exp(f_y + bias_y) / Σ_c exp(f_c + bias_c), y in 0 … n_classes - 1.

    Parameters
    ----------
    n_classes : int
        Number of classes, at least 2.
    bias : tuple of float, optional
        One value per class, added to its latent function. None means zero.
    learn_bias : bool, default=False
        Whether the biases are free parameters, except that of class 0.
    """

    log_concave = True

    def log_prob_slope(self, y, f) -> tuple[np.ndarray, np.ndarray]:
        own = self._own_class(y, f)
        log_p = _log_softmax(f + self.offset)
        return np.sum(log_p, axis=-1, where=own), own - np.exp(log_p)

    def log_prob(self, y, f) -> Triple:
        value, slope = self.log_prob_slope(y, f)
        p = self.class_probabilities(f)
        return value, slope, p[..., :, None] * p[..., None, :] - p[..., None] * np.eye(self.n_classes)

    def class_probabilities(self, f) -> np.ndarray:
        return np.exp(_log_softmax(f + self.offset))

    def _probabilities_at(self, f) -> np.ndarray:
        f += self.offset[:, None]
        softmax_in_place(f, axis=1)
        return f

    def predictive(self, mean, cov) -> np.ndarray:
        """Return class probabilities (m, C) under N(mean, cov); cov (m, C, C), or variances (m, C).

        The error is below 2e-4 for up to three classes and for independent latent values. Otherwise, for up to ten classes,
        the absolute error is below 1e-3, and the relative error of probabilities above 1e-5 is below 5 %. For more than
        twenty classes whose latent values are strongly correlated absolute errors reach 1e-2.
        """
        return expected_softmax(np.asarray(mean, float) + self.offset, full_covariances(cov))

    def curvature_weights(self, f) -> np.ndarray:
        """Return π (n, C), for which -∇² log p(y | f) = diag(π) - π πᵀ/(1ᵀπ) for every y."""
        return self.class_probabilities(f)

    def tilted_moments(self, y, mean, var) -> Triple:
        """Return log E[p(y | f)] (n,) and its first two derivatives (n, C) in the means of independent latent values.

        Uses product quadrature, for at most seven classes. The error is of order 1e-3 at variances of order one.
        """
        at = softmax_moments(own_first(y, mean + self.offset), own_first(y, var))
        return at[0], restore_order(y, at[1]), restore_order(y, at[2])

    def tilted_theta(self, y, mean, var) -> np.ndarray:
        """Return the derivatives (p, n) in θ of the value of `tilted_moments`."""
        return self.theta_gradient(self.tilted_moments(y, mean, var)[1].T)

    def expected_log_prob(self, y, mean, var) -> Triple:
        """Return E[log p(y | f)] (n,) and its first two derivatives (n, C) in the means of independent latent values.

        The linear part is exact; the rest uses quasi-random points, the same for every row.
        """
        C = self.n_classes
        nodes = np.ascontiguousarray(quasi_random_normal(EXPECTED_NODES, C).T)[:, None]  # (C, 1, nodes)
        # for E[p] and E[p · node]
        rule = np.stack([np.full((C, EXPECTED_NODES), 1 / EXPECTED_NODES), nodes[:, 0] / EXPECTED_NODES], axis=2)
        value, slope, curvature = np.empty(len(y)), np.empty(mean.shape), np.empty(mean.shape)
        for some in blocks(len(y), EXPECTED_NODES * C, CACHE):
            sd = np.sqrt(np.maximum(var[some], 1e-200))
            p = sd.T[:, :, None] * nodes  # (C, rows, nodes); f is overwritten by probabilities
            p += (mean[some] + self.offset).T[:, :, None]
            value[some] = softmax_in_place(p, axis=0).mean(1)
            first, second = np.moveaxis(np.matmul(p, rule), 2, 0)
            slope[some] = first.T
            # twice the derivative of the quadrature sum in the variances: optimisers need exact derivatives of this sum
            curvature[some] = -second.T / sd
        own = self._own_class(y, mean)
        return np.sum(mean + self.offset, axis=1, where=own) - value, own - slope, curvature

    def mean_log_prob(self, y, mean, cov) -> np.ndarray:
        """Return E[log p(y | f)] (n,), f ~ N(mean (n, C), cov (n, C, C)).

        The linear part is exact; the rest uses quasi-random points.
        """
        mean = np.asarray(mean, float)
        own = self._own_class(y, mean)
        parts = [softmax_in_place(f, axis=1).mean(1) for f in latent_values(mean + self.offset, cov, MEAN_NODES)]
        return np.sum(mean + self.offset, axis=1, where=own) - np.concatenate(parts)

    def expected_log_prob_bound(self, mean, cov, start: np.ndarray | None = None, tol: float = DEFAULT_TOL) -> BoundOptimum:
        """Return Chai's lower bound of E[log p(y | f)] for every y, f ~ N(mean (n, C), cov (n, C, C)).

        See `maximise_bound`.
        """
        return maximise_bound(mean + self.offset, cov, start, tol=tol)


def softmax_in_place(f: np.ndarray, axis: int) -> np.ndarray:
    """Replace latent values by class probabilities, in place, and return log Σ exp f, without `axis`.

    Fastest if the classes are not on the last axis.
    """
    top = f.max(axis, keepdims=True)
    f -= top
    np.exp(f, out=f)
    total = f.sum(axis, keepdims=True)
    f *= 1 / total
    return np.squeeze(top + np.log(total), axis)


def _log_softmax(f):
    shifted = f - np.max(f, axis=-1, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True))
