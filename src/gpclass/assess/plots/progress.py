"""Plots of learning: the objective at each evaluation or pass, and test scores against time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..models import classifier
from .common import axes, plain, series


def plot_learning_curve(model: Any, *, against: str = "evaluations", ax: Any = None) -> Any:
    """Plot the objective of learning (log evidence + log prior) at each evaluation.

    Restarts follow each other, each in its own colour. Crosses at the bottom mark failed evaluations; the dashed line is the
    best value so far.

    Parameters
    ----------
    model : GPClassifier, Pipeline or list
        A fitted classifier, a fitted pipeline whose last step is one, or a history: a list of `gpclass.learning.Step` (one
        per evaluation) or of `gpclass.learning.Pass` (one per pass over minibatches).
    against : {"evaluations", "seconds"}, default="evaluations"
        The horizontal axis. "seconds" needs a history with times.
    ax : matplotlib Axes, optional
        Where to plot. By default a new figure.

    Returns
    -------
    matplotlib Axes
        The axes of the plot.
    """
    history = list(model) if isinstance(model, (list, tuple)) else list(classifier(model).history_)
    if not history:
        raise ValueError("the history is empty: nothing was learned (optimizer=None, or a sampler)")
    if against not in ("evaluations", "seconds"):
        raise ValueError(f"against must be 'evaluations' or 'seconds'; got {against!r}")
    unit = history[0].unit
    value = np.array([step.value for step in history], dtype=float)
    if against == "seconds":
        if history[0].seconds is None:
            raise ValueError("this history holds no times; plot it against 'evaluations'")
        x = np.array([step.seconds for step in history])
    else:
        x = np.arange(1, len(history) + 1)
    ax = axes(ax, 5.4, 3.6)
    runs = np.array([step.run for step in history])
    for i, run in enumerate(np.unique(runs)):
        colour, marker = series(i)
        here = runs == run
        label = None if len(np.unique(runs)) == 1 else "first run" if i == 0 else f"restart {run}"
        ax.plot(x[here], value[here], marker=marker, ms=4, lw=1, color=colour, label=label)
    if unit == "evaluation":  # values of passes are estimates: their largest is not the best
        with np.errstate(invalid="ignore"):
            best = np.fmax.accumulate(value)
        ax.step(x, best, where="post", color="0.55", lw=1, ls="--", zorder=0, label="best so far")
        failed = ~np.isfinite(value)
        if failed.any():
            axis_fraction = ax.get_xaxis_transform()
            ax.plot(x[failed], np.full(failed.sum(), 0.03), "x", color="0.4", transform=axis_fraction, label="failed")
    ax.set_ylim(*_window(value))
    ax.set_xlabel("seconds" if against == "seconds" else unit)
    labels = {"evaluation": "log evidence + log prior (nats)", "pass": "log evidence, estimated (nats)"}
    ax.set_ylabel(labels[unit])
    if ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False, loc="lower right")
    return ax


def _window(value: np.ndarray) -> tuple[float, float]:
    """Return vertical limits that show the end of the search; values far below its start and end are cut off."""
    finite = value[np.isfinite(value)]
    if not len(finite):
        raise ValueError("no evaluation of this history succeeded")
    low, high = float(np.min([finite[0], finite[-1], np.median(finite)])), float(finite.max())
    span = max(high - low, 1e-3 * max(1.0, abs(high)))
    return low - 0.15 * span, high + 0.1 * span


def plot_score_against_time(
    curves: Mapping[str, tuple[ArrayLike, ArrayLike]], *, score: str = "test NLPD (nats)", log: bool = True, ax: Any = None
) -> Any:
    """Plot a test score against the training time of each method.

    Parameters
    ----------
    curves : mapping of str to (seconds, scores)
        One curve for each method: two array-likes of the same length.
    score : str, default="test NLPD (nats)"
        Label of the vertical axis.
    log : bool, default=True
        Whether time is on a log axis.
    ax : matplotlib Axes, optional
        Where to plot. By default a new figure.

    Returns
    -------
    matplotlib Axes
        The axes of the plot.
    """
    if not curves:
        raise ValueError("there is nothing to plot: curves is empty")
    checked = {name: _curve(name, *pair) for name, pair in curves.items()}
    ax = axes(ax, 5.4, 3.6)
    for i, (name, (seconds, values)) in enumerate(checked.items()):
        colour, marker = series(i)
        ax.plot(seconds, values, marker=marker, ms=4, lw=1.2, color=colour, label=plain(name))
    if log:
        ax.set_xscale("log")
    ax.set(xlabel="seconds of training", ylabel=score)
    ax.legend(frameon=False)
    return ax


def _curve(name, seconds, values):
    seconds, values = np.asarray(seconds, float), np.asarray(values, float)
    if seconds.ndim != 1 or seconds.shape != values.shape or not len(seconds):
        raise ValueError(f"{name}: needs as many seconds as scores, at least one; got {seconds.shape} and {values.shape}")
    return seconds, values
