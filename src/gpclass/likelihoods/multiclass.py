"""Base class of likelihoods of several classes: one latent function per class, labels 0 … C-1, one bias per class.

The class is the last axis of the latent values f (…, C); labels y have the shape of the preceding axes. The bias of a class
is added to its latent value. Only differences of biases matter, so the bias of class 0 is fixed.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.special import entr

from ..numerics import CACHE, blocks, covariance_roots, log_largest, quasi_random_normal, winner_probabilities
from ..numerics.classes import other_classes
from .base import FreeParameter, Likelihood
from .powers import power_moments
from .tilted import Triple

STD_NODES = 512  # quasi-random points for standard deviations: error below 0.02
SMALLEST_FRACTION = 1e-12  # variances below this fraction of the datum's largest variance are raised to it


@dataclass(frozen=True)
class Multiclass(Likelihood):
    """Base class of likelihoods p(y | f) with y in 0 … n_classes - 1 and one latent value per class.

    If p is differentiable in f, `log_prob(y, f)` returns log p(y | f) (…), its gradient (…, C) and its Hessian (…, C, C).

    Parameters
    ----------
    n_classes : int
        Number of classes, at least 2.
    bias : tuple of float, optional
        One value per class, added to its latent function. None means zero.
    learn_bias : bool, default=False
        Whether the biases are free parameters, except that of class 0.
    """

    n_classes: int
    bias: tuple[float, ...] | None = None
    learn_bias: bool = False

    shift_invariant = True
    sampled_powers = True

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
        """Return log p(y) (n,) under f ~ N(mean, spread)."""
        return np.take_along_axis(self.log_class_probabilities(mean, spread), np.asarray(y)[:, None], 1)[:, 0]

    def class_probability_std(self, mean, spread) -> np.ndarray:
        return self.predictive_std(mean, spread)

    @property
    def offset(self) -> np.ndarray:
        """(C,) biases, zero if `bias` is None."""
        return np.zeros(self.n_classes) if self.bias is None else np.array(self.bias)

    # parameters ---------------------------------------------------------------------------------------------------

    first_free: ClassVar[int] = 1  # first class whose bias is free: a common shift of all latent values has no effect

    def free_parameters(self) -> list[FreeParameter]:
        if not self.learn_bias:
            return []
        return [FreeParameter(f"bias[{c}]", self.offset[c], -100.0, 100.0) for c in range(self.first_free, self.n_classes)]

    def _moved(self, theta: np.ndarray) -> Multiclass:
        return replace(self, bias=(*self.offset[: self.first_free].tolist(), *theta.tolist())) if self.learn_bias else self

    def theta_gradient(self, bias_gradient: np.ndarray) -> np.ndarray:
        """Return the gradient in θ, given the gradient (C, …) in the biases.

        The gradient in a bias is that in a common shift of all latent values of its class.
        """
        return bias_gradient[self.first_free :] if self.learn_bias else bias_gradient[:0]

    # values and derivatives ---------------------------------------------------------------------------------------

    def check_targets(self, y) -> np.ndarray:
        """Return y as integers, or raise a ValueError unless all labels are integers from 0 to n_classes - 1."""
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
        """Return p(y = c | f) for every class, (…, C); rows sum to one."""

    @abstractmethod
    def predictive(self, mean, cov) -> np.ndarray:
        """Return class probabilities under f ~ N(mean, cov).

        Parameters
        ----------
        mean : ndarray of shape (m, C)
            Mean of the latent values.
        cov : ndarray of shape (m, C, C) or (m, C)
            Covariances of the latent values, or variances if they are independent.

        Returns
        -------
        ndarray of shape (m, C)
        """

    def predictive_std(self, mean, cov) -> np.ndarray:
        """Return the standard deviations (m, C) of the class probabilities under f ~ N(mean, cov)."""
        return np.concatenate([self._probabilities_at(f).std(2) for f in latent_values(mean, cov, STD_NODES)])

    def expected_entropy(self, mean, cov) -> np.ndarray:
        """Return E[H(y | f)] (m,) in nats under f ~ N(mean, cov); cov (m, C, C), or variances (m, C)."""
        points = latent_values(mean, cov, STD_NODES)
        return np.concatenate([entr(self._probabilities_at(f)).sum(1).mean(1) for f in points])

    def offers(self, question: str) -> bool:
        if question in ("tilted_power", "tilted_power_theta") and type(self).tilted_power is Multiclass.tilted_power:
            return self.offers("log_prob") and self.offers("tilted_moments")
        return super().offers(question)

    def tilted_power(self, y, power, mean, var) -> Triple:
        """Return log ∫ N(f | mean, diag var) p(y | f)^power df (n,) and its first two derivatives (n, C) in the means.

        Computed by importance sampling around the mode, see `powers`. For log-concave likelihoods, powers up to 10 and
        variances up to 10 the error of the value is below 0.1, and those of the product's mean and variance are below 10 %
        of its standard deviation and of its variance. At variances of order one they are below 0.03 and 6 %. The value is
        smooth only to this accuracy. With label noise, large powers under wide Gaussians can have two modes, of which one
        is found.
        """
        return power_moments(self, y, power, mean, positive_variances(var))

    def tilted_power_theta(self, y, power, mean, var) -> np.ndarray:
        """Return the derivatives (p, n) in θ of the value of `tilted_power`."""
        return self.theta_gradient(self.tilted_power(y, power, mean, var)[1].T)

    def expected_log_prob_theta(self, y, mean, var) -> np.ndarray:
        """Return the derivatives (p, n) in θ of the value of `expected_log_prob`, if the likelihood has that method."""
        return self.theta_gradient(self.expected_log_prob(y, mean, var)[1].T)  # type: ignore[attr-defined]

    def _probabilities_at(self, f) -> np.ndarray:
        """Return class probabilities (rows, C, points) at latent values f of that shape, which may be overwritten."""
        return np.moveaxis(self.class_probabilities(np.moveaxis(f, 1, 2)), 2, 1)

    def _own_class(self, y, f) -> np.ndarray:
        """Return [y = c] as a boolean array of f's shape."""
        return np.broadcast_to(np.asarray(y)[..., None] == np.arange(self.n_classes), np.shape(f))


