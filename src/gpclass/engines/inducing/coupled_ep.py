"""Coupled scalable expectation propagation: nested EP on inducing variables, with classes coupled in the posterior.

Multinomial probit is E_u ∏_j Φ(f_y - f_j + u) over the wrong classes j. As in nested EP each factor has a scalar site on its
contrast f_y - f_j + u. Here f_i = g_i + e_i, where g_i depends on the inducing variables and e_i is independent of them and
between rows: with e_i and u integrated out, the sites of a row are one Gaussian on g_i whose precision couples the classes
(`gaussian.low_rank_contrasts`). So this is nested EP with the prior of low rank plus diagonal (FITC), and it is nested EP
itself if all rows are inducing inputs. `ScalableEP` approximates the posterior by a product over classes instead: cheaper by
a factor of C, but with an evidence that is too low and latent functions that are too certain.

A row's message is the result of EP on its own contrasts, given the posterior of g_i without the row ("inner" EP). It costs
C³; marginals and sums cost C² M².

[RJV] Riihimäki, Jylänki & Vehtari 2013, section 3.2.   [VC] Villacampa-Calvo 2017, chapter 5 and appendix B.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...gaussian.low_rank import LowRankPrior, Marginals, widened
from ...gaussian.low_rank_contrasts import (
    ClassSites,
    ContrastLowRankPrior,
    class_sites,
    coupled_cavity,
    precisions_or_zero,
)
from ...gaussian.sites import Sites, log_partition_1d, matched_sites
from ...likelihoods.tempered import PowerFactor, split_targets
from .engine import Message, RowRule
from .kept_sites import MIN_KEPT, MIN_KEPT_LOOSE, KeptSites
from .scalable_ep import JOINT_SITES, JointRule, own_class
from .step import RowSites
from .training import Training

CONTRAST_SITES = ("contrast_tau", "contrast_nu")
INNER_SWEEPS = 4  # sweeps over the contrasts of a row, for each update of its sites


@dataclass(frozen=True)
class CoupledScalableEP(KeptSites, Training):
    """Sites on the contrasts of classes, by moment matching, with a joint posterior of all classes; also on minibatches."""

    damping: float = 1.0  # fraction of each step; lowered automatically if sweeps do not converge
    tol: float = 1e-6  # largest move of a converged run, in posterior standard deviations
    max_iter: int = 500  # sweeps
    jitter: float = 1e-6  # noise on inducing variables, relative to their variance

    def structure(self, likelihood) -> type[LowRankPrior]:
        return ContrastLowRankPrior if likelihood.n_latents > 1 else LowRankPrior

    def needed(self, likelihood) -> tuple[str, ...]:
        return ("contrast_factor",) if likelihood.n_latents > 1 else ("tilted_moments",)

    def needed_by_weights(self, likelihood, weight) -> tuple[str, ...]:
        needed = super().needed_by_weights(likelihood, weight)
        return ("contrast_power",) if needed and likelihood.n_latents > 1 else needed

    def row_sites(self, n: int, likelihood) -> RowSites:
        names = CONTRAST_SITES if likelihood.n_latents > 1 else JOINT_SITES
        return {name: np.zeros((n, likelihood.n_latents)) for name in names}

    def rule(self, likelihood, n_total: float, loose: bool = False) -> RowRule:
        least = MIN_KEPT_LOOSE if loose else MIN_KEPT
        return ContrastRule(likelihood, least) if likelihood.n_latents > 1 else JointRule(likelihood, least)

    def totals(self, sites: RowSites, y: np.ndarray, residual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if "tau" in sites:
            return sites["tau"], sites["nu"]
        own = own_class(split_targets(y)[0], residual.shape[1])
        on_g = class_sites(own, sites["contrast_tau"], sites["contrast_nu"], residual)
        return on_g.pi, on_g.nu

    def latent_marginals(
        self, g: Marginals, message: Message, y: np.ndarray, likelihood
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the marginals with the row's sites on f_i = g_i + e_i and the posterior of g_i without them."""
        if likelihood.n_latents == 1:
            return super().latent_marginals(g, message, y, likelihood)
        without, rest = coupled_cavity(g.mean, g.spread, message.tau, message.nu, MIN_KEPT), self.rest(g, likelihood)
        own, sites = own_class(split_targets(y)[0], rest.shape[1]), message.sites
        on_f = class_sites(own, sites["contrast_tau"], sites["contrast_nu"], np.zeros_like(rest))
        return tilted(without.mean, widened(without.cov, rest), on_f)


def tilted(mean: np.ndarray, cov: np.ndarray, sites: ClassSites) -> tuple[np.ndarray, np.ndarray]:
    """Return mean (m, C) and covariance (m, C, C) of N(mean, cov) times sites."""
    Pi = precisions_or_zero(sites.pi)
    known = np.linalg.solve(np.eye(mean.shape[1]) + cov @ Pi, cov)
    pulled = sites.nu - np.einsum("icd,id->ic", Pi, mean)
    return mean + np.einsum("icd,id->ic", known, pulled), 0.5 * (known + np.swapaxes(known, 1, 2))


