"""Engines' marginals of the latent function against those of a sampler, which are exact in the limit.

`plot_marginals` is figure 6 of [NR]: means, standard deviations or class probabilities at all training points, with those
of the sampler on the horizontal axis. `plot_marginal` is figure 7: a histogram of the draws at one point, with the engines'
Gaussians.

[NR] Nickisch & Rasmussen 2008, section 12.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .common import axes, plain, series

AXIS_LABELS = {
    "mean": "posterior mean",
    "std": "posterior standard deviation",
    "probability": "class probability",
}


def plot_marginals(draws: Any, fits: Mapping[str, Any], quantity: str = "mean", *, ax: Any = None) -> Any:
    """Plot the engines' marginals at all training points against those of a sampler.

    Points on the diagonal agree. With several classes each latent value is a point.

    Parameters
    ----------
    draws : Draws
        The result of a sampler's `fit(K, y, likelihood)`.
    fits : mapping of str to Fit
        Results of engines for the same data, by name.
    quantity : {"mean", "std", "probability"}, default="mean"
        The quantity to compare.
    ax : matplotlib Axes, optional
        Where to plot. By default a new figure.

    Returns
    -------
    matplotlib Axes
        The axes of the plot.
    """
    if quantity not in AXIS_LABELS:
        raise ValueError(f"quantity must be one of {', '.join(map(repr, AXIS_LABELS))}; got {quantity!r}")
    if not fits:
        raise ValueError("there is nothing to plot: fits is empty")
    truth = _of_draws(draws, quantity)
    found = {name: _of_fit(fit, quantity) for name, fit in fits.items()}
    for name, values in found.items():
        if values.shape != truth.shape:
            raise ValueError(f"{name} has {values.shape} latent values, but the draws have {truth.shape}")
    ax = axes(ax, 4.6, 4.6)
    ends = [np.min([truth, *found.values()]), np.max([truth, *found.values()])] if quantity != "probability" else [0.0, 1.0]
    ax.axline((ends[0], ends[0]), (ends[1], ends[1]), color="0.6", lw=1, zorder=0)
    for i, (name, values) in enumerate(found.items()):
        colour, marker = series(i)
        ax.plot(truth.ravel(), values.ravel(), marker, ms=4, mew=0, alpha=0.7, color=colour, label=plain(name))
    margin = 0.04 * (ends[1] - ends[0])
    window = (ends[0] - margin, ends[1] + margin)
    ax.set(xlim=window, ylim=window, aspect="equal")
    ax.set_xlabel(f"{AXIS_LABELS[quantity]}, sampled")
    ax.set_ylabel(f"{AXIS_LABELS[quantity]}, approximated")
    ax.legend(frameon=False, loc="upper left", markerscale=1.6)
    return ax


def plot_marginal(
    draws: Any, fits: Mapping[str, Any], point: int, latent: int = 0, *, bins: int = 40, ax: Any = None
) -> Any:
    """Plot a histogram of a sampler's draws at one training point and the engines' Gaussians.

    Parameters
    ----------
    draws, fits
        As for `plot_marginals`.
    point : int
        Number of the training row.
    latent : int, default=0
        The class, if there are several latent functions.
    bins : int, default=40
        Number of bins of the histogram.
    ax : matplotlib Axes, optional
        Where to plot. By default a new figure.

    Returns
    -------
    matplotlib Axes
        The axes of the plot.
    """
    pooled = draws.pooled if draws.pooled.ndim == 3 else draws.pooled[..., None]
    if not 0 <= point < pooled.shape[1] or not 0 <= latent < pooled.shape[2]:
        raise ValueError(f"point must be below {pooled.shape[1]} and latent below {pooled.shape[2]}; got {point}, {latent}")
    values = pooled[:, point, latent]
    gaussians = {name: (_column(fit.mean, point, latent), _column(fit.var, point, latent)) for name, fit in fits.items()}
    ax = axes(ax, 5.2, 3.6)
    ax.hist(values, bins=bins, density=True, color="0.72", label="sampled", zorder=1)
    ends = [values.min(), values.max()]
    for mean, var in gaussians.values():
        ends += [mean - 3 * np.sqrt(var), mean + 3 * np.sqrt(var)]
    f = np.linspace(min(ends), max(ends), 400)
    for i, (name, (mean, var)) in enumerate(gaussians.items()):
        density = np.exp(-0.5 * (f - mean) ** 2 / var) / np.sqrt(2 * np.pi * var)
        ax.plot(f, density, color=series(i)[0], ls=("-", "--", "-.", ":")[i % 4], lw=1.8, label=plain(name), zorder=2)
    which = f", class {latent}" if pooled.shape[2] > 1 else ""
    ax.set(xlabel=f"latent value at training point {point}{which}", ylabel="density", yticks=[])
    ax.legend(frameon=False)
    return ax


def _column(values, point, latent):
    values = np.asarray(values)
    return float(values[point] if values.ndim == 1 else values[point, latent])


def _of_fit(fit, quantity):
    if quantity == "mean":
        return np.asarray(fit.mean)
    if quantity == "std":
        return np.sqrt(np.asarray(fit.var))
    spread = fit.var if fit.likelihood.n_latents == 1 else fit.cov
    return np.asarray(fit.likelihood.predictive(fit.mean, spread))


def _of_draws(draws, quantity):
    if quantity == "mean":
        return np.asarray(draws.mean)
    if quantity == "std":
        return np.sqrt(draws.var)
    f = draws.pooled
    if draws.likelihood.n_latents > 1:
        return draws.likelihood.class_probabilities(f).mean(0)
    return np.exp(draws.likelihood.log_prob_value(1.0, f)).mean(0)
