"""The sites of the rows of a minibatch run, in this process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ..engines.inducing.step import RowSites
from ..engines.observations import Observed
from .minibatch import StepSums, TrainingStep, row_sums
from .streams import Batch, codes

Before = tuple[np.ndarray, RowSites]  # the rows of a step and their sites before it


@dataclass
class SiteStore:
    """Sites of rows that a source of this process yields.

    `learning.crew.store` has the same for rows in other processes.

    Attributes
    ----------
    sites : dict of str to ndarray
        Sites of each row, changed in place. Empty for engines that keep no sites.
    """

    sites: RowSites = field(default_factory=dict)

    elsewhere: ClassVar = False  # whether the rows are in other processes

    def mark(self, batch: Batch) -> Before:
        """Return what `undo` needs to restore the sites of a minibatch."""
        return batch.rows, self.of(batch.rows)

    def undo(self, before: Before) -> None:
        """Restore the sites of a minibatch."""
        self.put(*before)

    def sums(self, step: TrainingStep, batch: Batch, labels: np.ndarray) -> StepSums:
        """Return the sums of a step over the rows of a minibatch, and replace their sites."""
        total, new = row_sums(step, batch.X, targets_of(batch, step.shared.likelihood, labels), self.of(batch.rows))
        self.put(batch.rows, new)
        return total

    def rows(self, step: TrainingStep, batch: Batch) -> tuple[Batch, RowSites]:
        """Return the rows of a minibatch, and their sites."""
        return batch, self.of(batch.rows)

    def of(self, rows: np.ndarray) -> RowSites:
        """Return the sites of some rows."""
        return {name: part[rows] for name, part in self.sites.items()}

    def put(self, rows: np.ndarray, new: RowSites) -> None:
        """Replace the sites of some rows."""
        for name, part in new.items():
            self.sites[name][rows] = part

    def grown(self, n_rows: int) -> SiteStore:
        """Return a store for more rows, whose sites are empty."""
        return SiteStore(
            {name: np.concatenate([p, np.zeros((n_rows - len(p), *p.shape[1:]))]) for name, p in self.sites.items()}
        )

    def content(self, step: TrainingStep) -> RowSites:
        """Return the sites of all rows, for a checkpoint."""
        return self.sites

    def restore(self, found: RowSites) -> SiteStore:
        """Return a store with the sites of a checkpoint."""
        return SiteStore(found)

    def left(self, n_rows: int) -> SiteStore:
        """Return the store after training; without rows in other processes it is the same."""
        return self

    def close(self) -> None:
        """Do nothing: there is nothing to release in this process."""


def targets_of(batch: Batch, likelihood: Any, labels: np.ndarray) -> Any:
    """Return the targets of some rows, an array or `Observed`."""
    targets = likelihood.class_targets[codes(np.asarray(batch.y), labels)]
    return targets if batch.weight is None else Observed(targets, batch.weight)
