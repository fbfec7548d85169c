"""The generalised FITC approximation: EP with a prior of low rank plus diagonal, on all data at once.

The part of f_i that the inducing variables do not explain belongs to the prior, independent between data, and sites are on
f_i itself (for multinomial probit on x_i = f_i + noise, so that the factors x_y > x_c of a datum share their common part).
For the inducing variables a site of precision T on x_i is a site on g_i of precision T/(1 + r T), r the variance of x_i -
g_i. So this is scalable EP with one factor for each datum.

[NH] Naish-Guzman & Holden 2007.   [KG] Kim & Ghahramani 2006, the factors for several classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ...gaussian.low_rank import Marginals
from ...gaussian.sites import Sites, log_partition_1d
from ...likelihoods.tempered import split_targets
from .engine import LowRankEngine, Message, RowRule
from .scalable_ep import (
    JOINT_SITES,
    MIN_KEPT,
    PAIRWISE_SITES,
    Contrast,
    JointRule,
    Pairs,
    cavity,
    own_class,
    pairwise_totals,
    spread_of,
)
from .step import RowSites
from .training import Inducing


@dataclass(frozen=True)
class GFITC(LowRankEngine, Inducing):
    """EP with the FITC prior, on all rows at once."""

    damping: float = 0.8  # fraction of each step; lowered automatically if sweeps do not converge
    tol: float = 1e-6  # largest move of a converged run, in posterior standard deviations
    max_iter: int = 500  # sweeps
    jitter: float = 1e-6  # noise on inducing variables, relative to their variance

    minibatches: ClassVar = False
    tempers: ClassVar = True
    takes_more: ClassVar = False

    @staticmethod
    def _contrasts(likelihood) -> bool:
        return likelihood.offers("contrast_factor")

    def needed(self, likelihood) -> tuple[str, ...]:
        return ("contrast_factor",) if self._contrasts(likelihood) else ("tilted_moments",)

    def needed_by_weights(self, likelihood, weight) -> tuple[str, ...]:
        needed = super().needed_by_weights(likelihood, weight)
        return ("contrast_power",) if needed and self._contrasts(likelihood) else needed

    def row_sites(self, n: int, likelihood) -> RowSites:
        names = PAIRWISE_SITES if self._contrasts(likelihood) else JOINT_SITES
        return {name: np.zeros((n, likelihood.n_latents)) for name in names}

    def rule(self, likelihood, n_total: float, loose: bool = False) -> RowRule:
        return LatentRule(likelihood) if self._contrasts(likelihood) else JointRule(likelihood)

    def totals(self, sites: RowSites, y: np.ndarray, residual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if "tau" in sites:
            return sites["tau"], sites["nu"]
        tau, nu = pairwise_totals(sites, split_targets(y)[0])
        left = 1 + residual * tau
        return tau / left, nu / left

    def noise(self, likelihood) -> float:
        return likelihood.noise if self._contrasts(likelihood) else 0.0  # noise of x


@dataclass(frozen=True)
class LatentRule:
    """Factors [x_y > x_c] with sites on x = f + noise.

    For a weight below one the likelihood is E[∏ Φ(x_y - f_c)^b] over the noise of x_y, see `contrast_power`.
    """

    likelihood: Any
    least: float = MIN_KEPT

    def __call__(self, at: Marginals, y: np.ndarray, sites: RowSites) -> Message:
        y, power = split_targets(y)
        own = own_class(y, at.mean.shape[1])
        rest = at.rows.residual
        tau, nu = pairwise_totals(sites, y)
        without = cavity(at.mean, at.var, tau / (1 + rest * tau), nu / (1 + rest * tau), self.least)
        x_var = without.var + rest  # variance of x without this datum
        grown = 1 + x_var * tau
        now = (without.mean + x_var * nu) / grown, x_var / grown
        make = Contrast.of if power is None else partial(self._powers, self.likelihood.contrast_power(power))
        pairs = Pairs.of(self.likelihood, *now, np.zeros_like(rest), own, sites, self.least, make)
        fresh_tau, fresh_nu = pairwise_totals(pairs.sites, y)
        slope, bend = (nu - tau * without.mean) / grown, tau / grown
        excess = 0.5 * (slope**2 - bend)
        joint = log_partition_1d(without.mean, x_var, Sites(tau, nu)) - without.log_partition
        return Message(
            joint.sum(1) + pairs.value,
            fresh_tau / (1 + rest * fresh_tau),
            fresh_nu / (1 + rest * fresh_tau),
            slope,
            spread_of(without, slope, excess),
            excess,
            self.likelihood.theta_gradient(slope.T),
            pairs.sites,
        )

    def _powers(self, power: np.ndarray, lead: np.ndarray, var: np.ndarray, own: np.ndarray) -> Contrast:
        """Return the factors Φ(x_y - f_c)^power; `var` (m, C) of x_y - x_c includes the noise of x_c."""
        noise = self.likelihood.noise
        return Contrast.of_power(lead, var - noise, own, power, noise)
