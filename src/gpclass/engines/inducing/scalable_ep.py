"""Scalable expectation propagation: EP on inducing variables with the posterior independent between classes.

Multinomial probit is P(x_y > x_c for all c ≠ y), x = f + noise. Given u it is approximated by the product of P(x_y > x_c): a
factor Φ((a_y - a_c)/√(b_y + b_c)) for each datum and wrong class, whose site has two scalars along w_i for each of the two
classes. This needs no quadrature. But the product is a lower bound of the likelihood and does not sum to one over classes,
so the evidence is biased low and not comparable with that of other engines (`evidence_is_comparable`). With
`factors="joint"` the likelihood of a datum is one factor, with moments under independent latent values by quadrature: exact
for any likelihood with `tilted_moments`, including robust-max and the binary ones. (With one latent function this is the
generalised FITC.)

[VC] Villacampa-Calvo 2017, chapter 5 and appendix B, with the signs of B.10 corrected: the derivatives in the means of the
own and the other class have opposite signs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ...gaussian.low_rank import Marginals
from ...gaussian.sites import Cavity, cavity, matched_sites
from ...likelihoods import Probit
from ...likelihoods.tempered import PowerFactor, Tempered, split_targets
from ...numerics import hazard, hazard_curvature, log_ndtr
from ..fit import several, squeezed
from ..full.ep import check_power
from .engine import Message, RowRule, sites_on_f
from .kept_sites import MIN_KEPT, MIN_KEPT_LOOSE, KeptSites
from .step import RowSites
from .training import Training

FACTORS = ("auto", "pairwise", "joint")
# EP on the factors of one row: maximum number of sweeps, fraction of each step, tolerance of the sites
ROW_SWEEPS, ROW_PART, ROW_TOL = 200, 0.7, 1e-9


@dataclass(frozen=True)
class ScalableEP(KeptSites, Training):
    """Rank-one sites for each datum, by moment matching; on all data or on minibatches."""

    factors: str = "auto"  # "pairwise": a factor for each wrong class; "joint": one; "auto": pairwise if there is no ε
    damping: float = 1.0  # fraction of each step; lowered automatically if sweeps do not converge
    tol: float = 1e-6  # largest move of a converged run, in posterior standard deviations
    max_iter: int = 500  # sweeps
    jitter: float = 1e-6  # noise on inducing variables, relative to their variance
    power: float = 1.0  # of the likelihood, in (0, 1]: below one is power EP, which tends to SVGP as the power goes to zero

    def __post_init__(self):
        super().__post_init__()
        check_factors(self.factors)
        check_power(self.power)

    @property
    def part(self) -> float:
        return self.power

    def pairwise(self, likelihood) -> bool:
        return self.factors == "pairwise" or (self.factors == "auto" and likelihood.offers("contrast_factor"))

    def needed(self, likelihood) -> tuple[str, ...]:
        if self.pairwise(likelihood):
            return ("contrast_factor",)
        return ("tilted_moments",) if self.power == 1 else ("tilted_moments", "tilted_power")

    def needed_by_weights(self, likelihood, weight) -> tuple[str, ...]:
        return () if self.pairwise(likelihood) else super().needed_by_weights(likelihood, weight)

    def evidence_is_comparable(self, likelihood) -> bool:
        return not self.pairwise(likelihood)

    def row_sites(self, n: int, likelihood) -> RowSites:
        names = PAIRWISE_SITES if self.pairwise(likelihood) else JOINT_SITES
        return {name: np.zeros((n, likelihood.n_latents)) for name in names}

    def rule(self, likelihood, n_total: float, loose: bool = False) -> RowRule:
        least = MIN_KEPT_LOOSE if loose else MIN_KEPT
        return PairwiseRule(likelihood, least) if self.pairwise(likelihood) else JointRule(likelihood, least)

    def totals(self, sites: RowSites, y: np.ndarray, residual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return (sites["tau"], sites["nu"]) if "tau" in sites else pairwise_totals(sites, split_targets(y)[0])

    def n_factors(self, n_total: float, likelihood) -> float:
        return max(n_total * (likelihood.n_latents - 1 if self.pairwise(likelihood) else 1), 1)

    def latent_marginals(
        self, g: Marginals, message: Message, y: np.ndarray, likelihood
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return marginals by EP on all factors of a row, with q without its sites: factors share f - g, sites do not."""
        if not self.pairwise(likelihood):
            return super().latent_marginals(g, message, y, likelihood)
        without, rest = cavity(g.mean, g.var, message.tau, message.nu, MIN_KEPT), self.rest(g, likelihood)
        mine = np.sum(rest, axis=1, keepdims=True, where=own_class(split_targets(y)[0], rest.shape[1]))
        sites = message.sites
        own, other = (sites_on_f(sites[f"{k}_tau"], sites[f"{k}_nu"], v) for k, v in (("own", mine), ("other", rest)))
        start = dict(zip(PAIRWISE_SITES, (*own, *other), strict=True))
        return settled_pairs(likelihood, without.mean, without.var + rest, y, start)


