"""Kernel for categories: a function of the columns in which two rows differ."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrays import Array
from .leaf import LengthscaleAndVariance


class Categorical(LengthscaleAndVariance):
    """k(x, z) = variance * exp(-Σ_d [x_d ≠ z_d] / lengthscale_d).

    With one lengthscale the sum is the Hamming distance of the rows. Each factor is 1 for equal entries and a number between
    0 and 1 otherwise, so the kernel is positive definite. Entries are codes of categories; their order and size do not
    matter. As text, "categorical" or "categorical-ard", columns are not standardised.

    Parameters
    ----------
    lengthscale : float or array_like of shape (D,), default=1.0
        One lengthscale, or one for each input column. A column with a large one has little effect.
    variance : float, default=1.0
        The variance σ_f².
    ard : bool, default=False
        Whether each input column gets its own lengthscale, all starting at the given one. Estimators insert them when the
        number of columns is known (`for_columns`).
    bounds : mapping of str to pairs of float, optional
        Bounds of the parameters, as values.
    """

    lengthscale_has_units = False
    standardizable = False

    @property
    def lengthscale_of_distance(self) -> bool:
        return True

    def _matrix(self, X: Array, Z: Array | None) -> Array:
        self._check_columns(X)
        Z = X if Z is None else Z
        weights = np.broadcast_to(-1 / np.asarray(self.lengthscale), X.shape[1:])
        K = np.zeros((len(X), len(Z)))
        for d, weight in enumerate(weights):
            K += weight * (X[:, d, None] != Z[:, d])
        np.exp(K, out=K)
        K *= self.variance
        return K

    def _diagonal(self, X: Array) -> Array:
        self._check_columns(X)
        return np.full(len(X), self.variance)

    def _pullback(
        self, X: Array, Z: Array | None, G: Array, inputs: bool, value: Array | None
    ) -> tuple[Array, Array | None]:
        weights = G * (self._matrix(X, Z) if value is None else value)
        slopes: dict[str, Any] = {"variance": weights.sum()}
        if any(self._parameters["lengthscale"].free):
            other = X if Z is None else Z
            differing = np.array([np.sum(weights, where=X[:, d, None] != other[:, d]) for d in range(X.shape[1])])
            slopes["lengthscale"] = differing / self.lengthscale
        return self._gradient(slopes), np.zeros_like(X if Z is None else Z) if inputs else None

    def _pullback_diagonal(self, X: Array, g: Array) -> tuple[Array, Array]:
        return self._gradient({"variance": self.variance * g.sum()}), np.zeros_like(X)
