"""Contrasts of classes g_ij = f_i^y - f_i^j + u_i, j ≠ y_i, u_i ~ N(0, 1), with scalar sites: for multinomial probit.

[RJV] Riihimäki, Jylänki & Vehtari 2013, section 3.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from .contrast_prior import ContrastPrior
from .contrast_systems import contrast_system
from .coupled import CoupledPosterior, precisions
from .nearby import Response
from .rounding import EPS, STALL_FACTOR
from .sites import Sites, from_state, matrix_cavity, sites_and_moments


class ContrastPosterior:
    """The posterior of the contrasts of all data, with a scalar site on each.

    It has the interface of `FullPosterior`, so the rules and the loop of the binary engines apply. With u integrated out it
    is a `CoupledPosterior` with π = 1 for class y and π = τ for the other classes. [RJV] (12)-(16)
    """

    def __init__(self, prior: ContrastPrior, sites: Sites, system=None, moments=None):  # last two: see `shifted`
        self.prior, self.sites = prior, sites
        self._system = system or contrast_system(prior, sites.tau)
        self.K, self.prior_var = prior.K, prior.var
        self.alpha: np.ndarray
        self.mean: np.ndarray
        self.alpha, self.mean = moments or self.covariance_step(sites.nu)

    @classmethod
    def without_sites(
        cls, K: np.ndarray, y: np.ndarray, n_classes: int, copies: np.ndarray | float = 1.0, parts: float = 1.0
    ) -> ContrastPosterior:
        """Return the prior as a posterior without sites."""
        prior = ContrastPrior(K, y, n_classes, copies, parts)
        return cls(prior, Sites.zeros(prior.var.size))

    def state(self) -> dict[str, np.ndarray]:
        """Return the arrays that `restored` needs besides K, the labels, the number of classes and the copies."""
        return sites_and_moments(self)

    @classmethod
    def restored(
        cls, K: np.ndarray, y: np.ndarray, n_classes: int, copies: np.ndarray | float, state: Mapping[str, Any], parts=1.0
    ) -> ContrastPosterior:
        """Rebuild the posterior from its `state`."""
        sites, moments = from_state(state)
        return cls(ContrastPrior(K, y, n_classes, copies, parts), sites, moments=moments)

    def renewed(self, sites: Sites, moments=None) -> ContrastPosterior:
        """Return the posterior with the same prior and new sites."""
        self._system.forget()
        return ContrastPosterior(self.prior, sites, moments=moments)

    def shifted(self, alpha: np.ndarray, mean: np.ndarray) -> ContrastPosterior:
        """Return the posterior with the same τ and `mean` = (prior covariance) `alpha` added. Needs no factorisation."""
        return ContrastPosterior(
            self.prior, self.sites.shifted(alpha, mean), self._system, (self.alpha + alpha, self.mean + mean)
        )

    def covariance_step(self, nu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (α, mean) of the contrasts for ν under the current τ."""
        return self._system.solve(nu)

    @property
    def weight(self) -> np.ndarray | float:
        """Number of equal parts of each contrast in all copies: a number, or (n (C - 1),)."""
        return self.prior.weight

    @property
    def each(self) -> Sites:
        """The sites of one part of one copy of each datum."""
        return Sites(self.sites.tau / self.weight, self.sites.nu / self.weight)

    @property
    def slope(self) -> np.ndarray:
        """α of one part of one copy."""
        return self.alpha / self.weight

    @property
    def var(self) -> np.ndarray:
        """Marginal variances of the contrasts."""
        return self._system.var

    def response(self) -> Response | None:
        """Return the response of the marginal variances to changes of τ; None without sites or with several copies."""
        if np.ndim(self.weight) or not self._system.any_sites:
            return None
        return self._system.response(self.sites.tau)

    def cavity(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean and variance of each contrast of one copy without its site, or without that of one part."""
        var = self._system.cavity_var
        return self.mean - var * self.slope, var

    @property
    def log_det(self) -> float:
        """log|I + (prior covariance of the contrasts) T|."""
        return self._system.log_det

    @property
    def log_partition(self) -> float:
        return 0.5 * float(self.sites.nu @ self.mean) - 0.5 * self.log_det

    @property
    def rounding(self) -> float:
        """Effect of rounding on the marginals, in standard deviations: eps × condition of A."""
        single = self._system.rounding
        if single is not None:
            return single  # a typical error; the bound below would rule out float32 beyond a few hundred rows
        return STALL_FACTOR[np.float64] * EPS * (1 + float(np.max(self.prior_var * self.sites.tau)) * len(self.prior.y))

    # in terms of the classes ----------------------------------------------------------------------------------------

    @cached_property
    def latent(self) -> CoupledPosterior:
        """The posterior of the latent functions, with u integrated out."""
        coupled = self._system.coupled
        coupled.P.invert()  # solves round differently before and after: the mean must not depend on what was asked earlier
        return CoupledPosterior(self.K, self._system.pi, self._system.latent_nu(self.sites.nu), coupled)

    def left_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean (n, C) and covariance (n, C, C) of each datum's latent values with one copy of it left out."""
        q = self.latent
        if np.ndim(self.prior.copies) == 0:
            return q.cavity()
        nu = self._system.latent_nu(self.sites.nu) / self.prior.copies
        return matrix_cavity(q.mean, q.cov, precisions(self.prior.pi(self._system.tau)), nu)

    def predict(self, Ks: np.ndarray, kd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.latent.predict(Ks, kd)

    def gradient(self) -> np.ndarray:
        return self._system.gradient(self.sites.nu, self.alpha, self.mean)
