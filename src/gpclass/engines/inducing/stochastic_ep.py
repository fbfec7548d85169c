"""Stochastic expectation propagation: scalable EP that remembers the product of all sites only.

Every factor is taken to have the same site, the Ñ-th part of the product, so that one cavity serves all of them; a row's new
site replaces such a part. Memory is that of M × M matrices for each class, however many rows there are.

[VC] Villacampa-Calvo 2017, section 5.2.2.   Li, Hernández-Lobato & Turner 2015.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ...gaussian.low_rank import LowRankPosterior, Marginals
from .engine import LowRankEngine, Message, RowRule
from .scalable_ep import FACTORS, ScalableEP, step_part
from .step import Broadcast, RowSites, State, Sums
from .training import Training


@dataclass(frozen=True)
class StochasticEP(LowRankEngine, Training):
    """EP with tied sites; all rows or a minibatch at a time."""

    factors: str = "auto"  # "pairwise": a factor for each wrong class; "joint": one; "auto": pairwise where there is no ε
    damping: float = 1.0  # part of each step that is taken; lowered by itself where sweeps do not settle
    tol: float = 1e-6  # largest move, in posterior standard deviations, that counts as standing still
    max_iter: int = 500  # sweeps
    jitter: float = 1e-6  # noise on inducing variables, relative to their variance

    settles: ClassVar = False  # tied sites are no stationary point of the evidence

    def __post_init__(self):
        super().__post_init__()
        if self.factors not in FACTORS:
            raise ValueError(f"factors must be one of {', '.join(map(repr, FACTORS))}, but is {self.factors!r}")

    @property
    def _untied(self) -> ScalableEP:
        return ScalableEP(self.factors)

    def needed(self, likelihood) -> tuple[str, ...]:
        return self._untied.needed(likelihood)

    def evidence_is_comparable(self, likelihood) -> bool:
        return self._untied.evidence_is_comparable(likelihood)

    def n_factors(self, n_total: int, likelihood) -> int:
        return n_total * (likelihood.n_latents - 1 if self._untied.pairwise(likelihood) else 1)

    def rule(self, likelihood, n_total: int, loose: bool = False) -> RowRule:
        return TiedRule(self._untied.rule(likelihood, n_total, loose), self._untied.row_sites(1, likelihood))

    def latent_marginals(
        self, g: Marginals, message: Message, y: np.ndarray, likelihood
    ) -> tuple[np.ndarray, np.ndarray]:
        """As for ScalableEP: where sweeps have settled, q is the prior times the sites that each row would have."""
        return self._untied.latent_marginals(g, message, y, likelihood)

    def source(self, q: LowRankPosterior, n_total: int, likelihood) -> LowRankPosterior:
        """The cavity of all factors."""
        left = 1 - 1 / self.n_factors(n_total, likelihood)
        return LowRankPosterior(q.prior, left * q.S, left * q.pull)

    def constant(self, q: LowRankPosterior, source: LowRankPosterior, n_total: int, likelihood) -> float:
        """Σ g(cavity) - g(q) over factors. (5.18)"""
        return self.n_factors(n_total, likelihood) * (source.log_partition - q.log_partition)

    def absorb(self, broadcast: Broadcast, sums: Sums) -> State:
        """Each row's new site replaces the n-th part of the product; the first rows stand for all."""
        state, n_total = broadcast.before, broadcast.n_total
        whole = state.seen >= n_total or not broadcast.likelihood.log_concave
        part = step_part(self.damping, sums.rows, n_total)
        rate = part * sums.rows / n_total if whole else sums.rows / (state.seen + sums.rows)
        return averaged(broadcast, sums, rate)


def averaged(broadcast: Broadcast, sums: Sums, rate: float) -> State:
    """The sum of sites moved part of the way to what these rows, as many as there are in all, would make it."""
    state, share = broadcast.before, rate * broadcast.share
    P, h = (1 - rate) * state.P + share * sums.P, (1 - rate) * state.h + share * sums.h
    return replace(state, P=P, h=h, seen=state.seen + sums.rows)


@dataclass(frozen=True)
class TiedRule:
    """A rule whose rows have no sites of their own: marginals are cavities."""

    rule: RowRule
    none: RowSites  # of one row

    def __call__(self, at: Marginals, y: np.ndarray, sites: RowSites) -> Message:
        message = self.rule(at, y, {name: np.zeros((len(y), part.shape[1])) for name, part in self.none.items()})
        return replace(message, sites={**message.sites, "tau": message.tau, "nu": message.nu})
