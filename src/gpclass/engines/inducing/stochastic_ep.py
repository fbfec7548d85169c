"""Stochastic expectation propagation: scalable EP that stores only the product of all sites.

All factors have the same site, the Ñ-th root of the product, and so the same cavity. The new site of a row replaces one such
root. Memory is that of M × M matrices for each class, independent of the number of rows. A row of weight w counts as w such
sites, for any w: all cavities are the same, so powers of the likelihood are not needed.

[VC] Villacampa-Calvo 2017, section 5.2.2.   Li, Hernández-Lobato & Turner 2015.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ...gaussian.low_rank import LowRankPosterior, Marginals
from .engine import LowRankEngine, Message, RowRule
from .kept_sites import step_part
from .scalable_ep import ScalableEP, check_factors
from .step import Broadcast, RowSites, State, Sums
from .training import Training


@dataclass(frozen=True)
class StochasticEP(LowRankEngine, Training):
    """EP with tied sites, on all rows or on minibatches."""

    factors: str = "auto"  # "pairwise": a factor for each wrong class; "joint": one; "auto": pairwise if there is no ε
    damping: float = 1.0  # fraction of each step; lowered automatically if sweeps do not converge
    tol: float = 1e-6  # largest move of a converged run, in posterior standard deviations
    max_iter: int = 500  # sweeps
    jitter: float = 1e-6  # noise on inducing variables, relative to their variance

    settles: ClassVar = False  # tied sites are not a stationary point of the evidence
    consistent: ClassVar = False  # sites are computed under the cavity of an average site

    def __post_init__(self):
        super().__post_init__()
        check_factors(self.factors)

    @property
    def _untied(self) -> ScalableEP:
        return ScalableEP(self.factors)

    def needed(self, likelihood) -> tuple[str, ...]:
        return self._untied.needed(likelihood)

    def evidence_is_comparable(self, likelihood) -> bool:
        return self._untied.evidence_is_comparable(likelihood)

    def n_factors(self, n_total: float, likelihood) -> float:
        return self._untied.n_factors(n_total, likelihood)

    def rule(self, likelihood, n_total: float, loose: bool = False) -> RowRule:
        return TiedRule(self._untied.rule(likelihood, n_total, loose), self._untied.row_sites(1, likelihood))

    def latent_marginals(
        self, g: Marginals, message: Message, y: np.ndarray, likelihood
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return those of ScalableEP: after convergence q is the prior times the sites that each row would have."""
        return self._untied.latent_marginals(g, message, y, likelihood)

    def source(self, q: LowRankPosterior, n_total: float, likelihood) -> LowRankPosterior:
        """Return the common cavity of all factors."""
        left = 1 - 1 / self.n_factors(n_total, likelihood)
        return q.prior.posterior(left * q.S, left * q.pull)

    def constant(self, q: LowRankPosterior, source: LowRankPosterior, n_total: float, likelihood) -> float:
        """Return Σ g(cavity) - g(q) over factors. (5.18)"""
        return self.n_factors(n_total, likelihood) * (source.log_partition - q.log_partition)

    def absorb(self, broadcast: Broadcast, sums: Sums) -> State:
        """Replace the n-th part of the sum of sites by each row's new site; the first rows are scaled up to all rows."""
        state, n_total = broadcast.before, broadcast.n_total
        whole = state.seen >= n_total or not broadcast.likelihood.log_concave
        part = step_part(self.damping, sums.rows, n_total)
        rate = part * sums.rows / n_total if whole else sums.rows / (state.seen + sums.rows)
        return averaged(broadcast, sums, rate)


def averaged(broadcast: Broadcast, sums: Sums, rate: float) -> State:
    """Move the sum of sites a fraction `rate` towards the sum for these rows, scaled up to all rows."""
    state, share = broadcast.before, rate * broadcast.share
    P, h = (1 - rate) * state.P + share * sums.P, (1 - rate) * state.h + share * sums.h
    return replace(state, P=P, h=h, seen=state.seen + sums.rows)


@dataclass(frozen=True)
class TiedRule:
    """A rule whose rows have no own sites: marginals are cavities."""

    rule: RowRule
    none: RowSites  # empty sites of one row

    def __call__(self, at: Marginals, y: np.ndarray, sites: RowSites) -> Message:
        message = self.rule(at, y, {name: np.zeros((len(y), part.shape[1])) for name, part in self.none.items()})
        return replace(message, sites={**message.sites, "tau": message.tau, "nu": message.nu})
