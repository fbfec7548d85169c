"""Warm starts of evaluations: sites of earlier evaluations, extrapolated to the current hyperparameters.

Sites change smoothly with θ. Extrapolation from the last few evaluations leaves an error of second order in the step, which
saves one or two sweeps per evaluation. The extrapolated quantities are log τ and the site means ν/τ, because these, unlike
ν, stay consistent with the mean when the kernel changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..gaussian import Sites

KEPT_FITS = 3  # number of earlier evaluations that are used
MOST_STEP_WEIGHT = 1.5  # maximum total weight of earlier changes; for longer steps the extrapolation is shortened
MOST_LOG_CHANGE = 2.0  # maximum change of any log τ
COMPARABLE = 10.0  # difference of log τ above which a site is not extrapolated: the mean of a negligible site is arbitrary
COLLINEAR = 0.1  # relative size of singular values below which two steps are treated as one direction


@dataclass(frozen=True)
class Extrapolated:
    """A warm start: sites for engines that start from sites, and the last fit's α for engines that start from α."""

    sites: Sites
    fit: Any

    @property
    def alpha(self) -> np.ndarray:
        return self.fit.alpha


class WarmStart:
    """Remembers converged fits and computes a start for the next θ."""

    def __init__(self, fit: Any = None):
        self.fit = fit  # the last one
        self.seen: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []  # θ, log τ and ν/τ

    def remember(self, theta: np.ndarray, fit: Any) -> None:
        """Record a converged fit at θ."""
        self.fit = fit
        sites = fit.scalar_sites
        if sites is not None and np.all(sites.tau > 0):
            self.seen = [*self.seen, (np.array(theta), np.log(sites.tau), sites.nu / sites.tau)][-KEPT_FITS:]
        else:  # no sites, or sites without a logarithm
            self.seen = []

    def at(self, theta: np.ndarray) -> Any:
        """Return the `start` for an engine at θ: extrapolated sites if possible, else the last fit."""
        if len(self.seen) < 2:
            return self.fit
        *earlier, (here, log_tau, centre) = self.seen
        steps = np.array([there - here for there, _, _ in earlier])
        lengths = np.linalg.norm(steps, axis=1)
        if not np.all(lengths > 0):
            return self.fit
        weights = np.linalg.lstsq((steps / lengths[:, None]).T, theta - here, rcond=COLLINEAR)[0] / lengths
        weights *= min(1.0, MOST_STEP_WEIGHT / max(np.abs(weights).sum(), 1e-300))
        near = np.all([np.abs(then - log_tau) < COMPARABLE for _, then, _ in earlier], axis=0)
        change = sum(w * (then - log_tau) for w, (_, then, _) in zip(weights, earlier, strict=True))
        moved = sum(w * np.where(near, then - centre, 0.0) for w, (_, _, then) in zip(weights, earlier, strict=True))
        tau = np.exp(log_tau + np.clip(change, -MOST_LOG_CHANGE, MOST_LOG_CHANGE))
        return Extrapolated(Sites(tau, tau * (centre + moved)), self.fit)
