"""A step on a minibatch, as two pure functions.

    contribution(broadcast, K_fu, k_diag, y, sites)   what some rows add to the sums, and their own results
    apply(broadcast, sums)                            the next state, from the sums over all rows of the minibatch

Sums over parts of a minibatch add up, so the rows of one minibatch can be distributed over several processes. The size of
`Broadcast` and `Sums` does not depend on the number of rows. Results of single rows (their new sites, the derivatives
in their covariances) stay in the process that has the rows.

[VC] Villacampa-Calvo 2017, chapter 5 and appendix B.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from ...gaussian.low_rank import LowRankPosterior, LowRankPrior, Rows
from ...gaussian.low_rank_matrices import GradientSum, LowRankMatrices
from ...numerics import NotPositiveDefinite
from ..fit import check_weights
from ..observations import Data, data_of

NO_MOVE = 1e-10  # smaller moves of hyperparameters, in their own units, count as none: rounding moves sites by more

RowSites = dict[str, np.ndarray]  # values stored for each row, (n, …) each


@dataclass(frozen=True)
class State:
    """Information about the inducing variables, as natural parameters that do not change with the hyperparameters."""

    P: np.ndarray  # (C, M, M) sum of the sites' precisions, in terms of u; (1, C M, C M) if classes are coupled
    h: np.ndarray  # (C, M) or (1, C M) sum of the sites' precisions times means
    fresh_P: np.ndarray  # P and h of the rows of this pass only, for engines that keep sites of rows
    fresh_h: np.ndarray
    seen: int = 0  # rows processed so far, in all passes
    passed: int = 0  # rows processed in this pass
    steps: int = 0
    moved: float = 0.0  # move of hyperparameters and inducing inputs in this pass
    moved_before: float = 0.0  # the same in the previous pass

    @staticmethod
    def empty(n_latents: int, M: int, structure: type[LowRankPrior] = LowRankPrior) -> State:
        P, h = structure.no_sites(n_latents, M)
        return State(P, h, P, h)

    @property
    def age(self) -> float:
        """Upper bound of the move of hyperparameters and inducing inputs since a row's site was computed."""
        return self.moved_before + self.moved


@dataclass(frozen=True)
class Broadcast:
    """Inputs of a minibatch computation that are the same in every process."""

    engine: Any
    likelihood: Any
    K_uu: np.ndarray  # (1 or C, M, M)
    state: State
    n_total: int  # rows of the whole data set
    rows: int  # rows of this minibatch
    size: int  # rows of a full minibatch; this one may have fewer and then counts for less
    weight: float | None = None  # weight of the whole data set; None: one for each row

    @property
    def copies(self) -> float:
        """Weight of the whole data set."""
        return self.n_total if self.weight is None else self.weight

    @property
    def share(self) -> float:
        """Factor that makes a sum over the rows of this minibatch an estimate of the sum over all rows."""
        return self.n_total / self.rows

    @cached_property
    def stage(self) -> Any:
        """The engine of this step: the given one, or one that computes initial sites for it."""
        return self.engine.stage(self.state, self.n_total, self.likelihood)

    @cached_property
    def prior(self) -> LowRankPrior:
        return self.engine.prior(self.K_uu, self.likelihood)

    @cached_property
    def posterior(self) -> LowRankPosterior:
        """The posterior before the step."""
        return repaired(self.prior, *self._whitened)

    @cached_property
    def _whitened(self) -> tuple[np.ndarray, np.ndarray]:
        return self.prior.whitened(self.state.P, self.state.h)

    @cached_property
    def before(self) -> State:
        """The state, with P and h of the posterior if it had to be repaired: new sites are added to these."""
        if self.posterior.S is self._whitened[0]:
            return self.state
        P, h = self.prior.coloured(self.posterior.S, self.posterior.pull)
        return replace(self.state, P=P, h=h)

    @cached_property
    def source(self) -> LowRankPosterior:
        """The posterior from which the rule's marginals are computed."""
        return self.stage.source(self.posterior, self.copies, self.likelihood)


@dataclass(frozen=True)
class Sums:
    """Contributions of some rows to a step."""

    rows: int
    value: float  # contribution to the evidence besides the posterior's own term
    theta: np.ndarray  # (p,) its derivative in the likelihood's parameters
    inner: np.ndarray  # (1 or C, M, M) contribution to the derivative in K_uu; see `GradientSum`
    P: np.ndarray  # precisions of the new sites, in terms of u; in the shapes of `State`
    h: np.ndarray  # precisions times means
    old_P: np.ndarray  # of the replaced sites if the engine subtracts them, else the number zero
    old_h: np.ndarray

    def __add__(self, other: Sums) -> Sums:
        return Sums(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Sums)))


@dataclass(frozen=True)
class Contribution:
    """Results of some rows."""

    sums: Sums
    fu: np.ndarray  # (1 or C, m, M) derivative of the estimate of the evidence in K_fu
    diag: np.ndarray  # (1 or C, m) derivative in k_diag
    sites: RowSites  # new sites of these rows; empty for engines that keep none


