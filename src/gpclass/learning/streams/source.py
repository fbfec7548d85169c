"""The interface of a source of rows, and arrays or memory maps as a source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from ...engines.observations import Observed
from .order import Order


class Batch(NamedTuple):
    """Some rows of a source."""

    X: np.ndarray  # (m, D) float64
    y: np.ndarray  # (m,) labels as the source has them
    rows: np.ndarray  # (m,) row numbers in the source, from 0
    weight: np.ndarray | None = None  # (m,) weights; None means one each

    def some(self, which: Any) -> Batch:
        """Return some of the rows."""
        return Batch(*(None if part is None else part[which] for part in self))  # type: ignore[arg-type]


def joined(batches: Sequence[Batch]) -> Batch:
    """Return the rows of several batches, all with or all without weights."""
    parts = zip(*batches, strict=True)
    return Batch(*(None if part[0] is None else np.concatenate(part) for part in parts))  # type: ignore[arg-type]


class Source(Protocol):
    """Interface of a source of rows for a training loop.

    If `in_random_order` is true, minibatches are parts of an `Order` of all rows. A source whose rows are in other processes
    (`learning.crew_rows`) has methods `look`, `examined`, `without` and `store` of its own, and `batches` that stand for
    rows; `processes` is the number of processes that compute at the same time.
    """

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    def n_columns(self) -> int:
        """Number of input columns."""

    def batches(self, size: int, seed: Sequence[int]) -> Iterator[Batch]:
        """Yield all rows once, `size` at a time (the last minibatch may be smaller), in an order that `seed` determines."""


@dataclass(frozen=True)
class Arrays:
    """Arrays or memory maps as a source.

    Parameters
    ----------
    X : ndarray of shape (n, D)
        Inputs.
    y : ndarray of shape (n,) or Observed
        Labels; with weights as `Observed`.
    chosen : ndarray of int, optional
        The rows to use. By default all.
    weight : ndarray of shape (n,), optional
        Weights, positive. The default is one each.
    """

    X: Any
    y: Any
    chosen: np.ndarray | None = None
    weight: np.ndarray | None = None

    in_random_order: ClassVar = True

    def __post_init__(self):
        if isinstance(self.y, Observed) or self.weight is not None:
            observed = self.y if isinstance(self.y, Observed) else Observed(self.y, np.asarray(self.weight))
            object.__setattr__(self, "y", observed.y)
            object.__setattr__(self, "weight", observed.weight)
        if np.ndim(self.X) != 2 or np.shape(self.y) != (len(self.X),):
            raise ValueError(f"X must be (n, D) and y (n,), but they are {np.shape(self.X)} and {np.shape(self.y)}")

    @property
    def n_rows(self) -> int:
        return len(self.X) if self.chosen is None else len(self.chosen)

    @property
    def n_columns(self) -> int:
        return int(self.X.shape[1])

    def batches(self, size: int, seed: Sequence[int]) -> Iterator[Batch]:
        order = Order.of(self.n_rows, seed)
        for i in range(0, self.n_rows, size):
            rows = np.sort(order.part(i, min(i + size, self.n_rows)))  # memory maps are read forwards
            at = rows if self.chosen is None else self.chosen[rows]
            weight = None if self.weight is None else self.weight[at]
            yield Batch(finite(self.X[at], at), np.asarray(self.y[at]), rows, weight)

    def some(self, rows: np.ndarray) -> Arrays:
        """Return a source of some of the rows."""
        return Arrays(self.X, self.y, rows if self.chosen is None else self.chosen[rows], self.weight)


def finite(X: Any, rows: np.ndarray | None = None) -> np.ndarray:
    """Return X in double precision, or raise a ValueError if entries are missing.

    `rows` are the row numbers for the message, counted from 0.
    """
    rows = np.arange(len(X)) if rows is None else rows
    X = as_float(X, rows)
    refuse_missing(X, rows)
    return X


def as_float(X: Any, rows: np.ndarray) -> np.ndarray:
    """Return X in double precision, or raise a ValueError if entries are not numbers."""
    if np.iscomplexobj(X):
        raise ValueError("X has complex numbers, but must have real ones: use their real and imaginary parts as columns")
    try:
        return np.asarray(X, float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"X has entries that are not numbers in rows {rows[0] + 1} to {rows[-1] + 1}: {error}") from error


def refuse_missing(X: np.ndarray, rows: np.ndarray) -> None:
    """Raise a ValueError that names the first entry of X that is NaN or infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(X.sum()):
            return
    if not np.all(known := np.isfinite(X)):
        i, j = (int(at[0]) for at in np.nonzero(~known))
        raise ValueError(
            f"X has NaN or infinite entries, such as {X[i, j]} in row {rows[i] + 1}, column {j + 1} (counted from 1); rows "
            "with missing values must be left out or filled in"
        )
