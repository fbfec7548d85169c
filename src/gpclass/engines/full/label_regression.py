"""Label regression: the labels ±1 as noisy values of the latent function.

[NR] Nickisch & Rasmussen 2008, section 8. A heuristic choice of (α, W); class probabilities come from the likelihood, as in
all other engines. The evidence is that of the regression, ln Z_reg; `jensen_bound()` gives that of the classification.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy

from ...gaussian import FullPosterior, Sites
from ...numerics import LOG_SQRT_2PI
from .. import Engine
from ..fit import Fit, prepare_data
from ..iterate import ending, warn_if_unfinished
from ..observations import Data


@dataclass(frozen=True)
class LabelRegression(Engine):
    """Gaussian regression on the labels; the noise width is chosen by evidence."""

    noise: float | None = None  # standard deviation σ_n; None chooses it within `noise_range` by evidence
    noise_range: tuple[float, float] = (0.5, 2.0)  # [NR] section 8.1

    needs: ClassVar = ("latent_targets", "predictive")
    weights: ClassVar = "places"

    def evidence_is_comparable(self, likelihood) -> bool:
        """Return False: the evidence is the density of labels as real numbers, not the probability of classes."""
        return False

    def __post_init__(self):
        widths = (self.noise,) if self.noise is not None else self.noise_range
        if not all(np.isfinite(w) and w > 0 for w in widths):
            raise ValueError(f"the noise width must be positive, but is {widths}")

    def fit(self, K, y, likelihood, start: Any = None) -> Fit:
        K, data = prepare_data(self, K, y, likelihood)
        data = replace(data, y=likelihood.latent_targets(data.y))
        n_iter = 1
        noise = self.noise
        if noise is None:
            search = scipy.optimize.minimize_scalar(
                lambda log_noise: -regression_evidence(regress(K, data, np.exp(log_noise)), data, np.exp(log_noise)),
                bounds=np.log(self.noise_range),
                method="bounded",
                options={"xatol": 1e-6},
            )
            noise, n_iter = float(np.exp(search.x)), search.nfev + 1
        q = regress(K, data, noise)
        status = ending(q, n_iter, change=0.0)
        warn_if_unfinished(self, status)
        return Fit(self, q, data.given, likelihood, status, regression_evidence(q, data, noise))

    def evidence_gradient(self, fit: Fit) -> np.ndarray:
        return fit.posterior.gradient()

    def likelihood_gradient(self, fit: Fit) -> np.ndarray:
        return np.zeros(len(fit.likelihood.theta))  # the regression does not use the likelihood


def regress(K: np.ndarray, data: Data, noise: float) -> FullPosterior:
    tau = np.full(len(data.y), data.weight * noise**-2.0)
    return data.prior(K).renewed(Sites(tau, tau * data.y))


def regression_evidence(q: FullPosterior, data: Data, noise: float) -> float:
    """Return ln N(y | 0, K + σ_n² I). [NR] section 8.2"""
    # (K + σ²I)⁻¹ y = α, and |K + σ²I| = σ^{2n} |B|
    count = data.total(np.ones(len(data.y)))
    return -0.5 * float(data.y @ q.alpha) - 0.5 * q.log_det - count * (np.log(noise) + LOG_SQRT_2PI)
