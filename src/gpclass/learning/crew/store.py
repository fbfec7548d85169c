"""The sites of rows during training on minibatches, in the shards of a crew.

`CrewStore` computes the sums of a step over the shards; each shard keeps the sites of its rows. A shard does not know
whether a step ended well everywhere. So it keeps the new sites of a step apart until the next call, whose `State.steps`
shows whether the step counts. Sites that were lost with their process are computed again from the posterior.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ...engines.inducing.step import RowSites
from ..checkpoint import Blocks
from ..minibatch import SentStep, SentSums, StepSums, TrainingStep, row_sums
from ..site_store import SiteStore, targets_of
from ..streams import Batch
from ..streams.batch import joined
from .crews import Crew, persistent
from .order import ROWS_AT_ONCE, CrewBatch, numbered_rows, rows_of
from .shard import Shard


@dataclass(frozen=True)
class CrewStore:
    """Sites of rows in the shards of a crew; see `SiteStore`."""

    crew: Crew
    labels: np.ndarray
    out: np.ndarray  # rows that are left out
    run: str  # key of this run's sites in the shards
    none: RowSites  # sites of no rows; empty for engines that keep no sites

    elsewhere: ClassVar = True

    def mark(self, batch: CrewBatch) -> None:
        """Return None: a step needs no undoing, since the next call shows the shards whether it counts."""

    def undo(self, before: None) -> None:
        pass

    def sums(self, step: TrainingStep, batch: CrewBatch, labels: np.ndarray) -> StepSums:
        """Return the sums of a step over the rows of a minibatch; the shards keep their new sites."""

        def meanwhile() -> None:
            _ = step.shared.posterior  # needed by `finished`

        return persistent(self.crew, part_of_step, self.run, step.sent(), batch, labels, meanwhile=meanwhile).whole()

    def rows(self, step: TrainingStep, batch: CrewBatch) -> tuple[Batch, RowSites]:
        """Return the rows of a minibatch, and their sites."""
        found = persistent(self.crew, with_sites, self.run, step.sent(), batch, self.labels)
        some = joined([part for part, _ in found])
        order = np.argsort(some.rows)
        return some.some(order), {name: np.concatenate([sites[name] for _, sites in found])[order] for name in self.none}

    def grown(self, n_rows: int) -> LaterRows:
        raise ValueError("rows can be added only after training; call `left` first")

    def left(self, n_rows: int) -> LaterRows:
        """Return a store in this process for rows that are added after these `n_rows`. These are not needed then."""
        return LaterRows(dict(self.none), n_rows)

    def content(self, step: TrainingStep) -> dict[str, Any]:
        """Return the sites of all rows, for a checkpoint, as blocks that are fetched one by one."""
        sent = step.sent()

        def blocks(name: str) -> Iterator[np.ndarray]:
            for i in range(0, step.shared.n_total, ROWS_AT_ONCE):
                j = min(i + ROWS_AT_ONCE, step.shared.n_total)
                found = persistent(self.crew, sites_between, self.run, sent, self.labels, self.out, name, i, j)
                block = np.empty((j - i, *self.none[name].shape[1:]))
                for numbers, part in found:
                    block[numbers - i] = part
                yield block

        n = step.shared.n_total
        return {name: Blocks((n, *part.shape[1:]), partial(blocks, name)) for name, part in self.none.items()}

    def restore(self, found: dict[str, Any]) -> CrewStore:
        """Return a store with the sites of a checkpoint, which are sent block by block."""
        for name, given in found.items():
            first = 0
            for part in given.parts():
                persistent(self.crew, put_sites, self.run, self.out, name, first, part)
                first += len(part)
        return self

    def close(self) -> None:
        """Remove the sites from the shards."""
        persistent(self.crew, forget_sites, self.run)


@dataclass
class LaterRows(SiteStore):
    """Sites of rows from the number `first` on, in this process; the rows before have been trained on elsewhere."""

    first: int = 0

    def of(self, rows: np.ndarray) -> RowSites:
        return super().of(rows - self.first)

    def put(self, rows: np.ndarray, new: RowSites) -> None:
        super().put(rows - self.first, new)

    def grown(self, n_rows: int) -> LaterRows:
        return LaterRows(super().grown(n_rows - self.first).sites, self.first)


def part_of_step(shard: Shard, run: str, sent: SentStep, batch: CrewBatch, labels: np.ndarray) -> SentSums:
    """Return the sums of a step over those rows of a minibatch that are in the shard, and keep their new sites."""
    step, rows = sent.step, rows_of(shard, batch)
    sites = _sites_of(shard, run, step, labels, batch) if step.shared.engine.keeps_rows else {}
    if not len(rows):
        return SentSums.of(StepSums.none(step))
    some = shard.take(rows)
    own = {name: part[rows] for name, part in sites.items()}
    total, new = row_sums(step, some.X, targets_of(some, step.shared.likelihood, labels), own)
    if sites:
        shard.memory[run].new = step.shared.state.steps, rows, new
    return SentSums.of(total)


@dataclass
class _Kept:
    """Sites of the rows of a shard."""

    sites: RowSites
    new: tuple[int, np.ndarray, RowSites] | None = None  # of the last step: `State.steps` before it, rows and sites


def _sites_of(shard: Shard, run: str, step: TrainingStep, labels: np.ndarray, batch: CrewBatch | None = None) -> RowSites:
    """Return the sites of all rows of the shard, including those of the last step if it counts."""
    kept = shard.memory.setdefault(run, _Kept({}))
    if kept.new is not None:
        steps, rows, new = kept.new
        if steps < step.shared.state.steps:  # otherwise the step ended with an error elsewhere, and is done again
            for name, part in new.items():
                kept.sites[name][rows] = part
        kept.new = None
    if not kept.sites:
        kept.sites = _first_sites(shard, step, labels, batch)
    return kept.sites


def _first_sites(shard: Shard, step: TrainingStep, labels: np.ndarray, batch: CrewBatch | None) -> RowSites:
    """Return the sites with which a shard begins: none, or those of the posterior if rows had sites that were lost."""
    sites = step.shared.engine.row_sites(shard.n_rows, step.shared.likelihood)
    if not step.shared.state.seen:
        return sites
    had = np.arange(shard.n_rows)
    if step.shared.state.seen < step.shared.n_total and batch is not None:  # in the first pass, rows ahead have none yet
        had = rows_of(shard, replace(batch, start=0, stop=batch.start))
    width = max(1, step.shared.size)
    for i in range(0, len(had), width):
        some = shard.take(rows := had[i : i + width])
        K = step.matrices(some.X)
        new = step.shared.engine.sites_anew(step.shared, K.K_fu, K.k_diag, targets_of(some, step.shared.likelihood, labels))
        for name, part in new.items():
            sites[name][rows] = part
    return sites


def with_sites(shard: Shard, run: str, sent: SentStep, batch: CrewBatch, labels: np.ndarray) -> list[tuple[Batch, RowSites]]:
    """Return the rows of a minibatch that are in the shard, and their sites."""
    step, rows = sent.step, rows_of(shard, batch)
    if not len(rows):
        return []
    sites = _sites_of(shard, run, step, labels) if step.shared.engine.keeps_rows else {}
    return [(shard.take(rows), {name: part[rows] for name, part in sites.items()})]


def sites_between(
    shard: Shard, run: str, sent: SentStep, labels: np.ndarray, out: np.ndarray, name: str, start: int, stop: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return numbers and sites of the rows of the shard with numbers start … stop-1."""
    rows, numbers = numbered_rows(shard, out)
    i, j = np.searchsorted(numbers, [start, stop])
    return [(numbers[i:j], _sites_of(shard, run, sent.step, labels)[name][rows[i:j]])] if i < j else []


def put_sites(shard: Shard, run: str, out: np.ndarray, name: str, start: int, given: np.ndarray) -> int:
    """Set the sites of the rows with numbers start, start + 1, … as far as they are in the shard."""
    kept = shard.memory.setdefault(run, _Kept({}))
    kept.new = None
    if name not in kept.sites:
        kept.sites[name] = np.zeros((shard.n_rows, *given.shape[1:]))
    rows, numbers = numbered_rows(shard, out)
    i, j = np.searchsorted(numbers, [start, start + len(given)])
    kept.sites[name][rows[i:j]] = given[numbers[i:j] - start]
    return 0


def forget_sites(shard: Shard, run: str) -> int:
    """Remove the sites of a run."""
    shard.memory.pop(run, None)
    return 0