@dataclass(frozen=True)
class ContrastRule:
    """EP on the factors Φ(f_y - f_j + u) of each row."""

    likelihood: Any
    least: float = MIN_KEPT

    def __call__(self, at: Marginals, y: np.ndarray, sites: RowSites) -> Message:
        labels, power = split_targets(y)
        own, rest = own_class(labels, at.mean.shape[1]), at.rows.residual
        old = class_sites(own, sites["contrast_tau"], sites["contrast_nu"], rest)
        without = coupled_cavity(at.mean, at.spread, old.pi, old.nu, self.least)
        inner = InnerEP.of(self.likelihood, own, power, without.mean, widened(without.cov, rest))
        now = Sites(sites["contrast_tau"], sites["contrast_nu"])
        mass, now = inner.sweep(now)
        for _ in range(INNER_SWEEPS - 1):
            now = inner.sweep(now)[1]
        new = class_sites(own, now.tau, now.nu, rest)
        Pi = precisions_or_zero(new.pi)
        mean, cov = tilted(without.mean, without.cov, new)
        # derivatives of the row's log mass in mean and covariance of g without the row, as those of its Gaussian
        slope = new.nu - np.einsum("icd,id->ic", Pi, mean)
        twice = slope[:, :, None] * slope[:, None, :] - Pi + Pi @ cov @ Pi
        spread = slope[:, :, None] * without.tilt[:, None, :] + twice @ np.swapaxes(without.gain, 1, 2)
        return Message(
            old.constant + mass,
            new.pi,
            new.nu,
            slope,
            spread,
            0.5 * np.einsum("icc->ic", twice),
            self.likelihood.theta_gradient(slope.T),  # a bias shifts the mean of its class
            dict(zip(CONTRAST_SITES, (now.tau, now.nu), strict=True)),
        )


@dataclass(frozen=True)
class InnerEP:
    """Contrasts x_c = f_y - f_c + u of rows under a Gaussian of f, with a factor Φ(x_c + offset) each.

    The contrast of the own class is u itself. It has no factor.
    """

    factor: Any  # likelihood of a contrast
    own: np.ndarray  # (m, C) whether the class is y
    offset: np.ndarray  # (m, C) bias of y minus that of the class
    mean: np.ndarray  # (m, C) of the contrasts, without factors
    cov: np.ndarray  # (m, C, C)

    @staticmethod
    def of(likelihood: Any, own: np.ndarray, power: Any, mean: np.ndarray, cov: np.ndarray) -> InnerEP:
        """Make from mean (m, C) and covariance (m, C, C) of f; `power` as in `split_targets`."""
        factor = likelihood.contrast_factor()
        factor = factor if power is None else PowerFactor(factor, likelihood.contrast_power(power))
        mine = np.sum(mean, axis=1, keepdims=True, where=own)
        cross = np.sum(cov, axis=1, where=own[:, :, None])  # (m, C) of f_y with each f_c
        variance = np.sum(cross, axis=1, where=own)[:, None, None]
        of_contrasts = variance + 1 - cross[:, :, None] - cross[:, None, :] + cov
        bias = np.broadcast_to(likelihood.offset, own.shape)
        offset = np.sum(bias, axis=1, keepdims=True, where=own) - bias
        return InnerEP(factor, own, offset, mine - mean, of_contrasts)

    def sweep(self, sites: Sites) -> tuple[np.ndarray, Sites]:
        """Return the log mass (m,) of factors minus that of the sites (m, C) under their cavities, and new sites."""
        mean, var = self._marginals(sites)
        kept = np.where(self.own, 1.0, 1 - sites.tau * var)
        mean, var = (np.where(self.own, 0.0, mean) - sites.nu * var) / kept, np.where(self.own, 1.0, var) / kept
        value, d1, d2 = self.factor.tilted_moments(1.0, mean + self.offset, var)
        new = matched_sites(mean, var, d1, d2)
        mass = np.sum(value - log_partition_1d(mean, var, sites), axis=1, where=~self.own)
        return mass, Sites(*(np.where(self.own, 0.0, x) for x in (new.tau, new.nu)))

    def _marginals(self, sites: Sites) -> tuple[np.ndarray, np.ndarray]:
        """Return the (m, C) means and variances of the contrasts with their sites."""
        # (I + cov T)⁻¹ applied to cov and to mean + cov ν; mixed steps can make τ negative
        right = np.concatenate([self.cov, (self.mean + np.einsum("icd,id->ic", self.cov, sites.nu))[:, :, None]], axis=2)
        solved = np.linalg.solve(np.eye(right.shape[1]) + self.cov * sites.tau[:, None, :], right)
        return solved[:, :, -1], np.einsum("icc->ic", solved[:, :, :-1])
