"""One latent function per class, independent of each other: C posteriors with scalar sites, stacked class by class.

For the loop it is one posterior of n C latent values, whose sites, means and variances are flat arrays, class by class.
`latent` has them per datum, as the coupled structures do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from .coupled_system import CoupledSystem
from .full import FullPosterior
from .nearby import Response
from .sites import Places, Sites, from_state, sites_and_moments


class StackedPosterior:
    """q(f) = ∏_c q_c(f_c), each a FullPosterior; K is (n, n), shared by all classes, or (C, n, n).

    `coupling` optionally gives the π (n, C) of a coupled posterior that approximates this one. Newton steps of the mean then
    take the dependence between the classes' slopes into account; without it they converge slowly.
    """

    def __init__(
        self,
        K: np.ndarray,
        parts: Sequence[FullPosterior],
        coupling: Callable[[StackedPosterior], np.ndarray] | None = None,
    ):
        self.K, self.parts, self.coupling = K, tuple(parts), coupling
        self.sites = _flat_sites(p.sites for p in self.parts)
        self.alpha, self.mean = self._flat("alpha"), self._flat("mean")  # (C n,) each

    @classmethod
    def without_sites(
        cls, K: np.ndarray, n_classes: int, coupling=None, prior=FullPosterior.without_sites
    ) -> StackedPosterior:
        """Return the prior as a posterior without sites; `prior` makes the part of one class from its K."""
        return cls(K, [prior(k) for k in _by_class(K, n_classes)], coupling)

    def state(self) -> dict[str, np.ndarray]:
        """Return the arrays that `restored` needs besides K; flat."""
        return sites_and_moments(self)

    @classmethod
    def restored(
        cls, K: np.ndarray, n_classes: int, state: Mapping[str, Any], prior=FullPosterior.without_sites
    ) -> StackedPosterior:
        """Rebuild the posterior from its `state`; `prior` as in `without_sites`."""
        return cls.without_sites(K, n_classes, prior=prior).renewed(*from_state(state))

    @property
    def n_classes(self) -> int:
        return len(self.parts)

    def _flat(self, name: str) -> np.ndarray:
        return np.concatenate([getattr(p, name) for p in self.parts])

    def table(self, x: np.ndarray) -> np.ndarray:
        """Return a flat array (C n,) as (n, C)."""
        return x.reshape(self.n_classes, -1).T

    @staticmethod
    def flat(x: np.ndarray) -> np.ndarray:
        """Return (n, C) as a flat array (C n,), class by class. The inverse of `table`."""
        return x.T.ravel()

    # interface of the loop ------------------------------------------------------------------------------------------

    def renewed(self, sites: Sites, moments=None) -> StackedPosterior:
        """Return the posterior with the same prior and new sites."""
        C = self.n_classes
        pairs = zip(np.split(sites.tau, C), np.split(sites.nu, C), strict=True)
        known = [None] * C if moments is None else list(zip(*(np.split(x, C) for x in moments), strict=True))
        parts = [p.renewed(Sites(*s), m) for p, s, m in zip(self.parts, pairs, known, strict=True)]
        return StackedPosterior(self.K, parts, self.coupling)

    def shifted(self, alpha: np.ndarray, mean: np.ndarray) -> StackedPosterior:
        """Return the posterior with the same τ and `mean` = K `alpha` added to the mean, without a new factorisation."""
        C = self.n_classes
        steps = zip(self.parts, np.split(alpha, C), np.split(mean, C), strict=True)
        moved = StackedPosterior(self.K, [p.shifted(a, m) for p, a, m in steps], self.coupling)
        if "_coupled" in self.__dict__:  # accurate enough for the next steps, and much cheaper than a new one
            moved.__dict__["_coupled"] = self._coupled
        return moved

    def covariance_step(self, nu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (α, mean) for ν under the current τ, or under the coupled precision if there is one."""
        if self._coupled is not None:
            return self._coupled_step(self.table(nu))
        steps = [p.covariance_step(part) for p, part in zip(self.parts, np.split(nu, self.n_classes), strict=True)]
        return np.concatenate([a for a, _ in steps]), np.concatenate([m for _, m in steps])

    @cached_property
    def _coupled(self):
        return CoupledSystem(self.K, self._at_places(self.coupling(self))) if self.coupling else None

    def _at_places(self, pi):
        """Return the sums of weight × π (m, C) over the observations of each latent value."""
        return self.places.sum(np.reshape(self.parts[0].weight, (-1, 1)) * pi)

    def _coupled_step(self, nu):
        total = self.places.sum(nu)
        alpha, mean = self._coupled.solve(total)
        # α of an observation is its ν minus its share of ν - α of the place
        share = np.reshape(self.places.shares(self.parts[0].weight), (-1, 1))
        return self.flat(nu - share * self.places.spread(total - alpha)), self.flat(self.places.spread(mean))

    @property
    def places(self) -> Places:
        return self.parts[0].places

    @property
    def weight(self) -> np.ndarray | float:
        """Number of copies of each observation: a number, or flat (C m,)."""
        weight = self.parts[0].weight
        return weight if np.ndim(weight) == 0 else np.tile(weight, self.n_classes)

    @property
    def each(self) -> Sites:
        """The sites of one copy of each observation, flat."""
        return _flat_sites(p.each for p in self.parts)

    @property
    def slope(self) -> np.ndarray:
        return self._flat("slope")

    @property
    def prior_var(self) -> np.ndarray:
        return self._flat("prior_var")

    @cached_property
    def var(self) -> np.ndarray:
        return self._flat("var")

    def cavity(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean and variance of each latent value with its own site removed; flat."""
        mean, var = zip(*(p.cavity() for p in self.parts), strict=True)
        return np.concatenate(mean), np.concatenate(var)

    def response(self) -> Response | None:
        """Return the response of the variances to changes of τ, separately for each class; None if a class has none."""
        parts = [part.response() for part in self.parts]
        size = len(self.mean) // self.n_classes
        blocks = [(c * size + rows, squares) for c, part in enumerate(parts) if part for rows, squares in part.blocks]
        return Response(blocks) if all(parts) else None

    @property
    def log_det(self) -> float:
        """log|I + KT|."""
        return sum(p.log_det for p in self.parts)

    @property
    def log_partition(self) -> float:
        return sum(p.log_partition for p in self.parts)

    @property
    def trace_ratio(self) -> float:
        """tr(V K⁻¹), summed over classes."""
        return sum(p.trace_ratio for p in self.parts)

    @property
    def rounding(self) -> float:
        return max(p.rounding for p in self.parts)

    # in terms of the classes ----------------------------------------------------------------------------------------

    @property
    def latent(self) -> IndependentLatents:
        return IndependentLatents(self)

    def left_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Return mean (m, C) and covariance (m, C, C) of the latent values of each observation without one copy of it."""
        return self.latent.cavity()

    def predict(self, Ks: np.ndarray, kd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean (m, C) and diagonal covariance (m, C, C) at new points; Ks (n, m) or (C, n, m), kd (m,) or (C, m)."""
        Ks, kd = _by_class(Ks, self.n_classes), np.broadcast_to(kd, (self.n_classes, Ks.shape[-1]))
        mean, var = zip(*(p.predict(k, d) for p, k, d in zip(self.parts, Ks, kd, strict=True)), strict=True)
        return np.stack(mean, axis=1), _diagonal(np.stack(var, axis=1))

    def gradient(self) -> np.ndarray:
        """Return ½(α αᵀ - (K + T⁻¹)⁻¹) of each class: summed (n, n) if K is shared, else (C, n, n)."""
        if self.K.ndim == 3:
            return np.stack([p.gradient() for p in self.parts])
        total = self.parts[0].gradient()
        for p in self.parts[1:]:
            total += p.gradient()
        return total


class IndependentLatents:
    """A StackedPosterior per datum: means (n, C) and covariances (n, C, C). Cavities are per observation."""

    def __init__(self, stacked: StackedPosterior):
        self._stacked = stacked
        latents = [part.latent for part in stacked.parts]
        self.mean, self.alpha, self.var = (
            np.stack([getattr(part, name) for part in latents], axis=1) for name in ("mean", "alpha", "var")
        )

    @property
    def cov(self) -> np.ndarray:
        return _diagonal(self.var)

    def cavity(self) -> tuple[np.ndarray, np.ndarray]:
        mean, var = (self._stacked.table(x) for x in self._stacked.cavity())
        return mean, _diagonal(var)


def _flat_sites(parts):
    tau, nu = zip(*((sites.tau, sites.nu) for sites in parts), strict=True)
    return Sites(np.concatenate(tau), np.concatenate(nu))


def _by_class(matrix, n_classes):
    return np.broadcast_to(matrix, (n_classes, *matrix.shape[-2:]))


def _diagonal(var):
    """Return covariances (m, C, C) with var (m, C) on the diagonals."""
    return var[:, :, None] * np.eye(var.shape[1])
