"""Tanimoto kernel, for bit vectors and counts such as chemical fingerprints."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrays import Array, squared_norms
from .leaf import VarianceOnly


class Tanimoto(VarianceOnly):
    """k(x, z) = variance * x·z / (|x|² + |z|² - x·z).

    For bit vectors it is the number of bits that both have, divided by the number of bits that at least one has (Ralaivola
    et al. 2005). It is positive semidefinite for all real vectors: 1 / c is the integral of exp(-t c) over t > 0, and
    exp(t x·z) is a kernel. Two rows of zeros have the covariance `variance`. `fit` also takes sparse matrices. As text,
    "tanimoto", columns are not standardised.

    Parameters
    ----------
    variance : float, default=1.0
        The variance σ_f².
    bounds : mapping of str to pairs of float, optional
        Bounds of the parameters, as values.
    """

    standardizable = False
    takes_sparse = True

    def unit_values(self, X: Any, Z: Any) -> Array:
        """Return k(X, Z) for variance 1. X and Z are arrays or sparse arrays."""
        inner, apart, empty = self._parts(X, Z)
        inner /= apart
        inner[empty] = 1.0
        return inner

    def unit_diagonal(self, X: Any) -> Array:
        """Return the diagonal of k(X) for variance 1."""
        return np.ones(X.shape[0])

    def _matrix(self, X: Array, Z: Array | None) -> Array:
        K = self.unit_values(X, Z)
        if Z is None:
            np.fill_diagonal(K, 1.0)
        K *= self.variance
        return K

    def _diagonal(self, X: Array) -> Array:
        return np.full(len(X), self.variance)

    def _parts(self, X: Any, Z: Any) -> tuple[Array, Array, Any]:
        """Return x·z, |x|² + |z|² - x·z, and where both are zero."""
        Z = X if Z is None else Z
        inner = X @ Z.T
        inner = inner if isinstance(inner, np.ndarray) else inner.toarray()
        if Z is X:
            inner = 0.5 * (inner + inner.T)  # a matrix product may round both triangles differently
        norms = squared_norms(X)[:, None] + squared_norms(Z)
        if not np.isfinite(norms).all():
            raise ValueError("squared norms of the inputs overflow. Rescale the inputs.")
        empty = norms == 0
        norms -= inner
        norms[empty] = 1.0
        return inner, norms, empty

    def _pullback(
        self, X: Array, Z: Array | None, G: Array, inputs: bool, value: Array | None
    ) -> tuple[Array, Array | None]:
        dtheta = self._variance_gradient(X, Z, G, value)
        if not inputs:
            return dtheta, None
        inner, apart, empty = self._parts(X, Z)
        # s = x·z, c = |x|² + |z|² - s:  d(s/c)/dx = (1/c + s/c²) z - 2 (s/c²) x
        weights = np.where(empty, 0.0, self.variance * G / apart)
        ratio = weights * (inner / apart)
        weights += ratio
        if Z is not None:
            return dtheta, weights.T @ X - 2 * ratio.sum(axis=0)[:, None] * Z
        for part in (weights, ratio):  # the diagonal is constant
            np.fill_diagonal(part, 0.0)
        sums = ratio.sum(axis=0) + ratio.sum(axis=1)
        return dtheta, (weights + weights.T) @ X - 2 * sums[:, None] * X
