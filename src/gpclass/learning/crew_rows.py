"""Training on minibatches of rows that are divided among processes.

`CrewRows` is a source whose minibatches are parts of a random order of all rows, wherever these are: the order of arrays in
one process. So a run depends on the rows and the size of the minibatches, not on the partitions. `CrewStore` computes the
sums of a step over the shards; each shard keeps the sites of its rows.

A shard does not know whether a step ended well everywhere. It keeps the new sites of a step apart until the next call:
`State.steps` then tells whether the step counts. Sites that were lost with their process are made anew from the posterior.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ..engines.inducing.step import RowSites
from .checkpoint import Blocks
from .crew import Crew, Shard, in_order, persistent, rows_in
from .minibatch import SentStep, SentSums, Step, StepSums, row_sums
from .site_store import SiteStore, targets_of
from .streams import Batch, Order, RowHashes, Source, Summary, sampled_rows
from .streams.batch import joined
from .streams.labels import LabelCounts
from .streams.summary import SAMPLE

BLOCK = 1 << 16  # rows whose sites are sent at a time


@dataclass(frozen=True)
class CrewBatch:
    """A minibatch: the rows at the positions start … stop-1 of a random order of n rows.

    These are all rows except `out`, whose sorted numbers are given; the others are numbered from 0 in the same order.
    """

    n: int
    seed: tuple[int, ...]
    start: int
    stop: int
    out: np.ndarray

    @property
    def rows(self) -> range:
        """The positions; its length is the number of rows."""
        return range(self.start, self.stop)


@dataclass(frozen=True)
class CrewRows(Source):
    """The rows of a crew as a source for training.

    Parameters
    ----------
    crew : Crew
        The crew.
    out : ndarray of int, optional
        Sorted numbers of rows to leave out. The others are numbered from 0 in the same order.
    """

    crew: Crew
    out: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    in_random_order = True

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        return self.crew.n_rows - len(self.out)

    @property
    def n_columns(self) -> int:  # type: ignore[override]
        return self.crew.n_columns

    def batches(self, size: int, seed: Sequence[int]) -> Iterator[Any]:
        """Yield minibatches, as `CrewBatch`."""
        n = self.n_rows
        yield from (CrewBatch(n, tuple(seed), i, min(i + size, n), self.out) for i in range(0, n, size))

    def look(self, seed: Sequence[int], sample: int = SAMPLE, hashed: bool = False) -> Summary:
        found = persistent(self.crew, found_in, self.n_rows, tuple(seed), sample, hashed)
        return replace(found.summary(), hashes=found.hashes if hashed else None)

    def places_of(self, labels: Sequence[Any]) -> str:
        """Return where rows with some labels are: the partition and the row in it of the first one of each."""
        found = sorted(persistent(self.crew, label_places, list(labels)))
        return "; ".join(f"{label!r} in {name}, row {row + 1}" for _, row, name, label in found[:5])

    def without(self, rows: np.ndarray, seed: Sequence[int]) -> tuple[CrewRows, Batch]:
        if len(self.out):
            raise ValueError("rows were already left out")
        return CrewRows(self.crew, rows), in_order(persistent(self.crew, rows_in, rows))

    def store(self, engine: Any, likelihood: Any, labels: np.ndarray) -> CrewStore:
        """Return the store for the sites of a new run."""
        none = engine.row_sites(0, likelihood) if engine.keeps_rows else {}
        return CrewStore(self.crew, labels, self.out, uuid.uuid4().hex, none)


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
        """Nothing is needed to undo a step: the next call tells the shards whether it counts."""

    def undo(self, before: None) -> None:
        pass

    def sums(self, step: Step, batch: CrewBatch, labels: np.ndarray) -> StepSums:
        """Return the sums of a step over the rows of a minibatch; the shards keep their new sites."""

        def meanwhile() -> None:
            _ = step.broadcast.posterior  # needed by `finished`

        return persistent(self.crew, part_of_step, self.run, step.sent(), batch, labels, meanwhile=meanwhile).whole()

    def rows(self, step: Step, batch: CrewBatch) -> tuple[Batch, RowSites]:
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

    def content(self, step: Step) -> dict[str, Any]:
        """Return the sites of all rows, for a checkpoint, as blocks that are fetched one by one."""
        sent = step.sent()

        def blocks(name: str) -> Iterator[np.ndarray]:
            for i in range(0, step.n_total, BLOCK):
                j = min(i + BLOCK, step.n_total)
                found = persistent(self.crew, sites_between, self.run, sent, self.labels, self.out, name, i, j)
                block = np.empty((j - i, *self.none[name].shape[1:]))
                for numbers, part in found:
                    block[numbers - i] = part
                yield block

        return {name: Blocks((step.n_total, *part.shape[1:]), partial(blocks, name)) for name, part in self.none.items()}

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
        persistent(self.crew, forget, self.run)


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


# functions of a shard ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """What one pass over the rows of a shard finds."""

    labels: LabelCounts
    weight: float | None
    weights: Counter  # sum of the weights of each label; empty if there are no weights
    sample: list[Batch]
    hashes: RowHashes

    def __add__(self, other: Found) -> Found:
        found = [part for part in (self.weight, other.weight) if part is not None]
        weights = sum(found) if found else None, self.weights + other.weights
        return Found(self.labels + other.labels, *weights, [*self.sample, *other.sample], self.hashes + other.hashes)

    def summary(self) -> Summary:
        found = self.labels.checked()
        names = list(found)
        X, y, _, row_weight = in_order(self.sample)
        counts = np.array(list(found.values()))
        weights = None if self.weight is None else np.array([self.weights[name] for name in names])
        return Summary(np.array(names), counts, X, y, 0.0, self.weight, weights, row_weight=row_weight)


def found_in(shard: Shard, n_rows: int, seed: tuple[int, ...], sample: int, hashed: bool) -> Found:
    """Return labels, weights, the rows of a sample and hashes of all rows of a shard."""
    labels = LabelCounts(Counter(), {})
    weights: Counter = Counter()
    weight, hashes = None, RowHashes(in_random_order=True)
    for part in shard.parts:
        found, number = np.unique(part.place, return_counts=True)
        labels += LabelCounts.of(part.labels[found], number, part.name)
        if part.weight is not None:
            weight = (weight or 0.0) + float(np.sum(part.weight))
            by_label = np.bincount(part.place, part.weight, len(part.labels))[found]
            weights.update(dict(zip(part.labels[found].tolist(), by_label.tolist(), strict=True)))
        if hashed:
            for i in range(0, len(part), BLOCK):
                some = part.some(slice(i, i + BLOCK))
                numbers = np.arange(part.first + i, part.first + i + len(some))
                hashes.add(Batch(np.asarray(some.X, float), some.labels[some.place], numbers, some.weight))
    return Found(labels, weight, weights, rows_in(shard, sampled_rows(n_rows, seed, sample)), hashes)


def label_places(shard: Shard, labels: list[Any]) -> list[tuple[int, int, str, Any]]:
    """Return the first place of some labels in each partition: number of its first row, row in it, name, label."""
    found = []
    for part in shard.parts:
        for code, label in enumerate(part.labels.tolist()):
            if label in labels and np.any(rows := part.place == code):
                found.append((part.first, part.start + int(np.argmax(rows)), part.name, label))
    return found


def part_of_step(shard: Shard, run: str, sent: SentStep, batch: CrewBatch, labels: np.ndarray) -> SentSums:
    """Return the sums of a step over those rows of a minibatch that are in the shard, and keep their new sites."""
    step, rows = sent.step, _rows_of(shard, batch)
    sites = _sites_of(shard, run, step, labels, batch) if step.engine.keeps_rows else {}
    if not len(rows):
        return SentSums.of(StepSums.none(step))
    some = shard.take(rows)
    own = {name: part[rows] for name, part in sites.items()}
    total, new = row_sums(step, some.X, targets_of(some, step.likelihood, labels), own)
    if sites:
        shard.memory[run].new = step.state.steps, rows, new
    return SentSums.of(total)


@dataclass
class _Kept:
    """Sites of the rows of a shard."""

    sites: RowSites
    new: tuple[int, np.ndarray, RowSites] | None = None  # of the last step: `State.steps` before it, rows and sites


def _sites_of(shard: Shard, run: str, step: Step, labels: np.ndarray, batch: CrewBatch | None = None) -> RowSites:
    """Return the sites of all rows of the shard, including those of the last step if it counts."""
    kept = shard.memory.setdefault(run, _Kept({}))
    if kept.new is not None:
        steps, rows, new = kept.new
        if steps < step.state.steps:  # otherwise the step ended with an error elsewhere, and is done again
            for name, part in new.items():
                kept.sites[name][rows] = part
        kept.new = None
    if not kept.sites:
        kept.sites = _first_sites(shard, step, labels, batch)
    return kept.sites


def _first_sites(shard: Shard, step: Step, labels: np.ndarray, batch: CrewBatch | None) -> RowSites:
    """Return the sites with which a shard begins: none, or those of the posterior if rows had sites that were lost."""
    sites = step.engine.row_sites(shard.n_rows, step.likelihood)
    if not step.state.seen:
        return sites
    had = np.arange(shard.n_rows)
    if step.state.seen < step.n_total and batch is not None:  # in the first pass, rows ahead have none yet
        had = _rows_of(shard, replace(batch, start=0, stop=batch.start))
    width = max(1, step.size)
    for i in range(0, len(had), width):
        some = shard.take(rows := had[i : i + width])
        K = step.matrices(some.X)
        new = step.engine.sites_anew(step.broadcast, K.K_fu, K.k_diag, targets_of(some, step.likelihood, labels))
        for name, part in new.items():
            sites[name][rows] = part
    return sites


@dataclass(frozen=True)
class _Order:
    """The rows of a shard in a random order of all rows."""

    which: tuple[Any, ...]
    positions: np.ndarray  # sorted
    rows: np.ndarray  # the rows at these positions


def _order(shard: Shard, batch: CrewBatch) -> _Order:
    """Return the order of a pass; a shard keeps the last one."""
    which = batch.n, batch.seed, len(batch.out)
    kept = shard.memory.get("order")
    if kept is None or kept.which != which:
        shard.memory.pop("order", None)
        order = Order.of(batch.n, batch.seed)
        found = []
        for place, some in _numbers(shard):  # in blocks, which need less memory
            own, numbers = _among_all(place, some, batch.out)
            small = order.positions(numbers).astype(_small(batch.n)), own.astype(_small(shard.n_rows))
            found.append(small)
        positions, rows = (np.concatenate(part) for part in zip(*found, strict=True)) if found else (np.zeros(0, int),) * 2
        by_position = np.argsort(positions)
        kept = shard.memory["order"] = _Order(which, positions[by_position], rows[by_position])
    return kept


def _small(n: int) -> Any:
    """Return a type for the numbers below n."""
    return np.uint32 if n <= 2**32 else np.int64


def _numbered(shard: Shard, out: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of a shard that are not left out, and their numbers among all such rows."""
    return _among_all(0, shard.numbers(), out)


