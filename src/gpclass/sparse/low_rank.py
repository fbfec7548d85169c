"""What the engines on inducing points share: sweeps over the data at fixed hyperparameters, and steps on minibatches.

A method is a rule: from the marginals of some rows, and the sites that these rows have, it makes new sites and says what
the rows contribute to the evidence and to its derivatives (`Message`). Rules whose rows keep sites of their own (EP) have a
`memory` of a few numbers per row; the others know the sum of all sites only (stochastic EP, variational).

[VC] Villacampa-Calvo 2017, chapter 5 and appendix B.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np

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
from ..inference.fit import check_settings, require
from ..inference.iterate import Status, warn_if_unfinished
from ..numerics import NotPositiveDefinite

NUMBERS = 1 << 21  # in a block's array: rows are taken block by block

DEPTH, NEAR, WORSE = 8, 0.5, 1.5  # sweeps that are mixed, once sites move by less, unless the last one moved by so much more
LEAST_PART = 1e-3  # of a step
IDLE = 12  # sweeps without a smaller move than before that count as astray
SETTLED = 1000  # passes (and steps) that a fit stands for: it is not forgotten for the next minibatch
STILL = 1e-10  # hyperparameters that have moved by less, in their own units, count as held: rounding moves sites by more
PAUSE = 8  # plain steps after a mixed one that went astray

Memory = dict[str, np.ndarray]  # numbers kept for each row, (n, …) each


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
    memory: Memory = field(default_factory=dict)  # new numbers of these rows


class Rule(Protocol):
    """From marginals of some rows to a message."""

    def __call__(self, at: Marginals, y: np.ndarray, memory: Memory) -> Message: ...


@dataclass(frozen=True)
class State:
    """What is known of the inducing variables: natural parameters that stay when hyperparameters move."""

    P: np.ndarray  # (C, M, M) sum of the sites' precisions, in terms of u
    h: np.ndarray  # (C, M) sum of their precisions times means
    memory: Memory  # numbers of each row, (n, …); changed in place. Empty for methods that keep none
    fresh_P: np.ndarray  # P and h of the rows of this pass over the data alone, for methods that keep rows
    fresh_h: np.ndarray
    seen: int = 0  # rows taken in so far, in all passes
    passed: int = 0  # rows of this pass
    steps: int = 0
    moved: float = 0.0  # by how much hyperparameters and inducing inputs have moved in this pass
    moved_before: float = 0.0  # and in the pass before

    @staticmethod
    def empty(n_latents: int, M: int, memory: Memory) -> State:
        P, h = np.zeros((n_latents, M, M)), np.zeros((n_latents, M))
        return State(P, h, memory, P, h)

    @property
    def age(self) -> float:
        """By how much hyperparameters and inducing inputs have moved, at most, since a row's site was made."""
        return self.moved_before + self.moved


@dataclass(frozen=True)
class Step:
    """One minibatch: estimates with the sites as they were, and the state after it."""

    log_evidence: float  # unbiased for that of all rows, sites held; NaN while some rows that should have sites have none
    gradient: LowRankGradient  # in K_uu, and in K_fu and k_diag of the rows at hand
    theta: np.ndarray  # in the likelihood's parameters
    state: State


