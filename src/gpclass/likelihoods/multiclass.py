"""What likelihoods of several classes share: one latent function per class, labels 0 … C-1, a bias for each class.

Latent values carry the class on their last axis, f (…, C); labels y have the shape of the axes before it. A bias is added
to its class's latent value before all else. Only differences of biases matter: that of class 0 is not free.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..numerics import CACHE, blocks, covariance_roots, log_largest, quasi_random_normal, winner_probabilities
from .base import Likelihood

STD_NODES = 512  # points of the quasi-random rule for standard deviations: good to 0.02
SMALLEST = 1e-12  # variance, relative to the largest of a datum, that counts as none


@dataclass(frozen=True)
class Multiclass(Likelihood):
    """p(y | f) for y in 0 … n_classes - 1 and one latent value per class.

    Where it has derivatives in f, `log_prob(y, f)` gives log p(y | f) (…), its gradient (…, C) and its Hessian (…, C, C).
    """

    n_classes: int
    bias: tuple[float, ...] | None = None  # one for each class, added to its latent function; None is zero
    learn_bias: bool = False  # whether a fit may change them (but for that of class 0)

    def __post_init__(self):
        if not isinstance(self.n_classes, (int, np.integer)) or self.n_classes < 2:
            raise ValueError(f"n_classes must be an integer of at least 2, but is {self.n_classes!r}")
        if self.bias is not None:
            bias = np.asarray(self.bias, float)
            if bias.shape != (self.n_classes,) or not np.all(np.isfinite(bias)):
                raise ValueError(f"bias must be {self.n_classes} finite numbers, one for each class, but is {self.bias!r}")
            object.__setattr__(self, "bias", tuple(bias.tolist()))

    @property
    def n_latents(self) -> int:
        return int(self.n_classes)

    @classmethod
    def for_targets(cls, targets: str, n_classes: int) -> Multiclass | None:
        return cls(n_classes) if targets == cls.targets else None

    @property
    def class_targets(self) -> np.ndarray:
        return np.arange(self.n_classes)

    def log_class_probabilities(self, mean, spread) -> np.ndarray:
        return np.log(np.maximum(self.predictive(mean, spread), np.finfo(float).tiny))

    def log_predictive(self, y, mean, spread) -> np.ndarray:
        """(n,) log p(y) when the latent values are N(mean, spread)."""
        return np.take_along_axis(self.log_class_probabilities(mean, spread), np.asarray(y)[:, None], 1)[:, 0]

    def class_probability_std(self, mean, spread) -> np.ndarray:
        return self.predictive_std(mean, spread)

    @property
    def offset(self) -> np.ndarray:
        """(C,) the biases."""
        return np.zeros(self.n_classes) if self.bias is None else np.array(self.bias)

    # parameters ---------------------------------------------------------------------------------------------------

    @property
    def theta(self) -> np.ndarray:
        return self.offset[1:] if self.learn_bias else np.zeros(0)

    @property
    def names(self) -> list[str]:
        return [f"bias[{c}]" for c in range(1, self.n_classes)] if self.learn_bias else []

    @property
    def bounds(self) -> np.ndarray:
        return np.tile([-100.0, 100.0], (len(self.theta), 1))

    def with_theta(self, theta) -> Multiclass:
        theta = np.asarray(theta, float).ravel()
        if len(theta) != len(self.theta):
            raise ValueError(f"{type(self).__name__} has {len(self.theta)} free parameters, but got {len(theta)}")
        return replace(self, bias=(float(self.offset[0]), *theta.tolist())) if self.learn_bias else self

    def theta_gradient(self, bias_gradient: np.ndarray) -> np.ndarray:
        """What a gradient in the biases, (C, …), is in theta; a shift of all latent values of a class is one of its bias."""
        return bias_gradient[1:] if self.learn_bias else bias_gradient[:0]

    # questions ----------------------------------------------------------------------------------------------------

    def check_targets(self, y) -> np.ndarray:
        """y as integers; any integer-valued array of labels within range will do."""
        y = np.asarray(y)
        if y.ndim != 1:
            raise ValueError(f"y must be one-dimensional, but has shape {y.shape}")
        try:
            with np.errstate(invalid="ignore"):  # NaN
                codes = y.astype(int)
            whole = bool(np.all(codes == y))
        except (ValueError, TypeError, OverflowError):
            whole = False
        if not whole or np.any(codes < 0) or np.any(codes >= self.n_classes):
            raise ValueError(
                f"labels must be integers from 0 to {self.n_classes - 1} for {self.n_classes} classes, but y contains "
                f"{np.unique(y)[:5].tolist()}. Recode them, or use GPClassifier, which takes labels of any type."
            )
        return codes

    @abstractmethod
    def class_probabilities(self, f) -> np.ndarray:
        """p(y = c | f) for every class, (…, C); rows sum to one."""

    @abstractmethod
    def predictive(self, mean, cov) -> np.ndarray:
        """(m, C) class probabilities when the latent values are N(mean, cov), from mean (m, C) and cov (m, C, C).

        Variances (m, C) may stand for a diagonal cov.
        """

    def predictive_std(self, mean, cov) -> np.ndarray:
        """(m, C) standard deviations of the class probabilities when the latent values are N(mean, cov)."""
        return np.concatenate([self._shares(f).std(2) for f in latent_values(mean, cov, STD_NODES)])

    def expected_log_prob_theta(self, y, mean, var) -> np.ndarray:
        """(p, n) derivatives of `expected_log_prob`, for likelihoods with that, in theta."""
        return self.theta_gradient(self.expected_log_prob(y, mean, var)[1].T)  # type: ignore[attr-defined]

    def _shares(self, f) -> np.ndarray:
        """(rows, C, points) class probabilities at latent values in that order, which may be overwritten."""
        return np.moveaxis(self.class_probabilities(np.moveaxis(f, 1, 2)), 2, 1)

    def _own_class(self, y, f) -> np.ndarray:
        """[y = c] as a boolean array of f's shape."""
        return np.broadcast_to(np.asarray(y)[..., None] == np.arange(self.n_classes), np.shape(f))


