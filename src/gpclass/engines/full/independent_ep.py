"""Expectation propagation for multinomial probit with a posterior that is independent between classes (IEP).

The likelihood of a datum is P(x_y > x_j for all j ≠ y), x = f + standard Gaussian noise. Under a cavity that is independent
between classes, so are the x, and all factors share x_y, the hub. The tilted moments are integrals over x_y, or come from an
inner EP whose sites send scalar messages to the hub.

[RJV] Riihimäki, Jylänki & Vehtari 2013, sections 3.1 and 3.2, appendix A.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...gaussian import Sites, StackedPosterior, log_partition_1d, matched_sites
from ...likelihoods.multiclass import own_first, restore_order
from .. import Engine
from ..fit import Fit, prepare_data, start_sites
from ..iterate import SiteTarget, iterate, warn_if_unfinished
from ..observations import Data, data_of
from .ep import require_cavities
from .nested_ep import contrast_factor

INNER_SWEEPS, INNER_TOL = 100, 1e-12  # of the inner EP, one site at a time: about ten sweeps suffice
LOOK_AHEAD_AFTER = 7  # sweeps; earlier it saves no time, since the inner EP is as expensive as the factorisations


class Tilted(NamedTuple):
    """Moments of cavity × likelihood for each datum."""

    log_mass: np.ndarray  # (n,)
    slope: np.ndarray  # (n, C) of the log mass in the cavity means
    tau: np.ndarray  # (n, C) precisions of the sites that give each class its tilted variance
    pi: np.ndarray  # (n, C) the tilted precision is nearly the cavity's plus diag(π) - π πᵀ/(1ᵀπ). [RJV] (12)


Moments = Callable[[np.ndarray, np.ndarray], Tilted]  # function of cavity means and variances, (n, C) each


@dataclass(frozen=True)
class IndependentEP(Engine):
    """Separate sites for each class, matched to the mean and variances of cavity × likelihood from an inner EP."""

    damping: float = 1.0  # largest fraction of a step; lowered automatically if needed
    tol: float = 1e-8  # largest move of a converged run, in posterior standard deviations
    max_iter: int = 200  # sweeps, 2 C + 1 factorisations each

    needs: ClassVar = ("contrast_factor",)
    latents: ClassVar = "several"
    weights: ClassVar = "places"
    tempers: ClassVar = True

    def needed_by_weights(self, likelihood, weight) -> tuple[str, ...]:
        return ("contrast_power",) if np.any(weight < 1) else ()

    def fit(self, K, y, likelihood, start: Any = None) -> Fit:
        K, data = prepare_data(self, K, y, likelihood)
        factor, offset = contrast_factor(data, likelihood, by_datum=True), likelihood.offset
        moments = _InnerMoments(np.asarray(data.given), offset, factor)
        return fit_independent(self, K, data, likelihood, start, moments)

    def restore(self, K, y, likelihood, state) -> Fit:
        q = StackedPosterior.restored(K, likelihood.n_classes, state, data_of(self, y, likelihood).prior)
        return Fit.restored(self, q, y, likelihood, state)

    def evidence_gradient(self, fit: Fit) -> np.ndarray:
        """Return G with d log Z = Σ G_ij dK_ij; (C, n, n) if each class has its own K. All sites are stationary."""
        return fit.posterior.gradient()

    def likelihood_gradient(self, fit: Fit) -> np.ndarray:
        return fit.likelihood.theta_gradient(fit.alpha.sum(0))  # a bias shifts the prior mean


def fit_independent(engine, K, data: Data, likelihood, start, moments: Moments) -> Fit:
    """Fit by class-independent EP with given tilted moments of one copy of each observation."""
    matching = _Matching(moments)
    prior = StackedPosterior.without_sites(K, likelihood.n_classes, matching.coupling, data.prior)
    sites = start_sites(start, prior.mean.size) or matching.first_sites(prior)
    q, status = iterate(engine, prior, matching.rule, sites, ahead=LOOK_AHEAD_AFTER)
    require_cavities(engine, q, likelihood)
    warn_if_unfinished(engine, status)
    q = StackedPosterior(K, q.parts)  # drop the coupling: only the loop needs it, and functions cannot be pickled
    return Fit(engine, q, data.given, likelihood, status, matching.evidence(q))


@dataclass(frozen=True)
class _Matching:
    """The likelihood of all data, in the form that the loop needs."""

    moments: Moments

    def rule(self, q: StackedPosterior) -> SiteTarget:
        """Return the sites that give each class its tilted mean and variance.

        When the mean moves towards the tilted mean, the cavities of all classes of a datum move too. So the missing change
        of ν is (I + Π S)(slope - α), with S the cavity variances, and the Newton step uses the coupled precision Π. If
        negative sites of other data make a cavity improper, the sites of the datum stay unchanged.
        """
        _, var, proper = self._cavity(q)
        tilted = self._tilted(q)
        lacking = np.where(proper, tilted.slope - q.table(q.slope), 0.0)
        pulled = tilted.pi * var * lacking
        lacking += pulled - tilted.pi * (pulled.sum(1) / tilted.pi.sum(1))[:, None]
        tau = np.where(proper, tilted.tau, q.table(q.each.tau))
        return SiteTarget(q.mean, q.slope + q.flat(lacking), -q.flat(tau))

    def first_sites(self, prior: StackedPosterior) -> Sites:
        """Return the sites matched with the prior as the cavity."""
        tilted = self._tilted(prior)
        tau, slope = prior.flat(tilted.tau), prior.flat(tilted.slope)
        return Sites(prior.weight * tau, prior.weight * slope * (1 + tau * prior.var))

    def coupling(self, q: StackedPosterior) -> np.ndarray:
        return self._tilted(q).pi

    def evidence(self, q: StackedPosterior) -> float:
        """Return the log evidence; each cavity keeps the tilted mass. [RJV] (28) for independent classes"""
        local = log_partition_1d(*q.cavity(), q.each)
        mass = q.parts[0].weight * self._tilted(q).log_mass
        return q.log_partition + float(np.sum(mass)) - float(np.sum(q.weight * local))

    def _tilted(self, q):
        return self.moments(*self._cavity(q)[:2])

    @staticmethod
    def _cavity(q):
        """Return cavity means and variances (n, C), replaced if not proper, and which data (n, 1) have proper cavities."""
        mean, var = (q.table(x) for x in q.cavity())
        proper = np.all(var >= 0, axis=1, keepdims=True)
        return np.where(proper, mean, 0.0), np.where(proper, var, 1.0), proper


class _InnerMoments:
    """Tilted moments by the inner EP, which starts from its last sites: they are close if the cavities are."""

    def __init__(self, labels: np.ndarray, offset: np.ndarray, factor: Any):
        self.labels, self.offset, self.factor = labels, offset, factor
        self.last: Sites | None = None

    def __call__(self, mean: np.ndarray, var: np.ndarray) -> Tilted:
        mean, var = own_first(self.labels, mean + self.offset), own_first(self.labels, var)
        tilted, self.last = inner_fit(mean, var, self.factor, self.last)
        return Tilted(tilted.log_mass, *(restore_order(self.labels, part) for part in tilted[1:]))


def inner_ep(mean: np.ndarray, var: np.ndarray, factor) -> Tilted:
    """Return tilted moments by EP with a site on each contrast, as in `inner_fit`."""
    return inner_fit(mean, var, factor)[0]


def inner_fit(mean: np.ndarray, var: np.ndarray, factor, start: Sites | None = None) -> tuple[Tilted, Sites]:
    """Return tilted moments by EP with a site (α̃, β̃) on each contrast x_y - f_j, and these sites. [RJV] appendix A

    `mean` and `var` (n, C) have the own class first. Contrasts share only x_y, so an inner site is a message
    exp(-½ ρ ξ² + λ ξ) to ξ = x_y - mean_y, and all quantities are scalar.
    """
    lead, wrong_var = mean[:, :1] - mean[:, 1:], var[:, 1:]
    sites, cavity = inner_sites(lead, wrong_var, 1 + var[:, 0], factor, start=start)
    log_mass, slope, _ = factor.tilted_moments(1.0, *cavity)
    rho, lam, constant = _messages(lead, wrong_var, sites)
    total, pull = rho.sum(1), lam.sum(1)
    grown = 1 + (1 + var[:, 0]) * total
    joint = constant.sum(1) - 0.5 * np.log(grown) + 0.5 * pull**2 * (1 + var[:, 0]) / grown
    value = joint + np.sum(log_mass - log_partition_1d(*cavity, sites), axis=1)
    # information about each class: on f_j through the hub's cavity, on f_y through the noise of x_y
    tau = np.column_stack([total / (1 + total), sites.tau / (1 + sites.tau * (cavity[1] - wrong_var))])
    pi = np.column_stack([np.ones(len(mean)), sites.tau])
    return Tilted(np.minimum(value, 0.0), np.column_stack([slope.sum(1), -slope]), tau, pi), sites


def _messages(lead, var, sites):
    """Return precision and location of each inner site's message to ξ, and its value at ξ = 0, with f_j integrated out."""
    grown = 1 + var * sites.tau
    rho = sites.tau / grown
    return rho, sites.nu / grown - rho * lead, log_partition_1d(lead, var, sites)