def check_factors(factors: str) -> None:
    """Raise an error if a choice of factors is unknown."""
    if factors not in FACTORS:
        raise ValueError(f"factors must be one of {', '.join(map(repr, FACTORS))}, but is {factors!r}")


# one factor for each datum ------------------------------------------------------------------------------------------------

JOINT_SITES = ("tau", "nu")
PAIRWISE_SITES = ("own_tau", "own_nu", "other_tau", "other_nu")


def spread_of(at: Cavity, d1: np.ndarray, excess: np.ndarray) -> np.ndarray:
    """Return the factor of V w in d log Z/dw: cavity and posterior differ by V w, in the mean and in the covariance of u."""
    return d1 * at.tilt + 2 * excess / at.kept


@dataclass(frozen=True)
class JointRule:
    """The likelihood of a datum as one factor, with moments from the likelihood under independent latent values."""

    likelihood: Any
    least: float = MIN_KEPT

    def __call__(self, at: Marginals, y: np.ndarray, sites: RowSites) -> Message:
        without = cavity(at.mean, at.var, sites["tau"], sites["nu"], self.least)
        f_mean, f_var = (squeezed(x) for x in (without.mean, without.var + at.rows.residual))
        likelihood = Tempered(self.likelihood) if y.dtype.names else self.likelihood
        value, d1, d2 = likelihood.tilted_moments(y, f_mean, f_var)
        d1, d2 = several(d1), several(d2)
        new = matched_sites(without.mean, without.var, d1, d2)  # (B.7)-(B.10)
        excess = 0.5 * (d2 + d1**2)
        return Message(
            value - without.log_partition.sum(1),
            new.tau,
            new.nu,
            d1,
            spread_of(without, d1, excess),
            excess,
            likelihood.tilted_theta(y, f_mean, f_var) if len(likelihood.theta) else np.zeros((0, len(y))),
            {"tau": new.tau, "nu": new.nu},
        )


# a factor for each datum and wrong class --------------------------------------------------------------------------------


def own_class(y: np.ndarray, n_classes: int) -> np.ndarray:
    return y[:, None] == np.arange(n_classes)


