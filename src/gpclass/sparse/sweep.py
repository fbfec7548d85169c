"""Engines on inducing points at fixed hyperparameters: sweeps over all rows until their sites stand still.

[VC] Villacampa-Calvo 2017, chapter 5 and appendix B.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..gaussian.full import EPS, NEGLIGIBLE, too_large
from ..gaussian.inducing import (
    GradientSum,
    LowRankGradient,
    LowRankMatrices,
    LowRankPosterior,
    LowRankPrior,
    Marginals,
    Rows,
    site_sums,
)
from ..inference.fit import check_settings
from ..inference.iterate import LINEAR_REGIME, Status, require_finite, warn_if_unfinished
from ..numerics import NotPositiveDefinite, anderson, blocks, within_reach
from .step import RowSites, State

MIXED_SWEEPS = 8  # past sweeps that are mixed
WORSE = 1.5  # growth of a move that counts as astray
LEAST_PART = 1e-3  # of a step
IDLE = 12  # sweeps without a smaller move than before that count as astray
SETTLED = 1000  # passes (and steps) that a fit stands for: it is not forgotten for the next minibatch
PAUSE = 8  # plain steps after a mixed one that went astray


def several(x: np.ndarray) -> np.ndarray:
    """(m,) as (m, 1)."""
    return x[:, None] if x.ndim == 1 else x


def squeezed(likelihood, x: np.ndarray) -> np.ndarray:
    """(m, 1) as (m,) where there is one latent function."""
    return x[:, 0] if likelihood.n_latents == 1 else x


@dataclass(frozen=True)
class InducingFit:
    """A posterior of inducing variables, with its evidence."""

    engine: Any
    posterior: LowRankPosterior
    rows: Rows
    y: np.ndarray
    likelihood: Any
    row_sites: RowSites  # of each row, as the engine keeps them
    tau: np.ndarray  # (n, C) sites on g
    nu: np.ndarray
    status: Status
    log_evidence: float
    shared: bool  # whether covariances came as one for all latent functions

    @property
    def converged(self) -> bool:
        return self.status.converged

    @property
    def n_iter(self) -> int:
        return self.status.n_iter

    @property
    def state(self) -> State:
        """To go on from, with other hyperparameters or with minibatches."""
        P, h = self.posterior.prior.coloured(self.posterior.S, self.posterior.pull)
        return State(P, h, np.zeros_like(P), np.zeros_like(h), SETTLED * len(self.y), steps=SETTLED)

    def evidence_gradient(self) -> LowRankGradient:
        """d log_evidence in K_uu, K_fu and k_diag, each of the shape that it came in."""
        return self._derivatives[0]

    def likelihood_gradient(self) -> np.ndarray:
        """(p,) d log_evidence / d likelihood.theta."""
        return self._derivatives[1]

    @cached_property
    def _derivatives(self) -> tuple[LowRankGradient, np.ndarray]:
        rule = self.engine.rule(self.likelihood, len(self.y))
        total, fu, diag = GradientSum(self.posterior.prior), np.zeros(self.rows.phi.shape), []
        theta = np.zeros(len(self.likelihood.theta))
        source = self.engine.source(self.posterior, len(self.y), self.likelihood)
        for some in blocks(len(self.y), self.posterior.S.shape[0] * self.posterior.prior.M, least=64):
            at = source.marginals(self.rows.some(some))
            message = rule(at, self.y[some], {name: part[some] for name, part in self.row_sites.items()})
            fu[:, some], g = total.add(at, message.slope, message.spread, message.excess)
            diag.append(g)
            theta += message.theta
        parts = total.uu(self.posterior), fu, np.concatenate(diag, axis=1)
        return LowRankGradient(*(part[0] if self.shared else part for part in parts)), theta

    @property
    def mean(self) -> np.ndarray:
        """(n,) or (n, C) marginal means of f at the training points.

        A row's own label is taken into account: f_i = g_i + e_i, and with EP the label speaks of e_i as well, which the
        inducing variables know nothing of. `predict` gives the values at a new point of the same inputs.

        With one site for each row, these are the marginals of EP on the prior of low rank plus diagonal. With pairwise
        factors (ScalableEP, StochasticEP) they are where EP ends with q(u) without the row's own sites, p(f_i | u) and all
        of the row's factors ∏_c P(x_y > x_c | f_i). EP on the dense prior ends elsewhere if there are more than two classes:
        its q(u) knows that a row's factors share e_i, while scalable EP integrates e_i out of each factor.
        """
        return squeezed(self.likelihood, self._marginals[0])

    @property
    def var(self) -> np.ndarray:
        """(n,) or (n, C) marginal variances of f at the training points; see `mean`."""
        return squeezed(self.likelihood, self._marginals[1])

    @cached_property
    def _marginals(self) -> tuple[np.ndarray, np.ndarray]:
        """Of f_i = g_i + e_i, as the engine says."""
        rule = self.engine.rule(self.likelihood, len(self.y))
        source = self.engine.source(self.posterior, len(self.y), self.likelihood)
        mean, var = np.empty((2, *self.rows.residual.shape))
        for some in blocks(len(self.y), self.posterior.S.shape[0] * self.posterior.prior.M, least=64):
            at = source.marginals(self.rows.some(some))
            message = rule(at, self.y[some], {name: part[some] for name, part in self.row_sites.items()})
            g = at if source is self.posterior else self.posterior.marginals(at.rows)
            mean[some], var[some] = self.engine.latent_marginals(g, message, self.y[some], self.likelihood)
        return mean, var

    def predict(self, K_us: np.ndarray, k_diag: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Latent means and variances, (m,) or with several classes (m, C), from covariances K_us (M, m) of inducing and new
        points, or (C, M, m), and prior variances k_diag (m,), or (C, m)."""
        return predict(self.posterior, self.likelihood, K_us, k_diag)

    def log_class_probabilities(self, K_us: np.ndarray, k_diag: np.ndarray) -> np.ndarray:
        """(m, C) log class probabilities at new points."""
        return self.likelihood.log_class_probabilities(*self.predict(K_us, k_diag))

    def class_probability_std(self, K_us: np.ndarray, k_diag: np.ndarray) -> np.ndarray:
        """(m, C) standard deviations of the class probabilities under the latent posterior."""
        return self.likelihood.class_probability_std(*self.predict(K_us, k_diag))


