"""The sparse variational Gaussian process: the Gaussian q(u), independent between classes, that maximises the Jensen bound.

    log p(y) ≥ Σ_i E[log p(y_i | f_i)] - KL(q(u) ‖ p(u))

A natural-gradient step moves the natural parameters of q(u) towards the sites with slope and curvature of E[log p]: the
update of stochastic EP, with another rule. E[log p] of multinomial probit is bounded from below by the sum over wrong
classes of E[log P(x_y > x_c | f)], so the result is still a lower bound.

Robust-max is not log-concave: its bound has many local maxima, and from the prior the ascent ends at a poor one. So EP
computes the initial sites (a few sweeps, or the first pass of minibatches).

[HMG] Hensman, Matthews & Ghahramani 2015.   [VC] Villacampa-Calvo 2017, section 5.3.
[LSK] Lin, Schmidt & Khan 2020, "Handling the positive-definite constraint in the Bayesian learning rule".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ...gaussian import newton_sites
from ...gaussian.low_rank import LowRankPosterior, Marginals
from ...gaussian.products import times
from ..fit import several, squeezed
from .engine import LowRankEngine, Message, RowRule
from .scalable_ep import ScalableEP
from .step import Broadcast, RowSites, State, Sums
from .stochastic_ep import StochasticEP, averaged
from .training import Training

# EP that computes the initial sites if the likelihood is not log-concave: maximum number of sweeps (and minimum number of
# minibatches), and tolerance
STARTER_SWEEPS, STARTER_TOL = 20, 1e-2


@dataclass(frozen=True)
class SVGP(LowRankEngine, Training):
    """Variational inference with natural gradients, on all rows or on minibatches."""

    rate: float = 0.02  # smallest natural-gradient rate of a full minibatch; larger if that is a large part of all rows
    damping: float = 1.0  # fraction of each step of full sweeps; lowered automatically if they do not converge
    tol: float = 1e-6  # largest move of a converged run, in posterior standard deviations
    max_iter: int = 500  # sweeps
    jitter: float = 1e-6  # noise on inducing variables, relative to their variance

    needs: ClassVar = ("expected_log_prob",)
    likelihood_names: ClassVar = ("probit", "softmax", "multinomial-probit")
    ascends: ClassVar = True
    settles: ClassVar = False  # it needs many sweeps

    def __post_init__(self):
        super().__post_init__()
        if not 0 < self.rate <= 1:
            raise ValueError(f"rate must be in (0, 1], but is {self.rate}")

    def rule(self, likelihood, n_total: float, loose: bool = False) -> RowRule:
        return ExpectationRule(likelihood)

    def latent_marginals(
        self, g: Marginals, message: Message, y: np.ndarray, likelihood
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the marginals of f. Given u, the posterior of f is the prior: labels do not update f - g."""
        return g.mean, g.var + self.rest(g, likelihood)

    def constant(self, q: LowRankPosterior, source: LowRankPosterior, n_total: float, likelihood) -> float:
        return -q.divergence() - q.log_partition

    def starter(self, likelihood) -> LowRankEngine | None:
        if likelihood.log_concave:
            return None
        return ScalableEP("joint", jitter=self.jitter, tol=STARTER_TOL, max_iter=STARTER_SWEEPS)

    def stage(self, state: State, n_total: int, likelihood) -> LowRankEngine:
        if likelihood.log_concave or (state.seen >= n_total and state.steps >= STARTER_SWEEPS):
            return self
        return StochasticEP("joint", jitter=self.jitter)

    def absorb(self, broadcast: Broadcast, sums: Sums) -> State:
        """Take a natural-gradient step. The first rows are averaged, so that all have the same weight."""
        size, n_total = broadcast.size, broadcast.n_total
        if not broadcast.likelihood.log_concave:
            return proper_step(broadcast, sums, rate_of(sums.rows, size, self.rate))
        whole = max(self.rate, size / (2 * n_total))  # averages about two passes, unless that takes too long
        first = sums.rows / (broadcast.state.seen + sums.rows)
        return averaged(broadcast, sums, max(rate_of(sums.rows, size, whole), first))


def rate_of(m: int, size: int, whole: float) -> float:
    """Return the rate of m rows if minibatches of `size` rows have the rate `whole`: the same decay per row."""
    return whole if m == size else 1 - (1 - whole) ** (m / size)


def proper_step(broadcast: Broadcast, sums: Sums, rate: float) -> State:
    """Take a natural-gradient step that stays proper with sites of negative precision. [LSK]

    With A the posterior precision, D the difference between it and the new sum of sites, and A - ρD the plain step, A
    becomes A - ρD + ½ρ² D A⁻¹ D = ½ (A + (A - ρD) A⁻¹ (A - ρD)). The mean moves as in the plain step with fixed A. ρ is
    reduced if ρD exceeds A: there the square is not a small correction, and steps would diverge.
    """
    state, share = broadcast.before, broadcast.share
    P, h = share * sums.P, share * sums.h
    mean, cov = broadcast.posterior.of_inducing()
    D = state.P - P
    relative = np.stack([times(V, part) for V, part in zip(cov, D, strict=True)])
    size = np.sqrt(np.maximum(np.einsum("cij,cji->c", relative, relative), 1e-300))  # Frobenius norm of A^-½ D A^-½
    rates = np.minimum(rate, 1 / size)
    square = np.stack([times(part, other) for part, other in zip(D, relative, strict=True)])
    moved = -rates[:, None, None] * D + 0.5 * (rates**2)[:, None, None] * square
    lack = h - state.h + np.einsum("cij,cj->ci", D, mean)  # gradient of the bound in the mean
    new_mean = mean + rates[:, None] * np.einsum("cij,cj->ci", cov, lack)
    h = state.h + rates[:, None] * lack + np.einsum("cij,cj->ci", moved, new_mean)
    return replace(state, P=state.P + moved, h=h, seen=state.seen + sums.rows)


@dataclass(frozen=True)
class ExpectationRule:
    """Sites with the slope and curvature of E[log p] under the marginal."""

    likelihood: Any

    def __call__(self, at: Marginals, y, sites: RowSites) -> Message:
        likelihood = self.likelihood
        marginal = squeezed(at.mean), squeezed(at.var + at.rows.residual)
        value, slope, curvature = likelihood.expected_log_prob(y, *marginal)
        theta = likelihood.expected_log_prob_theta(y, *marginal) if len(likelihood.theta) else np.zeros((0, len(y)))
        slope, curvature = several(slope), several(curvature)
        new = newton_sites(at.mean, slope, curvature)
        # the derivative in the variance is half the curvature
        return Message(value, new.tau, new.nu, slope, curvature, 0.5 * curvature, theta, {"tau": new.tau, "nu": new.nu})
