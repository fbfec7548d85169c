"""A posterior of inducing variables without the rows that it came from: what a trained model predicts with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..gaussian.inducing import LowRankPosterior
from .sweep import predict


@dataclass(frozen=True)
class TrainedFit:
    """Answers as a `Fit` gives them, where these need no training rows."""

    engine: Any
    posterior: LowRankPosterior
    likelihood: Any
    log_evidence: float  # of settled sites; or as the minibatches of the last pass estimate it
    n_rows: int  # that it was trained on

    y: ClassVar[None] = None  # labels are not kept, nor rows

    def state(self) -> dict[str, Any]:
        """What a model file keeps of it, for `LowRankEngine.restore`."""
        return {**self.posterior.state(), "log_evidence": self.log_evidence, "n_rows": self.n_rows}

    def members(self, kernel: Any) -> list[tuple[Any, Any]]:
        """(kernel, posterior) pairs that predictions average over."""
        return [(kernel, self)]

    def predict(self, Ks: np.ndarray, kd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Latent mean and variance (m,), or with several classes mean (m, C) and diagonal covariance (m, C, C).

        Ks (M, m) are covariances with the inducing inputs, kd (m,) prior variances; or one for each class.
        """
        mean, var = predict(self.posterior, self.likelihood, Ks, kd)
        return (mean, var) if var.ndim == 1 else (mean, var[:, :, None] * np.eye(var.shape[1]))

    def log_class_probabilities(self, Ks: np.ndarray, kd: np.ndarray) -> np.ndarray:
        """(m, C) log class probabilities."""
        return self.likelihood.log_class_probabilities(*predict(self.posterior, self.likelihood, Ks, kd))

    def class_probability_std(self, Ks: np.ndarray, kd: np.ndarray) -> np.ndarray:
        """(m, C) standard deviations of the class probabilities under the latent posterior."""
        return self.likelihood.class_probability_std(*self.predict(Ks, kd))

    def loo_class_probabilities(self) -> np.ndarray:
        raise AttributeError(
            f"{type(self.engine).__name__} keeps no training rows to leave out one by one; "
            "scikit-learn's cross_val_predict(..., method='predict_proba') tells as much"
        )

    def jensen_bound(self) -> float:
        raise AttributeError(
            f"{type(self.engine).__name__} keeps no training rows to bound the evidence of; SVGP's log_evidence_ estimates "
            "such a bound"
        )
