"""Figures of Seeger, Lawrence & Herbrich, drawn from stored pieces."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np

import ivm

from .chai_figures import some
from .figures import WIDTH
from .pieces import Piece, matching
from .seeger_tables import of_largest_evidence

ROWS = (("criterion", "criterion"), ("error", "test error, %"), ("log_likelihood", "test log likelihood"))


def figure_1(pieces: Mapping[str, Piece]):
    """Columns are strategies; dots are choices of rows, lines the evaluations in between."""
    fig, axes = plt.subplots(3, 3, figsize=(WIDTH, 6.5), sharey="row")
    seen: dict[str, list[float]] = {name: [] for name, _ in ROWS}
    for column, strategy in zip(axes.T, ivm.PAPER_STRATEGIES, strict=True):
        [piece] = some(pieces, f"seeger-1-strategies/{strategy}/d=200/*")
        points = piece["points"]
        chosen = [k for k, p in enumerate(points) if p["major"]]
        for ax, (name, label) in zip(column, ROWS, strict=True):
            values = [p[name] for p in points]
            ax.plot(values, lw=0.8, color="0.5")
            ax.plot(chosen, [values[k] for k in chosen], ".", color="tab:blue")
            ax.set_ylabel(label if strategy == "constant" else "")
        for name, _ in ROWS:
            seen[name] += [p[name] for p in points]
        column[0].set_title(strategy)
        column[-1].set_xlabel("evaluation")
    for row, (name, _) in zip(axes, ROWS, strict=True):  # line searches try far worse points, which would hide the rest
        low, high = np.quantile(seen[name], (0.06, 1.0) if name == "log_likelihood" else (0.0, 0.94))
        row[0].set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))
    fig.tight_layout()
    return fig


def table_1(pieces: Mapping[str, Piece]):
    """Ours and the paper's log likelihood for each digit and size of the active set."""
    some(pieces, "seeger-1/*")
    fig, axes = plt.subplots(2, 5, figsize=(WIDTH, 4.0), sharex=True, sharey=True)
    for digit, ax in enumerate(axes.flat):
        if found := sorted((p["d"], p["log_likelihood"]) for p in _sized(pieces, digit)):
            ax.plot(*zip(*found, strict=True), "o-", ms=4, color="tab:blue", label="ours")
        paper = [(d, values[1]) for d, values in ivm.PAPER_USPS[digit].items()]
        ax.plot(*zip(*paper, strict=True), "s--", ms=4, color="tab:orange", mfc="none", label="paper")
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
    found = {
        piece.key.removeprefix("seeger-1/"): piece for piece in matching(pieces.values(), f"seeger-1/digit {digit}/d=*")
    }
    for (_, d), values in of_largest_evidence(found).items():
        yield {**values, "d": d}


FIGURES = {"seeger-figure-1": figure_1, "seeger-table-1": table_1}
