"""Figures of Chai 2012, drawn from stored pieces."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np

import chai

from .figures import WIDTH
from .pieces import Piece, matching

MODELS = ("M1", "M2", "M3", "M4", "M5")
NAMES = {"iris": "iris", "new_thyroid": "thyroid", "wine": "wine", "glass": "glass"}


def some(pieces: Mapping[str, Piece], pattern: str) -> list[Piece]:
    """Pieces that match; an error if there is none."""
    found = matching(pieces.values(), pattern)
    if not found:
        raise KeyError(f"no piece matches {pattern!r}")
    return found


def violins(ax, columns, at, colour) -> None:
    """Violins where there are several different values, a mark where there is one."""
    for x, column in zip(at, columns, strict=True):
        values = np.asarray(column, float)
        if len(values) > 2 and np.ptp(values) > 0:
            body = ax.violinplot([values], [x], widths=0.6 * np.min(np.diff(at)), showmeans=True)
            for part in (*body["bodies"], body["cmeans"], body["cbars"], body["cmins"], body["cmaxes"]):
                part.set_color(colour)
        else:
            ax.plot([x] * len(values), values, "o", color=colour, ms=4)


def figure_1(pieces: Mapping[str, Piece]):
    found = some(pieces, "chai-figure-1/iris/*")
    x = np.log([p["variance"] for p in found[0]["points"]])
    curves = {
        name: np.array([[p[name] for p in piece["points"]] for piece in found]) for name in ("log_Z", "log_Z_B", "log_Z_h")
    }
    fig, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, 3.6))
    for shift, (name, values) in zip((-0.05, 0.0, 0.05), curves.items(), strict=True):
        interval = 1.96 * values.std(0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0 * x
        label = {"log_Z": "log Z", "log_Z_B": "log $Z_B$", "log_Z_h": "log $Z_h$"}[name]
        left.errorbar(x + shift, values.mean(0), interval, marker=".", capsize=2, label=label)
    left.set(xlabel="log prior variance", ylabel="log marginal likelihood")
    left.legend()
    violins(right, (curves["log_Z"] - curves["log_Z_B"]).T, x - 0.15, "tab:blue")
    violins(right, (curves["log_Z_B"] - curves["log_Z_h"]).T, x + 0.15, "tab:orange")
    for label, colour in (("log $Z/Z_B$", "tab:blue"), ("log $Z_B/Z_h$", "tab:orange")):
        right.plot([], [], color=colour, label=label)
    right.set(xlabel="log prior variance", ylabel="nats")
    right.legend()
    fig.tight_layout()
    return fig


def figure_2(pieces: Mapping[str, Piece]):
    """One panel a set: log Z_h of M2 … M5 less that of M1, a point for each split."""
    names = [name for name in chai.DATA if matching(pieces.values(), f"chai-figure-2/{name}/*")]
    some(pieces, "chai-figure-2/*")
    fig, axes = plt.subplots(1, len(names), figsize=(WIDTH, 3.0), squeeze=False)
    for ax, name in zip(axes[0], names, strict=True):
        for piece in some(pieces, f"chai-figure-2/{name}/*"):
            values = [piece[model]["log_Z_h"] - piece["M1"]["log_Z_h"] for model in MODELS]
            ax.plot(MODELS, values, ".-", color="tab:blue", lw=0.6)
        ax.axhline(0, color="0.7", lw=0.8)
        ax.set_title(NAMES[name], fontsize=10)
    axes[0, 0].set_ylabel("log $Z_h$ less that of M1, nats")
    fig.tight_layout()
    return fig


def figure_3(pieces: Mapping[str, Piece]):
    """Figures 3 and 4: variances and correlations of thyroid's classes under M4."""
    matrices = np.array([piece["M4"]["covariance"] for piece in some(pieces, "chai-figure-2/new_thyroid/*")])
    deviations = np.sqrt(np.diagonal(matrices, axis1=1, axis2=2))
    correlations = matrices / deviations[:, :, None] / deviations[:, None, :]
    states = ("euthyroidism", "hyperthyroidism", "hypothyroidism")
    fig, axes = plt.subplots(2, 3, figsize=(WIDTH, 4.2))
    for k, state in enumerate(states):
        axes[0, k].hist(deviations[:, k] ** 2, bins=np.linspace(0, 3, 31))
        axes[0, k].set_title(f"variance, {state}", fontsize=9)
    for ax, (a, b) in zip(axes[1], ((0, 1), (0, 2), (1, 2)), strict=True):
        ax.hist(correlations[:, a, b], bins=np.linspace(-1, 1, 41))
        ax.set_title(f"{states[a]}, {states[b]}", fontsize=9)
    for ax in axes.flat:
        ax.yaxis.get_major_locator().set_params(integer=True)
    axes[0, 0].set_ylabel("splits")
    axes[1, 0].set_ylabel("splits")
    fig.tight_layout()
    return fig


def figure_5(pieces: Mapping[str, Piece]):
    found = some(pieces, "chai-figure-5/*")
    sizes = found[0].array("sizes")
    fig, axes = plt.subplots(1, 2, figsize=(WIDTH, 3.2), sharey=True)
    for ax, (way, title) in zip(axes, (("paper", "the paper's way"), ("own", "the engine's way")), strict=True):
        violins(ax, np.array([p.array(way) - p.array("random") for p in found]).T, sizes, "tab:blue")
        ax.axhline(0, color="0.7", lw=0.8)
        ax.set(title=title, xlabel="inducing variables")
    axes[0].set_ylabel("log ratio, active to random")
    fig.tight_layout()
    return fig


def figure_6(pieces: Mapping[str, Piece]):
    names = [name for name in chai.DATA if matching(pieces.values(), f"chai-5/{name}/*")]
    some(pieces, "chai-5/*")
    fig, ax = plt.subplots(figsize=(0.6 * WIDTH, 3.2))
    for shift, way, colour, label in (
        (-0.15, "paper", "tab:blue", "the paper's way"),
        (0.15, "own", "tab:orange", "the engine's way"),
    ):
        lost = [[p["full"]["log_Z_h"] - p[way]["log_Z_h"] for p in some(pieces, f"chai-5/{name}/*")] for name in names]
        for k, values in enumerate(lost):
            ax.plot([k + shift] * len(values), values, "o", color=colour, ms=4, alpha=0.7, label=None if k else label)
    ax.set_xticks(range(len(names)), [NAMES[name] for name in names])
    ax.set_ylabel("log $Z_h$ less log $\\tilde Z_h$, nats")
    ax.legend()
    fig.tight_layout()
    return fig


FIGURES = {
    "chai-figure-1": figure_1,
    "chai-figure-2": figure_2,
    "chai-figure-3": figure_3,
    "chai-figure-5": figure_5,
    "chai-figure-6": figure_6,
}
