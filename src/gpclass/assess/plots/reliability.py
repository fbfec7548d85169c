"""Reliability diagram: predicted probabilities against observed frequencies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..metrics import expected_calibration_error
from ..predictions import Classes, checked_predictions
from .common import axes, plain, series

STRIP_HEIGHT = 0.22  # of the histogram below zero, in units of the axis


def plot_reliability(
    y: ArrayLike,
    p: ArrayLike | Mapping[str, ArrayLike],
    *,
    n_bins: int = 10,
    classes: Classes = None,
    ax: Any = None,
) -> Any:
    """Plot a reliability diagram: predicted probabilities against observed frequencies.

    For two classes the probability is that of the second class, for more that of the most probable class. The strip below
    the diagram is a histogram of the predictions. A single series also has 95 % intervals (Wilson) and the number of
    predictions in each bin. The legend gives the expected calibration error (ECE) of the most probable class.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels.
    p : array-like of shape (n,) or (n, C), or mapping of str to array-like
        Probabilities as in `gpclass.assess.metrics`, or several series of them by name.
    n_bins : int, default=10
        Number of bins of equal width.
    classes : sequence, optional
        The class of each column of p. By default the sorted labels.
    ax : matplotlib Axes, optional
        Where to plot. By default a new figure.

    Returns
    -------
    matplotlib Axes
        The axes of the plot.
    """
    named = dict(p) if isinstance(p, Mapping) else {"": p}
    if not named:
        raise ValueError("there is nothing to plot: p is an empty dict.")
    if n_bins < 1:
        raise ValueError(f"n_bins must be at least 1; got {n_bins}.")
    made = [predicted_events(y, values, classes) for values in named.values()]
    ax = axes(ax, 4.8, 5.0)
    strip = ax.inset_axes((0.0, 0.0, 1.0, STRIP_HEIGHT / (STRIP_HEIGHT + 1.02)))
    ax.plot([0, 1], [0, 1], color="0.6", lw=1, zorder=1)
    ax.axhline(0, color="0.85", lw=0.8, zorder=0)
    for i, ((name, values), (predicted, occurred)) in enumerate(zip(named.items(), made, strict=True)):
        colour, marker = series(i)
        label = f"{plain(name) + ', ' if name else ''}ECE {expected_calibration_error(y, values, n_bins, classes):.3f}"
        count, x, share = binned(predicted, occurred, n_bins)
        if len(named) == 1:
            low, high = wilson(share, count)
            bars = np.maximum([share - low, high - share], 0)
            ax.errorbar(x, share, yerr=bars, fmt="none", ecolor=colour, elinewidth=1, capsize=3)
            _counts(strip, predicted, n_bins, colour)
        else:
            strip.hist(predicted, bins=np.linspace(0, 1, 41), histtype="step", color=colour, lw=1)
        ax.plot(x, share, marker=marker, ms=6, lw=1.2, color=colour, label=label, zorder=3, mec="w", mew=0.5)
    many = np.shape(next(iter(named.values())))[1:] > (2,)  # () for a vector of probabilities
    ax.set(
        xlim=(0, 1),
        ylim=(-STRIP_HEIGHT, 1.02),
        yticks=np.linspace(0, 1, 6),
        xlabel="probability of the top class" if many else "predicted probability",
        ylabel="share that came true",
    )
    strip.set(xlim=(0, 1), xticks=[], yticks=[])
    strip.patch.set_alpha(0)
    strip.spines[:].set_visible(False)
    if len(named) == 1:
        ax.legend(loc="upper left", frameon=False)
    else:  # several lines leave no room inside
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1), frameon=False, borderaxespad=0.2)
    return ax


def _counts(strip, predicted, n_bins, colour):
    """Draw a bar for the number of predictions in each bin, with the number on top."""
    count = np.bincount(_bins(predicted, n_bins), minlength=n_bins)
    centre = (np.arange(n_bins) + 0.5) / n_bins
    strip.bar(centre, count, width=0.8 / n_bins, color=colour, alpha=0.35)
    for x, number in zip(centre[count > 0], count[count > 0], strict=True):
        strip.annotate(str(number), (x, number), (0, 1), textcoords="offset points", ha="center", fontsize="x-small")
    strip.set_ylim(0, 1.6 * count.max())  # room for the numbers


def predicted_events(y: ArrayLike, p: Any, classes: Classes = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the predicted probability of an event for each row, and whether the event occurred."""
    codes, P, _ = checked_predictions(y, p, classes)
    if P.shape[1] == 2:
        return P[:, 1], codes == 1
    return P.max(axis=1), P.argmax(axis=1) == codes


def binned(predicted: np.ndarray, occurred: np.ndarray, n_bins: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return count, mean prediction and observed frequency for each non-empty bin (a, b]."""
    which = _bins(predicted, n_bins)
    count = np.bincount(which, minlength=n_bins)
    full = count > 0
    sums = [np.bincount(which, weights=w, minlength=n_bins)[full] for w in (predicted, occurred)]
    return count[full], sums[0] / count[full], sums[1] / count[full]


def _bins(predicted: np.ndarray, n_bins: int) -> np.ndarray:
    """Return the number of the bin (a, b] of each probability; all have the same width."""
    return np.digitize(predicted, np.linspace(0, 1, n_bins + 1)[1:-1], right=True)


def wilson(share: Any, count: Any, z: float = 1.96) -> tuple[Any, Any]:
    """Return Wilson's interval for a binomial proportion."""
    centre = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z * np.sqrt(share * (1 - share) / count + z**2 / (4 * count**2)) / (1 + z**2 / count)
    return centre - half, centre + half
