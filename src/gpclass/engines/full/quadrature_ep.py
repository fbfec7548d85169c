"""Expectation propagation for multinomial probit with tilted moments by quadrature.

Class-independent (QIEP): the probability that one of several independent Gaussians is largest is a one-dimensional integral
over the winner, which the trapezoid rule computes to full accuracy. Coupled (QEP): moments of the C - 1 contrasts by a
product Gauss–Hermite rule, and the diagonal of the matching site precision. Departs from [RJV] in the coordinates: not the
contrasts themselves, whose nodes miss features narrower than the cavity, but the variables of sequential truncation. The
full precision, which matches all covariances, is in `full_precision_ep`.

[RJV] Riihimäki, Jylänki & Vehtari 2013, sections 3.1 and 3.3.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri_exp

from ...gaussian import ContrastPosterior, DenseCoupledPosterior, Sites, StackedPosterior, too_large
from ...likelihoods.multiclass import own_first, restore_order
from ...numerics import NotPositiveDefinite, blocks, hazard, hazard_curvature, hermite_nodes, log_ndtr
from .. import Engine
from ..fit import Fit, prepare_data, start_sites
from ..iterate import SiteTarget, iterate, warn_if_unfinished
from ..observations import data_of, powers_of
from .full_precision_ep import fit_full
from .independent_ep import Tilted, fit_independent

MIN_TAU = 1e-12  # smallest site precision in the computation of step directions; the largest is 1/MIN_TAU
MIN_NOISE = 0.01  # smallest noise there
MAX_NODES = 20_000  # of a product rule, per datum: enough for six classes with the default number of nodes
CAVITY_RIDGE = 1e-12  # relative to the trace, added to covariances of cavities before their Cholesky factorisation


@dataclass(frozen=True)
class QuadratureEP(Engine):
    """Sites matched to tilted moments from quadrature; `coupled` or independent between classes."""

    damping: float = 1.0  # largest fraction of a step; lowered automatically if needed
    tol: float = 1e-8  # largest move of a converged run, in posterior standard deviations
    max_iter: int = 200  # sweeps
    coupled: bool = True
    nodes: int = 10  # in each of C - 2 dimensions if coupled; the last contrast needs none
    precision: str = "diagonal"  # of the contrasts' sites, if coupled; "full" matches all covariances, at a higher cost

    latents: ClassVar = "several"
    tempers: ClassVar = True

    def __post_init__(self):
        if self.precision not in ("diagonal", "full"):
            raise ValueError(f"precision must be 'diagonal' or 'full', but is {self.precision!r}")
        if self.full and not self.coupled:
            raise ValueError("precision='full' needs coupled=True: independent classes have no covariances")

    @property
    def full(self) -> bool:
        return self.precision == "full"

    @property
    def weights(self) -> str:  # type: ignore[override]
        if self.full:
            return "none"
        return "rows" if self.coupled else "places"

    def size(self, n_rows: int, n_latents: int) -> float:
        return float(n_rows * (n_latents - 1)) if self.full else super().size(n_rows, n_latents)

    def needed(self, likelihood) -> tuple[str, ...]:
        return ("contrast_factor",) if self.coupled else ("noise", "tilted_moments")

    def needed_by_weights(self, likelihood, weight) -> tuple[str, ...]:
        needed = super().needed_by_weights(likelihood, weight)
        return ("contrast_power",) if needed and self.coupled else needed

    def fit(self, K, y, likelihood, start: Any = None) -> Fit:
        K, data = prepare_data(self, K, y, likelihood)
        if not self.coupled:
            moments = partial(quadrature_moments, data.y, data.likelihood, labels=np.asarray(data.given))
            return fit_independent(self, K, data, likelihood, start, moments)
        labels, powers = np.asarray(data.given), powers_of(data)
        rule = _Contrasts(*product_rule(self.nodes, likelihood.n_classes - 2), likelihood.contrast_offset(labels))
        if powers is not None:
            one_more = product_rule(self.nodes, likelihood.n_classes - 1)
            rule = replace(rule, power=likelihood.contrast_power(powers), power_rule=one_more)
        if self.full:
            sites = full_sites(start, len(labels), likelihood.n_classes)
            moments = shifted_moments(rule.tilted, rule.offset)
            q, status, evidence = fit_full(self, K, labels, likelihood.n_classes, moments, sites)
            warn_if_unfinished(self, status)
            return Fit(self, q, data.given, likelihood, status, evidence)
        prior = ContrastPosterior.without_sites(K, labels, likelihood.n_classes, data.weight)
        q, status = iterate(self, prior, rule.target, start_sites(start, len(prior.mean)))
        warn_if_unfinished(self, status)
        return Fit(self, q, data.given, likelihood, status, rule.evidence(q))

    def restore(self, K, y, likelihood, state) -> Fit:
        C, data = likelihood.n_classes, data_of(self, y, likelihood)
        if self.full:
            q: Any = DenseCoupledPosterior.restored(K, state)
        elif self.coupled:
            q = ContrastPosterior.restored(K, np.asarray(data.given), C, data.weight, state)
        else:
            q = StackedPosterior.restored(K, C, state, data.prior)
        return Fit.restored(self, q, y, likelihood, state)

    def evidence_gradient(self, fit: Fit) -> np.ndarray:
        """Return G with d log Z = Σ G_ij dK_ij at fixed sites; (C, n, n) if each class has its own K.

        This is exact if the sites are stationary, which holds without coupling. With coupling and more than two classes it
        holds only approximately, because a diagonal Λ̃ does not match all variances. Expect relative errors of about one
        percent. A full Λ does, up to the error of the quadrature.
        """
        return fit.posterior.gradient()

    def likelihood_gradient(self, fit: Fit) -> np.ndarray:
        if self.coupled:
            return fit.likelihood.theta_gradient(fit.alpha.sum(0))  # a bias shifts the prior mean
        mean, var = (fit.posterior.table(x) for x in fit.posterior.cavity())
        return fit.targets.total(fit.targets.likelihood.tilted_theta(fit.targets.y, mean, var))


def full_sites(start: Any, n: int, n_classes: int) -> Sites | None:
    """Return the sites of an earlier fit with the full precision; None if `start` is None."""
    sites = start_sites(start, n)
    if sites is not None and np.shape(sites.tau) != (n, n_classes, n_classes):
        raise TypeError("start must be an earlier fit of QuadratureEP(precision='full'), or its sites")
    return sites


def shifted_moments(tilted: Any, offset: Any) -> Any:
    """Return the moments of contrasts with an offset added to their means."""
    return lambda mean, cov: tilted(mean + offset, cov)


# independent between classes -----------------------------------------------------------------------------------------


def quadrature_moments(
    y: np.ndarray, likelihood, mean: np.ndarray, var: np.ndarray, labels: np.ndarray | None = None
) -> Tilted:
    """Return the moments of cavity × likelihood from the likelihood's own integral; `labels` are by default y itself."""
    labels = y if labels is None else labels
    log_mass, slope, curvature = likelihood.tilted_moments(y, mean, var)
    left = 1 + var * curvature  # tilted variance divided by the cavity variance
    tau = -curvature / np.where(left > 0, left, np.nan)
    pi = inner_precision(own_first(labels, tau), own_first(labels, var), likelihood.noise)
    return Tilted(log_mass, slope, tau, restore_order(labels, pi))


