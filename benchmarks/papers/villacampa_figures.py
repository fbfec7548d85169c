"""Figures of Villacampa-Calvo 2017, drawn from stored pieces."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import matplotlib.pyplot as plt
import numpy as np

import inducing

from .chai_figures import some
from .figures import WIDTH
from .pieces import Piece, matching
from .villacampa_tables import COUNTS, PLACES

TICKS = (0.5, 1, 2, 5, 10, 20, 50, 100)  # seconds
COLOURS = {"EP": "tab:blue", "SEP": "tab:green", "VI": "tab:red", "REP": "tab:purple", "GFITC": "tab:orange"}


def figure_5_1(pieces: Mapping[str, Piece]):
    fig, ax = plt.subplots(figsize=(0.6 * WIDTH, 3.4))
    for way in ("inner", "outer"):
        [piece] = some(pieces, f"villacampa-figure-5.1/{way}/*")
        ax.plot(*zip(*((p["seconds"], p["log_Z"]) for p in piece["points"]), strict=True), label=way)
    ax.set(xlabel="processor seconds", ylabel="log $Z_q$", xscale="log")
    top = max(p["log_Z"] for piece in some(pieces, "villacampa-figure-5.1/*") for p in piece["points"])
    ax.set_ylim(4 * top, 0.5 * top)
    ax.legend()
    fig.tight_layout()
    return fig


def figure_6_1(pieces: Mapping[str, Piece]):
    found = {(name, M): some(pieces, f"villacampa-figure-6.1/{name}/M={M}/*")[0].values for name in PLACES for M in COUNTS}
    fig = plt.figure(figsize=(WIDTH, WIDTH * len(PLACES) / len(COUNTS)))
    inducing.draw_places(found, PLACES, COUNTS, fig)
    return fig


def curves(axes, found: list[Piece], where: int) -> None:
    """Loss on the left and error on the right, over processor seconds; the method is a part of the key."""
    for piece in found:
        name = piece.key.split("/")[where]
        x = [p["seconds"] for p in piece["points"]]
        for ax, measure in zip(axes, ("loss", "error"), strict=True):
            ax.plot(x, [p[measure] for p in piece["points"]], ".-", color=COLOURS[name], label=name)
            ax.set_xscale("log")
            ax.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
            ax.minorticks_off()
    first, last = (end(p["seconds"] for piece in found for p in piece["points"]) for end in (min, max))
    for ax in axes:
        ax.set_xlim(0.9 * first, 1.1 * last)


def figure_6_2(pieces: Mapping[str, Piece]):
    """A row of panels for each number of inducing points of which there are pieces."""
    found = {M: matching(pieces.values(), f"villacampa-figure-6.2/*/M={M}/*") for M in (4, 50, 200)}
    found = {M: these for M, these in found.items() if these}
    if not found:
        raise KeyError("no piece of figure 6.2 is stored")
    shape = {"figsize": (WIDTH, 2.6 * len(found) + 0.6), "sharex": True, "sharey": "col", "squeeze": False}
    fig, axes = plt.subplots(len(found), 2, **shape)
    for row, (M, these) in zip(axes, found.items(), strict=True):
        curves(row, these, 1)
        row[0].set_ylabel(f"M = {M}")
    axes[0, 0].set(title="negative test log likelihood", ylim=(0.2, 1.6))
    axes[0, 1].set(title="test error", ylim=(0.05, 0.5))
    axes[0, 0].legend()
    for ax in axes[-1]:
        ax.set_xlabel("processor seconds")
    fig.tight_layout()
    return fig


def figure_6_3(table: str, pieces: Mapping[str, Piece]):
    fig, axes = plt.subplots(1, 2, figsize=(WIDTH, 3.4))
    curves(axes, some(pieces, f"{table}/*"), 1)
    axes[0].set_ylabel("negative test log likelihood")
    axes[1].set_ylabel("test error")
    axes[0].legend()
    for ax in axes:
        ax.set_xlabel("processor seconds")
    fig.tight_layout()
    return fig


def made_rows(pieces: Mapping[str, Piece]):
    """The same for rows that a generator makes, with the loss of the true probabilities and of a linear classifier."""
    fig = figure_6_3("villacampa-airline", pieces)
    piece = some(pieces, "villacampa-airline/EP/*")[-1]
    loss = fig.axes[0]
    for name, style in (("bayes", "-"), ("linear", ":")):
        loss.axhline(piece[name], color="0.6", ls=style, lw=1, label={"bayes": "true probabilities"}.get(name, name))
    loss.legend()
    return fig


def figure_6_4(pieces: Mapping[str, Piece]):
    sets = (("villacampa-mnist", "MNIST"), ("villacampa-flights", "flights"))
    fig, axes = plt.subplots(1, 2, figsize=(WIDTH, 3.2))
    for ax, (table, title) in zip(axes, sets, strict=True):
        [piece] = some(pieces, f"{table}/VI/*")
        x = [p["seconds"] for p in piece["points"]]
        ax.plot(x, [-p["expected"] for p in piece["points"]], ".-", label="E[log p(y | f)], what VI optimises")
        ax.plot(x, [-p["loss"] for p in piece["points"]], ".-", label="log E[p(y | f)]")
        ax.set(title=title, xlabel="processor seconds")
    axes[0].legend(fontsize=8)
    fig.tight_layout()
    return fig


def power(pieces: Mapping[str, Piece]):
    """Loss of power EP over that of EP, a point for each training."""
    fig, ax = plt.subplots(figsize=(0.6 * WIDTH, 3.4))
    gains = []
    for name in inducing.SETS:
        for piece in matching(pieces.values(), f"villacampa-6/{name}/*/power EP/*"):
            ep = pieces[piece.key.replace("power EP", "EP")]
            gains.append(piece["loss"] - ep["loss"])
            ax.plot([name], [gains[-1]], "o", color="tab:blue", ms=4)
    if not gains:
        raise KeyError("no piece of power EP is stored")
    ax.axhline(0, color="0.7", lw=0.8)
    ax.set(ylabel="loss of power EP less that of EP", title=f"mean {np.mean(gains):+.3f} over {len(gains)} trainings")
    ax.tick_params(axis="x", rotation=30)
    fig.tight_layout()
    return fig


FIGURES = {
    "villacampa-power": power,
    "villacampa-figure-5.1": figure_5_1,
    "villacampa-figure-6.1": figure_6_1,
    "villacampa-figure-6.2": figure_6_2,
    "villacampa-figure-6.3": partial(figure_6_3, "villacampa-mnist"),
    "villacampa-figure-6.3-flights": partial(figure_6_3, "villacampa-flights"),
    "villacampa-figure-6.3-airline": made_rows,
    "villacampa-figure-6.4": figure_6_4,
}
