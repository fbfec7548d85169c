"""The plane on which a decision map is drawn, and the way back from its points to inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..assess.plots.decision import MARGIN, Plane, plane_of
from ..numerics.columns import column_units


@dataclass(frozen=True)
class Section:
    """A plane, or a line if there is one input, through the space of inputs.

    Attributes
    ----------
    plane : Plane or None
        The plane, in inputs that were measured from `centre` in units of `spread`. None for a line.
    centre, spread : ndarray of shape (D,)
        Zeros and ones, or the units of the columns.
    at : ndarray of shape (n, 2) or (n, 1)
        The coordinates of the rows.
    low, high : ndarray of shape (2,) or (1,)
        The range of the map.
    labels : tuple of str
        Names of the axes.
    note : str
        A sentence on the inputs that are not shown.
    """

    plane: Plane | None
    centre: np.ndarray
    spread: np.ndarray
    at: np.ndarray
    low: np.ndarray
    high: np.ndarray
    labels: tuple[str, ...]
    note: str

    @staticmethod
    def of(X: np.ndarray, names: Sequence[str], inputs: tuple[int, int] | None = None) -> Section:
        """Return the section of two inputs, or of the first two principal components of the rows in units of the columns.

        Parameters
        ----------
        X : ndarray of shape (n, D)
            The rows.
        names : sequence of str
            Names of the columns.
        inputs : tuple of two int, optional
            The columns that span the plane. By default the two that there are, or principal components.
        """
        D = X.shape[1]
        plain = np.zeros(D), np.ones(D)
        if D == 1:
            return Section(None, *plain, X, *_range(X), (str(names[0]),), "")
        principal = inputs is None and D > 2
        centre, spread = column_units(X) if principal else plain
        plane = plane_of((X - centre) / spread, names, inputs)
        at = plane.coordinates((X - centre) / spread)
        first, _, rest = plane.labels[0].partition("\n")
        note = f"{rest[:1].upper()}{rest[1:]}; rows are projected onto the plane." if rest else ""
        return Section(plane, centre, spread, at, *_range(at), (first, plane.labels[1]), note)

    def points(self, size: int) -> np.ndarray:
        """Return the inputs (size², D), or (size, D) on a line, of a grid over the map: across first, then up."""
        axes = [np.linspace(low, high, size) for low, high in zip(self.low, self.high, strict=True)]
        if self.plane is None:
            return axes[0][:, None]
        grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
        return self.inputs(grid)

    def inputs(self, coordinates: np.ndarray) -> np.ndarray:
        """Return the inputs (m, D) at coordinates (m, 2) of the plane, or (m, 1) of the line."""
        inside = coordinates if self.plane is None else self.plane.points(coordinates)
        return inside * self.spread + self.centre

    def described(self) -> dict[str, Any]:
        """Return the axes and the rows for the page."""
        return {
            "x": self.at[:, 0].tolist(),
            "y": None if self.plane is None else self.at[:, 1].tolist(),
            "low": self.low.tolist(),
            "high": self.high.tolist(),
            "labels": [label.replace("\\$", "$") for label in self.labels],  # escaped for matplotlib
            "note": self.note,
        }


def _range(at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    low, high = at.min(axis=0), at.max(axis=0)
    room = MARGIN * np.maximum(high - low, 1e-9 + 1e-6 * np.abs(high))
    return low - room, high + room
