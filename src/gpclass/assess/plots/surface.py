"""Contours of evidence and test scores over lengthscale and latent scale, as in figures 9-11 of [NR].

[NR] Nickisch & Rasmussen 2008, section 12.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..surface import Surface
from .common import COLOURS, plain, pyplot

TITLES = {
    "log_evidence": "log evidence (nats)",
    "jensen_bound": "Jensen bound (nats)",
    "information": "information (bits)",
    "errors": "test errors",
}
CONTOUR_STEPS = np.array([1, 2, 5, 10, 20, 50, 100, 200, 500.0])  # distances of contours from the best value


def plot_surface(
    surfaces: Surface | Mapping[str, Surface],
    quantity: str | Sequence[str] = "log_evidence",
    *,
    ax: Any = None,
    fig: Any = None,
) -> Any:
    """Plot contours over (ln ℓ, ln σ_f): one column of panels per surface, one row per quantity.

    All panels of a row have the same contour levels; so do evidence and Jensen bound. A star marks the best grid point, and
    the title gives its value. Crosses mark points where the engine did not converge. Missing values are hatched.

    Parameters
    ----------
    surfaces : Surface or mapping of str to Surface
        Results of `evidence_surface`, several of them by name.
    quantity : str or sequence of str, default="log_evidence"
        One or more of "log_evidence", "jensen_bound", "information", "errors".
    ax : matplotlib Axes, optional
        Where to plot a single panel.
    fig : matplotlib Figure, optional
        Where to plot all panels. By default a new figure.

    Returns
    -------
    matplotlib Axes, or ndarray of them of shape (n_quantities, n_surfaces)
        The axes of the panels.
    """
    plt = pyplot()
    named = {"": surfaces} if isinstance(surfaces, Surface) else dict(surfaces)
    quantities = (quantity,) if isinstance(quantity, str) else tuple(quantity)
    if not named or not quantities:
        raise ValueError("there is nothing to plot: give at least one surface and one quantity.")
    rows = {q: [s.get(q) for s in named.values()] for q in quantities}
    if ax is not None:
        if fig is not None or len(named) * len(quantities) > 1:
            raise ValueError("ax takes one surface and one quantity; leave it out, or give fig, to plot several panels.")
        axes = np.array([[ax]])
        fig = ax.figure
    else:
        size = (1.2 + 2.6 * len(named), 0.6 + 2.5 * len(quantities))
        fig = plt.figure(figsize=size, layout="constrained") if fig is None else fig
        axes = fig.subplots(len(quantities), len(named), sharex=True, sharey=True, squeeze=False)
    for panels, (q, values) in zip(axes, rows.items(), strict=True):
        shared = ("log_evidence", "jensen_bound")
        pool = [v for other in quantities if other in shared for v in rows[other]] if q in shared else values
        levels = contour_levels(np.concatenate([v.ravel() for v in pool]), q)
        for panel, (name, surface) in zip(panels, named.items(), strict=True):
            drawn = _draw(panel, surface, q, levels)
            panel.set_title(f"{plain(name)}{': ' if name else 'best '}{_best_text(surface, q)}", fontsize="medium", pad=7)
        bar = fig.colorbar(drawn, ax=list(panels), label=TITLES[q], ticks=levels, fraction=0.16 / len(named), pad=0.02)
        bar.ax.set_yticklabels([f"{level:g}" for level in levels])
    for panel in axes[-1]:
        panel.set_xlabel(r"$\ln\,\ell$")
    for panel in axes[:, 0]:
        panel.set_ylabel(r"$\ln\,\sigma_f$")
    return axes[0, 0] if axes.size == 1 else axes


def contour_levels(values: ArrayLike, quantity: str) -> np.ndarray:
    """Return contour levels that are closely spaced near the best value and far apart elsewhere."""
    finite = np.asarray(values, dtype=float)
    finite = finite[np.isfinite(finite)]
    if not len(finite):
        raise ValueError(f"{quantity} is nowhere finite, so there are no contours to draw.")
    low, high = float(finite.min()), float(finite.max())
    if quantity == "information":
        step = 0.1 if high > 0.35 else 0.05 if high > 0.15 else 0.01
        return step * np.arange(0, max(np.ceil(high / step), 2))  # 0 is no better than guessing
    span = max(high - low, 2.5)  # at least two levels
    ladder = CONTOUR_STEPS[span > CONTOUR_STEPS]
    # errors are whole numbers: contours lie between them
    return low + ladder - 0.5 if quantity == "errors" else np.ceil(high) - ladder[::-1]


def _draw(ax, surface: Surface, quantity: str, levels: np.ndarray):
    from matplotlib.colors import BoundaryNorm

    values = np.ma.masked_invalid(surface.get(quantity))
    grid = surface.log_lengthscale, surface.log_scale
    ax.patch.set(hatch="///", edgecolor="0.8", facecolor="white")
    filled = ax.contourf(
        *grid,
        values,
        levels=levels,
        extend="both",
        cmap="viridis_r" if quantity == "errors" else "viridis",
        norm=BoundaryNorm(levels, 256, extend="both"),  # one colour step per level, whatever their spacing
    )
    ax.contour(*grid, values, levels=levels, colors="k", linewidths=0.4, linestyles="solid")
    unfinished = np.argwhere(~surface.converged)
    ax.plot(grid[0][unfinished[:, 1]], grid[1][unfinished[:, 0]], "x", color=COLOURS[1], ms=4)
    if values.count():
        row, column = surface._best_index(surface.get(quantity), quantity)
        ax.plot(grid[0][column], grid[1][row], "*", color="w", mec="k", mew=0.8, ms=11, clip_on=False, zorder=5)
    return filled


def _best_text(surface: Surface, quantity: str) -> str:
    values = surface.get(quantity)
    if np.isnan(values).all():
        return "none"
    best = values[surface._best_index(values, quantity)]
    return {"information": f"{best:.3f}", "errors": f"{best:.0f}"}.get(quantity, f"{best:.1f}")
