"""Figures of the papers, drawn again from stored pieces.

`papers/<paper>_figures.py` has FIGURES: a function for each figure that takes the pieces of the paper by key and returns a
Matplotlib figure. A piece that is missing is a KeyError, which fails the build of the pages.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path

from .names import paper_of
from .pieces import RESULTS, Piece, file_of, read

Draw = Callable[[Mapping[str, Piece]], object]
WIDTH = 9.0  # inches of a whole page


def figures_of(paper: str) -> dict[str, Draw]:
    return importlib.import_module(f"papers.{paper}_figures").FIGURES


def draw(name: str, file: Path, folder: Path = RESULTS) -> None:
    """Draw a figure, named such as "nickisch-9", into a file."""
    import matplotlib.pyplot as plt

    paper = paper_of(name)
    known = figures_of(paper)
    if name not in known:
        raise ValueError(f"no figure {name!r}; there are {', '.join(known)}")
    figure = known[name]({piece.key: piece for piece in read(file_of(paper, folder))})
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=110)
    plt.close(figure)
