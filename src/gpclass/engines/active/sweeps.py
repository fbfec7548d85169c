"""EP sweeps over an active set after its selection.

[SLH] Seeger, Lawrence & Herbrich, Efficient Nonparametric Bayesian Modelling with Sparse Gaussian Process Approximations.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...gaussian import ActivePosterior, ActiveSites, FullPosterior, Sites
from ...gaussian.columns import gram
from ...numerics import NotPositiveDefinite
from ..full.ep import EP, moment_rule
from ..iterate import Status, iterate, warn_if_unfinished
from .criterion import with_sites
from .scores import concave_sites, of_targets, tilted

WARNING_MOVE = 0.1  # last move, in standard deviations, above which a warning is given
SWEEPS_ADVICE = (
    "Raise sweeps; or, with several classes, use sweeps=0: if most rows have sites for some classes only, "
    "these sweeps do not converge."
)


def sites_after_sweeps(engine, covariances, at: ActiveSites, y, likelihood) -> tuple[ActiveSites, Status]:
    """Return the sites after the sweeps that the engine asks for; raises an error if there are no sites."""
    if not len(at):
        raise ValueError(
            "no row is informative: under the prior no site precision times variance exceeds "
            f"threshold={engine.threshold:g}. Is the kernel's variance close to zero?"
        )
    if not engine.sweeps:
        return at, Status(True, 1, 0.0)
    at, status = _swept(engine, covariances, at, y, likelihood)
    if status.change > WARNING_MOVE and not status.converged:
        warn_if_unfinished(engine, replace(status, advice=SWEEPS_ADVICE), stacklevel=4)
    return at, status


def _swept(engine, covariances, at: ActiveSites, y, likelihood) -> tuple[ActiveSites, Status]:
    """Return the sites after EP sweeps over the active rows, which need only covariances among these rows."""
    if len(covariances) > 1:
        return _swept_classes(engine, covariances, at, y, likelihood)
    rows, sites = at.of(0)
    prior = FullPosterior.without_sites(gram(covariances[0], rows))
    loop = EP(tol=engine.tol, max_iter=engine.sweeps)
    q, status = iterate(loop, prior, moment_rule(y[rows], of_targets(likelihood, y)), sites)
    if np.any(q.sites.tau < 0):
        raise NotPositiveDefinite(
            f"EP sweeps gave sites of negative precision, which are possible for {likelihood!r} but not supported on an "
            "active set: use sweeps=0"
        )
    return at.with_sites(q.sites), status


def _swept_classes(engine, covariances, at, y, likelihood):
    """Update all sites together, with damping if moves grow. Negative precisions are replaced by zero. (7)"""
    prior_var = np.stack([k.diag for k in covariances], axis=1)
    part, change = 1.0, np.inf
    for sweep in range(1, engine.sweeps + 1):
        q = ActivePosterior(covariances, at)
        cavity = with_sites(q, covariances, prior_var)
        _, slope, curvature = tilted(likelihood, y[cavity.rows], cavity.mean, cavity.var)
        tau, nu = at.sites.tau.copy(), at.sites.nu.copy()
        before, change = change, 0.0
        for c, p in enumerate(q.parts):
            mine, places = at.latents == c, q.positions[c]
            wanted = concave_sites(cavity.mean[places, c], cavity.var[places, c], slope[places, c], curvature[places, c])
            d_tau, d_nu = wanted.tau - p.sites.tau, wanted.nu - p.sites.nu
            moves = np.abs(d_tau) * p.var, np.abs(d_nu - d_tau * p.mean) * np.sqrt(p.var)
            change = max(change, *(np.max(move, initial=0.0) for move in moves))
            tau[mine] += part * d_tau
            nu[mine] += part * d_nu
        if change <= engine.tol:
            return at, Status(True, sweep, change)
        part = max(0.5 * part, 0.1) if change > before else part
        at = at.with_sites(Sites(tau, nu))
    return at, Status(False, engine.sweeps, change)
