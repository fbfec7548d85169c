"""The map from m observations to n latent values ("places"); several observations may have the same latent value."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True)
class Places:
    """The latent value ("place") of each observation, with sums over observations and values per observation."""

    n: int  # number of places
    index: np.ndarray | None = None  # (m,) place of each observation, ascending, every place at least once; None if m = n

    def __post_init__(self):
        if self.index is None:
            return
        steps = np.diff(self.index, prepend=-1, append=self.n)
        if self.index.ndim != 1 or np.any((steps != 0) & (steps != 1)) or (len(self.index) and self.index[0] != 0):
            raise ValueError(f"places must be whole numbers in ascending order that include each of 0 to {self.n - 1}")

    @cached_property
    def _starts(self) -> np.ndarray:
        return np.flatnonzero(np.diff(np.asarray(self.index), prepend=-1))

    def sum(self, x: np.ndarray) -> np.ndarray:
        """Return sums (n, …) over the observations of each place, given x (m, …)."""
        return x if self.index is None else np.add.reduceat(x, self._starts, axis=0)

    def spread(self, x: np.ndarray) -> np.ndarray:
        """Return values per observation (m, …), given those of the places (n, …)."""
        return x if self.index is None else x[self.index]

    def shares(self, weight: np.ndarray | float) -> np.ndarray | float:
        """Return the weight of each observation divided by that of its place, (m,); 1 if each place has one observation."""
        return 1.0 if self.index is None else weight / self.spread(self.sum(weight * np.ones(len(self.index))))
