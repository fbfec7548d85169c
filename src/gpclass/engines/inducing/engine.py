"""What an engine on inducing points is: a rule, and what belongs to it.

A rule makes new sites of some rows from their marginals and the sites that they have, and says what the rows contribute to
the evidence and to its derivatives (`Message`). Rules of EP need the sites of each row (`row_sites`); the others know the
sum of all sites only (stochastic EP, variational).

[VC] Villacampa-Calvo 2017, chapter 5 and appendix B.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np

from ...gaussian.low_rank import LowRankPosterior, LowRankPrior, Marginals
from .. import Engine
from ..iterate import Status
from .step import Broadcast, RowSites, State, Sums
from .sweep import InducingFit, sweep_to_convergence


@dataclass(frozen=True)
class Message:
    """What a rule makes of some rows."""

    value: np.ndarray  # (m,) contributions to the evidence beside the posterior's own term
    tau: np.ndarray  # (m, C) precisions of the new sites, on g
    nu: np.ndarray  # (m, C) precisions times means
    slope: np.ndarray  # (m, C) derivative of the contribution in w_iᵀ m
    spread: np.ndarray  # (m, C) what multiplies V w_i in its derivative in w_i
    excess: np.ndarray  # (m, C) derivative in the variance of f_i
    theta: np.ndarray  # (p,) derivative in the likelihood's parameters, summed over rows
    sites: RowSites = field(default_factory=dict)  # new sites of these rows, as the engine keeps them


class RowRule(Protocol):
    """From marginals of some rows to a message."""

    def __call__(self, at: Marginals, y: np.ndarray, sites: RowSites) -> Message: ...


class LowRankEngine(Engine):
    """What an engine on inducing points is asked for. A member is a frozen dataclass of settings with a `rule`; those of
    learning (`Inducing`, `Training`) are among them."""

    latents: ClassVar = "any"
    design: ClassVar = "inducing inputs"
    minibatches: ClassVar = True
    takes_more: ClassVar = True
    keeps_rows: ClassVar = False  # whether rows keep sites of their own between minibatches
    settles: ClassVar = True  # whether sites of few rows are settled for each step of a search, unless one says otherwise
    ascends: ClassVar = False  # whether log_evidence is what sweeps maximise

    damping: float
    tol: float
    max_iter: int
    jitter: float

    def fit(self, K_uu, K_fu, k_diag, y, likelihood, start: Any = None) -> InducingFit:
        """The posterior at fixed hyperparameters, beginning with the sites of `start`, an earlier fit, if there is one.

        K_uu (M, M), K_fu (n, M) and k_diag (n,) are shared by all classes, or have an axis of classes before these.
        """
        return sweep_to_convergence(self, K_uu, K_fu, k_diag, y, likelihood, start)

    def restore(self, K_uu, y, likelihood, state) -> InducingFit:
        """From the covariances (1 or C, M, M) among the inducing inputs; rows, and so y, are not kept."""
        q = LowRankPosterior.restored(LowRankPrior(K_uu, likelihood.n_latents, self.jitter), state)
        status = Status(**state["status"])
        return InducingFit(self, q, np.zeros(0), likelihood, status, float(state["log_evidence"]), int(state["n_rows"]))

    def rule(self, likelihood, n_total: int, loose: bool = False) -> RowRule:
        """`loose` where rows' sites were made under earlier hyperparameters."""
        raise NotImplementedError

    def row_sites(self, n: int, likelihood) -> RowSites:
        """Numbers kept for each of n rows while sweeping over all of them: nothing known yet."""
        return {name: np.zeros((n, likelihood.n_latents)) for name in ("tau", "nu")}

    def totals(self, sites: RowSites, y: np.ndarray, residual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(n, C) sites on g from what rows keep."""
        return sites["tau"], sites["nu"]

    def latent_marginals(
        self, g: Marginals, message: Message, y: np.ndarray, likelihood
    ) -> tuple[np.ndarray, np.ndarray]:
        """(m, C) means and variances of f_i = g_i + e_i at some training rows, from those of g_i.

        Here with a row's Gaussian site, which speaks of g_i and e_i together. Given g_i, e_i is Gaussian, its mean linear.
        """
        rest = self.rest(g, likelihood)
        tau, nu = sites_on_f(message.tau, message.nu, rest)
        grown = 1 + rest * tau
        return g.mean + rest * (nu - tau * g.mean) / grown, g.var / grown**2 + rest / grown

    def rest(self, g: Marginals, likelihood) -> np.ndarray:
        """(m, C) variances of e_i."""
        return g.rows.residual - self.noise(likelihood)

    def noise(self, likelihood) -> float:
        """Variance that is added to the prior's."""
        return 0.0

    def source(self, q: LowRankPosterior, n_total: int, likelihood) -> LowRankPosterior:
        """Where a rule's marginals come from."""
        return q

    def constant(self, q: LowRankPosterior, source: LowRankPosterior, n_total: int, likelihood) -> float:
        """What belongs to the evidence beside the posterior's log partition and the rows' contributions."""
        return 0.0

    # minibatches: see `step.py`

    def stage(self, state: State, n_total: int, likelihood) -> LowRankEngine:
        """The engine whose step comes next: this one, or one that makes the first sites for it."""
        return self

    def moved_sites(self, broadcast: Broadcast, message: Message, sites: RowSites) -> RowSites:
        """New sites of rows that keep sites of their own between minibatches."""
        return {}

    def takes_out(self, broadcast: Broadcast) -> bool:
        """Whether the sites that rows had before this step are needed as a sum (`Sums.old_P`, `Sums.old_h`)."""
        return False

    def absorb(self, broadcast: Broadcast, sums: Sums) -> State:
        """The state after a minibatch with these sums."""
        raise NotImplementedError


def sites_on_f(tau: np.ndarray, nu: np.ndarray, residual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sites on f = g + e, e of variance `residual`, that for g are τ and ν: τ = T/(1 + residual T), and ν alike."""
    left = 1 - residual * tau
    return tau / left, nu / left
