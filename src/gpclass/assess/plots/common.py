"""Helpers shared by all plots: a palette for colour-blind readers, axes, and text that matplotlib does not parse."""

from __future__ import annotations

from typing import Any

# Okabe & Ito's palette, made for colour-blind readers; series also differ by marker
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
MARKERS = "osD^vPX*"


def pyplot() -> Any:
    """Return matplotlib.pyplot; raise an ImportError that says how to install it if it is missing."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("Plots need matplotlib: pip install gpclass[plot]") from error
    return plt


def axes(ax: Any, width: float = 5.0, height: float = 4.0) -> Any:
    """Return `ax`, or new axes of this size in inches if it is None."""
    return pyplot().figure(figsize=(width, height), layout="constrained").subplots() if ax is None else ax


def plain(text: Any, longest: int = 40) -> str:
    """Return text for matplotlib: on one line, cut to `longest` characters, with dollar signs escaped."""
    line = " ".join("".join(c if c.isprintable() or c.isspace() else "\ufffd" for c in str(text)).split())
    line = line if len(line) <= longest else line[: longest - 1] + "…"
    return line.replace("$", r"\$")


def series(i: int) -> tuple[str, str]:
    """Return the colour and marker of the i-th class or series."""
    return COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]
