"""Nested expectation propagation: fully coupled EP for multinomial probit.

The likelihood of a datum is E_u ∏_j Φ(f_y - f_j + u) over its wrong classes j, and each factor depends on one scalar. So its
"inner" sites are ordinary probit sites on n (C - 1) contrasts. Updating all of them together merges the inner and the outer
loop into binary EP on a structured prior, with the rule, the loop and the evidence of `ep`. Power EP takes powers of
the inner factors Φ; u belongs to the prior.

[RJV] Riihimäki, Jylänki & Vehtari 2013, section 3.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...gaussian import ContrastPosterior
from ...likelihoods.tempered import PowerFactor
from .. import Engine
from ..fit import Fit, prepare_data, start_sites
from ..iterate import iterate, warn_if_unfinished
from ..observations import Data, data_of, powers_of
from .ep import check_power, ep_evidence, moment_rule

# The squared covariances of all contrasts cost (C - 1)² n³ operations in single precision, a sweep about 2 C n³ in double
# precision. So with many classes looking ahead saves time only in slow runs.
FEW_CLASSES = 4  # up to this number of classes, the run looks ahead from the first sweep
LOOK_AHEAD_AFTER = 11  # sweeps, with more classes


@dataclass(frozen=True)
class NestedEP(Engine):
    """Sites α̃, β̃ on the contrasts, matched to the moments of cavity × probit."""

    damping: float = 1.0  # largest fraction of a step; lowered automatically if needed
    tol: float = 1e-8  # largest move of a converged run, in posterior standard deviations
    max_iter: int = 200  # sweeps, C + 1 factorisations each
    power: float = 1.0  # of the factors of the contrasts, in (0, 1]; below one is power EP

    needs: ClassVar = ("contrast_factor",)
    latents: ClassVar = "several"
    weights: ClassVar = "rows"
    tempers: ClassVar = True
    single: ClassVar = True

    def __post_init__(self):
        check_power(self.power)

    def needed_by_weights(self, likelihood, weight) -> tuple[str, ...]:
        return ("contrast_power",) if np.any(weight < 1) else ()

    def fit(self, K, y, likelihood, start: Any = None) -> Fit:
        K, data = prepare_data(self, K, y, likelihood)
        labels = np.asarray(data.given)
        prior = ContrastPosterior.without_sites(K, labels, likelihood.n_classes, data.weight, 1 / self.power)
        right = np.ones(len(prior.mean))
        factor = shifted(contrast_factor(data, likelihood, part=self.power), likelihood.contrast_offset(labels).ravel())
        rule = moment_rule(right, factor)
        ahead = 0 if likelihood.n_classes <= FEW_CLASSES else LOOK_AHEAD_AFTER
        q, status = iterate(self, prior, rule, start_sites(start, len(right)), ahead=ahead)
        warn_if_unfinished(self, status)
        return Fit(self, q, data.given, likelihood, status, ep_evidence(q, right, factor))  # [RJV] (28)

    def restore(self, K, y, likelihood, state) -> Fit:
        data = data_of(self, y, likelihood)
        labels = np.asarray(data.given)
        q = ContrastPosterior.restored(K, labels, likelihood.n_classes, data.weight, state, 1 / self.power)
        return Fit.restored(self, q, y, likelihood, state)

    def evidence_gradient(self, fit: Fit) -> np.ndarray:
        """Return G with d log Z = Σ G_ij dK_ij; (C, n, n) if each class has its own K. All sites are stationary."""
        return fit.posterior.gradient()

    def likelihood_gradient(self, fit: Fit) -> np.ndarray:
        return fit.likelihood.theta_gradient(fit.alpha.sum(0))  # a bias shifts the prior mean


def contrast_factor(data: Data, likelihood: Any, by_datum: bool = False, part: float = 1.0) -> Any:
    """Return the likelihood of the contrasts of one copy: of one contrast, to a power if the weight is below one.

    `by_datum`: arrays are (n,) or (n, C - 1); otherwise they are flat (n (C - 1),). `part` is a further power, of all.
    """
    factor = likelihood.contrast_factor()
    powers = powers_of(data)
    if powers is None and part == 1:
        return factor
    powers = part * (np.ones(len(data.y)) if powers is None else likelihood.contrast_power(powers))
    return PowerFactor(factor, powers if by_datum else np.repeat(powers, likelihood.n_classes - 1))


def shifted(likelihood: Any, offset: np.ndarray) -> Any:
    """Return a likelihood with an offset added to each latent value."""
    return Shifted(likelihood, offset) if offset.any() else likelihood


@dataclass(frozen=True)
class Shifted:
    """A likelihood with an offset added to each latent value: the effect of class biases on contrasts."""

    likelihood: Any
    offset: np.ndarray

    def tilted_moments(self, y, mean, var):
        return self.likelihood.tilted_moments(y, mean + self.offset, var)

    def tilted_slopes(self, y, mean, var):
        return self.likelihood.tilted_slopes(y, mean + self.offset, var)
