"""The linear algebra of contrasts with scalar sites, in two forms.

`CoupledContrasts` uses C + 1 factorisations of n × n. `DenseContrasts` uses one of all n (C - 1) contrasts, which takes less
time for up to three classes. Both give the same numbers, up to rounding.

A datum that stands for several copies has one noise u for each. Sites of the copies are equal, so the mean of its contrasts
over the copies has noise of variance 1/copies and the sites of all copies. Differences between copies have no mean, and
their variance is (1 - 1/copies)/(1ᵀπ).
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from .contrast_prior import ContrastPrior
from .coupled_system import CoupledSystem
from .full import FullPosterior
from .nearby import Response, strong_sites
from .sites import Sites

# With (C - 1) n contrasts a factorisation and an inverse of a triangle take ⅔ (C - 1)³ n³ operations. The coupled form takes
# (2 C + ⅔) n³, in smaller matrices. For C = 3 these are 5.3 and 6.7 n³, for C = 4 they are 18 and 8.7 n³.
DENSE_CLASSES = 3  # largest number of classes for which the dense form is used


def contrast_system(prior: ContrastPrior, tau: np.ndarray) -> CoupledContrasts | DenseContrasts:
    """Return the linear algebra for sites of precision τ (of all copies together), in the form that takes less time."""
    return DenseContrasts(prior, tau) if prior.n_classes <= DENSE_CLASSES else CoupledContrasts(prior, tau)


class ContrastSystem:
    """What both forms share. Both have `log_det`, `rounding`, `solve`, `response` and `gradient`."""

    log_det: Any  # log|I + (prior covariance of the contrasts) T|

    def __init__(self, prior: ContrastPrior, tau: np.ndarray):
        self.prior, self.tau = prior, prior.table(tau) / prior.copies  # of one copy
        self.any_sites = bool(tau.any())

    @cached_property
    def total(self) -> np.ndarray:
        """(n,) 1ᵀπ of one copy."""
        return 1 + self.tau.sum(1)

    @cached_property
    def pi(self) -> np.ndarray:
        """(n, C) π of the latent values, of all copies together."""
        return self.prior.copies * self.prior.pi(self.tau)

    @cached_property
    def coupled(self) -> CoupledSystem:
        """The linear algebra of the latent values, with u integrated out."""
        return CoupledSystem(self.prior.K, self.pi)

    @cached_property
    def var(self) -> np.ndarray:
        """(n (C - 1),) marginal variances of the contrasts of one copy."""
        return self._variances() if self.any_sites else self.prior.var

    def _variances(self) -> np.ndarray:
        raise NotImplementedError

    @cached_property
    def cavity_var(self) -> np.ndarray:
        """Variances of the contrasts of one copy without its site, or without that of one part."""
        return self.var / (1 - self.tau.ravel() / self.prior.parts * self.var)

    def latent_nu(self, nu: np.ndarray) -> np.ndarray:
        """Return ν (n, C) of the latent values: B(ν - τ 1ᵀν/(1ᵀπ)). [RJV] (15)"""
        nu = self.prior.table(nu)
        return self.prior.to_classes(nu - self.tau * (nu.sum(1) / self.total)[:, None])


class CoupledContrasts(ContrastSystem):
    """By the linear algebra of the latent values, from which contrasts are computed."""

    def __init__(self, prior: ContrastPrior, tau: np.ndarray):
        super().__init__(prior, tau)
        # log|A| + log|P|, plus log 1ᵀπ for each copy after the first
        self.log_det = 0.0
        if self.any_sites:
            copies = np.ravel(prior.copies)
            self.log_det = self.coupled.log_det_parts + float(np.sum((copies - 1) * np.log(self.total) - np.log(copies)))

    @property
    def rounding(self) -> float | None:
        """Effect of rounding on the marginals with float32 factors, in standard deviations; None with float64 factors."""
        return self.coupled.rounding if self.any_sites and self.coupled.dtype == np.float32 else None

    def solve(self, nu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (α, mean) of the contrasts for ν."""
        if not self.any_sites:
            return nu, self.prior.times(nu)
        d = self.prior.to_contrasts(self.coupled.solve(self.latent_nu(nu))[1])
        pull = np.sum(self.prior.table(nu) / self.prior.copies - self.tau * d, axis=1)
        g = d + (pull / self.total)[:, None]
        return nu - (self.prior.copies * self.tau * g).ravel(), g.ravel()

    def _variances(self):
        prior = self.prior
        # g_j = d_j - τᵀd/(1ᵀπ) + noise with d_j = f_y - f_j: the covariances of d with each other, contracted with τ/(1ᵀπ)
        S = self.coupled.cov
        w = prior.to_classes(self.tau) / self.total[:, None]  # τᵀd/(1ᵀπ) as a combination of latent values
        Sw = np.matmul(S, w[:, :, None])[:, :, 0]
        # the variance of d_j is S_yy - 2 S_yj + S_jj
        var, cross = np.einsum("icc->ic", S), S[np.arange(len(S)), prior.y]
        plain = np.take_along_axis(var, prior.y[:, None], 1) + np.take_along_axis(var - 2 * cross, prior.others, 1)
        noise = np.einsum("ic,ic->i", w, Sw) + 1 / self.total
        return (plain - 2 * prior.to_contrasts(Sw) + noise[:, None]).ravel()

    def response(self, tau: np.ndarray) -> Response:
        """Return the response of the marginal variances to changes of τ. Needs sites.

        At most 2 √(C + 1) n contrasts are used, so that the response needs no more memory than the factorisation.
        """
        rows = strong_sites(tau, self.var, int(2 * np.sqrt(1 + self.prior.n_classes) * len(self.prior.y)))
        rows = rows[np.argsort(self._split(rows)[1], kind="stable")]
        return Response([(rows, self._squared_covariances(rows))])

    def gradient(self, nu: np.ndarray, alpha: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Return the derivative of the log partition function in K for ν, whose (α, mean) are given."""
        return self.coupled.gradient(self.coupled.solve(self.latent_nu(nu))[0])

    def _squared_covariances(self, rows: np.ndarray) -> np.ndarray:
        """Return the squares (m, m) of the posterior covariances between contrasts `rows` (m,), sorted by their class j.

        A contrast is Σ_c β_c f_c - f_j + noise, β = π/(1ᵀπ). The covariance of f_c with f_d is W_c W_dᵀ, plus N_c if c = d.
        Single precision suffices for predictions.
        """
        datum, other = self._split(rows)
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

    def _split(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the datum (m,) and the class j ≠ y (m,) of each of the contrasts `rows` (m,)."""
        datum, place = np.divmod(rows, self.prior.others.shape[1])
        return datum, self.prior.others[datum, place]

    def forget(self) -> None:
        """Free the arrays that can be recomputed."""
        if self.any_sites:
            self.coupled.forget()


class DenseContrasts(ContrastSystem):
    """By a `FullPosterior` of all contrasts, averaged over the copies of each datum."""

    def __init__(self, prior: ContrastPrior, tau: np.ndarray):
        super().__init__(prior, tau)
        none = np.zeros_like(tau)
        self.averages = FullPosterior(prior.covariance, Sites(tau, none), moments=(none, none))

    @property
    def log_det(self) -> float:
        return self.averages.log_det + float(np.sum((np.ravel(self.prior.copies) - 1) * np.log(self.total)))

    @property
    def rounding(self) -> float | None:
        """Effect of rounding on the marginals with float32 factors, in standard deviations; None with float64 factors."""
        return self.averages.rounding if self.averages.dtype == np.float32 else None

    def solve(self, nu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (α, mean) of the contrasts for ν."""
        return self.averages.covariance_step(nu)

    def _variances(self):
        if np.ndim(self.prior.copies) == 0 and self.prior.copies == 1:
            return self.averages.var
        apart = (1 - 1 / self.prior.copies) / self.total[:, None]
        return (self.prior.table(self.averages.var) + apart).ravel()

    def response(self, tau: np.ndarray) -> Response | None:
        """Return the response of the marginal variances to changes of τ, for one copy of each datum."""
        return self.averages.response()

    def gradient(self, nu: np.ndarray, alpha: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Return the derivative of the log partition function in K for ν, whose (α, mean) are given."""
        return self.prior.to_inputs(self.averages.shifted(alpha, mean).gradient())

    def forget(self) -> None:
        """Free the arrays that can be recomputed: none."""
