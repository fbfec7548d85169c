"""Random orders that depend on a seed only: of rows, without storing them, and of chunks, spread evenly over a source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# the second part of a seed is the number of a pass, or one of these: the first pass, inducing inputs, and held-out rows
LOOK_SEED, INPUTS_SEED, HELD_OUT_SEED = 2**32 - 1, 2**32 - 2, 2**32 - 3
FEISTEL_ROUNDS = 6
HASH_FACTOR = np.uint64(0xBF58476D1CE4E5B9)  # multiplier of the hash in each round


@dataclass(frozen=True)
class Order:
    """The numbers 0 … n-1 in a random order, computed part by part without storing the whole order.

    A Feistel network splits a number into two halves and, in each round, combines one half with a hash of the other. Every
    round is invertible, so the network permutes all numbers of 2 × `bits` bits. A result of n or more is permuted again.
    """

    n: int
    bits: int  # of a half
    keys: np.ndarray  # one for each round

    @staticmethod
    def of(n: int, seed: Sequence[int]) -> Order:
        """Return an order of n numbers that `seed` determines."""
        keys = np.random.default_rng(list(seed)).integers(2**63, size=FEISTEL_ROUNDS, dtype=np.uint64)
        return Order(n, max(1, -(-(n - 1).bit_length() // 2)), keys)

    def part(self, start: int, stop: int) -> np.ndarray:
        """Return the numbers at the positions start … stop-1 of the order."""
        numbers = self._permuted(np.arange(start, stop, dtype=np.uint64))
        while np.any(beyond := numbers >= self.n):
            numbers[beyond] = self._permuted(numbers[beyond])
        return numbers.astype(np.int64)

    def positions(self, numbers: np.ndarray) -> np.ndarray:
        """Return the positions of some numbers in the order: the inverse of `part`."""
        found = self._restored(np.asarray(numbers).astype(np.uint64))
        while np.any(beyond := found >= self.n):
            found[beyond] = self._restored(found[beyond])
        return found.astype(np.int64)

    def _permuted(self, numbers):
        half, mask = np.uint64(self.bits), np.uint64((1 << self.bits) - 1)
        left, right = numbers >> half, numbers & mask
        for key in self.keys:
            left, right = right, left ^ (_hash(right, key) & mask)
        return (left << half) | right

    def _restored(self, numbers):
        half, mask = np.uint64(self.bits), np.uint64((1 << self.bits) - 1)
        left, right = numbers >> half, numbers & mask
        for key in self.keys[::-1]:
            left, right = right ^ (_hash(left, key) & mask), left
        return (left << half) | right


def _hash(half: np.ndarray, key: np.uint64) -> np.ndarray:
    mixed = (half + key) * HASH_FACTOR  # arithmetic modulo 2^64
    mixed = (mixed ^ (mixed >> np.uint64(29))) * HASH_FACTOR
    return mixed >> np.uint64(32)


def spread_order(count: int, held: int, rng: np.random.Generator) -> np.ndarray:
    """Return a random order of the chunks 0 … count-1 in which any `held` consecutive ones are spread over the source.

    The source is divided into `held` strata. Each round takes a random chunk of every stratum, and all rounds visit the
    strata in the same random order. If rows are sorted by label, buffers then differ less than in a plain random order.
    """
    strata = int(np.clip(held, 1, count))
    stratum = np.arange(count) * strata // count
    shuffled = rng.permutation(count)
    grouped = shuffled[np.argsort(stratum[shuffled], kind="stable")]  # in random order within each stratum
    turn = np.arange(count) - np.searchsorted(stratum, stratum)  # position in the stratum
    return grouped[np.lexsort((rng.permutation(strata)[stratum], turn))]


def sampled_rows(n_rows: int, seed: Sequence[int], sample: int) -> np.ndarray:
    """Return the numbers of a uniform sample of the rows, sorted. It does not depend on where the rows are."""
    return np.sort(Order.of(n_rows, seed).part(0, min(sample, n_rows)))
