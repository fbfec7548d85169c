"""Sites of the next sweep over all rows: mixed with past sweeps, damped if sweeps fail."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...numerics import NotPositiveDefinite, anderson, within_reach
from ..climb import LINEAR_REGIME
from .step import RowSites

MIXED_SWEEPS = 8  # number of past sweeps that are mixed
WORSE = 1.5  # growth of a move that counts as a failure
LEAST_PART = 1e-3  # smallest fraction of a step
IDLE = 12  # sweeps without a new smallest move that count as a failure
PAUSE = 8  # plain steps after a failed mixed one


class Mixer:
    """Chooses the sites of the next sweep: Anderson mixing; after failed steps plain steps, then damped ones."""

    def __init__(self, damping: float, ascends: bool):
        self.most, self.part, self.ascends = damping, damping, ascends
        self.points: list[np.ndarray] = []
        self.residuals: list[np.ndarray] = []
        self.last, self.objective = np.inf, -np.inf
        self.least, self.idle = np.inf, 0  # smallest move so far, and the number of sweeps since
        self.mixed, self.wait = False, 0  # whether the last step was mixed; number of plain steps left

    def move(self, sites: RowSites, new: RowSites, change: float, units: np.ndarray, objective: float, data: Any):
        x, goal = _joined(sites), _joined(new)
        fell = self.ascends and objective < self.objective - 1e-9 * abs(self.objective)
        if fell and self.points:  # retry from the start of the step
            x, residual = self.points[-1], self.residuals[-1]
            self._astray()
            self.points, self.residuals = [x], [residual]
        else:
            self.idle = 0 if change < self.least else self.idle + 1
            if (change > WORSE * self.last or self.idle >= IDLE) and not self.ascends:
                self._astray()
                self.idle, self.least = 0, change
            elif self.idle == 0 or self.ascends:
                self.part = min(self.most, 1.1 * self.part)
            self.least = min(self.least, change)
            self.last, self.objective = change, objective
            self.points, self.residuals = [*self.points[-MIXED_SWEEPS:], x], [*self.residuals[-MIXED_SWEEPS:], goal - x]
        return self._made(x, self.residuals[-1], self._target(units), sites, data)

    def _astray(self):
        """After a failure, stop mixing if the last step was mixed, else shorten the steps."""
        self.points, self.residuals = [], []
        if self.mixed:
            self.wait = PAUSE
        else:
            self.part = max(0.5 * self.part, LEAST_PART)

    def _made(self, x, residual, target, sites, data):
        part = self.part
        while True:
            mixed = _split(target, sites)
            try:
                return mixed, data.at(mixed)
            except NotPositiveDefinite:  # sites of negative precision: shorten the step
                part *= 0.5
                if part < LEAST_PART:
                    raise
                target = x + part * residual

    def _target(self, units):
        x, residual = self.points[-1], self.residuals[-1]
        self.wait = max(0, self.wait - 1)
        self.mixed = len(self.points) >= 3 and self.last < LINEAR_REGIME and not self.wait
        if not self.mixed:
            return x + self.part * residual
        residuals = np.stack(self.residuals)
        mixed = anderson(np.stack(self.points), residuals, self.part, residuals * units)
        return within_reach(mixed, x, residual, units, slack=1e-2)


def units(sites: RowSites, var: np.ndarray, weight: np.ndarray | float = 1.0) -> np.ndarray:
    """Scales that make moves of sites comparable: posterior variances for τ, standard deviations for ν, times weights."""
    wide = np.maximum(np.mean(var, axis=1), 1e-300)
    parts = (weight * (wide if name.endswith("tau") else np.sqrt(wide)) for name in sites)
    return np.concatenate([np.repeat(part, sites[name].shape[1]) for name, part in zip(sites, parts, strict=True)])


def _joined(sites: RowSites) -> np.ndarray:
    return np.concatenate([part.ravel() for part in sites.values()])


def _split(x: np.ndarray, like: RowSites) -> RowSites:
    edges = np.cumsum([part.size for part in like.values()])[:-1]
    return {name: part.reshape(like[name].shape) for name, part in zip(like, np.split(x, edges), strict=True)}
