"""Where an evaluation begins: the sites of earlier ones, extrapolated to where the hyperparameters are now.

Sites change smoothly with θ. What the last few evaluations tell of that change leaves an error of second order in the step,
which saves a sweep or two of each evaluation. Extrapolated are log τ and the site means ν/τ: with these the mean stays
consistent with a kernel that has changed, as it does not with ν itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..gaussian import Sites

KEPT = 3  # evaluations looked back on
FURTHEST = 1.5  # total weight of earlier changes: steps that are much longer than those seen get a shortened guess
MOST = 2.0  # change of any log τ
COLLINEAR = 0.1  # relative size of singular values below which two steps count as one direction


@dataclass(frozen=True)
class Extrapolated:
    """A start: sites for engines that begin with them, and the last fit's α for those that begin with that."""

    sites: Sites
    fit: Any

    @property
    def alpha(self) -> np.ndarray:
        return self.fit.alpha


class WarmStart:
    """Remembers converged fits, and gives a start for the next θ."""

    def __init__(self, fit: Any = None):
        self.fit = fit  # the last one
        self.seen: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []  # θ, log τ and ν/τ

    def remember(self, theta: np.ndarray, fit: Any) -> None:
        self.fit = fit
        sites = getattr(getattr(fit, "posterior", None), "sites", None)
        if isinstance(sites, Sites) and sites.tau.ndim == 1 and np.all(sites.tau > 0):
            self.seen = [*self.seen, (np.array(theta), np.log(sites.tau), sites.nu / sites.tau)][-KEPT:]
        else:  # sites that have no logarithm, or no sites at all
            self.seen = []

    def at(self, theta: np.ndarray) -> Any:
        """What an engine may be given as `start`: extrapolated sites where there are some, else the last fit."""
        if len(self.seen) < 2:
            return self.fit
        *earlier, (here, log_tau, centre) = self.seen
        steps = np.array([there - here for there, _, _ in earlier])
        lengths = np.linalg.norm(steps, axis=1)
        if not np.all(lengths > 0):
            return self.fit
        weights = np.linalg.lstsq((steps / lengths[:, None]).T, theta - here, rcond=COLLINEAR)[0] / lengths
        weights *= min(1.0, FURTHEST / max(np.abs(weights).sum(), 1e-300))
        change = sum(w * (then - log_tau) for w, (_, then, _) in zip(weights, earlier, strict=True))
        moved = sum(w * (then - centre) for w, (_, _, then) in zip(weights, earlier, strict=True))
        tau = np.exp(log_tau + np.clip(change, -MOST, MOST))
        return Extrapolated(Sites(tau, tau * (centre + moved)), self.fit)
