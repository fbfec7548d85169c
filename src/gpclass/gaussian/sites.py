"""Scalar Gaussian sites exp(-½ τ f² + ν f), one per observation, and the latent values ("places") that they belong to.

[RW] Rasmussen & Williams 2006.   [VC] Villacampa-Calvo 2017.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Sites:
    tau: np.ndarray  # (n,) precisions τ_i; negative only for likelihoods that are not log-concave
    nu: np.ndarray  # (n,) precision times mean ν_i

    @staticmethod
    def zeros(n: int | tuple[int, ...]) -> Sites:
        return Sites(np.zeros(n), np.zeros(n))

    def shifted(self, alpha: np.ndarray, mean: np.ndarray) -> Sites:
        """Return the sites with the same τ whose posterior mean is larger by `mean` = K `alpha`."""
        return Sites(self.tau, self.nu + alpha + self.tau * mean)


def sites_and_moments(q: Any) -> dict[str, np.ndarray]:
    """Return the sites, α and mean of a posterior with scalar sites: what is saved of it, besides its prior."""
    return {"tau": q.sites.tau, "nu": q.sites.nu, "alpha": q.alpha, "mean": q.mean}


def from_state(state: Mapping[str, Any]) -> tuple[Sites, tuple[np.ndarray, np.ndarray]]:
    """Return the sites and (α, mean) from the result of `sites_and_moments`."""
    return Sites(state["tau"], state["nu"]), (state["alpha"], state["mean"])


def newton_sites(point: np.ndarray, slope: np.ndarray, curvature: np.ndarray) -> Sites:
    """Return the sites whose logarithms have the given slope and curvature at `point`."""
    return Sites(tau=-curvature, nu=slope - curvature * point)


def matched_sites(mean: np.ndarray, var: np.ndarray, slope: np.ndarray, curvature: np.ndarray) -> Sites:
    """Return the sites that give cavity × site the moments of cavity × likelihood. [RW] (3.59)

    The cavity is N(mean, var); `slope` and `curvature` are the derivatives of the log mass of cavity × likelihood in `mean`.
    No reciprocal of a precision is used, so the curvature may be zero.
    """
    left = 1 + var * curvature  # variance of cavity × likelihood divided by the variance of the cavity
    return newton_sites(mean, slope / left, curvature / left)


def log_partition_1d(mean: np.ndarray, var: np.ndarray, sites: Sites) -> np.ndarray:
    """Return log ∫ N(f | mean, var) exp(-½ τ f² + ν f) df, elementwise, without a reciprocal of τ or var."""
    tau, nu = sites.tau, sites.nu
    grown = 1 + var * tau
    return -0.5 * np.log(grown) + (nu * mean + 0.5 * var * nu**2 - 0.5 * tau * mean**2) / grown


def matrix_cavity(mean: np.ndarray, cov: np.ndarray, precision: np.ndarray, nu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean (n, C) and covariance (n, C, C) of marginals with sites of precision (n, C, C) and ν (n, C) removed."""
    left = np.eye(mean.shape[1]) - cov @ precision
    without = np.linalg.solve(left, cov)
    mean = mean - np.einsum("icd,id->ic", cov, nu)
    return np.linalg.solve(left, mean[:, :, None])[:, :, 0], 0.5 * (without + np.swapaxes(without, 1, 2))


@dataclass(frozen=True)
class Cavity:
    """Marginals with some sites removed, elementwise."""

    mean: np.ndarray
    var: np.ndarray
    kept: np.ndarray  # remaining fraction of the precision
    tilt: np.ndarray  # difference between the cavity and posterior means, divided by the posterior variance
    log_partition: np.ndarray  # of the removed sites, under the cavity


def cavity(mean: np.ndarray, var: np.ndarray, tau: np.ndarray, nu: np.ndarray, least: float) -> Cavity:
    """Return marginals with sites removed. [VC] (B.17)-(B.20) as scalars.

    A site is removed only in part if the cavity would keep less than `least` of the marginal precision.
    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # from entries that are not used
        room = np.where(tau * var > 1 - least, (1 - least) / (tau * var), 1.0)
    tau, nu = room * tau, room * nu
    kept = 1 - tau * var
    cavity_var, cavity_mean = var / kept, (mean - nu * var) / kept
    local = log_partition_1d(cavity_mean, cavity_var, Sites(tau, nu))
    return Cavity(cavity_mean, cavity_var, kept, (tau * mean - nu) / kept, local)


# several observations of a latent value ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Places:
    """The latent value ("place") of each observation, with sums over observations and values per observation."""

    n: int  # number of places
    index: np.ndarray | None = None  # (m,) place of each observation, ascending, every place at least once; None if m = n

    def __post_init__(self):
        if self.index is None:
            return
        steps = np.diff(self.index, prepend=-1, append=self.n)
        if self.index.ndim != 1 or np.any((steps != 0) & (steps != 1)) or (len(self.index) and self.index[0] != 0):
            raise ValueError(f"places must be whole numbers in ascending order that include each of 0 to {self.n - 1}")

    @cached_property
    def _starts(self) -> np.ndarray:
        return np.flatnonzero(np.diff(np.asarray(self.index), prepend=-1))

    def sum(self, x: np.ndarray) -> np.ndarray:
        """Return sums (n, …) over the observations of each place, given x (m, …)."""
        return x if self.index is None else np.add.reduceat(x, self._starts, axis=0)

    def spread(self, x: np.ndarray) -> np.ndarray:
        """Return values per observation (m, …), given those of the places (n, …)."""
        return x if self.index is None else x[self.index]

    def shares(self, weight: np.ndarray | float) -> np.ndarray | float:
        """Return the weight of each observation divided by that of its place, (m,); 1 if each place has one observation."""
        return 1.0 if self.index is None else weight / self.spread(self.sum(weight * np.ones(len(self.index))))
