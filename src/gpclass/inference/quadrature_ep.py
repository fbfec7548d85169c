"""Expectation propagation for multinomial probit with tilted moments by quadrature.

Class-independent (QIEP): the largest of independent Gaussians is a one-dimensional integral over the winner, which the
trapezoid rule does to all digits that matter. Coupled (QEP): moments of the C - 1 contrasts by a product Gauss–Hermite
rule, and of the site precision that they ask for the diagonal. Departs from [RJV] in its coordinates: not the contrasts
themselves, whose nodes miss what is narrower than the cavity, but the numbers that sequential truncation turns into them.

[RJV] Riihimäki, Jylänki & Vehtari 2013, sections 3.1 and 3.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri_exp

from ..gaussian import ContrastPosterior, Sites
from ..numerics import LOG_SQRT_2PI, hazard, hazard_curvature, log_ndtr, log_ndtr_and_hazard
from .fit import CoupledFit, prepare, start_sites
from .independent_ep import Tilted, fit_independent, inner_sites
from .iterate import Target, iterate, warn_if_unfinished

HUB_NODES = 96  # of the rule over the winner
REACH = 8.5  # standard deviations: how far its nodes go
MOST_NODES = 20_000  # of a product rule, per datum: six classes with the default
BLOCK = 1 << 21  # numbers in an array of nodes


@dataclass(frozen=True)
class QuadratureEP:
    """Sites matched to tilted moments that come from quadrature; `coupled` or independent between classes."""

    damping: float = 1.0  # largest part of a step that is taken; adapted downwards by itself
    tol: float = 1e-8  # largest move, in posterior standard deviations, that counts as standing still
    max_iter: int = 200  # sweeps
    coupled: bool = True
    nodes: int = 10  # in each of C - 2 dimensions, if coupled; the last contrast needs none

    needs: ClassVar = ("contrast_factor",)
    latents: ClassVar = "several"
    gaussian: ClassVar = True

    def fit(self, K, y, likelihood, start: Any = None) -> CoupledFit:
        K, y = prepare(self, K, y, likelihood)
        if not self.coupled:
            factor = likelihood.contrast_factor()
            return fit_independent(self, K, y, likelihood, start, lambda mean, var: hub_moments(mean, var, factor))
        rule = _Contrasts(*product_rule(self.nodes, likelihood.n_classes - 2))
        size = len(y) * (likelihood.n_classes - 1)
        prior = ContrastPosterior(K, y, likelihood.n_classes, Sites.zeros(size))
        q, status = iterate(self, prior, rule.target, start_sites(start, size))
        warn_if_unfinished(self, status)
        return CoupledFit(self, q, y, likelihood, status, rule.evidence(q))

    def evidence_gradient(self, fit: CoupledFit) -> np.ndarray:
        """Σ G_ij dK_ij; (C, n, n) if there is one K for each class. The sites are held.

        Where they are stationary that is all: they are if independent. If coupled only nearly so, for more than two
        classes: a diagonal Λ̃ does not match all variances. Expect it to be off by one part in a hundred.
        """
        return fit.posterior.gradient()

    def likelihood_gradient(self, fit: CoupledFit) -> np.ndarray:
        return np.zeros(0)


# independent between classes -----------------------------------------------------------------------------------------


def hub_moments(mean: np.ndarray, var: np.ndarray, factor) -> Tilted:
    """Tilted moments from integrals over x_y = mean_y + s_y t: N(t) ∏_j Φ((x_y - mean_j)/s_j), s² = 1 + var."""
    lead, wide = mean[:, :1] - mean[:, 1:], 1 + var
    scale = np.sqrt(wide)
    shift, rate = lead / scale[:, 1:], scale[:, :1] / scale[:, 1:]  # the arguments of Φ are shift + rate t
    log_mass, t, weights, z, ratio = hub_integral(shift, rate)
    bend = np.einsum("iq,iqj->ij", weights, hazard_curvature(z, ratio))
    pull, spread = _moments(ratio, weights[..., None])  # of what each Φ says, in units of its s
    _, t_var = _moments(t, weights)
    said, said_var = _moments(np.einsum("iqj,ij->iq", ratio, rate), weights)
    # 1 - (tilted variance of x)/s², by the form that does not cancel; tilted variances of f follow
    own = np.where(t_var < 0.5, 1 - t_var, np.einsum("ij,ij->i", bend, rate**2) - said_var)
    known = np.clip(np.column_stack([own, bend - spread]), 0.0, 1.0)
    tau = known / (1 + var * (1 - known))  # left = (1 + var (1 - known))/s²
    slope = np.column_stack([said, -pull]) / scale
    inner, _ = inner_sites(lead, var[:, 1:], wide[:, 0], factor, sweeps=3)  # only to know which way to go
    return Tilted(log_mass, slope, tau, np.column_stack([np.ones(len(mean)), inner.tau]))


def hub_integral(shift: np.ndarray, rate: np.ndarray) -> tuple[np.ndarray, ...]:
    """log ∫ N(t) ∏_j Φ(shift_j + rate_j t) dt (n,); nodes and normalised weights (n, q); arguments, hazards (n, q, C - 1).

    Trapezoid rule in u, t = centre + width sinh u: fine where the integrand has its steepest edge, coarse where it is as
    wide as N(t).
    """
    low, high, centre, width = _hub_range(shift, rate)
    u_low, u_high = np.arcsinh((low - centre) / width), np.arcsinh((high - centre) / width)
    u = u_low[:, None] + (u_high - u_low)[:, None] * np.linspace(0, 1, HUB_NODES)
    t = centre[:, None] + width[:, None] * np.sinh(u)
    z = shift[:, None] + rate[:, None] * t[..., None]
    log_cdf, ratio = log_ndtr_and_hazard(z)
    log_density = log_cdf.sum(-1) - 0.5 * t * t + np.log(np.cosh(u))
    top = log_density.max(1, keepdims=True)
    weights = np.exp(log_density - top)
    total = weights.sum(1)
    step = width * (u_high - u_low) / (HUB_NODES - 1)
    log_mass = np.minimum(top[:, 0] + np.log(total * step) - LOG_SQRT_2PI, 0.0)
    return log_mass, t, weights / total[:, None], z, ratio


def _hub_range(shift, rate):
    """Where the integrand lives, and the place and width of its steepest edge."""
    mode, width = _hub_mode(shift, rate)
    z = shift + rate * mode[:, None]
    edge = -shift / rate
    # log-concave: to the left it falls faster than its parabola at the mode, and a factor at -9 has fallen for good
    fallen = np.max(edge + (np.minimum(z, 0.0) - 9) / rate, axis=1)
    low, high = np.maximum(mode - REACH * width, fallen), mode + REACH
    alive = edge + 9 / rate > low[:, None]
    steepest = np.argmax(np.where(alive, rate, 0.0), axis=1)[:, None]
    r = np.take_along_axis(np.where(alive, rate, 0.0), steepest, axis=1)[:, 0]
    at = np.where(r > 0, np.take_along_axis(edge, steepest, axis=1)[:, 0], mode)
    return low, high, np.minimum(mode, at), np.minimum(width, 1 / np.sqrt(1 + r**2))


def _hub_mode(shift, rate):
    """Mode of the integrand, and the width of its parabola there. Newton's method climbs to it from the left."""
    mode = np.zeros(len(shift))
    for _ in range(100):  # a dozen suffice
        z = shift + rate * mode[:, None]
        ratio = hazard(z)
        precision = 1 + np.sum(rate**2 * hazard_curvature(z, ratio), axis=1)
        move = (np.sum(rate * ratio, axis=1) - mode) / precision
        mode = mode + move
        if np.all(np.abs(move) * np.sqrt(precision) <= 1e-2):  # a place for the nodes, no more
            break
    return mode, 1 / np.sqrt(precision)


