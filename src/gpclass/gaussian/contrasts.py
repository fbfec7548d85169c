"""Contrasts of classes g_ij = f_i^y - f_i^j + u_i, j ≠ y_i, u_i ~ N(0, 1), with scalar sites: for multinomial probit.

[RJV] Riihimäki, Jylänki & Vehtari 2013, section 3.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from .coupled import EPS, CoupledPosterior, CoupledSystem
from .sites import Sites

OF_PRIOR = ("others", "_own", "_others", "prior_var")  # shared by all contrasts of the same prior and labels


def other_classes(y: np.ndarray, n_classes: int) -> np.ndarray:
    """(n, C - 1) all classes other than y, in order."""
    rest = np.arange(n_classes - 1)
    return rest + (rest >= y[:, None])


class ContrastPosterior:
    """Scalar sites on the contrasts of all data.

    As a posterior of the n (C - 1) contrasts it has the interface of `FullPosterior`, so the rules and the loop of the
    binary engines apply. With u integrated out it is a `CoupledPosterior` with π = (τ, and 1 for the own class).
    [RJV] (12)-(16)
    """

    others: np.ndarray  # (n, C - 1) all classes other than y, in order

    def __init__(self, K: np.ndarray, y: np.ndarray, n_classes: int, sites: Sites, system=None, moments=None, known=None):
        self.K, self.y, self.n_classes, self.sites = K, y, n_classes, sites
        self.__dict__.update(known or {"others": other_classes(y, n_classes)})  # reused from an earlier posterior
        self._system = system or (CoupledSystem(K, self._pi()) if np.any(sites.tau) else None)
        self.alpha: np.ndarray
        self.mean: np.ndarray
        self.alpha, self.mean = moments or self.covariance_step(sites.nu)

    def state(self) -> dict[str, np.ndarray]:
        """Everything that `restored` needs except K, the labels and the number of classes."""
        return {"tau": self.sites.tau, "nu": self.sites.nu, "alpha": self.alpha, "mean": self.mean}

    @classmethod
    def restored(cls, K: np.ndarray, y: np.ndarray, n_classes: int, state: Mapping[str, Any]) -> ContrastPosterior:
        """Posterior from its `state`."""
        return cls(K, y, n_classes, Sites(state["tau"], state["nu"]), moments=(state["alpha"], state["mean"]))

    # between contrasts (n (C - 1),) and classes (n, C) --------------------------------------------------------------

    def _table(self, x):
        return x.reshape(len(self.y), self.n_classes - 1)

    @cached_property
    def _own(self) -> np.ndarray:
        """(n, 1) position of each datum's own class in a flat (n, C) array."""
        return (np.arange(len(self.y)) * self.n_classes + self.y)[:, None]

    @cached_property
    def _others(self) -> np.ndarray:
        """(n, C - 1) positions of the other classes."""
        return np.arange(len(self.y))[:, None] * self.n_classes + self.others

    def _pi(self):
        """π (n, C). [RJV] (12)"""
        pi = np.ones((len(self.y), self.n_classes))
        pi.ravel()[self._others] = self._table(self.sites.tau)
        return pi

    def _to_classes(self, x):
        """B x: the own class gets the sum of its contrasts, each other class the negative of its contrast."""
        x = self._table(x)
        out = np.empty((len(self.y), self.n_classes))
        out.ravel()[self._others] = -x
        out.ravel()[self._own[:, 0]] = x.sum(1)
        return out

    def _to_contrasts(self, f):
        """Bᵀ f, (n, C - 1)."""
        return f.take(self._own) - f.take(self._others)

    # interface of the loop ------------------------------------------------------------------------------------------

    def renewed(self, sites: Sites, moments=None) -> ContrastPosterior:
        """The same prior with new sites."""
        if self._system is not None:
            self._system.forget()
        return ContrastPosterior(self.K, self.y, self.n_classes, sites, moments=moments, known=self._known(OF_PRIOR))

    def shifted(self, alpha: np.ndarray, mean: np.ndarray) -> ContrastPosterior:
        """The same τ, with `mean` = (prior covariance) `alpha` added to the mean. Needs no new factorisation."""
        tau = self.sites.tau
        sites, moments = Sites(tau, self.sites.nu + alpha + tau * mean), (self.alpha + alpha, self.mean + mean)
        known = self._known((*OF_PRIOR, "var"))
        return ContrastPosterior(self.K, self.y, self.n_classes, sites, self._system, moments, known)

    def _known(self, names):
        return {name: self.__dict__[name] for name in names if name in self.__dict__}

    def covariance_step(self, nu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(α, mean) of the contrasts for ν under the current τ."""
        tau, table = self._table(self.sites.tau), self._table(nu)
        if self._system is None:
            return nu, self._prior_times(nu)
        # with u integrated out, ν of the latent values is B(ν - τ a), a = 1ᵀν/(1ᵀπ). [RJV] (15)
        a = table.sum(1) / (1 + tau.sum(1))
        _, f = self._system.solve(self._to_classes((table - tau * a[:, None]).ravel()))
        d = self._to_contrasts(f)
        g = d + (a - np.sum(tau * d, axis=1) / (1 + tau.sum(1)))[:, None]
        return nu - self.sites.tau * g.ravel(), g.ravel()

    def _prior_times(self, alpha):
        """Prior covariance of the contrasts times α."""
        by_class = self._to_classes(alpha)
        K = np.broadcast_to(self.K, (self.n_classes, *self.K.shape)) if self.K.ndim == 2 else self.K
        f = np.stack([K[c] @ by_class[:, c] for c in range(self.n_classes)], axis=1)
        return (self._to_contrasts(f) + by_class.take(self._own)).ravel()

    @property
    def size(self) -> int:
        return len(self.sites.tau)

    @cached_property
    def prior_var(self) -> np.ndarray:
        diagonal = np.diagonal(self.K, axis1=-2, axis2=-1)
        by_class = np.broadcast_to(diagonal, (self.n_classes, len(self.y))).T
        return (by_class.take(self._own) + by_class.take(self._others) + 1).ravel()

    @cached_property
    def var(self) -> np.ndarray:
        """Marginal variances of the contrasts."""
        if self._system is None:
            return self.prior_var
        tau = self._table(self.sites.tau)
        total = 1 + tau.sum(1)
        # g_j = d_j - τᵀd/(1ᵀπ) + noise with d_j = f_y - f_j: the covariances of d with each other, contracted with τ/(1ᵀπ)
        S = self._system.cov
        w = self._to_classes(self.sites.tau) / total[:, None]  # τᵀd/(1ᵀπ) as a combination of latent values
        Sw = np.matmul(S, w[:, :, None])[:, :, 0]
        var, cross = np.einsum("icc->ic", S), S[np.arange(len(S)), self.y]
        plain = var.take(self._own) + (var - 2 * cross).take(self._others)
        noise = np.einsum("ic,ic->i", w, Sw) + 1 / total
        return (plain - 2 * self._to_contrasts(Sw) + noise[:, None]).ravel()

    @property
    def kept(self) -> np.ndarray:
        """1 - τ var."""
        return 1 - self.sites.tau * self.var

    def cavity(self) -> tuple[np.ndarray, np.ndarray]:
        var = self.var / self.kept
        return self.mean - var * self.alpha, var

    @property
    def log_det(self) -> float:
        """log|I + (prior covariance of the contrasts) T| = log|A| + log|P|."""
        return self._system.log_det_parts if self._system else 0.0

    @property
    def log_partition(self) -> float:
        return 0.5 * float(self.sites.nu @ self.mean) - 0.5 * self.log_det

    @property
    def rounding(self) -> float:
        """Effect of rounding on the marginals, in standard deviations: eps × condition of A."""
        return 8 * EPS * (1 + float(np.max(self.prior_var * self.sites.tau)) * len(self.y))

    # in terms of the classes ----------------------------------------------------------------------------------------

    @cached_property
    def latent(self) -> CoupledPosterior:
        """The posterior of the latent functions, with u integrated out."""
        tau, nu = self._table(self.sites.tau), self._table(self.sites.nu)
        a = nu.sum(1) / (1 + tau.sum(1))
        return CoupledPosterior(self.K, self._pi(), self._to_classes((nu - tau * a[:, None]).ravel()), self._system)

    def predict(self, Ks: np.ndarray, kd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.latent.predict(Ks, kd)

    def gradient(self) -> np.ndarray:
        return self.latent.gradient()
