"""Active sets of rows that are divided among processes.

Each shard keeps its own rows as candidates, with their marginals and stubs. For an inclusion, each shard scores its
candidates and returns those that may be the best of all. One of them is chosen. Its inputs, its site and its stub, the row
of M, are sent to all shards, and each shard computes its own part of the next column of M. So the result does not depend on
the partitions, except for rounding, and only active rows ever leave their shards (and offers of them, which are forgotten).
The evidence and its derivatives are sums over the rows without sites, in the shards, plus the part of the active rows.

If memory is limited (`IVM.memory`, for all processes together), each shard drops candidates by itself: it keeps its share,
in proportion to its rows, of the number of candidates that the memory allows. So which candidates are dropped depends on the
shards. A single shard drops the same candidates as arrays do.

If a process ends and its rows are loaded again, the new shard repeats the inclusions that were made so far.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ..engines.active.criterion import Held, HeldSum, with_sites, without_sites
from ..engines.active.ivm import after_sweeps, check_variances
from ..engines.active.selection import (
    Candidates,
    Choice,
    Inclusion,
    Offers,
    choose,
    drift_of,
    grow,
    log_masses,
    repeat,
    row_targets,
    sites_of,
)
from ..engines.fit import check_settings, check_weights, squeezed
from ..engines.observations import Observed
from ..gaussian import ActivePosterior, ActiveSites, Sites
from ..kernels import Kernel
from ..likelihoods.tempered import split_targets
from ..sparse import ActiveFit, log_evidence
from .active_set import learn_active_set, own_evidence
from .calibration import LeftOut
from .columns import covariances, gathered, gradients
from .crew import Crew, Piece, Shard, in_order, persistent, resumed, rows_in
from .held_rows import MOST
from .learned import Learned
from .objective import Objective
from .streams import codes
from .streams.order import sampled_rows

SELECTION, CANDIDATES = "active set", "candidates of active sets"  # keys of `Shard.memory`
SAMPLE = 2**32 - 3  # of the seed of the rows for calibration


def learn_active(
    crew: Crew, objective: Objective, labels: np.ndarray, starts: Sequence[np.ndarray], seed: int = 0
) -> Learned:
    """Optimise hyperparameters and select an active set of the rows of a crew.

    Parameters
    ----------
    crew : Crew
        The rows. They must stay available for `Learned.left_out`.
    objective : Objective
        The objective, with an IVM as its engine. Its rows may be a sample: they are used for starts only.
    labels : ndarray of shape (C,)
        All class labels, in the order of the likelihood's `class_targets`.
    starts : sequence of ndarray
        Hyperparameters from which to start. An empty list keeps them fixed.
    seed : int, default=0
        Seed of the sample of rows for calibration.

    Returns
    -------
    Learned
        The result. Its posterior is a fit without rows, `rows` are the numbers of the active rows in the data set.
    """
    if objective.engine.augment is not None:
        raise TypeError(
            "IVM's `augment` needs all rows in one process, but they are divided among several: pass arrays, or use "
            "augment=None and add transformed rows to the data"
        )
    rows = DividedRows(crew, labels)
    learned = learn_active_set(objective, starts, rows)
    fit = learned.posterior
    rows.forget()
    return replace(learned, posterior=fit.plain(), rows_left_out=lambda: rows.left_out(fit, learned.kernel, seed))


# what shards are sent -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Model:
    """Kernel, likelihood and labels."""

    kernel: Kernel
    likelihood: Any
    labels: np.ndarray
    weighted: bool  # whether any row has a weight

    def targets(self, place: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        """Return the targets of rows, given their class numbers and weights, in the form of `row_targets`."""
        y = self.likelihood.check_targets(self.likelihood.class_targets[place])
        if not self.weighted:
            return y
        return row_targets(Observed(y, np.ones(len(y)) if weight is None else weight))

    def of(self, piece: Piece) -> np.ndarray:
        return self.targets(piece.place, piece.weight)

    def columns(self, X: np.ndarray) -> list[Any]:
        return covariances(self.kernel, X, self.likelihood.n_latents)


@dataclass(frozen=True)
class Active:
    """Active rows with their sites."""

    inputs: np.ndarray  # (u, D)
    numbers: np.ndarray  # (u,) in the data set
    at: ActiveSites  # rows are numbered 0 … u-1


@dataclass(frozen=True)
class Plan:
    """What a shard needs to begin a selection."""

    engine: Any
    model: Model
    n_rows: int  # of all shards
    n_columns: int


@dataclass(frozen=True)
class Entry:
    """An inclusion, with what led to it and what candidates need."""

    choice: Choice
    new: Inclusion
    x: np.ndarray  # (D,) inputs of the row
    y: np.ndarray  # (1,) its target
    closed: np.ndarray  # (C,) latent functions that were closed


@dataclass(frozen=True)
class Step:
    """The state of a selection, from which a shard finds what it has to do."""

    run: str  # name of the selection
    plan: Plan | None  # None if all shards have it
    since: int  # number of the first of `entries`
    entries: list[Entry]  # the last inclusions, or all
    size: int  # number of candidates, in all shards


# functions of shards --------------------------------------------------------------------------------------------------


@dataclass
class _Selecting:
    """The selection of a shard."""

    run: str
    plan: Plan
    pool: Candidates | None  # None once its result is known
    count: int = 0  # inclusions
    scored: bool = False  # whether scores are up to date
    result: np.ndarray | None = None

    @staticmethod
    def begin(shard: Shard, step: Step) -> _Selecting:
        plan = step.plan
        assert plan is not None, "a shard without this selection is sent its plan"
        X, y, numbers = _inputs(shard, plan.n_columns), _targets(shard, plan.model), shard.numbers()
        columns = plan.model.columns(X)
        for column in columns:
            check_variances(column)
        seed = plan.engine.random_state
        rng = np.random.default_rng(seed if not len(numbers) or numbers[0] == 0 else [seed, int(numbers[0])])
        pool = Candidates(plan.engine, columns, y, plan.model.likelihood, rng, numbers)
        return _Selecting(step.run, plan, pool)

    def catch_up(self, shard: Shard, step: Step) -> Candidates:
        """Add the inclusions that were made elsewhere."""
        assert self.pool is not None, "a selection that goes on has candidates"
        entries = step.entries[self.count - step.since :]
        if len(entries) > 1:  # after a loss; first, so that the stubs of all rows need not fit
            self.shrink(shard, entries[0].closed, step.size)
        for entry in entries:
            if self.pool.drift:  # rough scores depend on when rows were scored
                self.refresh()
                self.pool.mask(entry.closed)
            self.pool.note(entry.choice)
            column: Any = self.pool.stubs[entry.new.latent].covariance
            self.pool.add(entry.new, column.with_inputs(entry.x[None])[:, 0])
            self.count, self.scored = self.count + 1, False
        return self.pool

    def refresh(self) -> None:
        """Score all rows, if there are inclusions since they were scored."""
        assert self.pool is not None, "a selection that goes on has candidates"
        if not self.scored:
            self.pool.refresh()
        self.scored = True

    def shrink(self, shard: Shard, closed: np.ndarray, size: int) -> None:
        """Keep this shard's share of `size` candidates."""
        assert self.pool is not None, "a selection that goes on has candidates"
        if size < self.plan.n_rows:
            self.refresh()
            self.pool.shrink(closed, share(size, shard.n_rows, self.plan.n_rows))


