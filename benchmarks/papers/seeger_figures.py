"""Figures of Seeger, Lawrence & Herbrich, drawn from stored pieces."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt

import ivm

from .chai_figures import some
from .figures import WIDTH
from .pieces import Piece

ROWS = (("criterion", "criterion"), ("error", "test error, %"), ("log_likelihood", "test log likelihood"))


def figure_1(pieces: Mapping[str, Piece]):
    """Columns are strategies; dots are choices of rows, lines the evaluations in between."""
    fig, axes = plt.subplots(3, 3, figsize=(WIDTH, 6.5), sharey="row")
    for column, strategy in zip(axes.T, ivm.PAPER_STRATEGIES, strict=True):
        [piece] = some(pieces, f"seeger-1-strategies/{strategy}/d=200/*")
        points = piece["points"]
        chosen = [k for k, p in enumerate(points) if p["major"]]
        for ax, (name, label) in zip(column, ROWS, strict=True):
            values = [p[name] for p in points]
            ax.plot(values, lw=0.8, color="0.5")
            ax.plot(chosen, [values[k] for k in chosen], ".", color="tab:blue")
            ax.set_ylabel(label if strategy == "constant" else "")
        # line searches try points that are far worse: they would hide the rest
        top = sorted(p["criterion"] for p in points)[int(0.9 * (len(points) - 1))]
        column[0].set_ylim(top=1.1 * top)
        column[0].set_title(strategy)
        column[-1].set_xlabel("evaluation")
    fig.tight_layout()
    return fig


def table_1(pieces: Mapping[str, Piece]):
    """Ours and the paper's error and log likelihood for each digit and size of the active set."""
    fig, axes = plt.subplots(2, 5, figsize=(WIDTH, 4.0), sharex=True, sharey=True)
    for digit, ax in enumerate(axes.flat):
        found = sorted((p["d"], p["log_likelihood"]) for p in _sized(pieces, digit))
        ax.plot(*zip(*found, strict=True), "o-", ms=4, label="ours")
        paper = [(d, values[1]) for d, values in ivm.PAPER_USPS[digit].items()]
        ax.plot(*zip(*paper, strict=True), "s--", ms=4, mfc="none", label="paper")
        ax.set_title(f"digit {digit}", fontsize=9)
        ax.set_xscale("log")
        ax.set_xticks([50, 100, 200, 500], ["50", "100", "200", "500"])
        ax.minorticks_off()
    axes[0, 0].legend(fontsize=8)
    for ax in axes[:, 0]:
        ax.set_ylabel("test log likelihood", fontsize=8)
    fig.tight_layout()
    return fig


def _sized(pieces, digit):
    for piece in some(pieces, f"seeger-1/digit {digit}/d=*"):
        yield {**piece.values, "d": int(piece.key.split("/")[2].removeprefix("d="))}


FIGURES = {"seeger-figure-1": figure_1, "seeger-table-1": table_1}
