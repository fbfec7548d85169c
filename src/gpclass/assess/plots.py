"""Figures: evidence surfaces as in [NR] figures 9-11, and reliability diagrams. They need matplotlib.

[NR] Nickisch & Rasmussen 2008, section 12.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .metrics import Classes, _checked, expected_calibration_error
from .surface import Surface

TITLES = {
    "log_evidence": "log evidence (nats)",
    "jensen_bound": "Jensen bound (nats)",
    "information": "information (bits)",
    "errors": "test errors",
}
LADDER = np.array([1, 2, 5, 10, 20, 50, 100, 200, 500.0])  # distances of contours from the best value
# Okabe & Ito's palette, made for colour-blind readers; the markers tell the series apart once more
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
MARKERS = "osD^vPX*"


def plot_surface(
    surfaces: Surface | Mapping[str, Surface],
    quantity: str | Sequence[str] = "log_evidence",
    *,
    ax: Any = None,
    fig: Any = None,
) -> Any:
    """Contours over (ln ℓ, ln σ_f): a column per surface, a row per quantity; returns the figure.

    `quantity` is one or more of "log_evidence", "jensen_bound", "information", "errors". Panels of a row share their
    contour levels, evidence and Jensen bound share theirs too. A star marks the best grid point, whose value is in the
    title; a cross marks a point where the engine did not converge; where there is no value the panel is hatched. `ax` takes
    one panel, `fig` takes them all.
    """
    plt = _pyplot()
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
            panel.set_title(f"{name}{': ' if name else 'best '}{_best_text(surface, q)}", fontsize="medium", pad=7)
        bar = fig.colorbar(drawn, ax=list(panels), label=TITLES[q], ticks=levels, fraction=0.16 / len(named), pad=0.02)
        bar.ax.set_yticklabels([f"{level:g}" for level in levels])
    for panel in axes[-1]:
        panel.set_xlabel(r"$\ln\,\ell$")
    for panel in axes[:, 0]:
        panel.set_ylabel(r"$\ln\,\sigma_f$")
    return fig


def contour_levels(values: ArrayLike, quantity: str) -> np.ndarray:
    """Levels that lie closest where the values are good: what is far worse than the best needs no detail."""
    finite = np.asarray(values, dtype=float)
    finite = finite[np.isfinite(finite)]
    if not len(finite):
        raise ValueError(f"{quantity} is nowhere finite, so there are no contours to draw.")
    low, high = float(finite.min()), float(finite.max())
    if quantity == "information":
        step = 0.1 if high > 0.35 else 0.05 if high > 0.15 else 0.01
        return step * np.arange(0, max(np.ceil(high / step), 2))  # 0 is guessing
    span = max(high - low, 2.5)  # two levels at least
    ladder = LADDER[span > LADDER]
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
        norm=BoundaryNorm(levels, 256, extend="both"),  # one colour step per level, however unevenly they lie
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


def plot_reliability(
    y: ArrayLike,
    p: ArrayLike | Mapping[str, ArrayLike],
    *,
    n_bins: int = 10,
    classes: Classes = None,
    ax: Any = None,
) -> Any:
    """Reliability diagram: how often what was given probability p came true; returns the axes.

    y (n,) labels, p (n,) or (n, C) as in `gpclass.assess.metrics`, or a dict of these by name. For two classes p is that of
    the second class, for more that of the most probable one. Bars are 95 % intervals (Wilson), drawn for one series; the
    strip below shows where the predictions lie. ECE in the legend is that of the most probable class.
    """
    plt = _pyplot()
    series = dict(p) if isinstance(p, Mapping) else {"": p}
    if not series:
        raise ValueError("there is nothing to plot: p is an empty dict.")
    if n_bins < 1:
        raise ValueError(f"n_bins must be at least 1; got {n_bins}.")
    made = [_claims(y, values, classes) for values in series.values()]
    if ax is None:
        ax = plt.figure(figsize=(4.8, 5.0), layout="constrained").subplots()
    strip = ax.inset_axes((0.0, 0.0, 1.0, 0.12))
    ax.plot([0, 1], [0, 1], color="0.6", lw=1, zorder=1)
    ax.axhline(0, color="0.85", lw=0.8, zorder=0)
    for i, ((name, values), (claimed, came_true)) in enumerate(zip(series.items(), made, strict=True)):
        colour, marker = COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]
        label = f"{name + ', ' if name else ''}ECE {expected_calibration_error(y, values, n_bins, classes):.3f}"
        count, x, share = _binned(claimed, came_true, n_bins)
        if len(series) == 1:
            low, high = _wilson(share, count)
            bars = np.maximum([share - low, high - share], 0)
            ax.errorbar(x, share, yerr=bars, fmt="none", ecolor=colour, elinewidth=1, capsize=3)
        ax.plot(x, share, marker=marker, ms=6, lw=1.2, color=colour, label=label, zorder=3, mec="w", mew=0.5)
        strip.hist(claimed, bins=np.linspace(0, 1, 41), histtype="step", color=colour, lw=1)
    many = np.shape(next(iter(series.values())))[1:] > (2,)  # () for a vector of probabilities
    ax.set(
        xlim=(0, 1),
        ylim=(-0.16, 1.02),
        yticks=np.linspace(0, 1, 6),
        xlabel="probability of the top class" if many else "predicted probability",
        ylabel="share that came true",
    )
    strip.set(xlim=(0, 1), xticks=[], yticks=[])
    strip.patch.set_alpha(0)
    strip.spines[:].set_visible(False)
    ax.legend(loc="upper left", frameon=False)
    return ax


def _claims(y, p, classes) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities claimed for an event, and whether it came true."""
    codes, P, _ = _checked(y, p, classes)
    if P.shape[1] == 2:
        return P[:, 1], codes == 1
    return P.max(axis=1), P.argmax(axis=1) == codes


def _binned(claimed, came_true, n_bins):
    """Count, mean claim and share that came true, for each bin (a, b] that is not empty."""
    which = np.digitize(claimed, np.linspace(0, 1, n_bins + 1)[1:-1], right=True)
    count = np.bincount(which, minlength=n_bins)
    full = count > 0
    sums = [np.bincount(which, weights=w, minlength=n_bins)[full] for w in (claimed, came_true)]
    return count[full], sums[0] / count[full], sums[1] / count[full]


def _wilson(share, count, z=1.96):
    """Wilson's interval for a binomial share."""
    centre = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z * np.sqrt(share * (1 - share) / count + z**2 / (4 * count**2)) / (1 + z**2 / count)
    return centre - half, centre + half


def _pyplot():
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("Plots need matplotlib: pip install gpclass[plot]") from error
    return plt
