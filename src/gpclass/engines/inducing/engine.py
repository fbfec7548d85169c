"""Base class of engines on inducing points.

A rule computes new sites of some rows from their marginals and current sites, and the rows' contributions to the evidence
and its derivatives (`Message`). Rules of EP need the sites of each row (`row_sites`). Stochastic EP and variational rules
need only the sum of all sites.

[VC] Villacampa-Calvo 2017, chapter 5 and appendix B.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ...gaussian.low_rank import LowRankPosterior, LowRankPrior, Marginals
from .. import Engine
from ..iterate import Status
from ..observations import at_least_one, data_of
from .step import Broadcast, RowSites, State, Sums
from .sweep import InducingFit, sweep_to_convergence


@dataclass(frozen=True)
class Message:
    """The result of a rule for some rows: for one copy of each, if they have weights."""

    value: np.ndarray  # (m,) contributions to the evidence besides the posterior's own term
    tau: np.ndarray  # (m, C) precisions of the new sites, on g; their meaning is that of the prior's `site_sums`
    nu: np.ndarray  # (m, C) precisions times means
    slope: np.ndarray  # (m, C) derivative of the contribution in w_iᵀ m
    spread: np.ndarray  # (m, C) or (m, C, C) factor of V w_i in its derivative in w_i; see `feature_slopes` of the marginals
    excess: np.ndarray  # (m, C) derivative in the variance of f_i
    theta: np.ndarray  # (p, m) derivatives in the likelihood's parameters
    sites: RowSites = field(default_factory=dict)  # new sites of these rows, in the engine's own form

    def times(self, weight: np.ndarray | float) -> Message:
        """Return the message of all copies of each row; `sites` stay those of one copy."""
        if np.ndim(weight) == 0:
            return self
        names = "tau", "nu", "slope", "spread", "excess"
        parts: dict[str, Any] = {name: _by_row(weight, getattr(self, name)) for name in names}
        return replace(self, value=weight * self.value, theta=weight * self.theta, **parts)


class RowRule(Protocol):
    """Function from marginals of some rows to a message.

    `y` are the targets of one copy of each row. If the engine matches moments (`Engine.tempers`) and some rows have weights
    below one, they are records (y, power): the likelihood of the copy is p(y | f)^power. `sites` are those of one copy.
    """

    def __call__(self, at: Marginals, y: np.ndarray, sites: RowSites) -> Message: ...


class LowRankEngine(Engine):
    """Base class of engines on inducing points.

    A subclass is a frozen dataclass of settings with a `rule`. They include those of learning (`Inducing`, `Training`).
    """

    latents: ClassVar = "any"
    design: ClassVar = "inducing inputs"
    weights: ClassVar = "rows"
    minibatches: ClassVar = True
    takes_more: ClassVar = True
    keeps_rows: ClassVar = False  # whether rows keep their own sites between minibatches
    settles: ClassVar = True  # whether the default search on few rows sweeps sites to convergence at each step
    ascends: ClassVar = False  # whether sweeps maximise log_evidence
    consistent: ClassVar = True  # whether converged sites have the derivatives of their factors at the posterior mean

    damping: float
    tol: float
    max_iter: int
    jitter: float

    def size(self, n_rows: int, n_latents: int) -> float:
        return 0.0  # the cost is linear in the rows: there are never too many

    def fit(self, K_uu, K_fu, k_diag, y, likelihood, start: Any = None) -> InducingFit:
        """Fit the posterior at fixed hyperparameters.

        K_uu (M, M), K_fu (n, M) and k_diag (n,) are shared by all classes, or have a leading axis of classes. `start` is an
        earlier fit, or its `row_sites`.
        """
        starter = self.starter(likelihood) if start is None else None
        if starter is not None:
            with without_warnings():
                start = starter.fit(K_uu, K_fu, k_diag, at_least_one(y), likelihood)
        return sweep_to_convergence(self, K_uu, K_fu, k_diag, y, likelihood, start)

    def restore(self, K_uu, y, likelihood, state) -> InducingFit:
        """Restore from the covariances (1 or C, M, M) among the inducing inputs; rows, including y, are not stored."""
        q = LowRankPosterior.restored(self.prior(K_uu, likelihood), state)
        status = Status(**state["status"])
        return InducingFit(self, q, np.zeros(0), likelihood, status, float(state["log_evidence"]), int(state["n_rows"]))

    def structure(self, likelihood) -> type[LowRankPrior]:
        """Return the structure of the posterior of the inducing variables."""
        return LowRankPrior

    def prior(self, K_uu: np.ndarray, likelihood) -> LowRankPrior:
        """Return the prior of the inducing variables with covariances K_uu (M, M) or (1 or C, M, M)."""
        return self.structure(likelihood)(K_uu, likelihood.n_latents, self.jitter)

    def starter(self, likelihood) -> LowRankEngine | None:
        """Return the engine whose sites are the start of a fit without an earlier one, or None if it starts without sites.

        Its targets have weights of at least one (`at_least_one`), so that it need not support powers of the likelihood.
        """
        return None

    def rule(self, likelihood, n_total: float, loose: bool = False) -> RowRule:
        """Return the rule; `loose` if the rows' sites were computed under earlier hyperparameters."""
        raise NotImplementedError

    def row_sites(self, n: int, likelihood) -> RowSites:
        """Return the initial sites of n rows for sweeps over all rows: no information."""
        return {name: np.zeros((n, likelihood.n_latents)) for name in ("tau", "nu")}

    def totals(self, sites: RowSites, y: np.ndarray, residual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the sites (n, C) on g of one copy of each row, from the stored sites."""
        return sites["tau"], sites["nu"]

    def latent_marginals(
        self, g: Marginals, message: Message, y: np.ndarray, likelihood
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return means (m, C) and variances (m, C) or covariances (m, C, C) of f_i = g_i + e_i at some training rows.

        They are computed from those of g_i, for one copy of a row. This version uses a Gaussian site on g_i + e_i. Given
        g_i, e_i is then Gaussian with a mean that is linear in g_i.
        """
        rest = self.rest(g, likelihood)
        tau, nu = sites_on_f(message.tau, message.nu, rest)
        grown = 1 + rest * tau
        return g.mean + rest * (nu - tau * g.mean) / grown, g.var / grown**2 + rest / grown

    def rest(self, g: Marginals, likelihood) -> np.ndarray:
        """Return the (m, C) variances of e_i."""
        return g.rows.residual - self.noise(likelihood)

    def noise(self, likelihood) -> float:
        """Return the variance that is added to the prior variance."""
        return 0.0

    def source(self, q: LowRankPosterior, n_total: float, likelihood) -> LowRankPosterior:
        """Return the posterior from which a rule's marginals are computed; `n_total` is the weight of all rows."""
        return q

    def constant(self, q: LowRankPosterior, source: LowRankPosterior, n_total: float, likelihood) -> float:
        """Return the terms of the evidence besides the posterior's log partition and the rows' contributions."""
        return 0.0

    # minibatches: see `step.py`

    def stage(self, state: State, n_total: int, likelihood) -> LowRankEngine:
        """Return the engine of the next step: this one, or one that computes initial sites for it."""
        return self

    def moved_sites(self, broadcast: Broadcast, message: Message, sites: RowSites) -> RowSites:
        """Return the new sites of rows that keep their own sites between minibatches."""
        return {}

    def n_factors(self, n_total: float, likelihood) -> float:
        """Return the number of factors that rows of this total weight have, at least one."""
        return max(n_total, 1)

    def sites_anew(self, broadcast: Broadcast, K_fu: np.ndarray, k_diag: np.ndarray, y: Any) -> RowSites:
        """Return the sites of rows whose own sites were lost, from the posterior that still contains them.

        The cavity of a factor is the posterior without an average factor, as in stochastic EP. `K_fu` and `k_diag` are as in
        `contribution`.
        """
        q, likelihood, n_total = broadcast.posterior, broadcast.likelihood, broadcast.copies
        left = 1 - 1 / self.n_factors(n_total, likelihood)
        at = q.prior.posterior(left * q.S, left * q.pull).marginals(q.prior.rows(K_fu, k_diag))
        data = data_of(self, y, likelihood)
        none = self.row_sites(len(data.y), likelihood)
        return self.rule(likelihood, n_total, loose=True)(at, data.y, none).sites

    def takes_out(self, broadcast: Broadcast) -> bool:
        """Return whether the step needs the sum of the rows' previous sites (`Sums.old_P`, `Sums.old_h`)."""
        return False

    def absorb(self, broadcast: Broadcast, sums: Sums) -> State:
        """Return the state after a minibatch with these sums."""
        raise NotImplementedError


def _by_row(weight: np.ndarray | float, x: np.ndarray) -> np.ndarray:
    return np.asarray(weight).reshape(-1, *[1] * (x.ndim - 1)) * x


@contextmanager
def without_warnings() -> Iterator[None]:
    """Return a context without convergence warnings, for a fit that is only a starting point."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def sites_on_f(tau: np.ndarray, nu: np.ndarray, residual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return sites on f = g + e that act on g as τ and ν, with e of variance `residual`: τ = T/(1 + residual T)."""
    left = 1 - residual * tau
    return tau / left, nu / left
