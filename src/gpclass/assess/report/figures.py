"""The figures of a report as inline SVG. Text takes the colour of the page: legible on light pages, dark pages and paper."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from functools import partial
from html import escape
from io import StringIO
from typing import Any

import numpy as np

from ..models import classifier, input_names, to_inputs, training_inputs, training_labels
from ..plots import plot_relevance, plot_reliability, plot_surface
from ..plots.common import COLOURS, plain, pyplot
from ..plots.decision import draw_map, plane_of
from ..plots.relevance import MAX_INPUTS
from .facts import Facts
from .hyperparameters import EvidenceMap, KernelComparison, Relevance

INK = "#010203"  # placeholder for the text colour of the page, which is not known here
STYLE: dict[Any, Any] = {
    "text.color": INK, "axes.edgecolor": INK, "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK,
    "figure.facecolor": "none", "axes.facecolor": "none", "savefig.facecolor": "none", "legend.labelcolor": INK,
    "svg.fonttype": "none", "font.size": 10.0, "svg.hashsalt": "gpclass", "axes.unicode_minus": True,
}  # fmt: skip
N_LIGHTER = 6  # colours of the palette that the style sheet makes lighter for a dark page
MAX_MAP_ROWS = 1000  # rows drawn on a map


def draw(name: str, width: float, height: float, paint: Callable[[Any], Any], description: str) -> str:
    """Return what `paint` draws on new axes as SVG; `name` makes the ids unique on the page."""
    pyplot()
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        # text stays text in the SVG, so the fonts are those of the page, not matplotlib's
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure = Figure(figsize=(width, height), layout="constrained")
        paint(figure.subplots())
        out = StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return for_page(out.getvalue(), name, description)


def for_page(svg: str, name: str, description: str) -> str:
    """Return an SVG file as part of a page: without prologue, with unique ids, the page's colours and a flexible width."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = svg.replace("url(#", f"url(#{name}-").replace('href="#', f'href="#{name}-')
    for ink in (INK, "#000000"):
        svg = svg.replace(ink, "currentColor")
    for i, colour in enumerate(COLOURS[:N_LIGHTER]):
        svg = svg.replace(colour.lower(), f"var(--series-{i})")
    box = re.search(r'viewBox="[\d.\s-]+"', svg)
    assert box, "matplotlib writes a viewBox"
    head = f'<svg class="figure" role="img" aria-label="{escape(description, quote=True)}" {box[0]}>'
    return head + svg[svg.index(">") + 1 :]


def reliability(labels: Any, p: np.ndarray, classes: np.ndarray) -> str:
    """Return the reliability diagram."""

    def paint(ax):
        plot_reliability(labels, p, classes=classes, ax=ax)

    return draw("reliability", 5.0, 4.8, paint, "Reliability diagram with the number of predictions in each bin")


def calibration(facts: Facts, classes: np.ndarray) -> str:
    """Return the reliability diagram before and after calibration."""
    assert facts.before is not None, "the model is calibrated"
    series = {"before calibration": facts.before, "as predicted": facts.judged.p}

    def paint(ax):
        plot_reliability(facts.labels, series, classes=classes, ax=ax)

    return draw("calibration", 5.0, 4.8, paint, "Reliability diagram before and after calibration")


def kernels(found: KernelComparison) -> str:
    """Return bars for the log evidence of each kernel, as differences from the best."""
    rows = [row for row in found.rows if np.isfinite(row.log_evidence)]
    best = max((row.log_evidence for row in rows), default=0.0)
    values = [row.log_evidence - best for row in rows]
    names = [f"{row.name} (this model)" if row.own else row.name for row in rows]

    def paint(ax):
        _bars(ax, names, values, [f"{value:.1f}".replace("-", "\N{MINUS SIGN}") for value in values])
        ax.set_xlim(1.25 * min([*values, -1.0]), 0)
        ax.set_xlabel("log evidence, difference from the best (nats)")

    return draw("kernels", 5.8, 0.9 + 0.3 * len(rows), paint, "Log evidence of several kernels")


def weights(found: list[tuple[str, float]]) -> str:
    """Return bars for the weights of stacked kernels."""

    def paint(ax):
        values = [100 * weight for _, weight in found]
        _bars(ax, [name for name, _ in found], values, [f"{value:.0f} %" for value in values])
        ax.set_xlim(0, 1.18 * max(values))
        ax.set_xlabel("weight in the average (%)")

    return draw("weights", 5.8, 0.9 + 0.3 * len(found), paint, "Weights of the kernels")


def _bars(ax, names, values, texts):
    """Draw horizontal bars, the first on top, each with a text at its end."""
    place = np.arange(len(values))
    ax.barh(place, values, height=0.66, color=COLOURS[0])
    ax.set_yticks(place, [plain(name, 36) for name in names])
    ax.set_ylim(len(values) - 0.45, -0.55)
    for at, value, text in zip(place, values, texts, strict=True):
        left = value < 0
        ax.annotate(
            text, (value, at), (-4 if left else 4, 0), textcoords="offset points", va="center",
            ha="right" if left else "left", fontsize="small",
        )  # fmt: skip
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(axis="y", length=0)


def relevance(found: Relevance, model: Any) -> dict[str, str]:
    """Return a figure for each part of the kernel that has one lengthscale per input."""
    out = {}
    for number, (part, values) in enumerate(found.parts.items()):
        height = 1.0 + 0.24 * min(MAX_INPUTS, len(values))
        paint = partial(_relevance, model, found.names, part)
        out[part] = draw(f"relevance{number}", 5.4, height, paint, "Relevance of inputs")
    return out


def _relevance(model, names, part, ax):
    plot_relevance(model, names, part=part, ax=ax)


def evidence(found: EvidenceMap) -> str:
    """Return the contours of the log evidence."""

    def paint(ax):
        plot_surface(found.surface, ax=ax)
        ax.plot(*found.learned, "o", mfc="none", mec="w", mew=2.0, ms=12)
        together = ", geometric mean" if found.several else ""
        ax.set(xlabel=f"ln lengthscale{together}", ylabel="ln latent scale (σ)")

    return draw("evidence", 5.4, 4.2, paint, "Contours of the log evidence over lengthscale and latent scale")


def decision_map(model: Any, train: Any) -> str | None:
    """Return a decision map with the training rows; None if there is only one input or the rows are not known.

    Rows of covariances have no map either: a point between them has no covariances.
    """
    last = classifier(model)
    if last.n_features_in_ < 2 or last.kernel_.takes == "covariances":
        return None
    rows, labels = training_inputs(model), training_labels(model)
    if rows is None or labels is None:
        if train is None:
            return None
        rows, labels = to_inputs(model, train[0]), np.asarray(train[1])
    if len(rows) > MAX_MAP_ROWS:
        some = np.sort(np.random.default_rng(0).choice(len(rows), MAX_MAP_ROWS, replace=False))
        rows, labels = rows[some], labels[some]
    plane = plane_of(rows, input_names(model))
    return draw("map", 5.8, 4.2, lambda ax: draw_map(ax, last, rows, labels, plane), "Decision map")
