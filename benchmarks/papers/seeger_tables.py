"""Tables of Seeger, Lawrence & Herbrich."""

from __future__ import annotations

from functools import partial

import ivm

from .data import found
from .rows import Keeper


def seeger(part: str, data: str, keep: Keeper, full: bool) -> None:
    """A part of the script of the informative vector machine."""
    found((data,))
    ivm.PARTS[part](full, keep)


TABLES = {
    "seeger-1": partial(seeger, "usps", "usps_original"),
    "seeger-1-strategies": partial(seeger, "strategies", "usps_original"),
    "seeger-2": partial(seeger, "mnist", "mnist"),
    "seeger-3": partial(seeger, "satimage", "satimage"),
    "seeger-4": partial(seeger, "virtual", "usps_original"),
    "seeger-pumadyn": partial(seeger, "pumadyn", "pumadyn32nm"),
}
