"""Virtual informative vectors: transformed copies of active rows as further candidates.

A label may be known to survive small changes of its row, as a digit survives a shift by a pixel. To add transformed copies
of all rows is dear; to add those of the active rows is not, and rows that are not active mostly lie where copies would
change nothing. So the active set is chosen once, its rows' copies join the data, and it is chosen again.

[SLH] Seeger, Lawrence & Herbrich, sections 5 and 6.5.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..sparse import ActiveFit
from .active_set import fit_active
from .objective import Objective


@dataclass(frozen=True)
class ImageShifts:
    """Rows are images, pixel by pixel; each is shifted by the given steps. Pixels that come in from outside are `fill`."""

    shape: tuple[int, int]  # height and width
    steps: tuple[tuple[int, int], ...] = ((-1, 0), (1, 0), (0, -1), (0, 1))  # down and right
    fill: float | None = None  # None is the smallest number of each image, its background

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """(t, d, D) shifted copies of X (d, D)."""
        X = np.asarray(X, float)
        height, width = self.shape
        if X.ndim != 2 or X.shape[1] != height * width:
            raise ValueError(f"rows of {X.shape[-1]} numbers are no images of {height} × {width} pixels")
        images = X.reshape(-1, height, width)
        return np.stack([self._shifted(images, *step).reshape(X.shape) for step in self.steps])

    def _shifted(self, images, down, right):
        height, width = self.shape
        out = np.empty_like(images)
        out[...] = images.min((1, 2), keepdims=True) if self.fill is None else self.fill
        out[:, max(down, 0) : height + min(down, 0), max(right, 0) : width + min(right, 0)] = images[
            :, max(-down, 0) : height - max(down, 0), max(-right, 0) : width - max(right, 0)
        ]
        return out


@dataclass(frozen=True)
class Augmented:
    """An active set chosen from rows and virtual rows."""

    fit: ActiveFit
    inputs: np.ndarray  # (u, D) those that predictions need
    sources: np.ndarray  # (u,) training rows that they are, or are copies of
    virtual: np.ndarray  # (u,) whether they are copies


def fit_augmented(
    objective: Objective, theta: np.ndarray, fit: ActiveFit, augment: Callable[[np.ndarray], np.ndarray]
) -> Augmented:
    """Choose the active set again at θ, with transformed copies of the rows of `fit` among the candidates."""
    X, y, rows = objective.X, objective.y, fit.rows
    copies = np.asarray(augment(X[rows]), float)
    if copies.ndim != 3 or copies.shape[1:] != (len(rows), X.shape[1]):
        raise ValueError(
            f"augment must turn {len(rows)} rows into copies of shape (t, {len(rows)}, {X.shape[1]}), "
            f"but gave {copies.shape}"
        )
    everything = np.concatenate([X, copies.reshape(-1, X.shape[1])])
    sources = np.concatenate([np.arange(len(X)), np.tile(rows, len(copies))])
    chosen, _, _ = fit_active(replace(objective, X=everything, y=y[sources]), theta)
    return Augmented(chosen, everything[chosen.rows], sources[chosen.rows], chosen.rows >= len(X))
