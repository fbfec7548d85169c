"""Neural network kernel: an infinitely wide layer of error-function units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .arrays import Array
from .pairwise import Pairwise
from .parameters import Positive
from .similarity import Inner


class NeuralNetwork(Pairwise):
    """k(x, z) = variance * arcsin(S / √((1 + a)(1 + b))).

    S = (1 + x·z) / lengthscale², a = (1 + |x|²) / lengthscale², b = (1 + |z|²) / lengthscale². The argument of arcsin
    is the inner product of (1, x)/N(x) and (1, z)/N(z), N(x)² = lengthscale² + 1 + |x|². Since arcsin is steep near 1,
    the error of the value is about 1e-16 |x| / lengthscale for |x| >> lengthscale.

    Parameters
    ----------
    lengthscale : float, default=1.0
        The lengthscale of all input columns.
    variance : float, default=1.0
        The variance σ_f².
    bounds : mapping of str to pairs of float, optional
        Bounds of the parameters, as values.
    """

    _similarity = Inner
    _has_feature_parameters = True
    lengthscale = Positive()

    def __init__(self, lengthscale: float = 1.0, variance: float = 1.0, *, bounds: Mapping[str, Any] | None = None) -> None:
        super().__init__(bounds, lengthscale=lengthscale, variance=variance)

    def _shape(self, s: Array) -> None:
        np.clip(s, -1, 1, out=s)
        np.arcsin(s, out=s)

    def _expand(self, s: Array) -> tuple[Array, Array, dict[str, Array]]:
        np.clip(s, -1, 1, out=s)
        cos2 = np.maximum((1 - s) * (1 + s), np.finfo(float).eps)  # |s| < 1, but may round to 1
        return np.arcsin(s), 1 / np.sqrt(cos2), {}

    def _features(self, X: Array) -> Array:
        return np.column_stack([np.ones(len(X)), X]) / self._norm(X)

    def _norm(self, X: Array) -> Array:
        """Return N(x), (n, 1), without squares of large numbers."""
        parts = np.column_stack([np.full(len(X), self.lengthscale), np.ones(len(X)), X])
        largest = np.abs(parts).max(axis=1, keepdims=True)
        return largest * np.linalg.norm(parts / largest, axis=1, keepdims=True)

    def _scale_parameters(self, scale_gradient: Array) -> dict[str, Any]:
        return {}

    def _feature_parameters(self, X: Array, F: Array, dF: Array) -> dict[str, Any]:
        # dF/dlog lengthscale = -F lengthscale² / N²
        share = (self.lengthscale / self._norm(X)[:, 0]) ** 2
        return {"lengthscale": -share @ np.sum(F * dF, axis=1)}

    def _to_inputs(self, X: Array, F: Array, dF: Array) -> Array:
        radial = np.sum(F * dF, axis=1, keepdims=True)
        return (dF[:, 1:] - radial * F[:, 1:]) / self._norm(X)
