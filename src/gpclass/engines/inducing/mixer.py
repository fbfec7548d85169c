"""Choice of the next sites of all rows: mixed with past sweeps, damped if sweeps fail.

The sites may be those of rows in several processes. The choice depends only on sums and maxima over all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...numerics import NormalEquations, NotPositiveDefinite
from ..climb import LINEAR_REGIME

MIXED_SWEEPS = 8  # number of past sweeps that are mixed
FAILED_GROWTH = 1.5  # growth of a move that counts as a failure
SMALLEST_PART = 1e-3  # smallest fraction of a step
STALE_SWEEPS = 12  # sweeps without a new smallest move that count as a failure
PLAIN_STEPS = 8  # plain steps after a failed mixed one

ALL, LAST, PREVIOUS = "all", "last", "previous"  # sweeps that are kept: all, only the last one, only the one before


@dataclass(frozen=True)
class Swept:
    """Result of a sweep over some rows. Results of different rows add up."""

    value: float  # contributions of the current sites to the evidence
    change: float  # largest move of a site, in units of its row's posterior; NaN if a result is not finite
    largest: float = 0.0  # largest step of a coordinate of the sites, in `units`
    equations: NormalEquations | None = None  # of mixing; None if the step will not be mixed

    def __add__(self, other: Swept) -> Swept:
        change = float(np.maximum(self.change, other.change))  # keeps NaN
        both = None if self.equations is None or other.equations is None else self.equations + other.equations
        return Swept(self.value + other.value, change, max(self.largest, other.largest), both)


@dataclass(frozen=True)
class SweepStep:
    """How the next sites of all rows are made of past sweeps."""

    kept: str  # past sweeps that are kept; the step starts from the last of these
    part: float  # fraction of the step
    mix: np.ndarray | None = None  # weights of past sweeps; None is a plain step
    largest: float = 0.0  # as in `Swept`, for mixed steps


class Mixer:
    """Chooses steps: Anderson mixing; after failed steps plain ones, then damped ones.

    Parameters
    ----------
    damping : float
        Largest fraction of a step.
    ascends : bool
        Whether sweeps maximise the objective. Then a step that decreases it is undone.
    memory : int
        Number of past sweeps that are mixed.
    """

    def __init__(self, damping: float, ascends: bool, memory: int = MIXED_SWEEPS):
        self.most, self.part, self.ascends, self.memory = damping, damping, ascends, memory
        self.sweeps = 0  # number of sweeps that are kept
        self.last, self.objective = np.inf, -np.inf
        self.least, self.idle = np.inf, 0  # smallest move so far, and the number of sweeps since
        self.mixed, self.wait = False, 0  # whether the last step was mixed; number of plain steps left

    @property
    def may_mix(self) -> bool:
        """Whether the step after the next sweep is mixed if its move is in the linear regime."""
        return min(self.sweeps, self.memory) >= 2 and self.wait <= 1

    def move(self, swept: Swept, objective: float, take: Callable[[SweepStep], Any]) -> Any:
        """Return take(step) for the step after a sweep. It is shortened while `take` raises NotPositiveDefinite."""
        step = self._after(swept, objective)
        part = self.part
        while True:
            try:
                return take(step)
            except NotPositiveDefinite:  # sites of negative precision: shorten the step
                part *= 0.5
                if part < SMALLEST_PART:
                    raise
                step = SweepStep(ALL, part)

    def _after(self, swept: Swept, objective: float) -> SweepStep:
        change, kept = swept.change, ALL
        if self.ascends and objective < self.objective - 1e-9 * abs(self.objective) and self.sweeps:
            self._failed()
            kept, self.sweeps = PREVIOUS, 1  # retry from the start of the step
        else:
            self.idle = 0 if change < self.least else self.idle + 1
            if (change > FAILED_GROWTH * self.last or self.idle >= STALE_SWEEPS) and not self.ascends:
                self._failed()
                kept, self.idle, self.least = LAST, 0, change
            elif self.idle == 0 or self.ascends:
                self.part = min(self.most, 1.1 * self.part)
            self.least = min(self.least, change)
            self.last, self.objective = change, objective
            self.sweeps = min(self.sweeps, self.memory) + 1
        self.wait = max(0, self.wait - 1)
        self.mixed = self.sweeps >= 3 and self.last < LINEAR_REGIME and not self.wait
        if not self.mixed:
            return SweepStep(kept, self.part)
        assert swept.equations is not None, "sweeps in the linear regime return equations if `may_mix`"
        return SweepStep(kept, self.part, swept.equations.weights(), swept.largest)

    def _failed(self):
        """Stop mixing after a failed mixed step, or shorten the steps after a failed plain one."""
        self.sweeps = 0
        if self.mixed:
            self.wait = PLAIN_STEPS
        else:
            self.part = max(0.5 * self.part, SMALLEST_PART)
