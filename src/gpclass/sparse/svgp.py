"""The sparse variational Gaussian process: the best Gaussian q(u), independent between classes, by the Jensen bound.

    log p(y) ≥ Σ_i E[log p(y_i | f_i)] - KL(q(u) ‖ p(u))

A natural-gradient step moves the natural parameters of q(u) part of the way to the sites that slope and curvature of
E[log p] make: the update of stochastic EP, with another rule. Multinomial probit's E[log p] is bounded from below by the sum
over wrong classes of E[log P(x_y > x_c | f)], and the bound stays one.

[HMG] Hensman, Matthews & Ghahramani 2015.   [VC] Villacampa-Calvo 2017, section 5.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..gaussian.inducing import LowRankPosterior, Marginals
from .expected import expected_log_prob
from .low_rank import LowRankEngine, Memory, Message, Rule, State
from .scalable_ep import log_concave
from .stochastic_ep import averaged


@dataclass(frozen=True)
class SVGP(LowRankEngine):
    """Variational inference with natural gradients; all rows or a minibatch at a time."""

    rate: float = 0.1  # of the natural-gradient steps during training, once the first few have shown the way
    damping: float = 1.0  # part of each step that sweeps over all rows take; lowered by itself where they do not settle
    tol: float = 1e-6  # largest move, in posterior standard deviations, that counts as standing still
    max_iter: int = 500  # sweeps
    jitter: float = 1e-6  # noise on inducing variables, relative to their variance

    ascends: ClassVar = True

    def __post_init__(self):
        if not 0 < self.rate <= 1:
            raise ValueError(f"rate must be in (0, 1], but is {self.rate}")

    def needed(self, likelihood) -> tuple[str, ...]:
        return ("expected_log_prob",) if likelihood.n_latents == 1 else ("n_classes",)

    def rule(self, likelihood, n_total: int, loose: bool = False) -> Rule:
        return ExpectationRule(likelihood, concave=loose)

    def constant(self, q: LowRankPosterior, source: LowRankPosterior, n_total: int, likelihood) -> float:
        return -q.divergence() - q.log_partition

    def absorb(self, state: State, W, message: Message, memory: Memory, y, rows, n_total: int, likelihood) -> State:
        """Natural gradient: the first minibatches are averaged, so that none of them counts for more than another."""
        seen = min(n_total, state.seen + len(y))
        rate = max(self.rate, 1 / (state.steps + 1)) if log_concave(likelihood) else self.rate
        return averaged(state, W, message, rate, n_total, seen)


@dataclass(frozen=True)
class ExpectationRule:
    """Sites with the slope and curvature of E[log p] under the marginal."""

    likelihood: Any
    concave: bool = False  # whether sites of negative precision are cut: on minibatches they would run off

    def __call__(self, at: Marginals, y, memory: Memory) -> Message:
        found = expected_log_prob(self.likelihood, y, at.mean, at.var + at.rows.residual)
        tau = np.maximum(-found.curvature, 0.0) if self.concave else -found.curvature
        nu = found.slope + tau * at.mean
        memory = {"tau": tau, "nu": nu}
        # the derivative in the variance is half the curvature
        return Message(found.value, tau, nu, found.slope, found.curvature, 0.5 * found.curvature, found.theta, memory)