def share(size: int, rows: int, n_rows: int) -> int:
    """Return the number of candidates of a shard, rounded up."""
    return -(-size * rows // n_rows)


def _inputs(shard: Shard, n_columns: int) -> np.ndarray:
    """Return the inputs (m, D) of all rows of a shard, in double precision."""
    parts = [part.X for part in shard.parts if len(part)] or [np.zeros((0, n_columns))]
    return np.asarray(parts[0], float) if len(parts) == 1 else np.concatenate(parts, dtype=float)


def _targets(shard: Shard, model: Model) -> np.ndarray:
    found = [model.of(piece) for piece in shard.pieces(model.labels)]
    return np.concatenate(found) if found else model.targets(np.zeros(0, int), None)


def _selecting(shard: Shard, step: Step) -> _Selecting:
    """Return the selection of a shard; a new one if the shard does not have it."""
    here = shard.memory.get(SELECTION)
    if here is None or here.run != step.run:
        shard.memory.pop(SELECTION, None)  # before the new one needs memory
        here = shard.memory[SELECTION] = _Selecting.begin(shard, step)
    return here


def offered(shard: Shard, step: Step, closed: np.ndarray) -> tuple[Offers, np.ndarray]:
    """Return the candidates of a shard that may be the best of all, and their inputs (k, D)."""
    here = _selecting(shard, step)
    pool = here.catch_up(shard, step)
    here.refresh()
    here.shrink(shard, closed, step.size)
    offers = pool.offers(closed)
    return offers, pool.stubs[0].covariance.X[pool.places(offers.numbers)[1]]  # type: ignore[attr-defined]


def closed_sum(shard: Shard, step: Step, active: Active, settled: bool) -> np.ndarray:
    """End a selection: return the sum of log masses of the rows without sites (11), and the number of candidates.

    If the sites are not `settled`, those of the selection, marginals of candidates are known.
    """
    here = _selecting(shard, step)
    if here.result is None:
        pool, model = here.catch_up(shard, step), here.plan.model
        numbers = shard.numbers()
        value, rest = 0.0, ~np.isin(numbers, active.numbers)
        if not settled:
            known = np.flatnonzero(~np.isin(pool.rows, active.numbers))
            value += log_masses(model.likelihood, pool.y[known], *pool.marginals(known))
            rest[np.searchsorted(numbers, pool.rows)] = False
        if here.plan.engine.memory is not None:
            kept = np.isin(numbers, pool.rows)
            shard.memory.setdefault(CANDIDATES, {})[step.run] = np.packbits(kept)
        if np.any(rest):
            value += _sum_over(shard, model, active, rest, derivatives=False)[0]
        here.result, here.pool = np.array([value, len(pool.rows)]), None
    return here.result


def others(shard: Shard, model: Model, active: Active, few: tuple[str, int, int] | None) -> np.ndarray:
    """Return the evidence of the rows without sites and its derivatives as an array, see `_packed`.

    `few` restricts them to the candidates that were left at the end of a selection: its name, their number in all shards,
    and the number of all rows.
    """
    wanted = ~np.isin(shard.numbers(), active.numbers)
    if few is not None:
        wanted &= _candidates(shard, *few)
    return _sum_over(shard, model, active, wanted, derivatives=True)


def _candidates(shard: Shard, run: str, count: int, n_rows: int) -> np.ndarray:
    """Return which rows of a shard were candidates; random ones if the shard has been loaded again since."""
    packed = shard.memory.get(CANDIDATES, {}).get(run)
    if packed is not None:
        return np.unpackbits(packed, count=shard.n_rows).astype(bool)
    kept = np.zeros(shard.n_rows, bool)
    some = min(shard.n_rows, share(count, shard.n_rows, n_rows))
    kept[np.random.default_rng(count).choice(shard.n_rows, some, replace=False)] = True
    shard.memory.setdefault(CANDIDATES, {})[run] = np.packbits(kept)
    return kept


def _sum_over(shard: Shard, model: Model, active: Active, wanted: np.ndarray, derivatives: bool) -> np.ndarray:
    """Return the sum over some rows without sites, block by block. Each block follows the active rows, numbered from 0."""
    u, C = len(active.numbers), model.likelihood.n_latents
    q = ActivePosterior(model.columns(active.inputs), active.at)
    total, in_kernel = HeldSum(q, model.likelihood, derivatives), np.zeros(len(model.kernel.theta))
    for piece in shard.pieces(model.labels, max(active.inputs.shape[1], u)):
        some = np.flatnonzero(wanted[piece.at])
        if not len(some):
            continue
        X, y = np.concatenate([active.inputs, piece.X[some]]), model.of(piece)[some]
        columns = model.columns(X)
        sinks = gradients(model.kernel, X, C) if derivatives else None
        prior_var = np.stack([column.diag for column in columns], axis=1)
        for seen in without_sites(q, columns, prior_var, np.arange(u, len(X))):
            total.add(seen, y[seen.rows - u], sinks)
        if sinks is not None:
            in_kernel += gathered(sinks)
    sinks = gradients(model.kernel, active.inputs, C) if derivatives else None
    held = total.result(sinks)
    return _packed(held, in_kernel if sinks is None else in_kernel + gathered(sinks))


def _packed(held: Held, in_kernel: np.ndarray) -> np.ndarray:
    """Return an evidence and its derivatives as one array, so that those of shards can be added."""
    return np.concatenate([[held.value], held.in_theta, held.in_sites.tau, held.in_sites.nu, in_kernel])


def _unpacked(packed: np.ndarray, p: int, d: int) -> tuple[Held, np.ndarray]:
    value, in_theta, tau, nu, in_kernel = np.split(packed, np.cumsum([1, p, d, d]))
    return Held(float(value[0]), in_theta, Sites(tau, nu)), in_kernel


def facts(shard: Shard) -> tuple[int, bool, float]:
    """Return the number of rows, whether they have weights, and a weight that is not one if there is any."""
    weights = [part.weight[part.weight != 1][:1] for part in shard.parts if part.weight is not None]
    return shard.n_rows, shard.weighted, float(np.concatenate([*weights, np.ones(1)])[0])


def forget(shard: Shard) -> None:
    """Remove what selections keep in a shard."""
    shard.memory.pop(SELECTION, None)
    shard.memory.pop(CANDIDATES, None)


# the process that decides ---------------------------------------------------------------------------------------------


class CrewPool:
    """The candidates of all shards, for `grow`."""

    def __init__(self, crew: Crew, plan: Plan):
        self.crew, self.plan, self.run = crew, plan, uuid.uuid4().hex
        self.log: list[Entry] = []
        self.size = plan.n_rows
        self._next: Entry | None = None

    def step(self, lost: bool) -> Step:
        """Return what shards need to know: the last inclusion, or all if some shards are new."""
        everything = lost or not self.log
        since = 0 if everything else len(self.log) - 1
        return Step(self.run, self.plan if everything else None, since, self.log[since:], self.size)

    def best(self, closed: np.ndarray, size: int) -> Inclusion | None:
        self.size = min(self.size, size)
        found = resumed(lambda lost: self.crew.each(offered, self.step(lost), closed))
        offers, model = Offers.joined([part for part, _ in found]), self.plan.model
        rough = bool(drift_of(self.plan.engine, model.likelihood.n_latents))
        choice = choose(self.plan.engine, model.likelihood, offers, rough)
        if choice.new is None:
            return None
        X = next(X[part.numbers == choice.new.number] for part, X in found if choice.new.number in part.numbers)
        self._next = Entry(choice, choice.new, X[0], offers.y[offers.numbers == choice.new.number], closed)
        return choice.new

    def add(self, new: Inclusion) -> None:
        assert self._next is not None, "a best inclusion is added"
        self.log.append(self._next)

    def active(self) -> tuple[Active, np.ndarray]:
        """Return the active rows and their targets, in the form of `row_targets`."""
        at = sites_of([entry.new.site for entry in self.log])
        first = {entry.new.number: entry for entry in reversed(self.log)}
        entries = [first[number] for number in at.union.tolist()]
        inputs = np.array([entry.x for entry in entries]).reshape(-1, self.plan.n_columns)
        y = np.concatenate([entry.y for entry in entries] or [np.zeros(0)])
        return Active(inputs, at.union, at.renumbered(at.union)), y


@dataclass(frozen=True)
class CrewFit(ActiveFit):
    """A fit of the rows of a crew: a fit without rows, and what further evaluations need."""

    inputs: np.ndarray  # (u, D) of the active rows
    numbers: np.ndarray  # (u,) of these rows in the data set
    run: str  # name of the selection
    n_candidates: int  # rows that remained candidates until the end

    def plain(self) -> ActiveFit:
        """Return the fit alone."""
        return ActiveFit(**{field.name: getattr(self, field.name) for field in fields(ActiveFit)})


class DividedRows:
    """The rows of a crew, for `active_set`."""

    def __init__(self, crew: Crew, labels: np.ndarray):
        self.crew, self.labels = crew, labels
        counts, weighted, weights = zip(*resumed(lambda lost: crew.each(facts)), strict=True)
        self.n_rows, self.weighted = sum(counts), any(weighted)
        self._some_weight = next((weight for weight in weights if weight != 1), 1.0)

    def _model(self, kernel: Kernel, likelihood: Any) -> Model:
        return Model(kernel, likelihood, self.labels, self.weighted)

    def fit(self, objective: Objective, theta: np.ndarray) -> tuple[CrewFit, Kernel, Any]:
        engine, (kernel, likelihood) = objective.engine, objective.at(theta)
        self._check(engine, likelihood)
        model = self._model(kernel, likelihood)
        pool = CrewPool(self.crew, Plan(engine, model, self.n_rows, self.crew.n_columns))
        scores = grow(engine, pool, self.n_rows, likelihood.n_latents)
        active, y = pool.active()
        columns = model.columns(active.inputs)
        at, status = after_sweeps(engine, columns, active.at, y, likelihood)
        active = replace(active, at=at)
        settled = engine.sweeps > 0
        found = resumed(lambda lost: self.crew.sum(closed_sum, pool.step(lost), active, settled))
        value = log_evidence(columns, at, y, likelihood).value + found[0]
        q, given = ActivePosterior(columns, at), _given(y)
        own = engine, q, given, likelihood, status, float(value), None, None, scores, None
        return CrewFit(*own, active.inputs, active.numbers, pool.run, int(found[1])), kernel, likelihood

    def _check(self, engine, likelihood) -> None:
        check_settings(engine)
        engine.check_likelihood(likelihood)
        if self.weighted:
            weight = np.array([self._some_weight])
            check_weights(engine, Observed(likelihood.class_targets[:1], weight), likelihood)

    def inputs(self, objective: Objective, fit: Any) -> tuple[np.ndarray, np.ndarray]:
        return fit.inputs, fit.numbers

    def repeat(self, objective: Objective, theta: np.ndarray, fit: Any) -> CrewFit:
        kernel, likelihood = objective.at(theta)
        columns = covariances(kernel, fit.inputs, likelihood.n_latents)
        sites = repeat(objective.engine, columns, fit.at, fit.y, likelihood)
        return replace(fit, posterior=ActivePosterior(columns, sites), likelihood=likelihood)

    def counted(self, objective: Objective, fit: Any) -> tuple[int, int]:
        return fit.n_candidates + len(fit.rows) if self._few(fit) else self.n_rows, self.n_rows

    def _few(self, fit) -> bool:
        return fit.n_candidates < self.n_rows - len(fit.rows)

    def evidence(self, objective, theta, fit, at, counted):
        kernel, likelihood = objective.at(theta)
        few = (fit.run, fit.n_candidates, self.n_rows) if counted and self._few(fit) else None
        given = self._model(kernel, likelihood), Active(fit.inputs, fit.numbers, at), few
        own: list[tuple[Held, np.ndarray]] = []

        def of_active():
            if not own:
                own.append(own_evidence(replace(objective, X=fit.inputs, y=fit.y), theta, at))

        summed = resumed(lambda lost: self.crew.sum(others, *given, meanwhile=of_active))
        return _unpacked(summed + _packed(*own[0]), len(likelihood.theta), len(at))

    def left_out(self, fit: CrewFit, kernel: Kernel, seed: int) -> LeftOut:
        """Return log class probabilities of at most `MOST` rows, each predicted without its own site."""
        chosen = sampled_rows(self.n_rows, (seed, SAMPLE), MOST)
        X, y, numbers, weight = in_order(persistent(self.crew, rows_in, chosen))
        mean, var = self._cavities(fit, kernel, numbers, X)
        log_p = fit.likelihood.log_class_probabilities(squeezed(mean), squeezed(var))
        return LeftOut(log_p, codes(y, self.labels), weight)

    def _cavities(self, fit: CrewFit, kernel: Kernel, numbers: np.ndarray, X: np.ndarray):
        """Return means and variances (m, C) of rows, each without its own site."""
        q, u = fit.posterior, len(fit.numbers)
        columns = covariances(kernel, np.concatenate([fit.inputs, X]), q.n_latents)
        prior_var = np.stack([column.diag for column in columns], axis=1)
        mean, var = np.empty((2, *prior_var.shape))
        place = u + np.arange(len(numbers))
        order = np.argsort(fit.numbers)
        spot = order[np.minimum(np.searchsorted(fit.numbers, numbers, sorter=order), u - 1)]
        place = np.where(fit.numbers[spot] == numbers, spot, place)
        for seen in (with_sites(q, columns, prior_var), *without_sites(q, columns, prior_var, place[place >= u])):
            mean[seen.rows], var[seen.rows] = seen.mean, seen.var
        return mean[place], var[place]

    def forget(self) -> None:
        resumed(lambda lost: self.crew.each(forget))


def _given(y: np.ndarray) -> Any:
    """Return targets in the form that engines are given: an array, or `Observed` if they have weights."""
    targets, power = split_targets(y)
    return targets if power is None else Observed(targets, power)
