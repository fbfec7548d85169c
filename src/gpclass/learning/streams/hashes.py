"""Hashes of the rows of a source, by which a training run recognises its data."""

from __future__ import annotations

import numpy as np

from ...numerics.fingerprint import fingerprint, row_fingerprints
from .batch import Batch

MODULUS = 1 << 64


class RowHashes:
    """Hashes of all rows, of all labels and weights, and of the order in which they are read.

    The hashes of rows and labels do not depend on order and minibatches: each row's hash is mixed with the row's number, and
    the results are added modulo 2^64. For the order, each row's number is mixed with its position in the pass. The order
    matters because a run is resumed in the middle of a pass, with the remaining rows: a stream with another buffer size, for
    example, would give other rows. Sources whose order depends on the seed and the number of rows only have no such hash.
    Hashes of different rows can be added.

    Parameters
    ----------
    in_random_order : bool, default=False
        Whether the source is such a source (`Source.in_random_order`).
    """

    def __init__(self, in_random_order: bool = False) -> None:
        self.data = self.labels = self.read = 0
        self.order: int | None = None if in_random_order else 0
        self.weights: int | None = None  # None if rows have no weights

    def __add__(self, other: RowHashes) -> RowHashes:
        total = RowHashes(in_random_order=True)
        total.data, total.labels = (self.data + other.data) % MODULUS, (self.labels + other.labels) % MODULUS
        total.read = self.read + other.read
        if self.order is not None or other.order is not None:
            raise ValueError("hashes of an order cannot be added")
        found = [part for part in (self.weights, other.weights) if part is not None]
        total.weights = sum(found) % MODULUS if found else None
        return total

    def add(self, batch: Batch) -> None:
        """Add the rows of a minibatch."""
        places = _mixed(np.asarray(batch.rows).astype(np.uint64))
        if self.order is not None:
            turns = np.arange(self.read, self.read + len(places), dtype=np.uint64)
            self.order = (self.order + int(np.sum(_mixed(places + turns)))) % MODULUS
        self.read += len(places)
        self.data = (self.data + int(np.sum(_mixed(row_fingerprints(batch.X) + places)))) % MODULUS
        different, which = np.unique(batch.y, return_inverse=True)
        names = [float(label) if isinstance(label, (bool, int, float)) else str(label) for label in different.tolist()]
        hashes = np.array([int(fingerprint(name)[:16], 16) for name in names], np.uint64)
        self.labels = (self.labels + int(np.sum(_mixed(hashes[which.ravel()] + places)))) % MODULUS
        if batch.weight is not None:
            bits = np.asarray(batch.weight, float).view(np.uint64)
            self.weights = ((self.weights or 0) + int(np.sum(_mixed(_mixed(bits) + places)))) % MODULUS


def _mixed(x: np.ndarray) -> np.ndarray:
    """Apply a permutation of the 64-bit numbers in which every bit depends on every other. Steele et al. 2014 (splitmix)."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
