"""Engines on inducing points at fixed hyperparameters: sweeps over all rows until the sites converge.

[VC] Villacampa-Calvo 2017, chapter 5 and appendix B.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ...gaussian.full import EPS, NEGLIGIBLE, too_large
from ...gaussian.low_rank import (
    GradientSum,
    LowRankGradient,
    LowRankMatrices,
    LowRankPosterior,
    LowRankPrior,
    Marginals,
    Rows,
    site_sums,
)
from ...gaussian.sites import cavity
from ...numerics import blocks
from ..fit import Fit, NotAvailable, check_settings, check_weights, independent, squeezed
from ..iterate import Status, require_finite, warn_if_unfinished
from ..observations import Data, Observed, data_of
from .mixer import Mixer, units
from .step import RowSites, State, of_all_copies

SETTLED = 1000  # passes (and steps) that a fit counts as, so that the next minibatch does not replace it
LEAST_LEFT = 1e-2  # smallest fraction of a marginal's precision that is left without the row's own sites


@dataclass(frozen=True)
class RowData:
    """The rows of a fit and their sites."""

    rows: Rows
    sites: RowSites  # of one copy of each row, in the engine's own form
    tau: np.ndarray  # (n, C) sites on g, of all copies
    nu: np.ndarray
    shared: bool  # whether the latent functions share the given covariances


@dataclass(frozen=True)
class InducingFit(Fit):
    """A posterior of inducing variables, with its evidence; `predict` needs covariances with the inducing inputs.

    `log_evidence` is that of converged sites, or the estimate from the minibatches of the last pass.
    """

    n_rows: int  # number of training rows
    data: RowData | None = None  # None if they are not kept; methods that need them then raise an error

    inputs_are: ClassVar[str] = "inducing inputs"

    @classmethod
    def trained(cls, engine: Any, posterior: LowRankPosterior, likelihood: Any, log_evidence: float, n_rows: int, n_iter=1):
        """A fit without rows, as returned by training on minibatches."""
        return cls(engine, posterior, np.zeros(0), likelihood, Status(True, n_iter, 0.0), log_evidence, n_rows)

    def without_rows(self) -> InducingFit:
        """A fit for predictions only, whose size does not depend on the number of rows."""
        return replace(self, y=np.zeros(0), data=None)

    def state(self) -> dict[str, Any]:
        return {**super().state(), "n_rows": self.n_rows}

    @property
    def n_inputs(self) -> int:
        return self.posterior.prior.M

    def moments(self, Ks: np.ndarray, kd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        Ks, kd = self._checked(Ks, kd)
        prior, m = self.posterior.prior, Ks.shape[-1]
        K_fu = np.broadcast_to(np.swapaxes(Ks, -1, -2), (prior.n_groups, m, prior.M))
        rows = prior.rows(np.ascontiguousarray(K_fu), np.broadcast_to(kd, (prior.n_groups, m)))
        mean, var = self.posterior.predict(rows)
        return squeezed(mean), squeezed(var)

    @property
    def minibatch_state(self) -> State:
        """State to continue from, with new hyperparameters or minibatches."""
        P, h = self.posterior.prior.coloured(self.posterior.S, self.posterior.pull)
        return State(P, h, np.zeros_like(P), np.zeros_like(h), SETTLED * self.n_rows, steps=SETTLED)

    # training rows -------------------------------------------------------------------------------------------------

    @property
    def _kept(self) -> RowData:
        if self.data is None:
            raise NotAvailable(
                f"{type(self.engine).__name__} keeps no training rows once it is trained. For probabilities of left-out "
                "rows, use scikit-learn's cross_val_predict(..., method='predict_proba')"
            )
        return self.data

    @property
    def rows(self) -> Rows:
        return self._kept.rows

    @property
    def row_sites(self) -> RowSites:
        return self._kept.sites

    @property
    def tau(self) -> np.ndarray:
        """(n, C) precisions of the sites on g."""
        return self._kept.tau

    @property
    def nu(self) -> np.ndarray:
        """(n, C) precisions times means of the sites on g."""
        return self._kept.nu

    def cavity(self) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of f at the training points without one copy of their own sites, (n,) or (n, C) each."""
        data = self.targets
        return cavities(self.engine, self.posterior, self.rows, data, self.likelihood, self.row_sites, data.copies)

    def jensen_bound(self) -> float:
        raise NotAvailable(
            f"{type(self.engine).__name__} keeps no training rows to bound the evidence of; SVGP's log_evidence_ estimates "
            "such a bound"
        )

    def evidence_gradient(self) -> LowRankGradient:
        """Derivatives of log_evidence in K_uu, K_fu and k_diag, each in its original shape."""
        return self._derivatives[0]

    def likelihood_gradient(self) -> np.ndarray:
        return self._derivatives[1]

    @cached_property
    def _derivatives(self) -> tuple[LowRankGradient, np.ndarray]:
        total, fu, diag = GradientSum(self.posterior.prior), np.zeros(self.rows.phi.shape), []
        theta = np.zeros(len(self.likelihood.theta))
        source = self.engine.source(self.posterior, self.targets.copies, self.likelihood)
        for some, at, data, each in self._messages(source):
            message = each.times(data.weight)
            fu[:, some], g = total.add(at, message.slope, message.spread, message.excess)
            diag.append(g)
            theta += message.theta.sum(1)
        parts = total.uu(self.posterior), fu, np.concatenate(diag, axis=1)
        return LowRankGradient(*(part[0] if self._kept.shared else part for part in parts)), theta

    @property
    def mean(self) -> np.ndarray:
        """(n,) or (n, C) marginal means of f at the training points.

        These include the row's own label: f_i = g_i + e_i, and with EP the label also updates e_i, which is independent of
        the inducing variables. `predict` returns the values at a new point with the same inputs.

        With one site for each row, these are the marginals of EP on the prior of low rank plus diagonal. With pairwise
        factors (ScalableEP, StochasticEP) they are the result of EP on q(u) without the row's own sites, p(f_i | u) and all
        of the row's factors ∏_c P(x_y > x_c | f_i). EP on the dense prior gives another result for more than two classes:
        there q(u) takes into account that a row's factors share e_i, while scalable EP integrates e_i out of each factor.
        """
        return squeezed(self._marginals[0])

    @property
    def var(self) -> np.ndarray:
        """(n,) or (n, C) marginal variances of f at the training points; see `mean`."""
        return squeezed(self._marginals[1])

    @property
    def cov(self) -> np.ndarray:
        """(n, C, C) marginal covariances of f at the training points, diagonal; see `mean`."""
        return independent(self._marginals[1])

    @cached_property
    def _marginals(self) -> tuple[np.ndarray, np.ndarray]:
        """Marginals of f_i = g_i + e_i according to the engine."""
        source = self.engine.source(self.posterior, self.targets.copies, self.likelihood)
        mean, var = np.empty((2, *self.rows.residual.shape))
        for some, at, data, message in self._messages(source):
            g = at if source is self.posterior else self.posterior.marginals(at.rows)
            mean[some], var[some] = self.engine.latent_marginals(g, message, data.y, self.likelihood)
        return mean, var

    def _messages(self, source: LowRankPosterior) -> Iterator[tuple[slice, Marginals, Data, Any]]:
        data = self.targets
        return messages(self.engine, source, self.rows, data, self.likelihood, self.row_sites, data.copies)


