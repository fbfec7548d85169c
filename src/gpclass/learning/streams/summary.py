"""One pass over all rows: their labels, a sample of the rows, and a warning if the labels are sorted."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ...numerics.columns import Units, column_units
from .batch import Batch, joined
from .hashes import RowHashes
from .labels import label_counts, unevenness

SAMPLE_ROWS = 10_000  # rows in the sample from which starting points are computed
HARM = 0.005  # nats per row that an uneven order of labels may cost without a warning


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
    numbers: np.ndarray = field(kw_only=True)  # (s,) their numbers among all rows
    unevenness: float = 0.0  # of the labels along the pass, see `unevenness`
    weight: float | None = None  # sum of the weights of all rows; None if there are no weights
    weights: np.ndarray | None = None  # (C,) sum of the weights of each label; None if there are no weights
    hashes: RowHashes | None = field(kw_only=True, default=None)  # of all rows, if they were asked for

    @property
    def totals(self) -> np.ndarray:
        """(C,) weight of each label: the number of its rows if these have no weights."""
        return self.counts if self.weights is None else self.weights

    @cached_property
    def units(self) -> Units:
        """Centre and spread of each column of the sample, robust to outliers; spread 1 for a constant column."""
        return column_units(self.X)


def summarised(batches: Iterable[Batch], chosen: np.ndarray, hashes: RowHashes | None = None) -> Summary:
    """Return the labels of all rows, and a sample of the rows.

    Parameters
    ----------
    batches : iterable of Batch
        All rows.
    chosen : ndarray of int
        Numbers of the rows in the sample.
    hashes : RowHashes, optional
        Where to add the hashes of all rows.

    Returns
    -------
    Summary
    """
    kept: list[Batch] = []
    windows: list[dict[Any, int]] = []
    total: float | None = None
    weights: Counter = Counter()
    for batch in batches:
        if hashes is not None:
            hashes.add(batch)
        if batch.weight is not None:
            total = (total or 0.0) + float(np.sum(batch.weight))
            weights.update(label_counts(batch.y, batch.weight))
        windows.append(label_counts(batch.y))
        kept.append(batch.some(np.isin(batch.rows, chosen, assume_unique=True)))
    X, y, numbers, row_weight = (some := joined(kept)).some(np.argsort(some.rows))
    names = sorted({label for window in windows for label in window})
    counts = np.array([[window.get(name, 0) for name in names] for window in windows])
    by_label = None if total is None else np.array([weights[name] for name in names])
    found = np.array(names), counts.sum(0), X, np.asarray(y), unevenness(counts), total, by_label
    return Summary(*found, row_weight=row_weight, numbers=numbers, hashes=hashes)


def warn_if_uneven(source: Any, summary: Summary) -> None:
    """Warn if the labels of a stream come in an order that costs accuracy."""
    if summary.unevenness > HARM:
        warnings.warn(
            f"the labels come in an uneven order: their frequencies change along a pass by {summary.unevenness:.2g} nats "
            f"per row, and predictions may be worse by as much. {source.remedy}.",
            SortedStreamWarning,
            stacklevel=3,
        )
