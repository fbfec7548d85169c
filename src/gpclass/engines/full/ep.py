"""Expectation propagation for two classes.

[RW] Rasmussen & Williams 2006, section 3.6.   [NR] Nickisch & Rasmussen 2008, section 4.
Departs from [RW] algorithm 3.5: all sites are updated together, and for given site precisions the mean converges before the
next factorisation. Sites are updated one by one only on request, or if the parallel sweeps do not converge.

Power EP (Minka 2004, "Power EP") matches moments with p(y | f)^power: a datum is 1/power copies of that power, and all
copies have one site. So it is EP with observations of weight 1/power, and nothing else here differs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import methodcaller
from typing import Any, ClassVar

import numpy as np
from scipy.linalg.blas import dger

from ...gaussian import FullPosterior, Sites, log_partition_1d, matched_sites
from ...numerics import NotPositiveDefinite, factor_dtype
from .. import Engine
from ..fit import Fit, prepare_data, start_sites
from ..iterate import SiteTarget, Status, ending, iterate, stands_still, warn_if_unfinished


@dataclass(frozen=True)
class EP(Engine):
    """Sites matched to the moments of cavity × likelihood."""

    damping: float = 1.0  # largest fraction of a step, 1 is undamped; lowered automatically if needed
    tol: float = 1e-8  # largest move of a converged run, in posterior standard deviations
    max_iter: int = 200  # sweeps; as many sequential ones follow if the parallel sweeps do not converge
    schedule: str = "parallel"  # or "sequential": one site at a time, as in the book; slower, but more robust
    power: float = 1.0  # of the likelihood, in (0, 1]: below one is power EP, which tends to KL as the power goes to zero

    needs: ClassVar = ("tilted_moments",)
    weights: ClassVar = "places"
    tempers: ClassVar = True
    single: ClassVar = True

    def __post_init__(self):
        if self.schedule not in ("parallel", "sequential"):
            raise ValueError(f"schedule must be 'parallel' or 'sequential', but is {self.schedule!r}")
        check_power(self.power)

    @property
    def part(self) -> float:
        return self.power

    def needed(self, likelihood) -> tuple[str, ...]:
        return self.needs if self.power == 1 else (*self.needs, "tilted_power")

    def cavity(self, fit: Fit) -> tuple[np.ndarray, np.ndarray]:
        if self.power == 1:
            return super().cavity(fit)
        mean, var = fit.posterior.cavity(1 / self.power)  # without all parts of a copy
        if not np.all(var >= 0):
            raise NotPositiveDefinite(
                "sites of negative precision leave some data no proper cavity, so there are no leave-one-out predictions"
            )
        return mean, var

    def fit(self, K, y, likelihood, start: Any = None) -> Fit:
        K, data = prepare_data(self, K, y, likelihood)
        sites = start_sites(start, len(data.y))
        if self.schedule == "parallel":
            q, status = self._parallel(K, data, sites)
        else:
            q, status = sequential(self, K, data, sites, self.max_iter)
        require_cavities(self, q, likelihood)
        warn_if_unfinished(self, status)
        return Fit(self, q, data.given, likelihood, status, ep_evidence(q, data.y, data.likelihood))

    def _parallel(self, K, data, sites):
        try:
            q, status = iterate(self, data.prior(K), moment_rule(data.y, data.likelihood), sites, ahead=0)
            # no schedule finds what rounding hides
            settled = status.converged or q.rounding > self.tol or factor_dtype() != np.float64
            if settled and has_cavities(q):
                return q, status
            spent = status.n_iter
            sites = q.sites if status.change < 1 and has_cavities(q) else None
        except (np.linalg.LinAlgError, FloatingPointError):  # possible with sites of negative precision
            sites, spent = None, 0
        q, status = sequential(self, K, data, sites, self.max_iter)
        return q, replace(status, n_iter=spent + status.n_iter, message="parallel sweeps did not converge")

    def evidence_gradient(self, fit: Fit) -> np.ndarray:
        return fit.posterior.gradient()

    def likelihood_gradient(self, fit: Fit) -> np.ndarray:
        data = fit.targets
        return data.total(data.likelihood.tilted_theta(data.y, *fit.posterior.cavity()))


def check_power(power: float) -> None:
    """Raise an error if the power of power EP is not in (0, 1]."""
    if not 0 < power <= 1:
        raise ValueError(f"power must be in (0, 1], 1 is ordinary EP, but is {power}")


def moment_rule(y: np.ndarray, likelihood, cavity=methodcaller("cavity")):
    """Return the rule whose sites give cavity × site the moments of cavity × likelihood. [RW] (3.59)

    At the tilted mean the log of such a site has slope d1; its curvature follows from the tilted variance. If negative sites
    of other data make the cavity improper, the site stays unchanged. If rounding leaves no tilted variance (cavities wider
    than 1e9 with a label of unit scale), the result is NaN.
    """

    def rule(q: FullPosterior) -> SiteTarget:
        mean, var = cavity(q)
        proper = var >= 0
        all_proper = proper.all()
        if not all_proper:
            mean, var = np.where(proper, mean, 0.0), np.where(proper, var, 1.0)
        d1, d2 = likelihood.tilted_slopes(y, mean, var)
        left = 1 + var * d2  # tilted variance divided by the cavity variance
        matched = SiteTarget(mean + var * d1, d1, d2 / np.where(left > 0, left, np.nan))
        if all_proper:
            return matched
        kept = SiteTarget(q.mean, q.slope, -q.each.tau)
        return SiteTarget(*(np.where(proper, a, b) for a, b in zip(matched[:3], kept[:3], strict=True)))

    return rule


def has_cavities(q: FullPosterior) -> bool:
    """Return whether the cavity of every datum is proper; always true for log-concave likelihoods."""
    return bool((q.cavity()[1] >= 0).all())


def require_cavities(engine, q, likelihood) -> None:
    """Raise an error if the cavity of a datum is not proper."""
    if not has_cavities(q):
        raise NotPositiveDefinite(
            f"{type(engine).__name__} ended with sites of negative precision that leave other data no proper cavity: there "
            f"is no evidence. Labels and prior contradict each other too strongly for {likelihood!r}: "
            f"{likelihood.if_improper}."
        )


def ep_evidence(q: FullPosterior, y: np.ndarray, likelihood) -> float:
    """Return the log evidence, with each site scaled so that its cavity keeps the tilted mass. [RW] (3.65)"""
    mean, var = q.cavity()
    log_mass, _, _ = likelihood.tilted_moments(y, mean, var)
    return q.log_partition + float(np.sum(q.weight * (log_mass - log_partition_1d(mean, var, q.each))))


def sequential(engine, K, data, sites, max_iter) -> tuple[Any, Status]:
    """Run EP one site at a time, with rank-one updates of the covariance, recomputed after each sweep. [RW] algorithm 3.5"""
    m, prior = len(data.y), data.prior(K)
    q = prior.renewed(sites or Sites.zeros(m))
    copies, place = np.broadcast_to(data.weight, m), data.places.spread(np.arange(data.n))
    part, change = min(engine.damping, 0.8), np.inf
    for sweep in range(1, max_iter + 1):
        tau, nu = q.each.tau.copy(), q.each.nu.copy()  # of one copy
        V, mean = np.asfortranarray(q.latent.covariance()), q.latent.mean.copy()
        before, change = change, 0.0
        for k in range(m):
            i = place[k]
            if V[i, i] <= 0 or tau[k] * V[i, i] >= 1:  # no variance, or negative sites leave no cavity
                continue
            step = _site_step(V[i, i], mean[i], tau[k], nu[k], data.y[k : k + 1], data.likelihood)
            if step is None:  # rounding leaves no tilted variance: skip the site, and do not count as converged
                change = np.inf
                continue
            # all copies move together, each by less if there are many
            d_tau, d_nu = (copies[k] * x for x in step)
            change = max(change, abs(d_tau) * V[i, i], abs(d_nu - d_tau * mean[i]) * np.sqrt(V[i, i]))
            own_part = part / np.sqrt(copies[k])
            d_tau, d_nu = own_part * d_tau, own_part * d_nu
            shrink = 1 + d_tau * V[i, i]
            if shrink < 0.1:  # a negative step that would make the variance improper or nearly so
                continue
            column = V[:, i].copy()
            mean += (d_nu - d_tau * mean[i]) / shrink * column
            dger(-d_tau / shrink, column, column, a=V, overwrite_a=1)
            tau[k] += d_tau / copies[k]
            nu[k] += d_nu / copies[k]
        q = prior.renewed(Sites(copies * tau, copies * nu))
        if stands_still(q, change, engine.tol):
            return q, ending(q, sweep, change, engine.tol)
        part = max(0.7 * part, 0.1) if change > before else min(1.1 * part, engine.damping, 0.9)
    return q, ending(q, max_iter, change, engine.tol)


def _site_step(var, mean, tau, nu, y, likelihood):
    """Return the change of (τ, ν) of one copy that matches its moments, or None if rounding leaves no variance."""
    kept = 1 - tau * var
    cavity_var = np.array([var / kept])
    cavity_mean = np.array([(mean - var * nu) / kept])
    _, d1, d2 = likelihood.tilted_moments(y, cavity_mean, cavity_var)
    if not 1 + cavity_var * d2 > 0:
        return None
    wanted = matched_sites(cavity_mean, cavity_var, d1, d2)
    return wanted.tau[0] - tau, wanted.nu[0] - nu
