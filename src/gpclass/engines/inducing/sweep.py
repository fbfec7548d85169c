"""Engines on inducing points at fixed hyperparameters: sweeps over all rows until the sites converge.

[VC] Villacampa-Calvo 2017, chapter 5 and appendix B.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...gaussian.low_rank import LowRankPosterior, LowRankPrior, Rows
from ...gaussian.low_rank_matrices import GradientSum, LowRankGradient, LowRankMatrices
from ...gaussian.rounding import EPS, NEGLIGIBLE_ROUNDING, too_large
from ..fit import Fit, NotAvailable, check_settings, check_weights, independent, squeezed
from ..iterate import Status, require_finite, warn_if_unfinished
from ..observations import Data, data_of
from .messages import Messages, RowDerivatives, cavities, messages
from .mixer import MIXED_SWEEPS, Mixer
from .step import RowSites, State
from .swept_rows import Extent, SweptRows

COMMON_MEAN_TOL = 1e-7  # largest mean common to all latent functions, as a fraction of the means
FITTED_PASSES = 1000  # passes (and steps) that a fit counts as in training, so that the next minibatch does not replace it


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
        """Return a fit without rows, as returned by training on minibatches."""
        return cls(engine, posterior, np.zeros(0), likelihood, Status(True, n_iter, 0.0), log_evidence, n_rows)

    def without_rows(self) -> InducingFit:
        """Return a fit for predictions only, whose size does not depend on the number of rows."""
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
        return State(P, h, np.zeros_like(P), np.zeros_like(h), FITTED_PASSES * self.n_rows, steps=FITTED_PASSES)

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
        """Return means and variances of f at training points without one copy of their own sites, (n,) or (n, C) each."""
        data = self.targets
        return cavities(self.engine, self.posterior, self.rows, data, self.likelihood, self.row_sites, data.copies)

    def jensen_bound(self) -> float:
        raise NotAvailable(
            f"{type(self.engine).__name__} keeps no training rows to bound the evidence of; SVGP's log_evidence_ estimates "
            "such a bound"
        )

    def evidence_gradient(self) -> LowRankGradient:
        """Return the derivatives of log_evidence in K_uu, K_fu and k_diag, each in its original shape."""
        return self._derivatives[0]

    def likelihood_gradient(self) -> np.ndarray:
        return self._derivatives[1]

    @cached_property
    def _derivatives(self) -> tuple[LowRankGradient, np.ndarray]:
        prior, fu, diag = self.posterior.prior, np.zeros(self.rows.phi.shape), []
        total = RowDerivatives(prior, self.likelihood)
        source = self.engine.source(self.posterior, self.targets.copies, self.likelihood)
        for some, of_cross, of_diag in total.add(self._messages(source, slopes=True)):
            fu[:, some] = of_cross
            diag.append(of_diag)
        parts = GradientSum(prior, total.inner).uu(self.posterior), fu, np.concatenate(diag, axis=1)
        return LowRankGradient(*(part[0] if self._kept.shared else part for part in parts)), total.theta

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
        spread = self._marginals[1]
        return squeezed(spread) if spread.ndim == 2 else np.einsum("icc->ic", spread)

    @property
    def cov(self) -> np.ndarray:
        """(n, C, C) marginal covariances of f at the training points, diagonal if classes are independent; see `mean`."""
        spread = self._marginals[1]
        return independent(spread) if spread.ndim == 2 else spread

    @cached_property
    def _marginals(self) -> tuple[np.ndarray, np.ndarray]:
        """Marginals of f_i = g_i + e_i according to the engine."""
        source = self.engine.source(self.posterior, self.targets.copies, self.likelihood)
        found = []
        for _, at, data, message in self._messages(source):
            g = at if source is self.posterior else self.posterior.marginals(at.rows)
            found.append(self.engine.latent_marginals(g, message, data.y, self.likelihood))
        mean, spread = (np.concatenate(part) for part in zip(*found, strict=True))
        return mean, spread

    def _messages(self, source: LowRankPosterior, slopes: bool = False) -> Messages:
        data = self.targets
        return messages(self.engine, source, self.rows, data, self.likelihood, self.row_sites, data.copies, slopes)


# sweeps -----------------------------------------------------------------------------------------------------------------

Total = Callable[..., Any]  # (method, *arguments) -> sum of the results of a method of `SweptRows` over all processes


class Settled(NamedTuple):
    """The result of sweeps."""

    posterior: LowRankPosterior
    status: Status
    log_evidence: float


def settle(
    engine: Any, prior: LowRankPrior, likelihood: Any, n_total: float, total: Total, memory: int = MIXED_SWEEPS
) -> Settled:
    """Update the sites of all rows together until they converge, with damping if needed.

    If a likelihood depends on differences of latent functions only, the derivatives of a row sum to zero over these. So do
    the means of functions with the same covariance: μ_c is a sum of φ_i times derivatives. Sweeps alone come to this only
    slowly, since the sites of each function hold it where it is. So the sites are moved there after each sweep.

    Parameters
    ----------
    engine : LowRankEngine
        The engine.
    prior : LowRankPrior
        Prior of the inducing variables.
    likelihood : Likelihood
        The likelihood.
    n_total : float
        Weight of all rows.
    total : callable
        Calls a method of `SweptRows` in all processes that have rows, and returns the sum of the results.
    memory : int
        Number of past sweeps that are mixed; `SweptRows` must have the same.
    """

    def posterior(method, *arguments) -> LowRankPosterior:
        sums = total(method, *arguments)
        q = prior.posterior(sums.S, sums.pull)
        common = q.common_mean() if likelihood.shift_invariant and engine.consistent else None
        if common is None:
            return q
        size = np.linalg.norm(common)
        if size <= COMMON_MEAN_TOL * np.linalg.norm(q.mu):  # derivatives by quadrature do not sum to zero exactly
            return q
        centred = q.recentred(common)
        if np.linalg.norm(centred.mu.mean(0)) > size:  # possible with sites of negative precision
            return q
        total(SweptRows.recentre, common)
        return centred

    q = posterior(SweptRows.sums)
    mixer, status, value = Mixer(engine.damping, engine.ascends, memory), Status(False, 0, np.inf), np.nan
    for sweep in range(1, engine.max_iter + 1):
        source = engine.source(q, n_total, likelihood)
        swept = total(SweptRows.sweep, source.mu, source.root, n_total, mixer.may_mix)
        value, change = swept.value + engine.constant(q, source, n_total, likelihood), swept.change
        if not np.isfinite(change):
            require_finite(engine, change, total(SweptRows.extent).variance)
        status = Status(change <= engine.tol, sweep, change)
        if status.converged or sweep == engine.max_iter:
            break
        q = mixer.move(swept, q.log_partition + value, lambda step: posterior(SweptRows.step, step))
    if not status.converged:
        status = replace(status, advice=advice(total(SweptRows.extent)))
    return Settled(q, status, q.log_partition + value)


def advice(extent: Extent) -> str:
    """Return advice for a run that did not converge because of rounding; empty if rounding is not the cause.

    The relative error of the inducing variables is about eps × the condition of I + Σ τ w wᵀ, as for all latent values with
    B.
    """
    strength = 1 + max(1.0, extent.tau) * extent.variance  # sites of labels can have precision one
    return "" if EPS * extent.rows * strength < NEGLIGIBLE_ROUNDING else too_large(np.array([[extent.variance]]))


def sweep_to_convergence(engine, K_uu, K_fu, k_diag, y, likelihood, start) -> InducingFit:
    """Fit with converged sites of rows in this process."""
    matrices, data, shared = prepare_matrices(engine, K_uu, K_fu, k_diag, y, likelihood)
    prior = engine.prior(matrices.K_uu, likelihood)
    rows = prior.rows(matrices.K_fu, matrices.k_diag + engine.noise(likelihood))
    sites = start_row_sites(engine, likelihood, len(data.y), start)
    part = SweptRows(engine, prior, likelihood, rows, data, sites)
    q, status, log_evidence = settle(
        engine, prior, likelihood, data.copies, lambda method, *arguments: method(part, *arguments)
    )
    warn_if_unfinished(engine, status, stacklevel=4)
    kept = RowData(rows, part.sites, part.tau, part.nu, shared)
    return InducingFit(engine, q, data.given, likelihood, replace(status, advice=""), log_evidence, len(data.y), kept)


def start_row_sites(engine: Any, likelihood: Any, n: int, start: InducingFit | RowSites | None) -> RowSites:
    """Return the sites to start from: given ones, or those of an earlier fit, or the engine's initial sites."""
    sites = engine.row_sites(n, likelihood)
    if start is None:
        return sites
    given = start.row_sites if isinstance(start, InducingFit) else start
    if not isinstance(given, dict) or not same_form(given, sites):
        raise TypeError(f"start must be an earlier fit of {type(engine).__name__} to as many rows and classes, or its sites")
    return given


def same_form(sites: RowSites, others: RowSites) -> bool:
    """Return whether sites have the same names and shapes."""
    return {name: part.shape for name, part in sites.items()} == {name: part.shape for name, part in others.items()}


def prepare_matrices(engine, K_uu, K_fu, k_diag, y, likelihood) -> tuple[LowRankMatrices, Data, bool]:
    """Return checked matrices and targets, and whether the latent functions share the matrices."""
    check_inducing(engine, likelihood, y)
    data = data_of(engine, y, likelihood)
    shared = all(np.ndim(part) == rank for part, rank in ((K_uu, 2), (K_fu, 2), (k_diag, 1)))
    return LowRankMatrices(K_uu, K_fu, k_diag).checked(len(data.y), likelihood.n_latents), data, shared


def check_inducing(engine: Any, likelihood: Any, y: Any) -> None:
    """Check the settings of an engine, and whether it supports a likelihood and targets.

    There may be more inducing points than rows, for example of a model whose points were learned from other rows. A choice
    of more points than training rows is refused by `Inducing.count`.
    """
    check_settings(engine)
    engine.check_likelihood(likelihood)
    check_weights(engine, y, likelihood)
