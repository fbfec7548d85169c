"""Draw docs/images/gallery-*.png: one figure of each page of the gallery, as a thumbnail. Run it when such a figure changes.

    python docs/thumbnails.py [page ...]
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
# Number of the figure on its page
FIGURE = {"medical": 0, "fingerprints": 0, "sensors": 0, "labels": 0, "active_learning": 0}


def cells(page: Path) -> list[str]:
    """Return the code cells of a page, without their options."""
    found = re.findall(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", page.read_text(encoding="utf-8"), re.S | re.M)
    return [re.sub(r"\A(?::[^\n]*\n)+", "", cell) for cell in found]


def figures(page: Path) -> list[plt.Figure]:
    """Run a page and return its figures."""
    names: dict[str, object] = {}
    for cell in cells(page):
        exec(compile(cell, str(page), "exec"), names)
    return [plt.figure(number) for number in plt.get_fignums()]


def main(pages: list[str]) -> None:
    """Draw the thumbnails of some pages, or of all."""
    for name in pages or FIGURE:
        figure = figures(HERE / "gallery" / f"{name}.md")[FIGURE[name]]
        file = HERE / "images" / f"gallery-{name}.png"
        figure.savefig(file, dpi=420 / figure.get_size_inches()[0], facecolor="white", pil_kwargs={"optimize": True})
        plt.close("all")
        print(f"{file.name}: {file.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
