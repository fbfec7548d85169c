"""Powers of likelihoods, p(y | f)^power, for observations of weight below one, and products of such powers.

Targets are records (y, power), so that they can be indexed like plain targets. For power one `tilted_moments` of the
likelihood is used, for other powers `tilted_power`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .tilted import Triple, WithSlopes, product_nodes, tilted_moments_of, tilted_weights


def tempered_targets(y: np.ndarray, power: np.ndarray) -> np.ndarray:
    """Return records (m,) of targets and powers."""
    records = np.empty(len(y), [("y", y.dtype), ("power", float)])
    records["y"], records["power"] = y, power
    return records


def split_targets(y: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the targets and the powers (m,), None if y are plain targets: then all powers are one."""
    return (y["y"], y["power"]) if y.dtype.names else (y, None)


@dataclass(frozen=True)
class Tempered(WithSlopes):
    """p(y | f)^power of a likelihood, with the methods that moment-matching engines call."""

    likelihood: Any

    @property
    def theta(self) -> np.ndarray:
        return self.likelihood.theta

    @property
    def noise(self) -> float:
        return self.likelihood.noise

    def tilted_moments(self, y: np.ndarray, mean: np.ndarray, var: np.ndarray) -> Triple:
        """Return log ∫ N(f | mean, var) p(y | f)^power df and its first two derivatives in `mean`."""
        return tuple(
            self._by_power(
                y,
                lambda rows: self.likelihood.tilted_moments(y["y"][rows], mean[rows], var[rows]),
                lambda rows: self.likelihood.tilted_power(y["y"][rows], y["power"][rows], mean[rows], var[rows]),
            )
        )

    def tilted_theta(self, y: np.ndarray, mean: np.ndarray, var: np.ndarray) -> np.ndarray:
        """Return the derivatives (p, n) in θ of the value of `tilted_moments`."""
        found = self._by_power(
            y,
            lambda rows: self.likelihood.tilted_theta(y["y"][rows], mean[rows], var[rows]),
            lambda rows: self.likelihood.tilted_power_theta(y["y"][rows], y["power"][rows], mean[rows], var[rows]),
        )
        return np.reshape(found, (len(found), len(y)))

    def expected_log_prob(self, y: np.ndarray, mean: np.ndarray, var: np.ndarray) -> Triple:
        """Return E[power log p(y | f)] under N(mean, var) and its first two derivatives in `mean`."""
        parts = self.likelihood.expected_log_prob(y["y"], mean, var)
        return tuple(y["power"] * part for part in parts)

    @staticmethod
    def _by_power(y, whole, power):
        """Return the results of `whole` for rows of power one, and of `power` for the others: arrays (n, …)."""
        one = y["power"] == 1
        if np.all(one):
            return whole(one)
        if not np.any(one):
            return power(~one)
        parts = [(one, whole(one)), (~one, power(~one))]
        found = [np.empty((len(y), *np.shape(part)[1:])) for part in parts[0][1]]
        for rows, values in parts:
            for out, part in zip(found, values, strict=True):
                out[rows] = part
        return found


@dataclass(frozen=True)
class PowerFactor(WithSlopes):
    """Powers (n,) of a likelihood with one latent function, for the factors of likelihoods of several classes."""

    factor: Any
    power: np.ndarray  # (n,)

    def tilted_moments(self, y: Any, mean: np.ndarray, var: np.ndarray) -> Triple:
        """Return the tilted moments for means and variances (n,) or (n, k)."""
        power = np.broadcast_to(self.power if mean.ndim == 1 else self.power[:, None], mean.shape).ravel()
        targets = tempered_targets(np.broadcast_to(np.asarray(y, float), mean.shape).ravel(), power)
        found = Tempered(self.factor).tilted_moments(targets, mean.ravel(), var.ravel())
        return tuple(part.reshape(mean.shape) for part in found)  # type: ignore[return-value]


@dataclass(frozen=True)
class Product(WithSlopes):
    """The product of weighted observations of each latent value, ∏_k p(y_k | f)^weight_k, by quadrature.

    Parameters
    ----------
    likelihood : Likelihood
        One latent function, with `log_prob`.
    y, weight : ndarray of shape (k,)
        Targets and weights of all factors.
    places : Places
        The latent value of each factor.
    """

    likelihood: Any
    y: np.ndarray
    weight: np.ndarray
    places: Any

    def tilted_moments(self, y: Any, mean: np.ndarray, var: np.ndarray) -> Triple:
        """Return log ∫ N(f | mean, var) ∏ p^weight df (n,) and its derivatives; y is not used."""
        nodes, log_weights = product_nodes(self.likelihood, self._log_prob, mean, var)
        return tilted_moments_of(self._log_prob(nodes), log_weights)

    def tilted_theta(self, y: Any, mean: np.ndarray, var: np.ndarray) -> np.ndarray:
        """Return the derivatives (p, n) in θ of the value of `tilted_moments`; y is not used."""
        nodes, log_weights = product_nodes(self.likelihood, self._log_prob, mean, var)
        tilted, _ = tilted_weights(log_weights, self._log_prob(nodes)[0])
        at = self.places.spread(nodes)
        targets = np.broadcast_to(self.y[:, None], at.shape).ravel()
        in_theta = self.likelihood.log_prob_theta(targets, at.ravel())[0].reshape(-1, *at.shape)
        expected = np.einsum("kq,pkq->kp", self.places.spread(tilted), in_theta)
        return self.places.sum(self.weight[:, None] * expected).T

    def _log_prob(self, nodes):
        parts = self.likelihood.log_prob(self.y[:, None], self.places.spread(nodes))
        return tuple(self.places.sum(self.weight[:, None] * part) for part in parts)