def _moments(x, weights):
    """Mean and variance over axis 1."""
    mean = np.sum(weights * x, axis=1)
    return mean, np.sum(weights * (x - mean[:, None]) ** 2, axis=1)


# coupled -------------------------------------------------------------------------------------------------------------


def product_rule(nodes: int, dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """Points (q, d) and log weights (q,) for expectations under N(0, I)."""
    if nodes < 2:
        raise ValueError(f"nodes must be at least 2, but is {nodes}")
    if nodes**dimension > MOST_NODES:
        raise ValueError(
            f"{nodes} nodes in each of {dimension} dimensions are {nodes}**{dimension} evaluations for every datum, more "
            f"than {MOST_NODES}. Use fewer nodes, QuadratureEP(coupled=False), or NestedEP, which needs no quadrature."
        )
    x, w = np.polynomial.hermite_e.hermegauss(nodes)
    index = np.indices((nodes,) * dimension).reshape(dimension, nodes**dimension).T
    return x[index], np.log(w / w.sum())[index].sum(1)


@dataclass(frozen=True)
class _Contrasts:
    """The likelihood of all data in terms of the contrasts g = f_y - f_j + u, as the loop sees it."""

    points: np.ndarray  # (q, C - 2) of the product rule
    log_weights: np.ndarray

    def target(self, q: ContrastPosterior) -> Target:
        """[RJV] (18)-(21), with Σ_g for the Σ_w that (19) has in print."""
        mean, cov = contrast_cavity(q)
        _, slope, lost = self.tilted(mean, cov)
        g_cov = cov - cov @ lost @ cov
        try:
            tau = np.diagonal(np.linalg.solve(g_cov, cov @ lost), axis1=1, axis2=2)  # Λ̃: Σ̂⁻¹ - Σ_g⁻¹ = Σ̂⁻¹ Σ_g D
        except np.linalg.LinAlgError:  # rounding has left no tilted covariance: nothing is known, as the loop will say
            tau = np.full_like(mean, np.nan)
        point = mean + np.einsum("ijk,ik->ij", cov, slope)
        return Target(point.ravel(), slope.ravel(), -np.maximum(tau, 0.0).ravel())  # slope is ξ - Λ̃ ĝ of (21)

    def evidence(self, q: ContrastPosterior) -> float:
        """Each datum's sites scaled so that its cavity keeps the tilted mass. [RJV] (28)"""
        mean, cov = contrast_cavity(q)
        tau, nu = q.sites.tau.reshape(mean.shape), q.sites.nu.reshape(mean.shape)
        grown = np.eye(mean.shape[1]) + cov * tau[:, None, :]  # I + Σ_g Λ̃
        settled = np.linalg.solve(grown, (mean + np.einsum("ijk,ik->ij", cov, nu))[..., None])[..., 0]
        local = 0.5 * np.sum(nu * settled + mean * (nu - tau * settled), axis=1) - 0.5 * np.linalg.slogdet(grown)[1]
        return q.log_partition + float(np.sum(self.tilted(mean, cov)[0] - local))

    def tilted(self, mean: np.ndarray, cov: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of N(g | mean, S) ∏_j Φ(g_j): log mass (n,), slope s (n, d) and loss D (n, d, d).

        The tilted mean is mean + S s, the tilted covariance S - S D S.
        """
        rows = max(1, BLOCK // (len(self.points) * mean.shape[1]))
        parts = [self._tilted(mean[i : i + rows], cov[i : i + rows]) for i in range(0, len(mean), rows)]
        log_mass, slope, lost = (np.concatenate(p) for p in zip(*parts, strict=True))
        return log_mass, slope, lost

    def _tilted(self, mean, cov):
        # Φ(g) says that x = g + noise is positive: x = mean + L e, each e standard normal above a bound set by those before
        d = mean.shape[1]
        L = np.linalg.cholesky(cov + np.eye(d))
        e, log_mass = np.zeros((len(mean), len(self.points), d)), self.log_weights
        for k in range(d):
            bound = -(mean[:, k, None] + np.einsum("iqk,ik->iq", e, L[:, k])) / L[:, k, k, None]  # later e are zero as yet
            log_room = log_ndtr(-bound)
            log_mass = log_mass + log_room
            if k < d - 1:
                e[..., k] = -ndtri_exp(log_room + log_ndtr(-self.points[:, k]))
        e[..., -1] = hazard(-bound)  # the last one's mean and variance are known
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
    """Mean (n, C - 1) and covariance of each datum's contrasts with all its sites taken out: μ_g and Σ_g."""
    own = q.y[:, None]
    rows = np.arange(len(q.y))[:, None]
    if np.any(q.sites.tau):
        f, S = q.latent.cavity()
    else:  # the prior has no coupled system
        var = np.broadcast_to(np.diagonal(q.K, axis1=-2, axis2=-1), (q.n_classes, len(q.y))).T
        f, S = np.zeros(var.shape), var[:, :, None] * np.eye(q.n_classes)
    mean = f[rows, own] - f[rows, q.others]
    j, k = q.others[:, :, None], q.others[:, None, :]
    i, y = rows[:, :, None], own[:, :, None]
    return mean, S[i, y, y] - S[i, j, y] - S[i, y, k] + S[i, j, k] + 1.0  # Bᵀ Σ B + 11ᵀ