def messages(
    engine: Any, source: LowRankPosterior, rows: Rows, data: Data, likelihood: Any, sites: RowSites, n_total: float
) -> Iterator[tuple[slice, Marginals, Data, Any]]:
    """Yield, block by block, the range of some rows, their marginals under `source`, their targets and the rule's result.

    The result is that for one copy of each row; `n_total` is the weight of all rows.
    """
    rule = engine.rule(likelihood, n_total)
    for some in blocks(len(data.y), source.S.shape[0] * source.prior.M, least=64):
        at, part = source.marginals(rows.some(some)), data.some(some)
        yield some, at, part, rule(at, part.y, {name: site[some] for name, site in sites.items()})


def cavities(
    engine: Any, q: LowRankPosterior, rows: Rows, data: Data, likelihood: Any, sites: RowSites, n_total: float
) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances of f at training rows without one copy of their own sites, (m,) or (m, C) each.

    A row of weight below one is left out entirely.
    """
    mean, var = np.empty((2, *rows.residual.shape))
    source = engine.source(q, n_total, likelihood)
    for some, at, part, each in messages(engine, source, rows, data, likelihood, sites, n_total):
        g, message = at if source is q else q.marginals(at.rows), each.times(np.minimum(part.weight, 1.0))
        without = cavity(g.mean, g.var, message.tau, message.nu, LEAST_LEFT)
        mean[some], var[some] = without.mean, without.var + engine.rest(g, likelihood)
    return squeezed(mean), squeezed(var)


def prepare(engine, K_uu, K_fu, k_diag, y, likelihood) -> tuple[LowRankMatrices, Data, bool]:
    """Checked matrices and targets, and whether the latent functions share the matrices."""
    check_settings(engine)
    engine.check_likelihood(likelihood)
    data = data_of(engine, y, likelihood)
    if isinstance(y, Observed):
        check_weights(engine, y, likelihood)
    M, n = np.shape(K_uu)[-1], len(data.y)
    if n < M:
        raise ValueError(f"{M} inducing points are more than the {n} data: use fewer")
    shared = all(np.ndim(part) == rank for part, rank in ((K_uu, 2), (K_fu, 2), (k_diag, 1)))
    return LowRankMatrices(K_uu, K_fu, k_diag).checked(n, likelihood.n_latents), data, shared


def sweep_to_convergence(engine, K_uu, K_fu, k_diag, y, likelihood, start) -> InducingFit:
    """Update the sites of all rows together until they converge, with damping if needed."""
    matrices, data, shared = prepare(engine, K_uu, K_fu, k_diag, y, likelihood)
    C = likelihood.n_latents
    prior = LowRankPrior(matrices.K_uu, C, engine.jitter)
    rows = prior.rows(matrices.K_fu, matrices.k_diag + engine.noise(likelihood))
    sweeps = Sweeps(engine, prior, rows, data, likelihood)
    sites = sweeps.start(start)
    tau, nu, q = sweeps.at(sites)
    mixer, status, value = Mixer(engine.damping, engine.ascends), Status(False, 0, np.inf), np.nan
    for sweep in range(1, engine.max_iter + 1):
        new, value, change, var = sweeps.sweep(q, sites, tau, nu)
        require_finite(engine, change, matrices.k_diag)
        status = Status(change <= engine.tol, sweep, change)
        if status.converged or sweep == engine.max_iter:
            break
        scale = units(sites, var, data.weight)
        sites, (tau, nu, q) = mixer.move(sites, new, change, scale, q.log_partition + value, sweeps)
    warn_if_unfinished(engine, replace(status, advice=advice(matrices.k_diag, tau)), stacklevel=4)
    kept = RowData(rows, sites, tau, nu, shared)
    return InducingFit(engine, q, data.given, likelihood, status, q.log_partition + value, len(data.y), kept)


def advice(k_diag: np.ndarray, tau: np.ndarray) -> str:
    """Advice for a run that did not converge because of rounding; empty if rounding is not the cause.

    The relative error of the inducing variables is about eps × the condition of I + Σ τ w wᵀ, as for all latent values with
    B.
    """
    largest = float(np.max(k_diag, initial=0.0))
    strength = 1 + float(np.max(np.abs(tau), initial=1.0)) * largest  # sites of labels can have precision one
    return "" if EPS * len(tau) * strength < NEGLIGIBLE else too_large(np.array([[largest]]))


@dataclass(frozen=True)
class Sweeps:
    """Sweeps over all rows at fixed hyperparameters."""

    engine: Any
    prior: LowRankPrior
    rows: Rows
    data: Data
    likelihood: Any

    def start(self, start: Any) -> RowSites:
        n, C = len(self.data.y), self.likelihood.n_latents
        empty = self.engine.row_sites(n, self.likelihood)
        if start is None:
            return empty
        if not isinstance(start, InducingFit) or start.tau.shape != (n, C) or start.row_sites.keys() != empty.keys():
            raise TypeError(f"start must be an earlier fit of {type(self.engine).__name__} to as many rows and classes")
        return start.row_sites

    def at(self, sites: RowSites) -> tuple[np.ndarray, np.ndarray, LowRankPosterior]:
        """Sites on g of all copies, and the posterior with these sites."""
        tau, nu = (of_all_copies(x, self.data) for x in self.engine.totals(sites, self.data.y, self.rows.residual))
        return tau, nu, self.posterior(tau, nu)

    def posterior(self, tau: np.ndarray, nu: np.ndarray) -> LowRankPosterior:
        C, M = self.likelihood.n_latents, self.prior.M
        S, pull = np.zeros((C, M, M)), np.zeros((C, M))
        for some in blocks(len(self.data.y), M, least=64):
            more, pulled = site_sums(self.rows.phi[:, some], tau[some], nu[some])
            S += more
            pull += pulled
        return LowRankPosterior(self.prior, S, pull)

    def sweep(self, q: LowRankPosterior, sites: RowSites, tau: np.ndarray, nu: np.ndarray):
        """New sites of all rows, contributions of the current sites to the evidence, and the resulting move of q."""
        n_total = self.data.copies
        source = self.engine.source(q, n_total, self.likelihood)
        found, change, var = [], 0.0, np.empty(tau.shape)
        for some, at, data, each in messages(self.engine, source, self.rows, self.data, self.likelihood, sites, n_total):
            message = each.times(data.weight)
            found.append(message)
            var[some] = at.var
            change = float(np.maximum(change, moved(at, message.tau - tau[some], message.nu - nu[some])))  # keeps NaN
        new = {name: np.concatenate([m.sites[name] for m in found]) for name in sites}
        value = float(sum(np.sum(m.value) for m in found)) + self.engine.constant(q, source, n_total, self.likelihood)
        return new, value, change, var


def moved(at: Marginals, d_tau: np.ndarray, d_nu: np.ndarray) -> float:
    """Largest move of a site, in units of its row's posterior."""
    shift = np.abs(d_nu - d_tau * at.mean) * np.sqrt(at.var)
    return float(np.maximum(np.max(np.abs(d_tau) * at.var, initial=0.0), np.max(shift, initial=0.0)))
