"""Virtual informative vectors: transformed copies of active rows as further candidates.

Small changes of a row often leave its label unchanged, as a shift by one pixel does for an image of a digit. Adding
transformed copies of all rows is expensive. Adding copies of the active rows only is cheap, and copies of other rows would
rarely change the model. So the active set is chosen once, copies of its rows are added to the data, and it is chosen again.

[SLH] Seeger, Lawrence & Herbrich, sections 5 and 6.5.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..engines.observations import rows_of
from ..sparse import ActiveFit
from .active_evidence import fit_active
from .objective import Objective


@dataclass(frozen=True)
class ImageShifts:
    """Shifted copies of rows that are images.

    Parameters
    ----------
    shape : tuple of int
        Height and width of the images; a row holds the pixels line by line.
    steps : tuple of pairs of int
        The shifts in pixels, each as (down, right). By default one pixel in each of four directions.
    fill : float, optional
        Value of the pixels that enter at the border. By default the smallest value of each image, its background.
    """

    shape: tuple[int, int]
    steps: tuple[tuple[int, int], ...] = ((-1, 0), (1, 0), (0, -1), (0, 1))
    fill: float | None = None

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Return t shifted copies of the rows of X (d, D), as an array (t, d, D)."""
        X = np.asarray(X, float)
        height, width = self.shape
        if X.ndim != 2 or X.shape[1] != height * width:
            raise ValueError(f"rows of {X.shape[-1]} numbers are not images of {height} × {width} pixels")
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
    """An active set chosen from rows and virtual rows.

    Attributes
    ----------
    fit : ActiveFit
        The fit on rows and virtual rows.
    inputs : ndarray of shape (u, D)
        The active inputs, which predictions need.
    sources : ndarray of shape (u,)
        The training row of each input, or the row of which it is a copy.
    virtual : ndarray of shape (u,)
        Whether the input is a copy.
    """

    fit: ActiveFit
    inputs: np.ndarray
    sources: np.ndarray
    virtual: np.ndarray


def fit_augmented(
    objective: Objective, theta: np.ndarray, fit: ActiveFit, augment: Callable[[np.ndarray], np.ndarray]
) -> Augmented:
    """Choose the active set again, with transformed copies of the active rows of `fit` as further candidates.

    Parameters
    ----------
    objective : Objective
        The problem.
    theta : ndarray of shape (p,)
        Hyperparameters.
    fit : ActiveFit
        A fit whose active rows are transformed.
    augment : callable
        Maps d rows (d, D) to t transformed copies of each, (t, d, D).

    Returns
    -------
    Augmented
    """
    X, y, rows = objective.X, objective.y, fit.rows
    copies = np.asarray(augment(X[rows]), float)
    if copies.ndim != 3 or copies.shape[1:] != (len(rows), X.shape[1]):
        raise ValueError(
            f"augment must turn {len(rows)} rows into copies of shape (t, {len(rows)}, {X.shape[1]}), "
            f"but returned {copies.shape}"
        )
    everything = np.concatenate([X, copies.reshape(-1, X.shape[1])])
    sources = np.concatenate([np.arange(len(X)), np.tile(rows, len(copies))])
    chosen, _, _ = fit_active(replace(objective, X=everything, y=rows_of(y, sources)), theta)
    return Augmented(chosen, everything[chosen.rows], sources[chosen.rows], chosen.rows >= len(X))