def inner_sites(
    lead, var, hub_var, factor, sweeps=INNER_SWEEPS, start: Sites | None = None
) -> tuple[Sites, tuple[np.ndarray, np.ndarray]]:
    """Return the sites on the contrasts of mean `lead`, and their cavities; updated class by class for all data at once."""
    start = start or Sites.zeros(lead.shape)
    tau, nu = start.tau.copy(), start.nu.copy()
    rho, lam, _ = _messages(lead, var, start)
    cavity_mean, cavity_var = np.empty_like(lead), np.empty_like(lead)
    for _ in range(sweeps):
        change = 0.0
        # the messages of all but j: those of this sweep before j and those of the last one after it. These are sums, not the
        # total minus one message, because a dominant message would leave the difference to rounding
        rho_before = lam_before = np.zeros(len(lead))
        rho_after, lam_after = _sums_after(rho), _sums_after(lam)
        for j in range(lead.shape[1]):
            spread = hub_var / (1 + hub_var * (rho_before + rho_after[:, j]))  # variance of the hub without message j
            cavity_mean[:, j] = lead[:, j] + spread * (lam_before + lam_after[:, j])
            cavity_var[:, j] = var[:, j] + spread
            _, d1, d2 = factor.tilted_moments(1.0, cavity_mean[:, j], cavity_var[:, j])
            before = tau[:, j].copy(), nu[:, j].copy()
            now = matched_sites(cavity_mean[:, j], cavity_var[:, j], d1, d2)
            tau[:, j], nu[:, j] = now.tau, now.nu
            rho[:, j], lam[:, j], _ = _messages(lead[:, j], var[:, j], now)
            rho_before, lam_before = rho_before + rho[:, j], lam_before + lam[:, j]
            # in units of the tilted contrast
            scale = cavity_var[:, j] * (1 + cavity_var[:, j] * d2)
            shift = np.abs(nu[:, j] - before[1] - (tau[:, j] - before[0]) * (cavity_mean[:, j] + cavity_var[:, j] * d1))
            change = max(change, np.max(np.abs(tau[:, j] - before[0]) * scale), np.max(shift * np.sqrt(scale)))
        if change < INNER_TOL:
            break
    return Sites(tau, nu), (cavity_mean, cavity_var)


def _sums_after(x):
    """Return for each column (n, k) the sum of the columns to its right."""
    out = np.zeros_like(x)
    out[:, :-1] = np.cumsum(x[:, :0:-1], axis=1)[:, ::-1]
    return out
