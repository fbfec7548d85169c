"""Some rows with their labels and weights, and checks of inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


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