def inner_precision(tau: np.ndarray, var: np.ndarray, noise: float) -> np.ndarray:
    """Return π (n, C) of inner sites that would give each class its τ; own class first. Used only for the step direction.

    Wrong class j sends the hub x_y a message of precision ρ_j = π_j/(1 + var_j π_j), and its own τ is π_j/(1 + h_j π_j),
    where h_j is the variance of the hub given all other messages. The own class receives the sum of the ρ through the noise.
    """
    tau = np.clip(tau, MIN_TAU, 1 / MIN_TAU)
    own, rivals, var_rivals = tau[:, :1], tau[:, 1:], var[:, 1:]
    total = own / np.maximum(1 - noise * own, 0.01)
    rho = np.zeros_like(rivals)
    for _ in range(3):
        left = 1 / (noise + var[:, :1]) + np.maximum(total - rho, 0.0)
        pi = rivals / np.maximum(1 - rivals / left, 0.01)
        rho = pi / (1 + var_rivals * pi)
    return np.column_stack([np.full(len(tau), 1 / max(noise, MIN_NOISE)), pi])


# coupled -------------------------------------------------------------------------------------------------------------


def product_rule(nodes: int, dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points (q, d) and log weights (q,) for expectations under N(0, I); raise if there are too many."""
    if nodes < 2:
        raise ValueError(f"nodes must be at least 2, but is {nodes}")
    if nodes**dimension > MAX_NODES:
        raise ValueError(
            f"{nodes} nodes in each of {dimension} dimensions are {nodes}**{dimension} evaluations for every datum, more "
            f"than {MAX_NODES}. Use fewer nodes, QuadratureEP(coupled=False), or NestedEP, which needs no quadrature."
        )
    return hermite_nodes(nodes, dimension)


@dataclass(frozen=True)
class _Contrasts:
    """The likelihood of all data in terms of the contrasts g = f_y - f_j + u, in the form that the loop needs."""

    points: np.ndarray  # (q, C - 2) of the product rule
    log_weights: np.ndarray
    offset: np.ndarray | float = 0.0  # (n, C - 1) bias of the own class minus that of each other class
    power: np.ndarray | None = None  # (n,) powers of Φ, if some are below one
    power_rule: tuple[np.ndarray, np.ndarray] | None = None  # points (q', C - 1) and log weights for them

    def target(self, q: ContrastPosterior) -> SiteTarget:
        """Return slope and precision of the sites. [RJV] (18)-(21), with Σ_g in place of the Σ_w printed in (19)."""
        mean, cov = contrast_cavity(q)
        _, slope, lost = self.tilted(mean + self.offset, cov)
        g_cov = cov - cov @ lost @ cov
        try:
            tau = np.diagonal(np.linalg.solve(g_cov, cov @ lost), axis1=1, axis2=2)  # Λ̃: Σ̂⁻¹ - Σ_g⁻¹ = Σ̂⁻¹ Σ_g D
        except np.linalg.LinAlgError:  # rounding leaves no tilted covariance: NaN, which the loop reports
            tau = np.full_like(mean, np.nan)
        point = mean + np.einsum("ijk,ik->ij", cov, slope)
        return SiteTarget(point.ravel(), slope.ravel(), -np.maximum(tau, 0.0).ravel())  # slope is ξ - Λ̃ ĝ of (21)

    def evidence(self, q: ContrastPosterior) -> float:
        """Return the log evidence, with sites scaled so that each cavity keeps the tilted mass. [RJV] (28)"""
        mean, cov = contrast_cavity(q)
        tau, nu = q.each.tau.reshape(mean.shape), q.each.nu.reshape(mean.shape)
        grown = np.eye(mean.shape[1]) + cov * tau[:, None, :]  # I + Σ_g Λ̃
        settled = np.linalg.solve(grown, (mean + np.einsum("ijk,ik->ij", cov, nu))[..., None])[..., 0]
        local = 0.5 * np.sum(nu * settled + mean * (nu - tau * settled), axis=1) - 0.5 * np.linalg.slogdet(grown)[1]
        copies = np.ravel(q.prior.copies)
        return q.log_partition + float(np.sum(copies * (self.tilted(mean + self.offset, cov)[0] - local)))

    def tilted(self, mean: np.ndarray, cov: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return log mass (n,), slope s (n, d) and loss D (n, d, d) of N(g | mean, S) ∏_j Φ(g_j).

        The tilted mean is mean + S s, the tilted covariance S - S D S.
        """
        width = len(self.points) * mean.shape[1]
        parts = [self._tilted(mean[some], cov[some]) for some in blocks(len(mean), width)]
        log_mass, slope, lost = (np.concatenate(p) for p in zip(*parts, strict=True))
        if self.power is not None:
            some = np.flatnonzero(self.power < 1)
            log_mass[some], slope[some], lost[some] = self._tilted_power(mean[some], cov[some], self.power[some])
        return log_mass, slope, lost

    def _tilted_power(self, mean, cov, power):
        """Return the same for ∏_j Φ(g_j)^power, with nodes of the cavity: less accurate if it is much wider than one."""
        assert self.power_rule is not None, "powers need a rule"
        points, log_weights = self.power_rule
        ridge = CAVITY_RIDGE * np.trace(cov, axis1=1, axis2=2)
        L = np.linalg.cholesky(cov + ridge[:, None, None] * np.eye(mean.shape[1]))
        log_mass = log_weights + power[:, None] * log_ndtr(mean[:, None] + points @ np.swapaxes(L, 1, 2)).sum(-1)
        top = log_mass.max(1, keepdims=True)
        weights = np.exp(log_mass - top)
        total = weights.sum(1, keepdims=True)
        weights /= total
        centre = weights @ points
        e = points - centre[:, None]
        lost = np.eye(mean.shape[1]) - np.swapaxes(e * weights[..., None], 1, 2) @ e
        back = np.swapaxes(np.linalg.inv(L), 1, 2)
        slope = np.einsum("ijk,ik->ij", back, centre)
        return (top + np.log(total))[:, 0], slope, back @ lost @ np.swapaxes(back, 1, 2)

    def _tilted(self, mean, cov):
        # Φ(g) means x = g + noise > 0: x = mean + L e, each e standard normal above a bound set by the previous ones
        d = mean.shape[1]
        try:
            L = np.linalg.cholesky(cov + np.eye(d))
        except np.linalg.LinAlgError as error:  # it is a covariance plus the identity, so only rounding can cause this
            raise NotPositiveDefinite(too_large(cov, "A cavity's covariance matrix")) from error
        e, log_mass = np.zeros((len(mean), len(self.points), d)), self.log_weights
        for k in range(d):
            bound = -(mean[:, k, None] + np.einsum("iqk,ik->iq", e, L[:, k])) / L[:, k, k, None]  # later e are still zero
            log_room = log_ndtr(-bound)
            log_mass = log_mass + log_room
            if k < d - 1:
                e[..., k] = -ndtri_exp(log_room + log_ndtr(-self.points[:, k]))
        e[..., -1] = hazard(-bound)  # mean and variance of the last one are known in closed form
        last_var = 1 - hazard_curvature(-bound, e[..., -1])
        top = log_mass.max(1, keepdims=True)
        weights = np.exp(log_mass - top)
        total = weights.sum(1, keepdims=True)
        weights /= total
        centre = np.einsum("iq,iqj->ij", weights, e)
        e -= centre[:, None]
        lost = np.eye(d) - np.swapaxes(e * weights[..., None], 1, 2) @ e
        lost[:, -1, -1] -= np.sum(weights * last_var, axis=1)
        back = np.swapaxes(np.linalg.inv(L), 1, 2)
        slope = np.einsum("ijk,ik->ij", back, centre)
        return (top + np.log(total))[:, 0], slope, back @ lost @ np.swapaxes(back, 1, 2)


def contrast_cavity(q: ContrastPosterior) -> tuple[np.ndarray, np.ndarray]:
    """Return mean μ_g (n, C - 1) and covariance Σ_g of each datum's contrasts without all its sites."""
    own, others, C = q.prior.y[:, None], q.prior.others, q.prior.n_classes
    rows = np.arange(len(own))[:, None]
    if np.any(q.sites.tau):
        f, S = q.left_out()
    else:  # the prior has no coupled system
        var = np.broadcast_to(np.diagonal(q.K, axis1=-2, axis2=-1), (C, len(own))).T
        f, S = np.zeros(var.shape), var[:, :, None] * np.eye(C)
    mean = f[rows, own] - f[rows, others]
    j, k = others[:, :, None], others[:, None, :]
    i, y = rows[:, :, None], own[:, :, None]
    return mean, S[i, y, y] - S[i, j, y] - S[i, y, k] + S[i, j, k] + 1.0  # Bᵀ Σ B + 11ᵀ