def predict(q: LowRankPosterior, likelihood, K_us, k_diag) -> tuple[np.ndarray, np.ndarray]:
    K_us, k_diag = np.asarray(K_us, float), np.asarray(k_diag, float)
    M, m = q.prior.M, K_us.shape[-1]
    if K_us.ndim not in (2, 3) or K_us.shape[-2] != M or k_diag.shape[-1:] != (m,):
        shapes = f"{K_us.shape} and {k_diag.shape}"
        raise ValueError(f"K_us must be ({M}, m) and k_diag (m,), or one per class, but they are {shapes}")
    groups = q.prior.n_groups
    K_fu = np.broadcast_to(np.swapaxes(K_us, -1, -2), (groups, m, M))
    mean, var = q.predict(q.prior.rows(np.ascontiguousarray(K_fu), np.broadcast_to(k_diag, (groups, m))))
    return squeezed(likelihood, mean), squeezed(likelihood, var)


def prepare(engine, K_uu, K_fu, k_diag, y, likelihood) -> tuple[LowRankMatrices, np.ndarray, bool]:
    """Matrices and labels as the sweeps take them, and whether the latent functions share the matrices."""
    check_settings(engine)
    engine.check_likelihood(likelihood)
    y = likelihood.check_targets(y)
    M = np.shape(K_uu)[-1]
    if len(y) < M:
        raise ValueError(f"{M} inducing points are more than the {len(y)} data that they stand for: take fewer")
    shared = all(np.ndim(part) == rank for part, rank in ((K_uu, 2), (K_fu, 2), (k_diag, 1)))
    return LowRankMatrices(K_uu, K_fu, k_diag).checked(len(y), likelihood.n_latents), y, shared