def pairwise_totals(sites: RowSites, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sums of the sites of all factors. (B.14), (B.15)"""
    own = own_class(y, sites["own_tau"].shape[1])
    return tuple(
        np.where(own, sites[f"own_{name}"].sum(1, keepdims=True), sites[f"other_{name}"]) for name in ("tau", "nu")
    )  # type: ignore[return-value]


@dataclass(frozen=True)
class Contrast:
    """Factors Φ(β) of x_y > x_c, one for each row and class c; zero for c = y."""

    log_mass: np.ndarray  # (m, C)
    pull: np.ndarray  # (m, C) derivative of log Z in the mean of the own class; minus that in the mean of the other class
    bend: np.ndarray  # (m, C) minus the second derivative in either mean

    @staticmethod
    def of(lead: np.ndarray, var: np.ndarray, own: np.ndarray) -> Contrast:
        """Make the factors from means and variances of x_y - x_c. (B.22)-(B.32)"""
        root = np.sqrt(np.where(own, 1.0, var))
        beta = np.where(own, 0.0, lead) / root
        alpha = hazard(beta)
        parts = log_ndtr(beta), alpha / root, hazard_curvature(beta, alpha) / root**2
        return Contrast(*(np.where(own, 0.0, part) for part in parts))

    @staticmethod
    def of_power(lead: np.ndarray, var: np.ndarray, own: np.ndarray, power: np.ndarray, noise: float) -> Contrast:
        """Make factors Φ(d/√noise)^power by quadrature, with power (m,) and d ~ N(lead, var), `var` without the noise."""
        scale = np.sqrt(noise)
        mean, spread = np.where(own, 0.0, lead / scale), np.where(own, 1.0, var / noise)
        value, d1, d2 = PowerFactor(Probit(), power).tilted_moments(1.0, mean, spread)
        return Contrast(*(np.where(own, 0.0, part) for part in (value, d1 / scale, -d2 / noise)))

    @property
    def excess(self) -> np.ndarray:
        """Derivative of log Z in the variance."""
        return 0.5 * (self.pull**2 - self.bend)


@dataclass(frozen=True)
class Pairs:
    """Factors of the own class against each other class, their cavities, and their new sites."""

    own: Cavity
    other: Cavity
    factor: Contrast
    value: np.ndarray  # (m,) log mass of the factors minus that of the sites that they replace
    sites: RowSites  # the new sites

    @staticmethod
    def of(likelihood, mean, var, rest, own: np.ndarray, sites: RowSites, least: float, make=Contrast.of) -> Pairs:
        """Make from marginals (m, C) of the sites' variables; latent values have the additional variance `rest` (m, C).

        `make` computes the factors from means and variances of the differences between the own and the other class.
        """
        mine, mine_var, my_rest = (np.sum(x, axis=1, keepdims=True, where=own) for x in (mean, var, rest))
        first = cavity(mine, mine_var, sites["own_tau"], sites["own_nu"], least)
        second = cavity(mean, var, sites["other_tau"], sites["other_nu"], least)
        my_offset = np.sum(np.where(own, likelihood.offset, 0.0), axis=1, keepdims=True)
        lead = first.mean + my_offset - second.mean - likelihood.offset  # (B.23)-(B.26)
        factor = make(lead, first.var + second.var + my_rest + rest, own)
        mass = np.where(own, 0.0, factor.log_mass - first.log_partition - second.log_partition)
        new = matched_sites(first.mean, first.var, factor.pull, -factor.bend)  # (B.7)-(B.10)
        others = matched_sites(second.mean, second.var, -factor.pull, -factor.bend)
        parts = zip(PAIRWISE_SITES, (new.tau, new.nu, others.tau, others.nu), strict=True)
        return Pairs(first, second, factor, mass.sum(1), {name: np.where(own, 0.0, part) for name, part in parts})


@dataclass(frozen=True)
class PairwiseRule:
    """Factors P(x_y > x_c), each with a site for y and one for c."""

    likelihood: Any
    least: float = MIN_KEPT

    def __call__(self, at: Marginals, y: np.ndarray, sites: RowSites) -> Message:
        y, power = split_targets(y)
        own = own_class(y, at.mean.shape[1])
        rest, make = pair_factors(self.likelihood, at.rows.residual, power)
        pairs = Pairs.of(self.likelihood, at.mean, at.var, rest, own, sites, self.least, make)
        pull, more = pairs.factor.pull, pairs.factor.excess
        slope, spread, excess = (
            np.where(own, a.sum(1, keepdims=True), b)
            for a, b in (
                (pull, -pull),
                (spread_of(pairs.own, pull, more), spread_of(pairs.other, -pull, more)),
                (more, more),
            )
        )
        theta = self.likelihood.theta_gradient(slope.T)  # a bias shifts the mean of its class
        return Message(pairs.value, *pairwise_totals(pairs.sites, y), slope, spread, excess, theta, pairs.sites)


def pair_factors(likelihood: Any, rest: np.ndarray, power: np.ndarray | None) -> tuple[np.ndarray, Any]:
    """Return variances besides those of the sites' variables, and the function that computes the factors P(x_y > x_c)^power.

    Without powers the noise is one of the variances. With powers the factor is the power of the probability given f.
    """
    if power is None:
        return rest + likelihood.noise, Contrast.of
    return rest, partial(Contrast.of_power, power=power, noise=2 * likelihood.noise)


def settled_pairs(
    likelihood: Any, mean: np.ndarray, var: np.ndarray, y: np.ndarray, sites: RowSites
) -> tuple[np.ndarray, np.ndarray]:
    """Return (m, C) means and variances after EP on each row's factors alone, under N(f | mean, diag var).

    `sites` are the initial sites.
    """
    y, power = split_targets(y)
    own = own_class(y, mean.shape[1])
    noise, make = pair_factors(likelihood, np.zeros_like(var), power)
    for _ in range(ROW_SWEEPS):
        tau, nu = pairwise_totals(sites, y)
        known = var / (1 + var * tau)
        centre = known * (mean / var + nu)
        new = Pairs.of(likelihood, centre, known, noise, own, sites, MIN_KEPT, make).sites
        change = max(float(np.max(np.abs(new[name] - sites[name]), initial=0.0)) for name in PAIRWISE_SITES)
        if change < ROW_TOL:
            break
        sites = {name: sites[name] + ROW_PART * (new[name] - sites[name]) for name in PAIRWISE_SITES}
    return centre, known
