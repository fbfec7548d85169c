"""Base classes of likelihoods with one latent function: a bias, powers by quadrature, and point-symmetric sigmoids."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from ..numerics import gaussian_nodes
from .base import FreeParameter, Likelihood
from .tilted import Triple, product_nodes, tilted_by_quadrature, tilted_moments_of, tilted_weights


class WithPowers(Likelihood):
    """Base class of likelihoods with one latent function and `log_prob`: integrals of p(y | f)^power by quadrature.

    Engines that match moments use them for observations of weight below one, and IVM for any weight.
    """

    def tilted_power(self, y, power, mean, var) -> Triple:
        """Return log ∫ N(f | mean, var) p(y | f)^power df and its first two derivatives in `mean`, (n,) each."""
        nodes, log_weights = self._power_nodes(y, power, mean, var)
        return tilted_moments_of(self._log_power(y, power)(nodes), log_weights)

    def centre_of(self, y, mean) -> float | np.ndarray:
        """Return the f near `mean` at which p(y | f) changes most quickly for these targets."""
        return self.centre

    def tilted_power_theta(self, y, power, mean, var) -> np.ndarray:
        """Return the derivatives (p, n) in θ of the value of `tilted_power`."""
        nodes, log_weights = self._power_nodes(y, power, mean, var)
        tilted, _ = tilted_weights(log_weights, self._log_power(y, power)(nodes)[0])
        targets = np.broadcast_to(y[:, None], nodes.shape).ravel()
        in_theta = self.log_prob_theta(targets, nodes.ravel())[0]  # type: ignore[attr-defined]
        return power * np.einsum("nq,pnq->pn", tilted, in_theta.reshape(-1, *nodes.shape))

    def _log_power(self, y, power):
        """Return a function from nodes (n, q) to the log of p^power and its first two derivatives there."""
        return lambda nodes: tuple(power[:, None] * x for x in self.log_prob(y[:, None], nodes))  # type: ignore[attr-defined]

    def nodes(self, y, mean, var) -> tuple[np.ndarray, np.ndarray]:
        """Return nodes and weights (n, q) for expectations of functions of p(y | f) under N(mean, var)."""
        return gaussian_nodes(mean, var, centre=self.centre_of(y, mean))

    def _power_nodes(self, y, power, mean, var):
        if np.any(power > 1):
            return product_nodes(self, self._log_power(y, power), mean, var)
        nodes, weights = self.nodes(y, mean, var)
        with np.errstate(divide="ignore"):  # weights that underflow
            return nodes, np.log(weights)


def check_signs(y) -> np.ndarray:
    """Return y as floats, or raise a ValueError if a label is neither -1 nor +1."""
    y = np.asarray(y)
    if y.ndim != 1:
        raise ValueError(f"y must be one-dimensional, but has shape {y.shape}")
    signs = y.astype(float)
    if not np.all(np.abs(signs) == 1):
        found = np.unique(y)[:5]
        raise ValueError(
            f"labels must be -1 or +1, but y contains {found.tolist()}. "
            "Recode them, or use GPClassifier, which takes labels of any type."
        )
    return signs


@dataclass(frozen=True)
class WithBias(Likelihood):
    """Base class of likelihoods that depend on f + bias.

    Parameters
    ----------
    bias : float, default=0.0
        Intercept, added to the latent function.
    learn_bias : bool, default=False
        Whether `bias` is a free parameter.
    """

    bias: float = 0.0
    learn_bias: bool = False

    def __post_init__(self):
        if not np.isfinite(self.bias):
            raise ValueError(f"bias must be a finite number, but is {self.bias}")

    @property
    def centre(self) -> float:
        return -self.bias

    def free_parameters(self) -> list[FreeParameter]:
        return [FreeParameter("bias", self.bias, -100.0, 100.0)] if self.learn_bias else []

    def _moved(self, theta: np.ndarray) -> WithBias:
        return replace(self, bias=float(theta[0])) if self.learn_bias else self


@dataclass(frozen=True)
class Sigmoid(WithBias, WithPowers):
    """Base class of point-symmetric sigmoids: p(y | f) = sig(y (f + bias)), y in {-1, +1}.

    A subclass implements `log_prob` and `log_prob_third`. The other methods integrate `log_prob` by quadrature unless the
    subclass overrides them.

    Parameters
    ----------
    bias : float, default=0.0
        Intercept, added to the latent function.
    learn_bias : bool, default=False
        Whether `bias` is a free parameter.
    """

    def check_targets(self, y) -> np.ndarray:
        return check_signs(y)

    # values and derivatives ---------------------------------------------------------------------------------------

    @abstractmethod
    def log_prob(self, y, f) -> Triple:
        """Return log p(y | f) and its first two derivatives in f."""

    @abstractmethod
    def log_prob_third(self, y, f) -> np.ndarray:
        """Return the third derivative of log p(y | f) in f."""

    def expected_log_prob(self, y, mean, var) -> Triple:
        """Return E[log p(y | f)] under N(mean, var) and its first two derivatives in `mean`.

        The derivative in `var` is half the second derivative in `mean`.
        """
        nodes, weights = gaussian_nodes(mean, var, centre=self.centre)
        value, slope, curvature = self.log_prob(np.asarray(y)[..., None], nodes)
        return tuple(np.einsum("...q,...q->...", weights, part) for part in (value, slope, curvature))

    def tilted_moments(self, y, mean, var) -> Triple:
        """Return log ∫ N(f | mean, var) p(y | f) df and its first two derivatives in `mean`.

        The tilted distribution has mean `mean + var d1` and variance `var + var² d2`.
        """
        return tilted_by_quadrature(lambda nodes: self.log_prob(np.asarray(y)[..., None], nodes), mean, var, self.centre)

    def log_predictive(self, y, mean, var) -> np.ndarray:
        """Return log p(y) under f ~ N(mean, var)."""
        return self.tilted_moments(y, mean, var)[0]

    def predictive(self, mean, var) -> np.ndarray:
        """Return p(y = +1) under f ~ N(mean, var)."""
        return np.exp(self.log_predictive(np.ones_like(np.asarray(mean, float)), mean, var))

    def predictive_std(self, mean, var) -> np.ndarray:
        """Return the standard deviation of the class probability sig(f + bias) under f ~ N(mean, var)."""
        nodes, weights = gaussian_nodes(mean, var, centre=self.centre)
        p = np.exp(self.log_prob(1.0, nodes)[0])
        centre = np.einsum("...q,...q->...", weights, p)
        return np.sqrt(np.einsum("...q,...q->...", weights, (p - centre[..., None]) ** 2))

    # derivatives in the bias, (1, n) if it is free, else (0, n). The bias shifts f, so each is the next derivative in f ----

    def _per_theta(self, *parts):
        parts = tuple(np.atleast_2d(part)[: int(self.learn_bias)] for part in parts)
        return parts if len(parts) > 1 else parts[0]

    def log_prob_theta(self, y, f) -> Triple:
        """Return the derivatives in θ of log_prob's value, slope and curvature, each (p, n)."""
        _, slope, curvature = self.log_prob(y, f)
        return self._per_theta(slope, curvature, self.log_prob_third(y, f))

    def expected_log_prob_theta(self, y, mean, var) -> np.ndarray:
        return self._per_theta(self.expected_log_prob(y, mean, var)[1])

    def tilted_theta(self, y, mean, var) -> np.ndarray:
        return self._per_theta(self.tilted_moments(y, mean, var)[1])

    def bound_sites_theta(self, y, mean, var) -> tuple[np.ndarray, np.ndarray]:
        """Return the derivatives in θ, (p, n) each, of ν and τ of the best bound. Needs `bound_slopes`."""
        # log site = ν₀ (f + bias) - ½ τ (f + bias)², where ν₀ and τ depend on mean + bias
        moves = self.bound_slopes(y, mean, var)  # type: ignore[attr-defined]
        tau = self.bound(y, self.bound_point(y, mean, var))[2]  # type: ignore[attr-defined]
        return self._per_theta(moves.nu * moves.in_mean - tau, moves.tau * moves.in_mean)
