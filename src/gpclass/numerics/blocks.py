"""Rows taken block by block, so that temporary arrays stay small."""

from __future__ import annotations

from collections.abc import Iterator

CACHE = 1 << 16  # numbers in a temporary array that fits into a core's cache: 512 KiB
MEMORY = 1 << 20  # numbers in a temporary array that is limited only by memory: 8 MiB


def blocks(n: int, width: int, numbers: int = MEMORY, least: int = 1) -> Iterator[slice]:
    """Yield slices that cover rows 0 … n - 1 in order.

    Parameters
    ----------
    n : int
        Number of rows.
    width : int
        Numbers per row in the largest temporary array.
    numbers : int, default=MEMORY
        Largest size of this array: `MEMORY`, or `CACHE` if it is read several times.
    least : int, default=1
        Smallest number of rows in a block. Matrix products need several rows to be fast.
    """
    size = max(least, numbers // max(1, width))
    for i in range(0, n, size):
        yield slice(i, min(i + size, n))


def even_blocks(n: int, most: int) -> Iterator[slice]:
    """Return slices of nearly equal length, at most `most`, that cover rows 0 … n - 1. A short last one would be slow."""
    count = max(1, -(-n // most))
    return blocks(n, 1, -(-n // count))
