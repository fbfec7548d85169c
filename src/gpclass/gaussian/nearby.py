"""Posteriors for site precisions near those of a given posterior, without a new factorisation.

If the precisions of the sites change by δ, the marginal variances change by -(V∘V) δ to first order. The site of an
observation has no effect on its own cavity, so for the cavity variances s = 1/(1/var - τ) this is

    d log s_i = -s_i/var_i² Σ_{j≠i} V_ij² δ_j.

`Response` keeps these V_ij² and `NearbyPosterior` predicts cavities with them. So a rule can be repeated many times between
two factorisations, with products of a matrix and a vector only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .sites import Sites

NEGLIGIBLE_SITE = 1e-8  # fraction of the marginal precision; sites that contribute less are treated as constant
LARGEST_LOG_CHANGE = 1.0  # of a predicted cavity variance: beyond it the prediction is unreliable


class Response:
    """Squared covariances of the observations whose sites matter.

    Parameters
    ----------
    blocks : sequence of tuple of ndarray
        Pairs (rows, squares): positions (m,) of observations, and the squares (m, m) of their posterior covariances.
        Observations of different blocks are independent. Variances of observations in no block are treated as constant.
        Single precision suffices.
    covariance : ndarray of shape (m, m), optional
        The covariances of a single block. Steps of the mean are then products with it, much cheaper than solutions with
        the factorisation.
    """

    def __init__(self, blocks: Sequence[tuple[np.ndarray, np.ndarray]], covariance: np.ndarray | None = None):
        self.blocks, self.covariance = blocks, covariance
        for _, squares in blocks:
            np.fill_diagonal(squares, 0.0)

    def variance_decrease(self, change: np.ndarray) -> np.ndarray:
        """Return the decrease of each marginal variance when τ of all other observations changes."""
        out = np.zeros_like(change)
        for rows, squares in self.blocks:
            out[rows] = squares @ change[rows].astype(squares.dtype)
        return out

    def covariance_step(self, base: Any, nu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (α, mean) for ν under the τ of `base`."""
        if self.covariance is None:
            return base.covariance_step(nu)
        ((rows, _),) = self.blocks
        mean = np.zeros_like(nu)
        mean[rows] = self.covariance @ nu[rows].astype(self.covariance.dtype)
        return nu - base.sites.tau * mean, mean


def strong_sites(tau: np.ndarray, var: np.ndarray, most: int) -> np.ndarray:
    """Return the positions of the sites that are not negligible, or of the `most` strongest if there are more."""
    weight = tau * var
    rows = np.flatnonzero(weight > NEGLIGIBLE_SITE)
    if len(rows) > most:
        rows = np.sort(rows[np.argpartition(weight[rows], len(rows) - most)[-most:]])
    return rows


class NearbyPosterior:
    """The posterior `base` with other sites, and cavity variances predicted by a `Response`.

    It has the attributes and methods that rules and the iteration of the mean use. Newton steps of the mean use the
    covariance of `base`. Each observation must have weight one.
    """

    def __init__(self, base: Any, response: Response, sites: Sites, moments: tuple[np.ndarray, np.ndarray], cavity_var=None):
        self.base, self.response, self.sites = base, response, sites
        self.alpha, self.mean = moments
        self.cavity_var = self._predicted() if cavity_var is None else cavity_var
        self.var = self.cavity_var / (1 + sites.tau * self.cavity_var)

    @classmethod
    def at(cls, base: Any, response: Response) -> NearbyPosterior:
        """Return the posterior `base` itself, from which predictions start."""
        return cls(base, response, base.sites, (base.alpha, base.mean))

    def _predicted(self):
        var, cavity_var = self.base.var, self.base.cavity()[1]
        decrease = self.response.variance_decrease(self.sites.tau - self.base.sites.tau)
        known = np.where(var > 0, var, 1.0)  # a variance of zero stays zero
        change = -(cavity_var / known) * (decrease / known)  # of the log cavity variances
        return cavity_var * np.exp(np.clip(change, -LARGEST_LOG_CHANGE, LARGEST_LOG_CHANGE))

    def renewed(self, sites: Sites, moments: tuple[np.ndarray, np.ndarray]) -> NearbyPosterior:
        """Return the posterior with other sites, whose (α, mean) are `moments`."""
        return NearbyPosterior(self.base, self.response, sites, moments)

    def shifted(self, alpha: np.ndarray, mean: np.ndarray) -> NearbyPosterior:
        """Return the posterior with the same τ and `mean` = K `alpha` added to the mean."""
        sites, moments = self.sites.shifted(alpha, mean), (self.alpha + alpha, self.mean + mean)
        return NearbyPosterior(self.base, self.response, sites, moments, self.cavity_var)

    def covariance_step(self, nu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (α, mean) for ν under the τ of `base`."""
        return self.response.covariance_step(self.base, nu)

    def cavity(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean and predicted variance of each observation without its own site."""
        return self.mean - self.cavity_var * self.alpha, self.cavity_var

    @property
    def each(self) -> Sites:
        return self.sites

    @property
    def slope(self) -> np.ndarray:
        return self.alpha

    def table(self, x: np.ndarray) -> np.ndarray:
        """Return the values of several classes as a table, in the order of `base`."""
        return self.base.table(x)

    def flat(self, x: np.ndarray) -> np.ndarray:
        """Return a table of values of several classes as a flat array. The inverse of `table`."""
        return self.base.flat(x)
