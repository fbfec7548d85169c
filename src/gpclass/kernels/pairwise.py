"""Kernels of the form variance * h(s), with s an inner product or -½ squared distance of features of x and z.

A member supplies h, its slope, and (unless they are x / lengthscale) the features; the rest is here.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from .base import Array
from .comparisons import Buffer, Comparison, lower_tiles, summed_product, tiles
from .leaf import Leaf
from .parameters import Positive


class Pairwise(Leaf):
    lengthscale = Positive(may_be_vector=True)

    _comparison: ClassVar[type[Comparison]]
    _slope_is_shape: ClassVar[bool] = False  # h' = h, so that a known value makes s and h superfluous

    # -- what a member supplies --------------------------------------------------------------------------------------

    @abstractmethod
    def _shape(self, s: Array) -> None:
        """s becomes h(s), in place."""

    @abstractmethod
    def _expand(self, s: Array) -> tuple[Array, Any, dict[str, Array]]:
        """h(s), h'(s), and dh/dlog of parameters within h, by name. May overwrite s."""

    def _features(self, X: Array) -> Array:
        self._check_columns(X)
        return X / self.lengthscale

    def _feature_parameters(self, X: Array, F: Array, dF: Array) -> dict[str, Any]:
        """What parameters other than a common lengthscale of the features get from one side's dL/dF."""
        return {}

    def _scale_parameters(self, scale_gradient: Array) -> dict[str, Any]:
        return {"lengthscale": scale_gradient}

    def _to_inputs(self, X: Array, F: Array, dF: Array) -> Array:
        """dL/dX from dL/dF."""
        return dF / self.lengthscale

    # -- values ------------------------------------------------------------------------------------------------------

    def _matrix(self, X: Array, Z: Array | None) -> Array:
        X, Z = self._centred(X, Z)
        F = self._safe_features(X)
        if Z is None:
            return self._symmetric(F)
        return self._cross(F, self._safe_features(Z))

    def _symmetric(self, F: Array) -> Array:
        n, variance, buffer = len(F), self.variance, Buffer()
        comparison, own = self._comparison(F, F), self._comparison.with_self(F)
        K = np.empty((n, n))
        for I, J in lower_tiles(n):
            s = buffer(I, J)
            comparison.tile(I, J, s)
            if I == J:
                _make_symmetric(s, own[I])
            self._shape(s)
            s *= variance
            K[I, J] = s
            if I != J:
                K[J, I] = s.T
        return K

    def _cross(self, F: Array, H: Array) -> Array:
        variance, buffer, comparison = self.variance, Buffer(), self._comparison(F, H)
        K = np.empty((len(F), len(H)))
        for I, J in tiles(*K.shape):
            s = buffer(I, J)
            comparison.tile(I, J, s)
            self._shape(s)
            np.multiply(s, variance, out=K[I, J])
        return K

    def _diagonal(self, X: Array) -> Array:
        X, _ = self._centred(X, None)
        return self._self_values(self._safe_features(X))

    def _self_values(self, F: Array) -> Array:
        s = self._comparison.with_self(F)
        self._shape(s)
        return self.variance * s

    # -- derivatives -------------------------------------------------------------------------------------------------

    def _pullback(
        self, X: Array, Z: Array | None, G: Array, inputs: bool, value: Array | None
    ) -> tuple[Array, Array | None]:
        X, Z = self._centred(X, Z)
        F = self._safe_features(X)
        H = F if Z is None else self._safe_features(Z)
        comparison = self._comparison(F, H)
        parts = self._contract(comparison, G, Z is None, value, inputs or self._features_matter())
        dF, dH = comparison.gradients()
        sides = [(X, F, dF + dH)] if Z is None else [(X, F, dF), (Z, H, dH)]
        parts.update(self._scale_parameters(comparison.scale_gradient()))
        for side in sides:
            for name, part in self._feature_parameters(*side).items():
                parts[name] = parts.get(name, 0.0) + part
        return self._gradient(parts), self._to_inputs(*sides[-1]) if inputs else None

    def _contract(
        self, comparison: Comparison, G: Array, symmetric: bool, value: Array | None, features: bool
    ) -> dict[str, Any]:
        """Feed dL/ds to the comparison by tiles; gradients in the variance and the parameters within h come back."""
        value = value if self._slope_is_shape else None
        parts: dict[str, Any] = {"variance": 0.0}
        own = self._comparison.with_self(comparison.F)
        weights, products = Buffer(), Buffer()
        for I, J in lower_tiles(len(G)) if symmetric else tiles(*G.shape):
            S, s = weights(I, J), products(I, J)
            np.copyto(S, G[I, J])
            if symmetric and I != J:
                S += G[J, I].T
            if value is not None:
                S *= value[I, J]
                parts["variance"] += S.sum()
            else:
                comparison.tile(I, J, s)
                if symmetric and I == J:
                    np.fill_diagonal(s, own[I])
                S *= self.variance
                h, slope, inner = self._expand(s)
                parts["variance"] += summed_product(S, h)
                for name, derivative in inner.items():
                    parts[name] = parts.get(name, 0.0) + summed_product(S, derivative)
                S *= slope
            if features:
                comparison.add(I, J, S)
        return parts

    def _pullback_diagonal(self, X: Array, g: Array) -> tuple[Array, Array]:
        X, _ = self._centred(X, None)
        F = self._safe_features(X)
        h, slope, inner = self._expand(self._comparison.with_self(F))
        weights = self.variance * g
        dF = self._comparison.with_self_gradient(F, weights * slope)
        parts: dict[str, Any] = {"variance": weights @ h} | {name: weights @ part for name, part in inner.items()}
        parts |= self._scale_parameters(-np.sum(F * dF, axis=0))
        parts |= self._feature_parameters(X, F, dF)
        return self._gradient(parts), self._to_inputs(X, F, dF)

    def _features_matter(self) -> bool:
        return any(any(p.free) for name, p in self._parameters.items() if name != "variance")

    # -- preparations ------------------------------------------------------------------------------------------------

    def _centred(self, X: Array, Z: Array | None) -> tuple[Array, Array | None]:
        """Inputs about the mean of X, where only differences count: fewer digits cancel, whatever stands in Z."""
        if not self._comparison.shift_invariant:
            return X, Z
        with np.errstate(over="ignore", invalid="ignore"):
            mean = X.sum(axis=0) / max(1, len(X))
            centred = X - mean, None if Z is None else Z - mean
        if not all(np.isfinite(part).all() for part in centred if part is not None):
            raise ValueError("inputs are so large that their mean or their differences overflow. Rescale the inputs.")
        return centred

    def _check_columns(self, X: Array) -> None:
        p = self._parameters["lengthscale"]
        if p.is_vector and len(p.values) != X.shape[1]:
            raise ValueError(
                f"lengthscale has {len(p.values)} values but the inputs have {X.shape[1]} columns; "
                "give one number, or one per column."
            )

    def _safe_features(self, X: Array) -> Array:
        """Features, after making sure that k(x, x), and with it all of k, is finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            F = self._features(X)
            finite = np.isfinite(self._self_values(F)).all()
        if not finite:
            largest = np.abs(X).max(initial=0)
            raise ValueError(f"{self!r} overflows at inputs of {largest:.3g}. Rescale them or raise the lengthscale.")
        return F


def _make_symmetric(s: Array, diagonal: Array) -> None:
    """Give a tile on the diagonal its exact diagonal and symmetry (a matrix product has them only up to rounding)."""
    lower = np.tril(s, -1)
    np.add(lower, lower.T, out=s)
    np.fill_diagonal(s, diagonal)
