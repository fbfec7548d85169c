"""What all figures share: a palette that colour-blind readers can tell apart, axes, and text that is no mathematics."""

from __future__ import annotations

from typing import Any

# Okabe & Ito's palette, made for colour-blind readers; the markers tell the series apart once more
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
MARKERS = "osD^vPX*"


def pyplot() -> Any:
    """matplotlib.pyplot, or an error that says how to get it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("Plots need matplotlib: pip install gpclass[plot]") from error
    return plt


def axes(ax: Any, width: float = 5.0, height: float = 4.0) -> Any:
    """The axes given, or new ones of this size in inches."""
    return pyplot().figure(figsize=(width, height), layout="constrained").subplots() if ax is None else ax


def plain(text: Any, longest: int = 40) -> str:
    """A name or label as matplotlib is to show it: on one line, not too long, and dollars are no mathematics."""
    line = " ".join("".join(c if c.isprintable() or c.isspace() else "\ufffd" for c in str(text)).split())
    line = line if len(line) <= longest else line[: longest - 1] + "…"
    return line.replace("$", r"\$")


def series(i: int) -> tuple[str, str]:
    """Colour and marker of the i-th class or series."""
    return COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]