def latent_values(mean, cov, count):
    """Yield points (rows, C, count) of N(mean, cov), for one block of rows at a time.

    The points of a row do not depend on other rows. A permutation of the classes permutes the values.
    """
    mean = np.asarray(mean, float)
    roots = covariance_roots(mean, full_covariances(cov))
    nodes = np.ascontiguousarray(quasi_random_normal(count, mean.shape[1]).T)
    for some in blocks(len(mean), count * mean.shape[1], CACHE):
        f = np.matmul(roots[some], nodes)
        f += mean[some, :, None]
        yield f


def full_covariances(cov) -> np.ndarray:
    """Return covariances (m, C, C), given covariances or variances (m, C)."""
    cov = np.asarray(cov, float)
    return cov[:, :, None] * np.eye(cov.shape[1]) if cov.ndim == 2 else cov


def own_first(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return x (n, C) with the entry of class y first and the others in order."""
    return np.take_along_axis(x, class_order(y, x.shape[1]), axis=1)


def restore_order(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Undo `own_first`."""
    out = np.empty_like(x)
    np.put_along_axis(out, class_order(y, x.shape[1]), x, axis=1)
    return out


def class_order(y: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the classes of each datum (n, C): y first, then the others in order."""
    return np.column_stack([y, other_classes(y, n_classes)])


def largest_probabilities(mean: np.ndarray, cov: np.ndarray, noise: float) -> np.ndarray:
    """Return the probabilities (m, C) that each latent value is the largest after noise of variance `noise` on each.

    cov (m, C, C), or variances (m, C).
    """
    mean, cov = np.asarray(mean, float), full_covariances(cov)
    same = np.eye(mean.shape[1])
    alone = ~(cov * (1 - same)).any((1, 2))
    if not alone.any():
        return winner_probabilities(mean, cov + noise * same)
    p = np.empty(mean.shape)
    p[~alone] = winner_probabilities(mean[~alone], cov[~alone] + noise * same)
    log_p = log_largest(mean[alone], positive_variances(noise + np.einsum("icc->ic", cov[alone])))
    log_p = np.exp(log_p - log_p.max(1, keepdims=True))
    p[alone] = log_p / log_p.sum(1, keepdims=True)
    return p


def positive_variances(var: np.ndarray) -> np.ndarray:
    """Return variances (n, C) with those near zero raised to values that are negligible but safe to divide by."""
    widest = np.max(var, axis=1, keepdims=True)
    return np.maximum(var, np.maximum(SMALLEST_FRACTION * widest, 1e-200))
