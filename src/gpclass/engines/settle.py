"""The targets of a rule, and the iteration of the mean for given site precisions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import ddot

from ..gaussian import Sites, newton_sites
from .climb import uphill

SETTLE_STEPS = 8  # chord steps of the mean per factorisation, each a few matrix-vector products
SMALL_TAU_MOVE = 0.1  # as a fraction of the mean's move: if τ moves by less, only the mean has not converged


class SiteTarget(NamedTuple):
    """Slope and curvature that the log of each site should have at `point`, each (n,).

    A rule sets `precision` if its site precisions are not minus the curvature of its objective.
    """

    point: np.ndarray
    slope: np.ndarray
    curvature: np.ndarray
    precision: np.ndarray | None = None

    @property
    def tau(self) -> np.ndarray:
        return -self.curvature if self.precision is None else self.precision

    @property
    def sites(self) -> Sites:
        return newton_sites(self.point, self.slope, -self.tau)

    def times(self, weight: Any) -> SiteTarget:
        """Return the target of `weight` copies of each site."""
        precision = None if self.precision is None else weight * self.precision
        return SiteTarget(self.point, weight * self.slope, weight * self.curvature, precision)


Posterior = Any  # FullPosterior, or another structure with the same interface
Rule = Callable[[Posterior], SiteTarget]


def with_tau(q: Posterior, tau: np.ndarray) -> Posterior:
    """Return the posterior with the same mean and new site precisions."""
    return q.renewed(newton_sites(q.mean, q.alpha, -tau), moments=(q.alpha, q.mean))


def settle_mean(q: Posterior, rule: Rule, scale, tol: float, mean_tol: float) -> tuple[Posterior, SiteTarget, float]:
    """Change ν at fixed τ until the mean agrees with the rule or new τ would help more.

    Return the posterior, the target there and the remaining distance of the mean. The distance need not be smaller than
    `mean_tol` times the next move of τ.
    """
    target = rule(q)
    metric = q if target.precision is None else with_tau(q, -target.curvature)
    var = scale(q)  # depends on τ only
    widths = np.sqrt(np.maximum(var, 0.0))
    missing, step, gap = _mean_step(q, target, metric, widths)
    for _ in range(SETTLE_STEPS):
        move = (np.abs(target.tau - q.sites.tau) * var).max(initial=0.0)
        if not np.isfinite(gap) or gap < max(0.1 * tol, mean_tol * move):  # the loop raises an error if it is not finite
            break
        before = gap
        q, target = _line_search(q, rule, missing, step, tol)
        missing, step, gap = _mean_step(q, target, metric, widths)
        # slow steps need a better metric, which new τ give, unless τ has nearly converged
        if gap > 0.5 * before and (move > SMALL_TAU_MOVE * gap or (q.sites.tau < 0).any()):
            break
    return q, target, gap


def _along(missing, step):
    """Return the slope along a step; infinite or NaN if K is so large that it overflows, without NumPy's warning."""
    return ddot(missing, step)


def _missing(q, target):
    """Return the change of ν at fixed τ that the target requires."""
    return target.slope + q.sites.tau * target.point - q.sites.nu


def _mean_step(q, target, metric, widths):
    """Return the missing change of ν, the resulting Newton step in (α, mean), and the length of that step.

    `widths` are the standard deviations of the sites.
    """
    missing = _missing(q, target)
    step = metric.covariance_step(missing)
    # negative only by rounding; its size then bounds the error, so do not replace it by zero
    joint = np.sqrt(abs(_along(missing, step[1])))
    # if K is singular (equal rows), α can move without the mean: so each site's own move counts too
    single = (np.abs(missing) * widths).max(initial=0.0)
    return missing, step, float(np.maximum(joint, single))  # keeps NaN


def _line_search(q, rule, missing, step, tol):
    """Take the step, shortened while it overshoots."""

    def look(length):
        trial = q.shifted(length * step[0], length * step[1])
        target = rule(trial)
        return _along(_missing(trial, target), step[1]), (trial, target)

    along = max(_along(missing, step[1]), 0.0)  # negative only by rounding
    # with sites of negative precision, a growing slope may diverge
    return uphill(look, along, negligible=tol**2, growth=2.0 if (q.sites.tau >= 0).all() else 1.0)[1]
