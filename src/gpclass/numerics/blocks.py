"""Rows taken block by block, so that temporary arrays stay small."""

from __future__ import annotations

from collections.abc import Iterator

CACHE = 1 << 16  # numbers of a temporary array that stays in a core's cache: 512 KiB
MEMORY = 1 << 20  # numbers of a temporary array whose only bound is memory: 8 MiB


def blocks(n: int, width: int, numbers: int = MEMORY, least: int = 1) -> Iterator[slice]:
    """Yield slices that cover rows 0 … n - 1 in order.

    Parameters
    ----------
    n : int
        Number of rows.
    width : int
        Numbers that the largest temporary array holds for each row.
    numbers : int
        Numbers that this array may hold in all: `MEMORY`, or `CACHE` where it is passed over several times.
    least : int
        Rows of a block at least, where matrix products need a few to be fast.
    """
    size = max(least, numbers // max(1, width))
    for i in range(0, n, size):
        yield slice(i, min(i + size, n))
