"""The evidence of an active set as a function of θ, with fixed sites, over rows in this process or in several.

[SLH] Seeger, Lawrence & Herbrich, sections 3.3 and 6.1.1, appendix C.2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from ..engines.active.criterion import ActiveEvidence
from ..engines.active.selection import repeat
from ..gaussian import ActivePosterior, ActiveSites, Sites
from ..kernels import Kernel
from ..sparse import ActiveFit, log_evidence
from .columns import covariances, gathered, gradients
from .objective import Objective
from .priors import log_prior


def fit_active(objective: Objective, theta: np.ndarray, start: ActiveFit | None = None) -> tuple[ActiveFit, Kernel, object]:
    """Return the fit with an active set selected at θ, or that of `start` with new sites; and kernel and likelihood at θ."""
    kernel, likelihood = objective.at(theta)
    columns = covariances(kernel, objective.X, likelihood.n_latents)
    return objective.engine.fit(columns, objective.y, likelihood, start=start), kernel, likelihood


def repeated(objective: Objective, theta: np.ndarray, fit: Any) -> Any:
    """Return a fit to the rows of the objective, with the sites of its active rows recomputed at θ, in the same order."""
    kernel, likelihood = objective.at(theta)
    columns = covariances(kernel, objective.X, likelihood.n_latents)
    sites = repeat(objective.engine, columns, fit.at, objective.y, likelihood)
    return replace(fit, posterior=ActivePosterior(columns, sites), likelihood=likelihood)


def own_evidence(
    objective: Objective, theta: np.ndarray, at: ActiveSites, rows: np.ndarray | None = None
) -> tuple[ActiveEvidence, np.ndarray]:
    """Return the evidence of the objective's rows, or some of them, with fixed sites, and its gradient in the kernel."""
    kernel, likelihood = objective.at(theta)
    C = likelihood.n_latents
    sinks = gradients(kernel, objective.X, C)
    held = log_evidence(covariances(kernel, objective.X, C), at, objective.y, likelihood, rows, sinks)
    return held, gathered(sinks)


class ActiveRows(Protocol):
    """The rows of a search: those of the objective, or rows that are divided among processes (`crew.active_rows`)."""

    def fit(self, objective: Objective, theta: np.ndarray) -> tuple[ActiveFit, Kernel, Any]:
        """Return the fit with an active set selected at θ, and kernel and likelihood at θ."""

    def repeat(self, objective: Objective, theta: np.ndarray, fit: ActiveFit) -> ActiveFit:
        """Return the fit with the sites of its active rows recomputed at θ, in the same order."""

    def counted(self, objective: Objective, fit: ActiveFit) -> tuple[int, int]:
        """Return the number of rows that minor steps use after this fit, and of all rows."""

    def evidence(
        self, objective: Objective, theta: np.ndarray, fit: ActiveFit, at: ActiveSites, counted: bool
    ) -> tuple[ActiveEvidence, np.ndarray]:
        """Return the evidence at θ with fixed sites, and its gradient in the kernel's parameters.

        If `counted`, minor steps use it: only over the rows that they use.
        """

    def inputs(self, objective: Objective, fit: ActiveFit) -> tuple[np.ndarray, np.ndarray]:
        """Return the inputs (u, D) of the active rows of a fit, and the numbers (u,) of these rows."""


class OwnRows:
    """The rows of the objective."""

    fit = staticmethod(fit_active)
    repeat = staticmethod(repeated)

    def inputs(self, objective: Objective, fit: ActiveFit) -> tuple[np.ndarray, np.ndarray]:
        return objective.X[fit.rows], fit.rows

    def counted(self, objective: Objective, fit: ActiveFit) -> tuple[int, int]:
        n, rows = len(objective.y), self._candidates(objective, fit)
        return n if rows is None else len(rows) + len(fit.rows), n

    def evidence(self, objective, theta, fit, at, counted):
        return own_evidence(objective, theta, at, self._candidates(objective, fit) if counted else None)

    def _candidates(self, objective, fit):
        few = fit.candidates is not None and len(fit.candidates) < len(objective.y) - len(fit.rows)
        return fit.candidates if few else None


OWN_ROWS = OwnRows()


def held_objective(
    objective: Objective, theta: np.ndarray, fit: ActiveFit, rows: np.ndarray | None = None, carry: bool = True
) -> tuple[float, np.ndarray]:
    """Return the log evidence plus log prior at θ with fixed sites, and its gradient. Equations 11, 12 and 14.

    Parameters
    ----------
    objective : Objective
        The objective.
    theta : ndarray of shape (p,)
        Hyperparameters.
    fit : ActiveFit
        A fit; its active set and sites are used.
    rows : ndarray of int, optional
        Rows that the evidence includes. The default is all rows.
    carry : bool, default=True
        Whether to adapt the sites to the parameters of the likelihood at θ, see `carried`.

    Returns
    -------
    value : float
        Log evidence plus log prior.
    gradient : ndarray of shape (p,)
        Its gradient.
    """
    return held_sum(objective, theta, fit, lambda at: own_evidence(objective, theta, at, rows), carry)


def held_sum(
    objective: Objective,
    theta: np.ndarray,
    fit: ActiveFit,
    evidence: Callable[[ActiveSites], tuple[ActiveEvidence, np.ndarray]],
    carry: bool = True,
) -> tuple[float, np.ndarray]:
    """Return `held_objective` from a function that computes the evidence for given sites and its gradient in the kernel."""
    _, likelihood = objective.at(theta)
    at, moves = carried(fit.at, fit.likelihood, likelihood) if carry else (fit.at, [])
    held, in_kernel = evidence(at)
    in_theta = held.in_theta.copy()
    for k, move in moves:
        in_theta[k] += held.in_sites.tau @ move.tau + held.in_sites.nu @ move.nu
    prior, prior_gradient = log_prior(theta, objective.priors)
    gradient = np.concatenate([in_kernel, in_theta]) + prior_gradient
    if not (np.isfinite(held.value + prior) and np.all(np.isfinite(gradient))):
        raise FloatingPointError("the evidence of the active set is not finite")
    return held.value + prior, gradient


def carried(at: ActiveSites, old: Any, new: Any) -> tuple[ActiveSites, list[tuple[int, Sites]]]:
    """Return sites adapted from one likelihood to another with other parameters, and their derivatives in each parameter.

    With Gaussian noise the site is the likelihood itself, at any variance. All other sites are unchanged. (For a bias, one
    could fix the sites in terms of the sum of latent value and bias. Then the bias moves little, and searches end lower.)
    """
    if not new.conjugate:
        return at, []
    scale = old.variance / new.variance
    tau, nu = scale * at.sites.tau, scale * at.sites.nu
    return at.with_sites(Sites(tau, nu)), [(0, Sites(-tau, -nu))]
