"""Greedy selection of an active set: inclusions one at a time, until there are enough, within a limit of memory.

If the stubs of all candidates do not fit into the given memory, candidates are dropped from time to time: the best ones and
a random part of the others are kept.

[SLH] Seeger, Lawrence & Herbrich, sections 3.2 and 4.2, algorithm 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ...gaussian import ActiveSites, Columns
from ...gaussian.active import STUBS_PER_PIECE
from .candidates import Candidates, Inclusion
from .scores import row_targets

VECTOR_ENTRIES = 16  # array entries per candidate and latent function besides its stub, including temporaries


@dataclass(frozen=True)
class Selection:
    """An active set and the results of its selection."""

    at: ActiveSites
    rows: np.ndarray  # (m,) candidates that remained until the end
    mean: np.ndarray  # (m, C) their marginals
    var: np.ndarray  # (m, C)
    scores: np.ndarray  # (d,) score of each inclusion when it was made


class Pool(Protocol):
    """Candidates in one or several places, for `grow`."""

    def best(self, closed: np.ndarray, size: int) -> Inclusion | None:
        """Return the best inclusion, after dropping all candidates but `size`; None if none is informative."""

    def add(self, new: Inclusion) -> None:
        """Add its site."""


def grow(settings, pool: Pool, n: int, n_latents: int) -> np.ndarray:
    """Make `settings.active` inclusions, or fewer if no other of the n rows is informative; return their scores."""
    total, most = sizes(settings.active, n_latents)
    limit = MemoryLimit(settings.memory, settings.block, n, n_latents)
    scores: list[float] = []
    counts = np.zeros(n_latents, int)
    for count in range(total):
        size = limit.candidates(count, total) if count % settings.block == 0 else n
        new = pool.best(counts >= most, size)
        if new is None:
            break
        pool.add(new)
        scores.append(new.score)
        counts[new.latent] += 1
    return np.array(scores)


def select(settings, covariances: Sequence[Columns], y: np.ndarray, likelihood, rng: np.random.Generator) -> Selection:
    """Grow an active set by `settings.active` inclusions, or fewer if no other row is informative."""
    pool = Candidates(settings, covariances, y, likelihood, rng)
    scores = grow(settings, pool, len(y), len(covariances))
    mean, var = pool.marginals()
    return Selection(pool.sites(), pool.rows, mean, var, scores)


def repeat(settings, covariances: Sequence[Columns], at: ActiveSites, y: Any, likelihood) -> ActiveSites:
    """Return the sites of the same inclusions in the same order under these covariances and this likelihood."""
    rows = at.union
    pool = Candidates(settings, [covariance.take(rows) for covariance in covariances], row_targets(y)[rows], likelihood)
    for i, c in zip(at.renumbered(rows).rows, at.latents, strict=True):
        pool.include(int(i), int(c))
    return at.with_sites(pool.sites().sites)


def sizes(active, n_latents: int) -> tuple[int, list[int]]:
    """Return the total number of inclusions, and the maximum number for each latent function."""
    if np.ndim(active) == 0:
        return int(active), [int(active)] * n_latents
    if len(active) != n_latents:
        raise ValueError(f"active has {len(active)} sizes, one for each latent function, but there are {n_latents}")
    return sum(active), list(active)


@dataclass(frozen=True)
class MemoryLimit:
    """Number of candidates that a memory limit allows. 3.2"""

    memory: float | None  # MiB for the stubs and the vectors besides them
    block: int  # inclusions between two memory checks
    n: int
    n_latents: int

    def candidates(self, count: int, total: int) -> int:
        """Return the number of candidates that fit until the next check, after `count` of `total` inclusions."""
        if self.memory is None:
            return self.n
        stubs = min(count + self.block, total) + self.n_latents * STUBS_PER_PIECE  # a function can have a half-empty piece
        # the vectors of all n rows are kept by the caller, and a piece is copied when it is cut
        left = self.memory * 2**20 / 8 - VECTOR_ENTRIES * self.n * self.n_latents
        size = int(left // (stubs + STUBS_PER_PIECE))
        if size * self.n_latents < max(1, total - count):
            vectors, stubs = VECTOR_ENTRIES * self.n * self.n_latents, total + 2 * STUBS_PER_PIECE * self.n_latents
            need = (vectors + stubs * max(1, total - count)) * 8 / 2**20
            raise MemoryError(
                f"memory={self.memory:g} MiB is enough for {max(size, 0)} candidates, fewer than the {total - count} rows "
                f"still to be included; give at least {need:.1f} MiB, or ask for fewer active rows"
            )
        return size
