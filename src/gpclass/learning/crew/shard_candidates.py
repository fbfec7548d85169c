"""The candidates of a shard for an active set, and sums over its rows without sites.

Each shard keeps its own rows as candidates, with their marginals and stubs. It returns those that may be the best of all,
and computes its own part of the next column of M when a row is included.

If memory is limited (`IVM.memory`, for all processes together), each shard drops candidates by itself: it keeps its share,
in proportion to its rows, of the number of candidates that the memory allows. So which candidates are dropped depends on the
shards. A single shard drops the same candidates as arrays do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...engines.active.candidates import Candidates, Choice, Inclusion, Offers
from ...engines.active.criterion import ActiveEvidence, ActiveEvidenceSum, without_sites
from ...engines.active.ivm import check_variances
from ...engines.active.scores import log_masses, row_targets
from ...engines.observations import Observed
from ...gaussian import ActivePosterior, ActiveSites, Sites
from ...kernels import Kernel
from ..columns import covariances, gathered, gradients
from .shard import Piece, Shard

SELECTION, CANDIDATES = "active set", "candidates of active sets"  # keys of `Shard.memory`


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
class SelectionStep:
    """The state of a selection, from which a shard finds its next operations."""

    run: str  # name of the selection
    plan: Plan | None  # None if all shards have it
    since: int  # number of the first of `entries`
    entries: list[Entry]  # the last inclusions, or all
    size: int  # number of candidates, in all shards


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
    def begin(shard: Shard, step: SelectionStep) -> _Selecting:
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

    def catch_up(self, shard: Shard, step: SelectionStep) -> Candidates:
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


def _selecting(shard: Shard, step: SelectionStep) -> _Selecting:
    """Return the selection of a shard; a new one if the shard does not have it."""
    here = shard.memory.get(SELECTION)
    if here is None or here.run != step.run:
        shard.memory.pop(SELECTION, None)  # before the new one needs memory
        here = shard.memory[SELECTION] = _Selecting.begin(shard, step)
    return here


def offered(shard: Shard, step: SelectionStep, closed: np.ndarray) -> tuple[Offers, np.ndarray]:
    """Return the candidates of a shard that may be the best of all, and their inputs (k, D)."""
    here = _selecting(shard, step)
    pool = here.catch_up(shard, step)
    here.refresh()
    here.shrink(shard, closed, step.size)
    offers = pool.offers(closed)
    return offers, pool.stubs[0].covariance.X[pool.places(offers.numbers)[1]]  # type: ignore[attr-defined]


def closed_sum(shard: Shard, step: SelectionStep, active: Active, settled: bool) -> np.ndarray:
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
    """Return the evidence of the rows without sites and its derivatives as an array, see `packed_evidence`.

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
    total, in_kernel = ActiveEvidenceSum(q, model.likelihood, derivatives), np.zeros(len(model.kernel.theta))
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
    return packed_evidence(held, in_kernel if sinks is None else in_kernel + gathered(sinks))


def packed_evidence(held: ActiveEvidence, in_kernel: np.ndarray) -> np.ndarray:
    """Return an evidence and its derivatives as one array, so that those of shards can be added."""
    return np.concatenate([[held.value], held.in_theta, held.in_sites.tau, held.in_sites.nu, in_kernel])


def unpacked_evidence(packed: np.ndarray, p: int, d: int) -> tuple[ActiveEvidence, np.ndarray]:
    value, in_theta, tau, nu, in_kernel = np.split(packed, np.cumsum([1, p, d, d]))
    return ActiveEvidence(float(value[0]), in_theta, Sites(tau, nu)), in_kernel


def facts(shard: Shard) -> tuple[int, bool, float]:
    """Return the number of rows, whether they have weights, and a weight that is not one if there is any."""
    weights = [part.weight[part.weight != 1][:1] for part in shard.parts if part.weight is not None]
    return shard.n_rows, shard.weighted, float(np.concatenate([*weights, np.ones(1)])[0])


def forget_candidates(shard: Shard) -> None:
    """Remove what selections keep in a shard."""
    shard.memory.pop(SELECTION, None)
    shard.memory.pop(CANDIDATES, None)
