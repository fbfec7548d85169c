"""Contrasts of classes g_ij = f_i^y - f_i^j + u_i, j ≠ y_i, u_i ~ N(0, 1), with scalar sites: for multinomial probit.

[RJV] Riihimäki, Jylänki & Vehtari 2013, section 3.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from ..numerics.classes import other_classes
from .coupled import CoupledPosterior, precisions
from .coupled_system import CoupledSystem
from .nearby import Response, strong_sites
from .rounding import EPS, STALL_FACTOR
from .sites import Sites, from_state, matrix_cavity, sites_and_moments


class ContrastPrior:
    """N(0, K) of the contrasts of data with labels y, and the maps between n (C - 1) contrasts and n × C classes.

    A datum may stand for several copies, each with its own u; `copies` is their number, a float or (n,). Each contrast of a
    copy may consist of several equal `parts`, which share its u and its site (power EP).
    """

    def __init__(
        self, K: np.ndarray, y: np.ndarray, n_classes: int, copies: np.ndarray | float = 1.0, parts: float = 1.0
    ):
        self.K, self.y, self.n_classes, self.parts = K, y, n_classes, parts
        self.copies = copies if np.ndim(copies) == 0 else np.asarray(copies)[:, None]  # broadcasts against tables (n, …)
        self.others = other_classes(y, n_classes)
        first = np.arange(len(y))[:, None] * n_classes
        self._own, self._others = first + y[:, None], first + self.others  # positions in a flat (n, C) array
        by_class = np.broadcast_to(np.diagonal(K, axis1=-2, axis2=-1), (n_classes, len(y))).T
        self.var = (by_class.take(self._own) + by_class.take(self._others) + 1).ravel()  # (n (C - 1),)

    @cached_property
    def weight(self) -> np.ndarray | float:
        """Number of equal parts of each contrast in all copies: a number, or (n (C - 1),)."""
        if np.ndim(self.copies) == 0 and self.parts == 1:
            return self.copies
        return np.broadcast_to(self.copies * self.parts, self.others.shape).ravel()

    def table(self, x: np.ndarray) -> np.ndarray:
        """Return contrasts (n (C - 1),) as (n, C - 1)."""
        return x.reshape(self.others.shape)

    def pi(self, tau: np.ndarray) -> np.ndarray:
        """Return π (n, C) of the latent values. [RJV] (12)"""
        pi = np.ones((len(self.y), self.n_classes))
        pi.ravel()[self._others] = self.table(tau)
        return pi

    def to_classes(self, x: np.ndarray) -> np.ndarray:
        """Return B x (n, C): class y gets the sum of its contrasts, each other class the negative of its contrast."""
        x = self.table(x)
        out = np.empty((len(self.y), self.n_classes))
        out.ravel()[self._others] = -x
        out.ravel()[self._own[:, 0]] = x.sum(1)
        return out

    def to_contrasts(self, f: np.ndarray) -> np.ndarray:
        """Return Bᵀ f (n, C - 1) for f (n, C)."""
        return f.take(self._own) - f.take(self._others)

    def times(self, alpha: np.ndarray) -> np.ndarray:
        """Return the prior covariance of the contrasts times α."""
        by_class = self.to_classes(alpha)
        K = np.broadcast_to(self.K, (self.n_classes, *self.K.shape[-2:]))
        f = np.stack([K[c] @ by_class[:, c] for c in range(self.n_classes)], axis=1)
        return (self.to_contrasts(f) + by_class.take(self._own) / self.copies).ravel()


class _ContrastSystem:
    """The linear algebra of the contrasts for sites of precision τ (of all copies together), with u integrated out."""

    def __init__(self, prior: ContrastPrior, tau: np.ndarray):
        self.prior, self.tau = prior, prior.table(tau) / prior.copies  # of one copy
        self.total = 1 + self.tau.sum(1)  # (n,) 1ᵀπ of one copy
        self.coupled = CoupledSystem(prior.K, prior.copies * prior.pi(self.tau)) if np.any(tau) else None
        # log|I + (prior covariance of the contrasts) T| = log|A| + log|P|, plus log 1ᵀπ for each copy after the first
        self.log_det = 0.0
        if self.coupled:
            copies = np.ravel(prior.copies)
            self.log_det = self.coupled.log_det_parts + float(np.sum((copies - 1) * np.log(self.total) - np.log(copies)))

    def latent_nu(self, nu: np.ndarray) -> np.ndarray:
        """Return ν (n, C) of the latent values: B(ν - τ 1ᵀν/(1ᵀπ)). [RJV] (15)"""
        nu = self.prior.table(nu)
        return self.prior.to_classes(nu - self.tau * (nu.sum(1) / self.total)[:, None])

    def solve(self, nu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (α, mean) of the contrasts for ν."""
        if self.coupled is None:
            return nu, self.prior.times(nu)
        d = self.prior.to_contrasts(self.coupled.solve(self.latent_nu(nu))[1])
        pull = np.sum(self.prior.table(nu) / self.prior.copies - self.tau * d, axis=1)
        g = d + (pull / self.total)[:, None]
        return nu - (self.prior.copies * self.tau * g).ravel(), g.ravel()

    @cached_property
    def var(self) -> np.ndarray:
        """(n (C - 1),) marginal variances of the contrasts."""
        prior = self.prior
        if self.coupled is None:
            return prior.var
        # g_j = d_j - τᵀd/(1ᵀπ) + noise with d_j = f_y - f_j: the covariances of d with each other, contracted with τ/(1ᵀπ)
        S = self.coupled.cov
        w = prior.to_classes(self.tau) / self.total[:, None]  # τᵀd/(1ᵀπ) as a combination of latent values
        Sw = np.matmul(S, w[:, :, None])[:, :, 0]
        # the variance of d_j is S_yy - 2 S_yj + S_jj
        var, cross = np.einsum("icc->ic", S), S[np.arange(len(S)), prior.y]
        plain = np.take_along_axis(var, prior.y[:, None], 1) + np.take_along_axis(var - 2 * cross, prior.others, 1)
        noise = np.einsum("ic,ic->i", w, Sw) + 1 / self.total
        return (plain - 2 * prior.to_contrasts(Sw) + noise[:, None]).ravel()

    def squared_covariances(self, rows: np.ndarray) -> np.ndarray:
        """Return the squares (m, m) of the posterior covariances between contrasts `rows` (m,), sorted by their class j.

        A contrast is Σ_c β_c f_c - f_j + noise, β = π/(1ᵀπ). The covariance of f_c with f_d is W_c W_dᵀ, plus N_c if c = d.
        Single precision suffices for predictions.
        """
        assert self.coupled is not None, "without sites there are no covariances to predict"
        datum, other = self.split(rows)
        beta = (self.prior.pi(self.tau) / self.total[:, None]).astype(np.float32)  # (n, C)
        own, white = zip(*(self.coupled.covariance_parts(c) for c in range(self.prior.n_classes)), strict=True)
        common = sum(b[:, None] * N * b for b, N in zip(beta.T, own, strict=True))
        common.ravel()[:: len(common) + 1] += 1 / self.total  # contrasts of a datum share their noise
        lead = sum(b[:, None] * W for b, W in zip(beta.T, white, strict=True))
        ends = np.searchsorted(other, np.arange(self.prior.n_classes + 1))
        parts = [slice(i, j) for i, j in pairwise(ends)]
        half = np.concatenate([(lead - W)[datum[part]] for W, part in zip(white, parts, strict=True)])
        cov = half @ half.T
        for j, at in enumerate(parts):
            first = (common - own[j] * beta[:, j])[datum[at]]  # without the terms of the other contrast's class
            for c, to in enumerate(parts[: j + 1]):
                block = first - beta[datum[at], c, None] * own[c][datum[at]]
                if c == j:
                    block += own[j][datum[at]]
                cov[at, to] += block[:, datum[to]]
                cov[to, at] = cov[at, to].T
        return np.square(cov, out=cov)

    def split(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the datum (m,) and the class j ≠ y (m,) of each of the contrasts `rows` (m,)."""
        datum, place = np.divmod(rows, self.prior.others.shape[1])
        return datum, self.prior.others[datum, place]


class ContrastPosterior:
    """The posterior of the contrasts of all data, with a scalar site on each.

    It has the interface of `FullPosterior`, so the rules and the loop of the binary engines apply. With u integrated out it
    is a `CoupledPosterior` with π = 1 for class y and π = τ for the other classes. [RJV] (12)-(16)
    """

    def __init__(self, prior: ContrastPrior, sites: Sites, system=None, moments=None):  # last two: see `shifted`
        self.prior, self.sites = prior, sites
        self._system = system or _ContrastSystem(prior, sites.tau)
        self.K, self.prior_var, self.log_det = prior.K, prior.var, self._system.log_det
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
        if self._system.coupled is not None:
            self._system.coupled.forget()
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
        """Return the response of the marginal variances to changes of τ; None without sites or with several copies.

        At most 2 √(C + 1) n contrasts are used, so that the response needs no more memory than the factorisation.
        """
        if np.ndim(self.weight) or self._system.coupled is None:
            return None
        rows = strong_sites(self.sites.tau, self.var, int(2 * np.sqrt(1 + self.prior.n_classes) * len(self.prior.y)))
        rows = rows[np.argsort(self._system.split(rows)[1], kind="stable")]
        return Response([(rows, self._system.squared_covariances(rows))])

    def cavity(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean and variance of each contrast of one copy without its site, or without that of one part."""
        var = self._system.var
        var = var / (1 - self.each.tau * var)
        return self.mean - var * self.slope, var

    @property
    def log_partition(self) -> float:
        return 0.5 * float(self.sites.nu @ self.mean) - 0.5 * self.log_det

    @property
    def rounding(self) -> float:
        """Effect of rounding on the marginals, in standard deviations: eps × condition of A."""
        coupled = self._system.coupled
        if coupled is not None and coupled.dtype == np.float32:
            return coupled.rounding  # a typical error; the bound below would rule out float32 beyond a few hundred rows
        return STALL_FACTOR[np.float64] * EPS * (1 + float(np.max(self.prior_var * self.sites.tau)) * len(self.prior.y))

    # in terms of the classes ----------------------------------------------------------------------------------------

    @cached_property
    def latent(self) -> CoupledPosterior:
        """The posterior of the latent functions, with u integrated out."""
        system, sites = self._system, self.sites
        pi = self.prior.copies * self.prior.pi(system.tau)
        return CoupledPosterior(self.K, pi, system.latent_nu(sites.nu), system.coupled)

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
        return self.latent.gradient()
