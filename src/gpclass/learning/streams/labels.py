"""Labels of a source: their classes and frequencies, a warning if they are sorted, and codes for the engines."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy
from scipy.special import rel_entr

from ...numerics.columns import Units, column_units
from .buffered import rows_at_once
from .order import Order
from .source import Batch, Source, joined

KINDS = {"b": "booleans", "i": "numbers", "u": "numbers", "f": "numbers", "U": "texts", "S": "bytes"}  # of labels
SAMPLE = 10_000  # rows in the sample from which starting points are computed
HARM = 0.005  # nats per row that an uneven order of labels may cost without a warning
CHANCE = 1e-6  # probability that rows in random order count as uneven


class SortedStreamWarning(UserWarning):
    """The labels of a stream are in an order that its buffer cannot mix."""


@dataclass(frozen=True)
class Summary:
    """Result of one pass over all rows."""

    labels: np.ndarray  # (C,) sorted
    counts: np.ndarray  # (C,) number of rows of each
    X: np.ndarray  # (s, D) uniform sample of the rows, in the order of their numbers
    y: np.ndarray  # (s,) their labels
    row_weight: np.ndarray | None = field(kw_only=True, default=None)  # (s,) their weights; None means one each
    unevenness: float = 0.0  # of the labels along the pass, see `unevenness`
    weight: float | None = None  # sum of the weights of all rows; None if there are no weights
    weights: np.ndarray | None = None  # (C,) sum of the weights of each label; None if there are no weights

    @property
    def totals(self) -> np.ndarray:
        """(C,) weight of each label: the number of its rows if these have no weights."""
        return self.counts if self.weights is None else self.weights

    @cached_property
    def units(self) -> Units:
        """Centre and spread of each column of the sample, robust to outliers; spread 1 for a constant column."""
        return column_units(self.X)


def look(source: Source, seed: Sequence[int], sample: int = SAMPLE, watch: Callable[[Batch], None] | None = None) -> Summary:
    """Read all rows once and return their labels and a uniform sample.

    Parameters
    ----------
    source : Source
        The source.
    seed : sequence of int
        Seed of the pass and of the sample.
    sample : int, default=10000
        Number of rows in the sample.
    watch : callable, optional
        Called with each batch.

    Returns
    -------
    Summary
    """
    if hasattr(source, "look"):  # rows in other processes
        return source.look(seed, sample)
    chosen = sampled_rows(source.n_rows, seed, sample)
    kept: list[Batch] = []
    windows: list[dict[Any, int]] = []
    total: float | None = None
    weights: Counter = Counter()
    for batch in source.batches(rows_at_once(source), seed):
        if watch is not None:
            watch(batch)
        if batch.weight is not None:
            total = (total or 0.0) + float(np.sum(batch.weight))
            weights.update(label_counts(batch.y, batch.weight))
        windows.append(label_counts(batch.y))
        kept.append(batch.some(np.isin(batch.rows, chosen, assume_unique=True)))
    X, y, _, row_weight = (some := joined(kept)).some(np.argsort(some.rows))
    names = sorted({label for window in windows for label in window})
    counts = np.array([[window.get(name, 0) for name in names] for window in windows])
    by_label = None if total is None else np.array([weights[name] for name in names])
    found = np.array(names), counts.sum(0), X, np.asarray(y), unevenness(counts), total, by_label
    return Summary(*found, row_weight=row_weight)


def sampled_rows(n_rows: int, seed: Sequence[int], sample: int = SAMPLE) -> np.ndarray:
    """Return the numbers of a uniform sample of the rows, sorted. It does not depend on where the rows are."""
    return np.sort(Order.of(n_rows, seed).part(0, min(sample, n_rows)))


def label_counts(y: np.ndarray, weight: np.ndarray | None = None) -> dict[Any, Any]:
    """Return the number of rows of each label, or the sum of their weights."""
    names, which = np.unique(y, return_inverse=True)
    return dict(zip(names.tolist(), np.bincount(which.ravel(), weight, len(names)).tolist(), strict=True))


@dataclass(frozen=True)
class LabelCounts:
    """Numbers of rows of each label in some parts of a data set; those of different parts are added."""

    counts: Counter
    kinds: dict[str, str]  # kind of label: a part that has it

    @staticmethod
    def of(labels: np.ndarray, counts: np.ndarray, name: str) -> LabelCounts:
        """Return the counts of the different labels of a part; `name` is for messages."""
        kinds = {KINDS.get(labels.dtype.kind, "objects"): name} if len(labels) else {}
        return LabelCounts(Counter(dict(zip(labels.tolist(), counts.tolist(), strict=True))), kinds)

    def __add__(self, other: LabelCounts) -> LabelCounts:
        return LabelCounts(self.counts + other.counts, other.kinds | self.kinds)

    def checked(self) -> dict[Any, int]:
        """Return the counts in the order of the labels; raise a ValueError if parts have labels of different kinds."""
        if len(self.kinds) > 1:
            found = ", but ".join(f"{kind} in {name}" for kind, name in sorted(self.kinds.items()))
            raise ValueError(f"labels are {found}; use one type")
        return {label: self.counts[label] for label in sorted(self.counts)}


def unevenness(counts: np.ndarray) -> float:
    """Return by how many nats per row label frequencies differ between windows of a pass, beyond chance.

    `counts` (W, C) are the rows of each class in each window. The mean over rows of the divergence KL(window ‖ all) is the
    loss of predictions if a model remembers only the last window. Twice its sum is chi-squared for random orders.
    The result is 0 if chance explains the differences.
    """
    total, n = counts.sum(0), counts.sum()
    expected = counts.sum(1, keepdims=True) * (total / n)
    divergence = float(rel_entr(counts, expected).sum())
    freedom = (len(counts) - 1) * (len(total) - 1)
    if freedom == 0 or 2 * divergence < scipy.stats.chi2.isf(CHANCE, freedom):
        return 0.0
    return (divergence - freedom / 2) / n


def warn_if_uneven(source: Source, summary: Summary) -> None:
    """Warn if the labels of a stream come in an order that costs accuracy."""
    if summary.unevenness > HARM:
        remedy = getattr(source, "remedy", "Shuffle the rows once, or use arrays or a memory map")
        warnings.warn(
            f"the labels come in an uneven order: their frequencies change along a pass by {summary.unevenness:.2g} nats "
            f"per row, and predictions may be worse by as much. {remedy}.",
            SortedStreamWarning,
            stacklevel=3,
        )


def codes(y: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the class number of each row, 0 … C-1: the place of its label in `labels`, which may be in any order."""
    order = np.argsort(labels, kind="stable")
    place = order[np.minimum(np.searchsorted(labels, y, sorter=order), len(labels) - 1)]
    if not np.all(labels[place] == y):
        strange = np.unique(np.asarray(y)[labels[place] != y])[:5]
        raise ValueError(f"labels {strange.tolist()} are unknown; the known labels are {labels[:10].tolist()}")
    return place