def _among_all(place: int, numbers: np.ndarray, out: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return those of the rows from `place` on, with these numbers, that are not left out, and their new numbers."""
    before = np.searchsorted(out, numbers)
    gone = np.isin(numbers, out, assume_unique=True)
    return place + np.flatnonzero(~gone), (numbers - before)[~gone]


def _numbers(shard: Shard) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the numbers of the rows of a shard in blocks, with the place of the first."""
    place = 0
    for part in shard.parts:
        for i in range(0, len(part), BLOCK):
            yield place + i, np.arange(part.first + i, part.first + min(i + BLOCK, len(part)))
        place += len(part)


def _rows_of(shard: Shard, batch: CrewBatch) -> np.ndarray:
    """Return the rows of a minibatch that are in the shard, in the order of their numbers."""
    order = _order(shard, batch)
    i, j = np.searchsorted(order.positions, [batch.start, batch.stop])
    return np.sort(order.rows[i:j])


def with_sites(
    shard: Shard, run: str, sent: SentStep, batch: CrewBatch, labels: np.ndarray
) -> list[tuple[Batch, RowSites]]:
    """Return the rows of a minibatch that are in the shard, and their sites."""
    step, rows = sent.step, _rows_of(shard, batch)
    if not len(rows):
        return []
    sites = _sites_of(shard, run, step, labels) if step.engine.keeps_rows else {}
    return [(shard.take(rows), {name: part[rows] for name, part in sites.items()})]


def sites_between(
    shard: Shard, run: str, sent: SentStep, labels: np.ndarray, out: np.ndarray, name: str, start: int, stop: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return numbers and sites of the rows of the shard with numbers start … stop-1."""
    rows, numbers = _numbered(shard, out)
    i, j = np.searchsorted(numbers, [start, stop])
    return [(numbers[i:j], _sites_of(shard, run, sent.step, labels)[name][rows[i:j]])] if i < j else []


def put_sites(shard: Shard, run: str, out: np.ndarray, name: str, start: int, given: np.ndarray) -> int:
    """Set the sites of the rows with numbers start, start + 1, … as far as they are in the shard."""
    kept = shard.memory.setdefault(run, _Kept({}))
    kept.new = None
    if name not in kept.sites:
        kept.sites[name] = np.zeros((shard.n_rows, *given.shape[1:]))
    rows, numbers = _numbered(shard, out)
    i, j = np.searchsorted(numbers, [start, start + len(given)])
    kept.sites[name][rows[i:j]] = given[numbers[i:j] - start]
    return 0


def forget(shard: Shard, run: str) -> int:
    """Remove the sites of a run."""
    shard.memory.pop(run, None)
    return 0
