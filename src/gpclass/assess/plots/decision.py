"""Decision maps: class probabilities over a plane of two inputs, with the training rows, inducing points or active rows.

With more than two inputs the plane is spanned by the first two principal components of the rows, or by two inputs of your
choice with the others at their mean. The probabilities are those of points in this plane (a section), while the rows are
projected onto it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..models import as_fitted, classifier, input_names, to_inputs, training_inputs, training_labels
from ..predictions import codes_of
from .common import axes, plain, series

GRID = 90  # points along each axis
MARGIN = 0.06  # margin around the rows, as a fraction of their range
MAX_OPACITY = 0.55  # opacity where a class is certain; it falls to 0 where all classes are equally probable


@dataclass(frozen=True)
class Plane:
    """A plane of points centre + a·first + b·second in the space of inputs, with labels for the axes."""

    centre: np.ndarray  # (D,)
    directions: np.ndarray  # (2, D), orthonormal
    labels: tuple[str, str]

    def coordinates(self, X: np.ndarray) -> np.ndarray:
        """Return the coordinates (n, 2) of rows (n, D) projected onto the plane."""
        return (X - self.centre) @ self.directions.T

    def points(self, coordinates: np.ndarray) -> np.ndarray:
        """Return the inputs (m, D) at coordinates (m, 2)."""
        return self.centre + coordinates @ self.directions


def plane_of(X: np.ndarray, names: Sequence[str], inputs: tuple[int, int] | None = None) -> Plane:
    """Return the plane of two inputs, or of the first two principal components of the rows."""
    D = X.shape[1]
    if D < 2:
        raise ValueError("a decision map needs at least two inputs; the model has one")
    if inputs is not None and (len(set(inputs)) != 2 or not all(0 <= d < D for d in inputs)):
        raise ValueError(f"inputs must be two different columns below {D}; got {inputs!r}")
    if inputs is not None or D == 2:
        first, second = (0, 1) if inputs is None else inputs
        centre = X.mean(0) if D > 2 else np.zeros(2)
        rest = "\nother inputs at their mean" if D > 2 else ""
        if D > 2:  # so that coordinates are values of the inputs
            centre[[first, second]] = 0.0
        return Plane(centre, np.eye(D)[[first, second]], (plain(names[first]) + rest, plain(names[second])))
    centre = X.mean(0)
    _, size, directions = np.linalg.svd(X - centre, full_matrices=False)
    share = size**2 / max(np.sum(size**2), np.finfo(float).tiny)
    directions = directions[:2]
    # the largest entry of a component is positive, so that the plot does not flip from run to run
    signs = np.sign(directions[[0, 1], np.abs(directions).argmax(axis=1)])
    texts = tuple(f"principal component {i + 1} ({share[i]:.0%} of variance)" for i in range(2))
    return Plane(centre, directions * signs[:, None], (texts[0] + "\nsection through the mean of the rows", texts[1]))


def plot_decision_map(
    model: Any, X: Any = None, y: Any = None, *, inputs: tuple[int, int] | None = None, grid: int = GRID, ax: Any = None
) -> Any:
    """Plot class probabilities as shades, class boundaries as lines and rows as points.

    For two classes, dotted lines are at probabilities 0.1 and 0.9.

    Parameters
    ----------
    model : GPClassifier or Pipeline
        A fitted classifier, or a fitted pipeline whose last step is one.
    X, y : array-like or DataFrame of shape (n, n_features), array-like of shape (n,), optional
        The rows to draw, in the format that the model was fitted to, and their labels. By default the training rows, if
        the model keeps them.
    inputs : tuple of two int, optional
        Two columns, as the classifier sees them, that span the plane. By default the plane is spanned by the first two
        principal components if there are more than two inputs.
    grid : int, default=90
        Number of points along each axis.
    ax : matplotlib Axes, optional
        Where to plot. By default a new figure.

    Returns
    -------
    matplotlib Axes
        The axes of the plot.
    """
    rows, labels = _rows_to_draw(model, X, y)
    ax = axes(ax, 5.4, 4.6)
    draw_map(ax, classifier(model), rows, labels, plane_of(rows, input_names(model), inputs), grid)
    return ax


def draw_map(ax: Any, last: Any, rows: np.ndarray, labels: np.ndarray | None, plane: Plane, grid: int = GRID) -> None:
    """Draw the map of a classifier and rows as the classifier sees them."""
    at = plane.coordinates(rows)
    across, up, p = _shade(ax, last, plane, at, grid)
    _borders(ax, across, up, p)
    codes = None if labels is None else codes_of(labels, last.classes_)
    _points(ax, at, codes, last.classes_)
    ax.set(xlabel=plane.labels[0], ylabel=plane.labels[1])


def _rows_to_draw(model, X, y) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the rows as the classifier sees them, and their labels (or None)."""
    if X is not None:
        rows = to_inputs(model, X)
        labels = None if y is None else np.asarray(y)
        if labels is not None and len(labels) != len(rows):
            raise ValueError(f"X has {len(rows)} rows but y has {len(labels)} labels")
        return rows, labels
    kept = training_inputs(model)
    if kept is None:
        engine = type(classifier(model).inference_).__name__
        raise ValueError(f"{engine} does not keep the training rows: pass X and y, the rows to draw")
    return kept, training_labels(model)