def sweep_to_convergence(engine, K_uu, K_fu, k_diag, y, likelihood, start) -> InducingFit:
    """Sites of all rows moved together until they stand still; damped where they do not settle."""
    matrices, y, shared = prepare(engine, K_uu, K_fu, k_diag, y, likelihood)
    C = likelihood.n_latents
    prior = LowRankPrior(matrices.K_uu, C, engine.jitter)
    rows = prior.rows(matrices.K_fu, matrices.k_diag + engine.noise(likelihood))
    data = Sweeps(engine, prior, rows, y, likelihood)
    sites = data.start(start)
    tau, nu, q = data.at(sites)
    mixer, status, value = Mixer(engine.damping, engine.ascends), Status(False, 0, np.inf), np.nan
    for sweep in range(1, engine.max_iter + 1):
        new, value, change, var = data.sweep(q, sites, tau, nu)
        require_finite(engine, change, matrices.k_diag)
        status = Status(change <= engine.tol, sweep, change)
        if status.converged or sweep == engine.max_iter:
            break
        sites, (tau, nu, q) = mixer.move(sites, new, change, units(sites, var), q.log_partition + value, data)
    warn_if_unfinished(engine, replace(status, advice=advice(matrices.k_diag, tau)), stacklevel=4)
    return InducingFit(engine, q, rows, y, likelihood, sites, tau, nu, status, q.log_partition + value, shared)


def advice(k_diag: np.ndarray, tau: np.ndarray) -> str:
    """What to do about a run that did not settle, if rounding is why; else empty.

    Inducing variables are known to about eps × the condition of I + Σ τ w wᵀ, as all rows' latent values are in B.
    """
    largest = float(np.max(k_diag, initial=0.0))
    strength = 1 + float(np.max(np.abs(tau), initial=1.0)) * largest  # labels can have sites of precision one
    return "" if EPS * len(tau) * strength < NEGLIGIBLE else too_large(np.array([[largest]]))


class Mixer:
    """Where the next sweep begins: Anderson mixing of the last ones; plainly, then damped, after steps that went astray."""

    def __init__(self, damping: float, ascends: bool):
        self.most, self.part, self.ascends = damping, damping, ascends
        self.points: list[np.ndarray] = []
        self.residuals: list[np.ndarray] = []
        self.last, self.objective = np.inf, -np.inf
        self.least, self.idle = np.inf, 0  # smallest move so far, and sweeps since
        self.mixed, self.wait = False, 0  # whether the last step was mixed; plain steps to come

    def move(self, sites: RowSites, new: RowSites, change: float, units: np.ndarray, objective: float, data: Sweeps):
        x, goal = _joined(sites), _joined(new)
        fell = self.ascends and objective < self.objective - 1e-9 * abs(self.objective)
        if fell and self.points:  # again from where the step began
            x, residual = self.points[-1], self.residuals[-1]
            self._astray()
            self.points, self.residuals = [x], [residual]
        else:
            self.idle = 0 if change < self.least else self.idle + 1
            if (change > WORSE * self.last or self.idle >= IDLE) and not self.ascends:
                self._astray()
                self.idle, self.least = 0, change
            elif self.idle == 0 or self.ascends:
                self.part = min(self.most, 1.1 * self.part)
            self.least = min(self.least, change)
            self.last, self.objective = change, objective
            self.points, self.residuals = [*self.points[-MIXED_SWEEPS:], x], [*self.residuals[-MIXED_SWEEPS:], goal - x]
        return self._made(x, self.residuals[-1], self._target(units), sites, data)

    def _astray(self):
        """A mixed step is to blame first, then the length of plain ones."""
        self.points, self.residuals = [], []
        if self.mixed:
            self.wait = PAUSE
        else:
            self.part = max(0.5 * self.part, LEAST_PART)

    def _made(self, x, residual, target, sites, data):
        part = self.part
        while True:
            mixed = _split(target, sites)
            try:
                return mixed, data.at(mixed)
            except NotPositiveDefinite:  # sites of negative precision: not so far
                part *= 0.5
                if part < LEAST_PART:
                    raise
                target = x + part * residual

    def _target(self, units):
        x, residual = self.points[-1], self.residuals[-1]
        self.wait = max(0, self.wait - 1)
        self.mixed = len(self.points) >= 3 and self.last < LINEAR_REGIME and not self.wait
        if not self.mixed:
            return x + self.part * residual
        residuals = np.stack(self.residuals)
        mixed = anderson(np.stack(self.points), residuals, self.part, residuals * units)
        return within_reach(mixed, x, residual, units, slack=1e-2)