class LowRankEngine:
    """What an engine on inducing points is asked for. A member is a frozen dataclass of settings with a `rule`; those of
    learning (`Inducing`, `Training`) are among them."""

    latents: ClassVar = "any"
    inducing: ClassVar = True  # takes K_uu, K_fu, k_diag where others take K
    keeps_rows: ClassVar = False  # whether rows keep sites of their own between minibatches
    minibatches: ClassVar = True  # whether it can do with some rows at a time
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
        matrices, y, shared = prepare(self, K_uu, K_fu, k_diag, y, likelihood)
        return sweep_to_convergence(self, matrices, y, likelihood, start, shared)

    def begin(self, n_total: int, M: int, likelihood) -> State:
        """Nothing known yet."""
        memory = self.memory(n_total, likelihood) if self.keeps_rows else {}
        return State.empty(likelihood.n_latents, M, memory)

    def batch(
        self, state: State, matrices: LowRankMatrices, y, rows, n_total: int, likelihood, size: int | None = None
    ) -> Step:
        """One minibatch: see `take_step`."""
        return take_step(self, state, matrices, y, rows, n_total, likelihood, size)

    def needed(self, likelihood) -> tuple[str, ...]:
        """Methods of the likelihood that it calls."""
        raise NotImplementedError

    def evidence_is_comparable(self, likelihood) -> bool:
        """Whether log_evidence estimates (or bounds) log p(y), and so may be held against that of other engines."""
        return True

    def rule(self, likelihood, n_total: int, loose: bool = False) -> Rule:
        """`loose` where rows' sites were made under earlier hyperparameters."""
        raise NotImplementedError

    def memory(self, n: int, likelihood) -> Memory:
        """Numbers kept for each row while sweeping over all of them: none known yet."""
        return {name: np.zeros((n, likelihood.n_latents)) for name in ("tau", "nu")}

    def totals(self, memory: Memory, y: np.ndarray, residual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(n, C) sites on g from what rows keep."""
        return memory["tau"], memory["nu"]

    def on_latents(self, message: Message, y: np.ndarray, residual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(m, C) sites on f itself: what labels tell of f - g too, whose variance is `residual` (m, C)."""
        return sites_on_f(message.tau, message.nu, residual)

    def noise(self, likelihood) -> float:
        """Variance that is added to the prior's."""
        return 0.0

    def source(self, q: LowRankPosterior, n_total: int, likelihood) -> LowRankPosterior:
        """Where a rule's marginals come from."""
        return q

    def constant(self, q: LowRankPosterior, source: LowRankPosterior, n_total: int, likelihood) -> float:
        """What belongs to the evidence beside the posterior's log partition and the rows' contributions."""
        return 0.0

    def absorb(
        self, state: State, q, W, message: Message, memory: Memory, y, rows, n_total: int, likelihood, size: int
    ) -> State:
        """The state after a minibatch whose rows have w_i as in W (1 or C, m, M); q is the posterior before it.

        A whole minibatch has `size` rows. This one may have fewer, and counts for as many as it has.
        """
        raise NotImplementedError


def several(x: np.ndarray) -> np.ndarray:
    """(m,) as (m, 1)."""
    return x[:, None] if x.ndim == 1 else x


def squeezed(likelihood, x: np.ndarray) -> np.ndarray:
    """(m, 1) as (m,) where there is one latent function."""
    return x[:, 0] if likelihood.n_latents == 1 else x


def sites_on_f(tau: np.ndarray, nu: np.ndarray, residual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sites on f = g + e, e of variance `residual`, that for g are τ and ν: τ = T/(1 + residual T), and ν alike."""
    left = 1 - residual * tau
    return tau / left, nu / left


# sweeps at fixed hyperparameters ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class InducingFit:
    """A posterior of inducing variables, with its evidence."""

    engine: Any
    posterior: LowRankPosterior
    rows: Rows
    y: np.ndarray
    likelihood: Any
    memory: Memory  # the sites of each row, as the engine keeps them
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
        memory = {name: part.copy() for name, part in self.memory.items()} if self.engine.keeps_rows else {}
        return State(P, h, memory, np.zeros_like(P), np.zeros_like(h), SETTLED * len(self.y), steps=SETTLED)

    def gradient(self) -> LowRankGradient:
        """d log_evidence in K_uu, K_fu and k_diag, each of the shape that it came in."""
        return self._derivatives[0]

    def likelihood_gradient(self) -> np.ndarray:
        """(p,) d log_evidence / d likelihood.theta."""
        return self._derivatives[1]

    @property
    def _derivatives(self) -> tuple[LowRankGradient, np.ndarray]:
        rule = self.engine.rule(self.likelihood, len(self.y))
        total, fu, diag = GradientSum(self.posterior), np.zeros(self.rows.phi.shape), []
        theta = np.zeros(len(self.likelihood.theta))
        source = self.engine.source(self.posterior, len(self.y), self.likelihood)
        for some in blocks(len(self.y), self.posterior.S.shape[0] * self.posterior.prior.M):
            at = source.marginals(self.rows.some(some))
            message = rule(at, self.y[some], {name: part[some] for name, part in self.memory.items()})
            fu[:, some], g = total.add(at, message.slope, message.spread, message.excess)
            diag.append(g)
            theta += message.theta
        parts = total.uu(), fu, np.concatenate(diag, axis=1)
        return LowRankGradient(*(part[0] if self.shared else part for part in parts)), theta

    @property
    def mean(self) -> np.ndarray:
        """(n,) or (n, C) marginal means of f at the training points.

        A row's own label is taken into account: f_i = g_i + e_i, and with EP the label speaks of e_i as well, which the
        inducing variables know nothing of. `predict` gives the values at a new point of the same inputs.
        """
        return squeezed(self.likelihood, self._marginals[0])

    @property
    def var(self) -> np.ndarray:
        """(n,) or (n, C) marginal variances of f at the training points; see `mean`."""
        return squeezed(self.likelihood, self._marginals[1])

    @cached_property
    def _marginals(self) -> tuple[np.ndarray, np.ndarray]:
        """Of f_i = g_i + e_i with sites on f_i: e_i given g_i is Gaussian, its mean linear in g_i."""
        rule = self.engine.rule(self.likelihood, len(self.y))
        source = self.engine.source(self.posterior, len(self.y), self.likelihood)
        mean, var = np.empty((2, *self.rows.residual.shape))
        for some in blocks(len(self.y), self.posterior.S.shape[0] * self.posterior.prior.M):
            at = source.marginals(self.rows.some(some))
            message = rule(at, self.y[some], {name: part[some] for name, part in self.memory.items()})
            g = at if source is self.posterior else self.posterior.marginals(at.rows)
            rest = at.rows.residual - self.engine.noise(self.likelihood)
            tau, nu = self.engine.on_latents(message, self.y[some], rest)
            grown = 1 + rest * tau
            mean[some] = g.mean + rest * (nu - tau * g.mean) / grown
            var[some] = g.var / grown**2 + rest / grown
        return mean, var

    def predict(self, K_us: np.ndarray, k_diag: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Latent means and variances, (m,) or with several classes (m, C), from covariances K_us (M, m) of inducing and new
        points, or (C, M, m), and prior variances k_diag (m,), or (C, m)."""
        return predict(self.posterior, self.likelihood, K_us, k_diag)

    def log_class_probabilities(self, K_us: np.ndarray, k_diag: np.ndarray) -> np.ndarray:
        """(m, C) log class probabilities at new points."""
        return log_class_probabilities(self.likelihood, *self.predict(K_us, k_diag))

    def class_probability_std(self, K_us: np.ndarray, k_diag: np.ndarray) -> np.ndarray:
        """(m, C) standard deviations of the class probabilities under the latent posterior."""
        spread = self.likelihood.predictive_std(*self.predict(K_us, k_diag))
        return spread if self.likelihood.n_latents > 1 else np.stack([spread, spread], axis=1)


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


def log_class_probabilities(likelihood, mean, var) -> np.ndarray:
    if likelihood.n_latents == 1:
        return np.stack([likelihood.log_predictive(label, mean, var) for label in (-1.0, 1.0)], axis=1)
    return np.log(np.maximum(likelihood.predictive(mean, var), np.finfo(float).tiny))


def blocks(n: int, width: int) -> Iterator[slice]:
    size = max(64, NUMBERS // max(1, width))
    return (slice(i, min(i + size, n)) for i in range(0, n, size))


def prepare(engine, K_uu, K_fu, k_diag, y, likelihood) -> tuple[LowRankMatrices, np.ndarray, bool]:
    """Matrices and labels as the sweeps take them, and whether the latent functions share the matrices."""
    check_settings(engine)
    y = check_likelihood(engine, likelihood, y)
    M = np.shape(K_uu)[-1]
    if len(y) < M:
        raise ValueError(f"{M} inducing points are more than the {len(y)} data that they stand for: take fewer")
    shared = all(np.ndim(part) == rank for part, rank in ((K_uu, 2), (K_fu, 2), (k_diag, 1)))
    return LowRankMatrices(K_uu, K_fu, k_diag).checked(len(y), likelihood.n_latents), y, shared


def check_likelihood(engine, likelihood, y) -> np.ndarray:
    if isinstance(likelihood, type):
        raise TypeError(f"likelihood must be an object; write {likelihood.__name__}() instead of {likelihood.__name__}")
    require(likelihood, engine.needed(likelihood), type(engine).__name__)
    return likelihood.check_targets(y)


def sweep_to_convergence(engine, matrices: LowRankMatrices, y, likelihood, start, shared: bool) -> InducingFit:
    """Sites of all rows moved together until they stand still; damped where they do not settle."""
    C = likelihood.n_latents
    prior = LowRankPrior(matrices.K_uu, C, engine.jitter)
    rows = prior.rows(matrices.K_fu, matrices.k_diag + engine.noise(likelihood))
    data = Sweeps(engine, prior, rows, y, likelihood)
    memory = data.start(start)
    tau, nu, q = data.at(memory)
    mixer, status, value = Mixer(engine.damping, engine.ascends), Status(False, 0, np.inf), np.nan
    for sweep in range(1, engine.max_iter + 1):
        new, value, change, var = data.sweep(q, memory, tau, nu)
        status = Status(change <= engine.tol, sweep, change)
        if status.converged or sweep == engine.max_iter:
            break
        memory, (tau, nu, q) = mixer.move(memory, new, change, units(memory, var), q.log_partition + value, data)
    warn_if_unfinished(engine, status, stacklevel=4)
    return InducingFit(engine, q, rows, y, likelihood, memory, tau, nu, status, q.log_partition + value, shared)


class Mixer:
    """Where the next sweep begins: Anderson mixing of the last ones; plainly, then damped, after steps that went astray."""

    def __init__(self, damping: float, ascends: bool):
        self.most, self.part, self.ascends = damping, damping, ascends
        self.points: list[np.ndarray] = []
        self.residuals: list[np.ndarray] = []
        self.last, self.objective = np.inf, -np.inf
        self.least, self.idle = np.inf, 0  # smallest move so far, and sweeps since
        self.mixed, self.wait = False, 0  # whether the last step was mixed; plain steps to come

    def move(self, memory: Memory, new: Memory, change: float, units: np.ndarray, objective: float, data: Sweeps):
        x, goal = _joined(memory), _joined(new)
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
            self.points, self.residuals = [*self.points[-DEPTH:], x], [*self.residuals[-DEPTH:], goal - x]
        return self._made(x, self.residuals[-1], self._target(units), memory, data)

    def _astray(self):
        """A mixed step is to blame first, then the length of plain ones."""
        self.points, self.residuals = [], []
        if self.mixed:
            self.wait = PAUSE
        else:
            self.part = max(0.5 * self.part, LEAST_PART)

    def _made(self, x, residual, target, memory, data):
        part = self.part
        while True:
            mixed = _split(target, memory)
            try:
                return mixed, data.at(mixed)
            except NotPositiveDefinite:  # sites of negative precision: not so far
                part *= 0.5
                if part < LEAST_PART:
                    raise
                target = x + part * residual

    def _target(self, units):
        x, residual = self.points[-1], self.residuals[-1]
        plain = x + self.part * residual
        self.wait = max(0, self.wait - 1)
        self.mixed = len(self.points) >= 3 and self.last < NEAR and not self.wait
        if not self.mixed:
            return plain
        d_residual, d_points = np.diff(self.residuals, axis=0), np.diff(self.points, axis=0)
        seen = d_residual * units
        mix = np.linalg.lstsq(seen @ seen.T, seen @ (residual * units), rcond=1e-13)[0]
        mixed = plain - mix @ (d_points + self.part * d_residual)
        reach = 4 * np.abs(residual) + 1e-2 * np.max(np.abs(residual * units)) / units  # an extrapolation is a guess
        return np.clip(mixed, x - reach, x + reach)


def units(memory: Memory, var: np.ndarray) -> np.ndarray:
    """What makes moves of sites comparable: posterior variances for precisions, standard deviations for pulls."""
    wide = np.maximum(np.mean(var, axis=1), 1e-300)
    parts = (wide if name.endswith("tau") else np.sqrt(wide) for name in memory)
    return np.concatenate([np.repeat(part, memory[name].shape[1]) for name, part in zip(memory, parts, strict=True)])


def _joined(memory: Memory) -> np.ndarray:
    return np.concatenate([part.ravel() for part in memory.values()])


def _split(x: np.ndarray, like: Memory) -> Memory:
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

    def start(self, start: Any) -> Memory:
        n, C = len(self.y), self.likelihood.n_latents
        empty = self.engine.memory(n, self.likelihood)
        if start is None:
            return empty
        if not isinstance(start, InducingFit) or start.tau.shape != (n, C) or start.memory.keys() != empty.keys():
            raise TypeError(f"start must be an earlier fit of {type(self.engine).__name__} to as many rows and classes")
        return start.memory

    def at(self, memory: Memory) -> tuple[np.ndarray, np.ndarray, LowRankPosterior]:
        """Sites on g, and the posterior with them."""
        tau, nu = self.engine.totals(memory, self.y, self.rows.residual)
        return tau, nu, self.posterior(tau, nu)

    def posterior(self, tau: np.ndarray, nu: np.ndarray) -> LowRankPosterior:
        C, M = self.likelihood.n_latents, self.prior.M
        S, pull = np.zeros((C, M, M)), np.zeros((C, M))
        for some in blocks(len(self.y), M):
            more, pulled = site_sums(self.rows.phi[:, some], tau[some], nu[some])
            S += more
            pull += pulled
        return LowRankPosterior(self.prior, S, pull)

    def sweep(self, q: LowRankPosterior, memory: Memory, tau: np.ndarray, nu: np.ndarray):
        """New sites of all rows, what they contribute to the evidence as they are, and how far the new ones would move q."""
        rule = self.engine.rule(self.likelihood, len(self.y))
        source = self.engine.source(q, len(self.y), self.likelihood)
        messages, change, var = [], 0.0, np.empty(tau.shape)
        for some in blocks(len(self.y), q.S.shape[0] * self.prior.M):
            at = source.marginals(self.rows.some(some))
            message = rule(at, self.y[some], {name: part[some] for name, part in memory.items()})
            messages.append(message)
            var[some] = at.var
            change = max(change, moved(at, message.tau - tau[some], message.nu - nu[some]))
        new = {name: np.concatenate([m.memory[name] for m in messages]) for name in memory}
        value = float(sum(np.sum(m.value) for m in messages)) + self.engine.constant(q, source, len(self.y), self.likelihood)
        return new, value, change, var


def moved(at: Marginals, d_tau: np.ndarray, d_nu: np.ndarray) -> float:
    """Largest move of a site, in the units of its row's posterior."""
    shift = np.abs(d_nu - d_tau * at.mean) * np.sqrt(at.var)
    return float(max(np.max(np.abs(d_tau) * at.var, initial=0.0), np.max(shift, initial=0.0)))


# minibatches ------------------------------------------------------------------------------------------------------------


def take_step(
    engine, state: State, matrices: LowRankMatrices, y, rows_at, n_total: int, likelihood, size: int | None = None
) -> Step:
    """Evidence and derivatives from some rows with the sites as they are, and new sites for these rows. [VC] (5.22)

    `rows_at` are the places of these rows among all (their numbers in the memory), n_total is the number of all rows, and
    `size` the number of rows of a whole minibatch; None: this is one.
    """
    y = check_likelihood(engine, likelihood, y)
    matrices = matrices.checked(len(y), likelihood.n_latents)
    prior = LowRankPrior(matrices.K_uu, likelihood.n_latents, engine.jitter)
    rows = prior.rows(matrices.K_fu, matrices.k_diag)
    S, pull = prior.whitened(state.P, state.h)
    q = repaired(prior, S, pull)
    if q.S is not S:  # new sites are added to what q has
        P, h = prior.coloured(q.S, q.pull)
        state = replace(state, P=P, h=h)
    source = engine.source(q, n_total, likelihood)
    memory = {name: part[rows_at] for name, part in state.memory.items()}
    share = n_total / len(y)
    total = GradientSum(q)
    at = source.marginals(rows)
    message = engine.rule(likelihood, n_total, loose=state.age > STILL)(at, y, memory)
    fu, diag = total.add(at, message.slope, message.spread, message.excess, share)
    value = q.log_partition + share * float(np.sum(message.value)) + engine.constant(q, source, n_total, likelihood)
    if engine.keeps_rows and 0 < state.seen < n_total:
        value = np.nan
    gradient = LowRankGradient(total.uu(), fu, diag)
    W, size = prior.weights(rows), len(y) if size is None else size
    new = engine.absorb(state, q, W, message, memory, y, rows_at, n_total, likelihood, size)
    return Step(value, gradient, share * message.theta, replace(new, steps=state.steps + 1))


def repaired(prior: LowRankPrior, S: np.ndarray, pull: np.ndarray) -> LowRankPosterior:
    """The posterior of natural parameters that were learned under another prior: what outweighs this one is dropped."""
    try:
        return LowRankPosterior(prior, S, pull)
    except NotPositiveDefinite:
        value, vector = np.linalg.eigh(0.5 * (S + np.swapaxes(S, 1, 2)))
        kept = np.maximum(value, -0.5)
        return LowRankPosterior(prior, np.einsum("cij,cj,ckj->cik", vector, kept, vector), pull)
