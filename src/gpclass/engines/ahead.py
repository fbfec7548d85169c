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

NEVER = np.inf  # the value of `ahead` in `iterate` for rules that do not look ahead
MIN_SITES = 300  # with fewer sites, a factorisation takes less time than the predicted steps
MAX_STEPS = 10  # predicted steps
ACCURATE_RESPONSE = 1e-5  # move below which the last response is accurate enough
DONE_FRACTIONS = 1e-2, 3e-3  # predicted moves that need no further steps, as fractions of the first: far away and near
MEAN_TOL = 0.5  # tolerance of the mean as a fraction of the next move of τ
FAILED_FRACTION = 0.3  # if no predicted move is below this fraction, the prediction is not used


class LookAhead:
    """Predicts the τ at which a rule will stand still. The response is computed anew as long as moves are large."""

    def __init__(self, tol: float):
        self.tol = tol
        self.response: Response | None = None

    def from_here(self, q: Posterior, rule: Rule, wanted: np.ndarray, change: float) -> np.ndarray | None:
        """Return the predicted τ, or None if `q` is too far away or the prediction fails.

        `wanted` is the τ of the rule at q.
        """
        if change > LINEAR_REGIME or np.any(wanted < 0):
            self.response = None
            return None
        if self.response is None or change > ACCURATE_RESPONSE:
            self.response = q.response()
        return None if self.response is None else self._predicted(NearbyPosterior.at(q, self.response), rule, change)

    def _predicted(self, near: NearbyPosterior, rule: Rule, change: float) -> np.ndarray | None:
        most, least = DONE_FRACTIONS
        goal = max(0.3 * self.tol, change * min(most, max(0.1 * change, least)))
        path, best, found = SitePath(1.0, MIXED_SWEEPS, np.inf), FAILED_FRACTION * change, None
        for _ in range(MAX_STEPS):
            near, target, gap = settle_mean(near, rule, attrgetter("var"), goal, MEAN_TOL)
            move = max(gap, float(np.max(np.abs(target.tau - near.sites.tau) * near.var, initial=0.0)))
            if not move < 10 * change or np.any(target.tau < 0):
                break
            if move < best:
                best, found = move, target.tau
            if move < goal:
                break
            near = path.advance(near, target.tau, move, near.var)
        return found