def units(sites: RowSites, var: np.ndarray) -> np.ndarray:
    """What makes moves of sites comparable: posterior variances for precisions, standard deviations for pulls."""
    wide = np.maximum(np.mean(var, axis=1), 1e-300)
    parts = (wide if name.endswith("tau") else np.sqrt(wide) for name in sites)
    return np.concatenate([np.repeat(part, sites[name].shape[1]) for name, part in zip(sites, parts, strict=True)])


def _joined(sites: RowSites) -> np.ndarray:
    return np.concatenate([part.ravel() for part in sites.values()])


def _split(x: np.ndarray, like: RowSites) -> RowSites:
    edges = np.cumsum([part.size for part in like.values()])[:-1]
    return {name: part.reshape(like[name].shape) for name, part in zip(like, np.split(x, edges), strict=True)}


@dataclass(frozen=True)
class Sweeps:
    """Sweeps over all rows at fixed hyperparameters."""

    engine: Any
    prior: LowRankPrior
    rows: Rows
    y: np.ndarray
    likelihood: Any

    def start(self, start: Any) -> RowSites:
        n, C = len(self.y), self.likelihood.n_latents
        empty = self.engine.row_sites(n, self.likelihood)
        if start is None:
            return empty
        if not isinstance(start, InducingFit) or start.tau.shape != (n, C) or start.row_sites.keys() != empty.keys():
            raise TypeError(f"start must be an earlier fit of {type(self.engine).__name__} to as many rows and classes")
        return start.row_sites

    def at(self, sites: RowSites) -> tuple[np.ndarray, np.ndarray, LowRankPosterior]:
        """Sites on g, and the posterior with them."""
        tau, nu = self.engine.totals(sites, self.y, self.rows.residual)
        return tau, nu, self.posterior(tau, nu)

    def posterior(self, tau: np.ndarray, nu: np.ndarray) -> LowRankPosterior:
        C, M = self.likelihood.n_latents, self.prior.M
        S, pull = np.zeros((C, M, M)), np.zeros((C, M))
        for some in blocks(len(self.y), M, least=64):
            more, pulled = site_sums(self.rows.phi[:, some], tau[some], nu[some])
            S += more
            pull += pulled
        return LowRankPosterior(self.prior, S, pull)

    def sweep(self, q: LowRankPosterior, sites: RowSites, tau: np.ndarray, nu: np.ndarray):
        """New sites of all rows, what they contribute to the evidence as they are, and how far the new ones would move q."""
        rule = self.engine.rule(self.likelihood, len(self.y))
        source = self.engine.source(q, len(self.y), self.likelihood)
        messages, change, var = [], 0.0, np.empty(tau.shape)
        for some in blocks(len(self.y), q.S.shape[0] * self.prior.M, least=64):
            at = source.marginals(self.rows.some(some))
            message = rule(at, self.y[some], {name: part[some] for name, part in sites.items()})
            messages.append(message)
            var[some] = at.var
            change = float(np.maximum(change, moved(at, message.tau - tau[some], message.nu - nu[some])))  # keeps NaN
        new = {name: np.concatenate([m.sites[name] for m in messages]) for name in sites}
        value = float(sum(np.sum(m.value) for m in messages)) + self.engine.constant(q, source, len(self.y), self.likelihood)
        return new, value, change, var


def moved(at: Marginals, d_tau: np.ndarray, d_nu: np.ndarray) -> float:
    """Largest move of a site, in the units of its row's posterior."""
    shift = np.abs(d_nu - d_tau * at.mean) * np.sqrt(at.var)
    return float(np.maximum(np.max(np.abs(d_tau) * at.var, initial=0.0), np.max(shift, initial=0.0)))
