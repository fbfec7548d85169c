"""Many steps of a rule between two factorisations, near convergence.

From sweep to sweep a rule converges linearly, and slowly where many observations are correlated: their sites all respond to
the same change of variances, which only the next factorisation shows. Near convergence the response of the variances is
known to first order (`gaussian/nearby.py`). So the rule is repeated with predicted variances until it stands still. This is
Newton's method without derivatives of the rule: the error after the next factorisation is of second order.
"""

from __future__ import annotations

from operator import attrgetter

import numpy as np

from ..gaussian import NearbyPosterior, Response
from .climb import LINEAR_REGIME, MIXED_SWEEPS
from .path import SitePath
from .settle import Posterior, Rule, settle_mean

NEVER = np.inf  # number of sweeps before the first look ahead
FEWEST = 300  # sites; with fewer, a factorisation takes less time than the steps that it would save
STEPS = 10  # maximum number of predicted steps
CLOSE = 1e-5  # move below which the last response is accurate enough
FINISHED = 1e-2, 3e-3  # predicted moves, as fractions of the first, that need no further steps: far away and near
PATIENCE = 0.5  # of the mean, as in `settle_mean`
FAILED = 0.3  # the same fraction if steps do not converge: the prediction is not used


class LookAhead:
    """Predicts the τ at which a rule will stand still. The response is computed anew as long as moves are large."""

    def __init__(self, tol: float):
        self.tol = tol
        self.response: Response | None = None

    def from_here(self, q: Posterior, rule: Rule, wanted: np.ndarray, change: float) -> np.ndarray | None:
        """Return the predicted τ, or None if `q` is too far away or the prediction fails.

        `wanted` is the τ of the rule at q.
        """
        if change > LINEAR_REGIME or np.any(wanted < 0) or len(wanted) < FEWEST:
            self.response = None
            return None
        if self.response is None or change > CLOSE:
            self.response = q.response()
        return None if self.response is None else self._predicted(NearbyPosterior.at(q, self.response), rule, change)

    def _predicted(self, near: NearbyPosterior, rule: Rule, change: float) -> np.ndarray | None:
        most, least = FINISHED
        goal = max(0.3 * self.tol, change * min(most, max(0.1 * change, least)))
        path, best, found = SitePath(1.0, MIXED_SWEEPS, np.inf), FAILED * change, None
        for _ in range(STEPS):
            near, target, gap = settle_mean(near, rule, attrgetter("var"), goal, PATIENCE)
            move = max(gap, float(np.max(np.abs(target.tau - near.sites.tau) * near.var, initial=0.0)))
            if not move < 10 * change or np.any(target.tau < 0):
                break
            if move < best:
                best, found = move, target.tau
            if move < goal:
                break
            near = path.advance(near, target.tau, move, near.var)
        return found
