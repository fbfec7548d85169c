"""Methods of a fitted regressor: the latent function, targets, and intervals and densities of new targets."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .distributed.predictions import on_collections
from .inputs import more_inputs
from .kernels import Kernel
from .learning.members import PREDICTED_ROWS


class RegressorAnswers:
    """Methods of a fitted regressor that predict."""

    posterior_: Any
    kernel_: Kernel
    likelihood_: Any
    inputs_: np.ndarray
    noise_variance_: float
    target_mean_: float
    target_scale_: float

    @on_collections
    def latent(self, X) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean and variance of the function without noise.

        Parameters
        ----------
        X : array-like of shape (m, D)
            Inputs.

        Returns
        -------
        mean, var : ndarray of shape (m,)
            Mean and variance of the latent function.
        """
        mean, var = self._scaled_latent(X)
        return self.target_mean_ + self.target_scale_ * mean, self.target_scale_**2 * var

    def _scaled_latent(self, X) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean and variance of the latent function, in units of the scaled targets."""
        check_is_fitted(self)
        X = more_inputs(self, X)
        batches = (X[i : i + PREDICTED_ROWS] for i in range(0, len(X), PREDICTED_ROWS))
        kernel, inputs = self.kernel_, self.inputs_
        parts = [self.posterior_.predict(kernel(inputs, rows), kernel.diag(rows)) for rows in batches]
        mean, var = (np.concatenate(part) for part in zip(*parts, strict=True))
        return mean, var

    @on_collections
    def predict(self, X, return_std: bool = False) -> Any:
        """Return the predicted targets.

        Parameters
        ----------
        X : array-like of shape (m, D)
            Inputs.
        return_std : bool, default=False
            Whether to return the standard deviations too.

        Returns
        -------
        mean : ndarray of shape (m,)
            Expected targets.
        std : ndarray of shape (m,)
            Standard deviations of the targets, including noise; only with `return_std`.
        """
        mean, var = self.latent(X)
        return (mean, np.sqrt(var + self.noise_variance_)) if return_std else mean

    @on_collections
    def predict_interval(self, X, coverage: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return central intervals for new targets, including noise.

        Parameters
        ----------
        X : array-like of shape (m, D)
            Inputs.
        coverage : float, default=0.95
            Probability of each interval under the model, in (0, 1).

        Returns
        -------
        low, high : ndarray of shape (m,)
            Ends of the intervals.
        """
        if not 0 < coverage < 1:
            raise ValueError(f"coverage must be between 0 and 1, but is {coverage}")
        latent = self._scaled_latent(X)
        low, high = (self.likelihood_.predictive_quantile(0.5 + side * coverage / 2, *latent) for side in (-1, 1))
        return self.target_mean_ + self.target_scale_ * low, self.target_mean_ + self.target_scale_ * high

    def log_density(self, X, y) -> np.ndarray:
        """Return the log predictive density of targets.

        Parameters
        ----------
        X : array-like of shape (m, D)
            Inputs.
        y : array-like of shape (m,)
            Targets.

        Returns
        -------
        ndarray of shape (m,)
            log p(y | X), with the noise, in units of the targets.
        """
        check_is_fitted(self)
        targets = (np.asarray(y, float) - self.target_mean_) / self.target_scale_
        return self.likelihood_.log_predictive(targets, *self._scaled_latent(X)) - np.log(self.target_scale_)