def latent_values(mean, cov, count):
    """(rows, C, count) points of N(mean, cov), for a block of rows at a time.

    A permutation of the classes permutes the values, and no row depends on another.
    """
    mean = np.asarray(mean, float)
    roots = covariance_roots(mean, full_covariances(cov))
    nodes = np.ascontiguousarray(quasi_random_normal(count, mean.shape[1]).T)
    for some in blocks(len(mean), count * mean.shape[1], CACHE):
        f = np.matmul(roots[some], nodes)
        f += mean[some, :, None]
        yield f


def full_covariances(cov) -> np.ndarray:
    """(m, C, C) covariances, given as such or as variances (m, C)."""
    cov = np.asarray(cov, float)
    return cov[:, :, None] * np.eye(cov.shape[1]) if cov.ndim == 2 else cov


def own_first(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """(n, C) x with the entry of the own class before the others."""
    return np.take_along_axis(x, class_order(y, x.shape[1]), axis=1)


def restore_order(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The way back."""
    out = np.empty_like(x)
    np.put_along_axis(out, class_order(y, x.shape[1]), x, axis=1)
    return out


def class_order(y: np.ndarray, n_classes: int) -> np.ndarray:
    """(n, C) the own class of each datum, then the others in order."""
    rest = np.arange(n_classes - 1)
    return np.column_stack([y, rest + (rest >= y[:, None])])


def winners(mean: np.ndarray, cov: np.ndarray, noise: float) -> np.ndarray:
    """(m, C) probabilities that each latent value is the largest once it has got independent noise of variance `noise`."""

    def independent(mean, var):
        log_p = log_largest(mean, positive(noise + var))
        p = np.exp(log_p - log_p.max(1, keepdims=True))
        return p / p.sum(1, keepdims=True)

    return by_structure(mean, cov, independent, lambda m, V: winner_probabilities(m, V + noise * np.eye(m.shape[1])))


def by_structure(mean: np.ndarray, cov: np.ndarray, independent: Callable, correlated: Callable) -> np.ndarray:
    """(m, C) one function of means and variances for rows of independent latent values, one of covariances for the others.

    cov (m, C, C), or variances (m, C).
    """
    mean, cov = np.asarray(mean, float), full_covariances(cov)
    var = np.diagonal(cov, axis1=1, axis2=2)
    alone = np.count_nonzero(cov, axis=(1, 2)) == np.count_nonzero(var, axis=1)
    p = np.empty(mean.shape)
    p[alone] = independent(mean[alone], var[alone])
    p[~alone] = correlated(mean[~alone], cov[~alone])
    return p


def positive(var: np.ndarray) -> np.ndarray:
    """Variances (n, C) without zeros: too small to matter, large enough to divide by."""
    widest = np.max(var, axis=1, keepdims=True)
    return np.maximum(var, np.maximum(SMALLEST * widest, 1e-200))
