"""Exact prior N(0, K) times scalar sites of weighted observations, several of which may share a latent value.

An observation of weight w is w copies of one. All copies have the same site, so the posterior contains w τ and w ν. The
`sites` here are these products: for the linear algebra and for the loop, an observation of any weight has one site. `each`
is the site of one copy, and a cavity leaves out one copy. So weights that are whole numbers give exactly the result of
repeated rows, without their cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .full import FullPosterior
from .sites import Places, Sites


class SharedPosterior:
    """A FullPosterior of n latent values, in terms of the sites of m weighted observations of them.

    It has the interface of `FullPosterior`, with arrays (m,) in place of (n,); `latent` is the posterior of the latent
    values.
    """

    def __init__(self, latent: FullPosterior, places: Places, weight: np.ndarray, sites: Sites, alpha=None):
        self.latent, self.places, self.weight, self.sites = latent, places, weight, sites
        self.K, self.log_det = latent.K, latent.log_det
        self.mean: np.ndarray = places.spread(latent.mean)
        self.alpha: np.ndarray = self._split(sites.nu, sites.tau, latent.alpha, self.mean) if alpha is None else alpha

    @classmethod
    def without_sites(cls, K: np.ndarray, places: Places, weight: np.ndarray) -> SharedPosterior:
        """Return the prior as a posterior without sites."""
        return cls(FullPosterior.without_sites(K), places, weight, Sites.zeros(len(weight)))

    def state(self) -> dict[str, np.ndarray]:
        """Return the arrays that `restored` needs besides K, the places and the weights.

        Sums over observations would round those of the latent values differently, so both are stored.
        """
        q = self.latent
        own = {"tau": self.sites.tau, "nu": self.sites.nu, "alpha": self.alpha}
        return own | {"latent_nu": q.sites.nu, "latent_alpha": q.alpha, "latent_mean": q.mean}

    @classmethod
    def restored(cls, K: np.ndarray, places: Places, weight: np.ndarray, state: Mapping[str, Any]) -> SharedPosterior:
        """Rebuild the posterior from its `state`."""
        sites = Sites(places.sum(state["tau"]), state["latent_nu"])
        latent = FullPosterior(K, sites, moments=(state["latent_alpha"], state["latent_mean"]))
        return cls(latent, places, weight, Sites(state["tau"], state["nu"]), state["alpha"])

    def renewed(self, sites: Sites, moments=None) -> SharedPosterior:
        """Return the posterior with the same prior and new sites; `moments` are (α, mean) of the observations, if known."""
        known = None if moments is None else (self.places.sum(moments[0]), self._of_places(moments[1]))
        total = Sites(self.places.sum(sites.tau), self.places.sum(sites.nu))
        latent = self.latent.renewed(total, known)
        return SharedPosterior(latent, self.places, self.weight, sites, None if moments is None else moments[0])

    def shifted(self, alpha: np.ndarray, mean: np.ndarray) -> SharedPosterior:
        """Return the posterior with the same τ and `mean` = K `alpha` added to the mean, without a new factorisation."""
        latent = self.latent.shifted(self.places.sum(alpha), self._of_places(mean))
        sites = self.sites.shifted(alpha, mean)
        return SharedPosterior(latent, self.places, self.weight, sites, self.alpha + alpha)

    def _of_places(self, x):
        """Return values of places (n,), given values (m,) that are equal for all observations of a place."""
        return x if self.places.index is None else self.places.sum(x * self.places.shares(1.0))

    def _split(self, nu, tau, alpha, mean):
        """Return α of the observations, ν - τ mean, corrected for rounding so that their sums are `alpha` (n,)."""
        if self.places.index is None:
            return alpha
        own = nu - tau * mean
        return own + self.places.shares(self.weight) * self.places.spread(alpha - self.places.sum(own))

    @property
    def copies(self) -> np.ndarray:
        """(m,) number of copies of each observation: an observation of weight below one is a single copy."""
        return np.maximum(self.weight, 1.0)

    @property
    def each(self) -> Sites:
        """The site of one copy of each observation."""
        return Sites(self.sites.tau / self.copies, self.sites.nu / self.copies)

    @property
    def slope(self) -> np.ndarray:
        """(m,) α of one copy."""
        return self.alpha / self.copies

    @property
    def prior_var(self) -> np.ndarray:
        return self.places.spread(self.latent.prior_var)

    @property
    def var(self) -> np.ndarray:
        """(m,) marginal variances."""
        return self.places.spread(self.latent.var)

    @property
    def trace_ratio(self) -> float:
        """tr(V K⁻¹)."""
        return self.latent.trace_ratio

    @property
    def rounding(self) -> float:
        return self.latent.rounding

    @property
    def log_partition(self) -> float:
        return self.latent.log_partition

    def cavity(self, removed: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance of each latent value without one copy of the observation, or without `removed` copies."""
        var = self.var / self._kept(removed / self.copies)
        return self.mean - var * (removed * self.slope), var

    def _kept(self, share):
        """Return 1 - var × (precision of a share of the copies), (m,), without cancellation if it outweighs the prior."""
        kept = self.places.spread(self.latent.kept)
        if self.places.index is None:
            return (1 - share) + share * kept
        total, each = self.places.spread(self.latent.sites.tau), self.sites.tau * share
        usable = np.abs(total) >= np.abs(each)  # false where negative precisions cancel
        part = np.divide(each, total, out=np.zeros_like(each), where=usable & (total != 0))
        return np.where(usable, (1 - part) + part * kept, 1 - each * self.var)

    def covariance_step(self, nu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (α, mean) of the observations for ν under the current τ."""
        alpha, mean = self.latent.covariance_step(self.places.sum(nu))
        mean = self.places.spread(mean)
        return self._split(nu, self.sites.tau, alpha, mean), mean

    def response(self) -> None:
        """Return None: responses are predicted only for observations of weight one with their own latent value."""
        return None

    def left_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean and variance of the latent value of each observation with one copy of it left out."""
        return self.cavity()

    def predict(self, Ks: np.ndarray, kd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.latent.predict(Ks, kd)

    def gradient(self, *pairs: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """Return the derivative of the evidence in K, with pairs of arrays (n,); see `FullPosterior.gradient`."""
        return self.latent.gradient(*pairs)

    def apply_residual_precision(self, x: np.ndarray) -> np.ndarray:
        """Return (K + T⁻¹)⁻¹ x for x (n,)."""
        return self.latent.apply_residual_precision(x)