@dataclass(frozen=True)
class MinibatchStep:
    """Result of one minibatch: estimates with the sites before the step, and the state after it."""

    log_evidence: float  # unbiased for that of all rows at fixed sites; NaN while some rows have no sites yet
    uu: np.ndarray  # (1 or C, M, M) its derivative in K_uu
    theta: np.ndarray  # (p,) and in the likelihood's parameters
    state: State


def contribution(broadcast: Broadcast, K_fu: np.ndarray, k_diag: np.ndarray, y: Any, sites: RowSites) -> Contribution:
    """Return the contributions to a step of rows with targets y, an array or `Observed`, and their own sites. [VC] (5.22)

    K_fu (1 or C, m, M) and k_diag (1 or C, m) are their covariances, as returned by `LowRankMatrices.checked`. Stored sites
    are those of one copy of a row; sums contain all copies.
    """
    engine, likelihood, prior = broadcast.stage, broadcast.likelihood, broadcast.prior
    rows = prior.rows(K_fu, k_diag)
    at = broadcast.source.marginals(rows, slopes=True)
    check_weights(broadcast.engine, y, likelihood)
    data = data_of(engine, y, likelihood)
    each = engine.rule(likelihood, broadcast.copies, loose=broadcast.state.age > NO_MOVE)(at, data.y, sites)
    message = each.times(data.weight)
    gradient = GradientSum(prior)
    fu, diag = gradient.add(at, message.slope, message.spread, message.excess, broadcast.share)
    W = prior.weights(rows)
    new = engine.moved_sites(broadcast, each, sites)
    P, h = prior.site_sums(W, *(_totals(engine, new, data, rows) if new else (message.tau, message.nu)))
    old = np.zeros(()), np.zeros(())
    if engine.takes_out(broadcast):
        old = prior.site_sums(W, *_totals(engine, sites, data, rows))
    value, theta = float(np.sum(message.value)), message.theta.sum(1)
    return Contribution(Sums(len(data.y), value, theta, gradient.inner, P, h, *old), fu, diag, new)


def _totals(engine: Any, sites: RowSites, data: Data, rows: Rows) -> list[np.ndarray]:
    """Return the sites (m, C) on g of all copies of each row."""
    return [of_all_copies(x, data) for x in engine.totals(sites, data.y, rows.residual)]


def of_all_copies(x: np.ndarray, data: Data) -> np.ndarray:
    """Return the sites (m, C) of all copies of each row from those of one copy."""
    return x if data.plain else np.asarray(data.weight)[:, None] * x


def apply(broadcast: Broadcast, sums: Sums) -> MinibatchStep:
    """Return the step for the sums over all rows of a minibatch. [VC] (5.22)"""
    engine, q, state = broadcast.stage, broadcast.posterior, broadcast.state
    constant = engine.constant(q, broadcast.source, broadcast.copies, broadcast.likelihood)
    value = q.log_partition + broadcast.share * sums.value + constant
    unknown = engine.keeps_rows and 0 < state.seen < broadcast.n_total
    if unknown or engine is not broadcast.engine:  # some rows have no sites, or the evidence is that of another engine
        value = np.nan
    new = replace(engine.absorb(broadcast, sums), steps=state.steps + 1)
    return MinibatchStep(value, GradientSum(broadcast.prior, sums.inner).uu(q), broadcast.share * sums.theta, new)


def take_step(
    engine: Any, state: State, K: LowRankMatrices, y: Any, sites: RowSites, n_total: int, likelihood, size=None, weight=None
) -> tuple[MinibatchStep, Contribution]:
    """Take a step on rows in one process, with targets y, an array or `Observed`.

    `size` and `weight` are as in `Broadcast`. The default of `size` is the number of these rows.
    """
    if not engine.minibatches:
        raise TypeError(f"{type(engine).__name__} takes all rows at once. ScalableEP supports minibatches.")
    engine.check_likelihood(likelihood)
    K = K.checked(len(y), likelihood.n_latents)
    broadcast = Broadcast(engine, likelihood, K.K_uu, state, n_total, len(y), len(y) if size is None else size, weight)
    part = contribution(broadcast, K.K_fu, K.k_diag, y, sites)
    return apply(broadcast, part.sums), part


def repaired(prior: LowRankPrior, S: np.ndarray, pull: np.ndarray) -> LowRankPosterior:
    """Return the posterior for natural parameters learned under another prior, without parts that make it improper."""
    try:
        return prior.posterior(S, pull)
    except NotPositiveDefinite:
        value, vector = np.linalg.eigh(0.5 * (S + np.swapaxes(S, 1, 2)))
        kept = np.maximum(value, -0.5)
        return prior.posterior(np.einsum("cij,cj,ckj->cik", vector, kept, vector), pull)