def _shade(ax, last, plane, at, grid):
    """Shade the map in the classes' colours; return both axes of the grid and the probabilities (grid, grid, C)."""
    from matplotlib.colors import to_rgb

    low, high = at.min(0), at.max(0)
    margin = MARGIN * np.maximum(high - low, 1e-9)
    low, high = low - margin, high + margin
    across, up = (np.linspace(low[d], high[d], grid) for d in (0, 1))
    points = np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2)
    p = last.predict_proba(as_fitted(last, plane.points(points))).reshape(grid, grid, -1)
    C = p.shape[-1]
    colours = np.array([to_rgb(series(c)[0]) for c in range(C)])
    top = p.argmax(axis=-1)
    sure = (p.max(axis=-1) - 1 / C) / (1 - 1 / C)
    image = np.concatenate([colours[top], MAX_OPACITY * np.clip(sure, 0, 1)[..., None]], axis=-1)
    ax.imshow(
        image, extent=(low[0], high[0], low[1], high[1]), origin="lower", aspect="auto", interpolation="bilinear", zorder=0
    )
    return across, up, p


def _borders(ax, across, up, p):
    """Draw lines where the most probable class changes; with two classes also at 0.1 and 0.9."""
    C = p.shape[-1]
    if C == 2:
        for levels, style, width in (([0.1, 0.9], "dotted", 1.0), ([0.5], "solid", 1.5)):
            ax.contour(across, up, p[..., 1], levels=levels, colors="k", linestyles=style, linewidths=width)
        return
    for c in range(C):
        others = np.delete(p, c, axis=-1).max(axis=-1)
        lead = p[..., c] - others
        if lead.min() < 0 < lead.max():
            ax.contour(across, up, lead, levels=[0.0], colors="k", linewidths=1.2)


def _points(ax, at, codes, classes):
    if codes is None:
        ax.plot(*at.T, ".", color="0.3", ms=4, zorder=3)
        return
    size = 5.0 if len(at) <= 200 else 3.5
    for c, label in enumerate(classes):
        colour, marker = series(c)
        here = at[codes == c]
        ax.plot(*here.T, marker, color=colour, mec="w", mew=0.5, ms=size, label=plain(label, 24), zorder=3)
    _legend(ax, *ax.get_legend_handles_labels())


def _legend(ax, handles, names):
    """Put the legend to the right of the map, where it hides nothing."""
    columns = 1 if len(names) <= 14 else 2
    place = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "borderaxespad": 0}
    ax.legend(handles, names, frameon=False, ncols=columns, handletextpad=0.3, markerscale=1.3, **place)


def plot_inducing(
    model: Any,
    X: Any = None,
    y: Any = None,
    *,
    start: Any = None,
    inputs: tuple[int, int] | None = None,
    grid: int = GRID,
    ax: Any = None,
) -> Any:
    """Plot a decision map with the inducing points or the active rows of a sparse engine.

    Parameters
    ----------
    model, X, y, inputs, grid, ax
        As for `plot_decision_map`.
    start : array-like of shape (M, D) or (C, M, D), optional
        The inducing points before learning, as the classifier sees them. A line joins each to its final position.

    Returns
    -------
    matplotlib Axes
        The axes of the plot.
    """
    last = classifier(model)
    ends = np.asarray(last.inputs_, float)
    ends = ends.reshape(-1, ends.shape[-1])
    if X is None and training_inputs(model) is not None:
        raise ValueError(f"{type(last.inference_).__name__} uses all training rows: it has no inducing points")
    begins = None if start is None else np.asarray(start, float).reshape(-1, ends.shape[-1])
    if begins is not None and begins.shape != ends.shape:
        raise ValueError(f"start has {len(begins)} points, but the model ends with {len(ends)}")
    rows, _ = _rows_to_draw(model, X, y)
    plane = plane_of(rows, input_names(model), inputs)
    ax = plot_decision_map(model, X, y, inputs=inputs, grid=grid, ax=ax)
    window = ax.get_xlim(), ax.get_ylim()
    ended = plane.coordinates(ends)
    if begins is not None:
        began = plane.coordinates(begins)
        ax.plot(*np.stack([began, ended]).transpose(2, 0, 1), color="k", lw=0.7, alpha=0.7, zorder=4)
        ax.plot(*began.T, "+", color="k", ms=6, mew=1.0, label="start", zorder=4)
    label = "active row" if last.inference_.design == "active rows" else "inducing point"
    ax.plot(*ended.T, "o", mfc="none", mec="k", mew=1.4, ms=9, label=label, zorder=5)
    _grow(ax, window, ended)
    handles, names = ax.get_legend_handles_labels()
    _legend(ax, handles, names)
    return ax


def _grow(ax, window, at):
    """Extend the limits of the axes to points that learning moved out of the map."""
    for axis, (limits, values) in enumerate(zip(window, at.T, strict=True)):
        low, high = min(limits[0], values.min()), max(limits[1], values.max())
        (ax.set_xlim if axis == 0 else ax.set_ylim)(low, high)
