"""Constant kernel: an offset that all points share."""

from __future__ import annotations

import numpy as np

from .arrays import Array
from .leaf import VarianceOnly


class Constant(VarianceOnly):
    """k(x, z) = variance.

    Parameters
    ----------
    variance : float, default=1.0
        The variance σ_f².
    bounds : mapping of str to pairs of float, optional
        Bounds of the parameters, as values.
    """

    _takes = "any"

    def _matrix(self, X: Array, Z: Array | None) -> Array:
        return np.full((len(X), len(X if Z is None else Z)), self.variance)

    def _diagonal(self, X: Array) -> Array:
        return np.full(len(X), self.variance)

    def _pullback(
        self, X: Array, Z: Array | None, G: Array, inputs: bool, value: Array | None
    ) -> tuple[Array, Array | None]:
        dinputs = np.zeros_like(X if Z is None else Z) if inputs else None
        return self._gradient({"variance": self.variance * G.sum()}), dinputs
