"""Kernels of the form variance * h(s), where s is an inner product or -½ squared distance of features of x and z.

A subclass supplies h, its slope, and the features if they are not x / lengthscale. `Pairwise` evaluates whole matrices,
cross covariances, columns and pullbacks, all by one loop over tiles (tiles.py) of similarities (similarity.py).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from .arrays import Array
from .base import Evaluator
from .leaf import WithLengthscale
from .similarity import Similarity, WeightSums
from .tiles import TileBuffer, is_narrow, lower_tiles, summed_product, tiles


class Pairwise(WithLengthscale):
    """A kernel variance * h(s)."""

    _similarity: ClassVar[type[Similarity]]
    _slope_is_shape: ClassVar[bool] = False  # whether h' = h; a given value then replaces s and h
    _has_feature_parameters: ClassVar[bool] = False  # whether `_feature_parameters` is overridden

    # -- what a subclass supplies --------------------------------------------------------------------------------------

    @abstractmethod
    def _shape(self, s: Array) -> None:
        """Replace s by h(s), in place."""

    @abstractmethod
    def _expand(self, s: Array) -> tuple[Array, Any, dict[str, Array]]:
        """Return h(s), h'(s), and dh/dlog of the parameters within h, by name. May overwrite s."""

    def _features(self, X: Array) -> Array:
        """Return the features (n, q) of X (n, D)."""
        self._check_columns(X)
        return X / self.lengthscale

    def _feature_parameters(self, X: Array, F: Array, dF: Array) -> dict[str, Any]:
        """Return derivatives in the parameters of the features, other than a common lengthscale, from dL/dF."""
        return {}

    def _scale_parameters(self, scale_gradient: Array) -> dict[str, Any]:
        """Return derivatives in parameters from those in the logs of lengthscales of each feature."""
        return {"lengthscale": scale_gradient}

    def _to_inputs(self, X: Array, F: Array, dF: Array) -> Array:
        """Return dL/dX from dL/dF."""
        return dF / self.lengthscale

    @property
    def lengthscale_of_distance(self) -> bool:
        return self._similarity.shift_invariant

    # -- values --------------------------------------------------------------------------------------------------------

    def _matrix(self, X: Array, Z: Array | None) -> Array:
        _, _, similarity = self._compared(X, Z)
        return self._symmetric(similarity) if Z is None else self._rectangular(similarity)

    def _symmetric(self, similarity: Similarity) -> Array:
        """Return k for H = F. Tiles of the lower triangle are computed and mirrored."""
        variance, buffer, own = self.variance, TileBuffer(), similarity.with_self(similarity.F)
        K = np.empty(similarity.shape)
        for I, J in lower_tiles(len(K)):
            s = buffer(I, J)
            similarity.tile(I, J, s)
            if I == J:
                _make_symmetric(s, own[I])
            self._shape(s)
            s *= variance
            K[I, J] = s
            if I != J:
                K[J, I] = s.T
        return K

    def _rectangular(self, similarity: Similarity) -> Array:
        """Return k for any H. For a narrow matrix the product is computed at once, in place, and only the rest by tiles."""
        variance, buffer = self.variance, TileBuffer()
        K = np.empty(similarity.shape)
        narrow = is_narrow(*K.shape)
        if narrow:
            similarity.product(slice(0, K.shape[0]), slice(0, K.shape[1]), K)
        for I, J in tiles(*K.shape):
            s = K[I, J] if narrow else buffer(I, J)
            if not narrow:
                similarity.product(I, J, s)
            similarity.finish(I, J, s)
            self._shape(s)
            np.multiply(s, variance, out=K[I, J])
        return K

    def _evaluator(self, X: Array) -> Evaluator:
        """Compute the features once. Then a column costs a matrix-vector product and n evaluations of h."""
        centre = self._centre(X)
        F = self._safe_features(_shifted(X, centre))
        similarity = self._similarity(np.empty((0, F.shape[1])), F, by_rows=True)

        def evaluate(Z, rows):
            return self._rectangular(similarity.select(self._safe_features(_shifted(Z, centre)), rows))

        return evaluate

    def _diagonal(self, X: Array) -> Array:
        if self._similarity.shift_invariant:  # s is zero for all points
            self._check_columns(X)
            return self._self_values(X)
        return self._self_values(self._safe_features(X))

    def _self_values(self, F: Array) -> Array:
        s = self._similarity.with_self(F)
        self._shape(s)
        return self.variance * s

    # -- derivatives ---------------------------------------------------------------------------------------------------

    def _pullback(
        self, X: Array, Z: Array | None, G: Array, inputs: bool, value: Array | None
    ) -> tuple[Array, Array | None]:
        X, Z, similarity = self._compared(X, Z)
        # dL/dF is needed for parameters of the features, and for dL/dX if X is on both sides
        weights = WeightSums(similarity, self._has_feature_parameters or (inputs and Z is None))
        free = inputs or any(any(p.free) for name, p in self._parameters.items() if name != "variance")
        slopes = self._contract(similarity, weights, G, Z is None, value, free)
        slopes |= self._scale_parameters(similarity.scale_gradient(weights))
        if not (inputs or self._has_feature_parameters):
            return self._gradient(slopes), None
        F, H = similarity.F, similarity.H
        sides = [(X if Z is None else Z, H, similarity.feature_gradient(H, weights.MtF, weights.column_sums))]
        if weights.MH is not None:
            sides.append((X, F, similarity.feature_gradient(F, weights.MH, weights.row_sums)))
        for side in sides if self._has_feature_parameters else ():
            for name, part in self._feature_parameters(*side).items():
                slopes[name] = slopes.get(name, 0.0) + part
        dinputs = self._to_inputs(*sides[0]) if inputs else None
        if dinputs is not None and Z is None:
            dinputs += self._to_inputs(*sides[1])
        return self._gradient(slopes), dinputs

    def _contract(
        self, similarity: Similarity, weights: WeightSums, G: Array, symmetric: bool, value: Array | None, features: bool
    ) -> dict[str, Any]:
        """Add dL/ds to `weights` by tiles; return the derivatives in the variance and in the parameters within h."""
        value = value if self._slope_is_shape else None
        slopes: dict[str, Any] = {"variance": 0.0}
        own = similarity.with_self(similarity.F)
        weight_buffer, buffer = TileBuffer(), TileBuffer()
        for I, J in lower_tiles(len(G)) if symmetric else tiles(*G.shape):
            M = weight_buffer(I, J)
            given = np.add(G[I, J], G[J, I].T, out=M) if symmetric and I != J else G[I, J]
            if value is not None:
                np.multiply(given, value[I, J], out=M)
                slopes["variance"] += M.sum()
            else:
                s = buffer(I, J)
                similarity.tile(I, J, s)
                if symmetric and I == J:
                    np.fill_diagonal(s, own[I])
                np.multiply(given, self.variance, out=M)
                h, slope, inner = self._expand(s)
                slopes["variance"] += summed_product(M, h)
                for name, derivative in inner.items():
                    slopes[name] = slopes.get(name, 0.0) + summed_product(M, derivative)
                M *= slope
            if features:
                weights.add(I, J, M)
        return slopes

    def _pullback_diagonal(self, X: Array, g: Array) -> tuple[Array, Array]:
        F = self._safe_features(X)
        h, slope, inner = self._expand(self._similarity.with_self(F))
        weights = self.variance * g
        dF = self._similarity.with_self_gradient(F, weights * slope)
        slopes: dict[str, Any] = {"variance": weights @ h} | {name: weights @ part for name, part in inner.items()}
        slopes |= self._scale_parameters(-np.sum(F * dF, axis=0))
        slopes |= self._feature_parameters(X, F, dF)
        return self._gradient(slopes), self._to_inputs(X, F, dF)

    # -- features ------------------------------------------------------------------------------------------------------

    def _compared(self, X: Array, Z: Array | None) -> tuple[Array, Array | None, Similarity]:
        """Return X and Z, centred if only differences matter, and the similarities of their features.

        Small numbers lose fewer digits. The mean does not include the rows of Z, so the covariances of a test point do not
        depend on other test points.
        """
        centre = self._centre(X)
        X, Z = _shifted(X, centre), None if Z is None else _shifted(Z, centre)
        F = self._safe_features(X)
        return X, Z, self._similarity(F, F if Z is None else self._safe_features(Z))

    def _centre(self, X: Array) -> Array | None:
        """Return the mean of X if only differences matter, else None."""
        if not self._similarity.shift_invariant:
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            return X.sum(axis=0) / max(1, len(X))

    def _safe_features(self, X: Array) -> Array:
        """Return the features, or raise ValueError if k(x, x) is not finite. If it is, all of k is finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            F = self._features(X)
            finite = np.isfinite(self._self_values(F)).all()
        if not finite:
            largest = np.abs(X).max(initial=0)
            raise ValueError(f"{self!r} overflows at inputs of {largest:.3g}. Rescale them or raise the lengthscale.")
        return F


def _shifted(X: Array, centre: Array | None) -> Array:
    """Return X minus the centre, if there is one."""
    if centre is None:
        return X
    with np.errstate(over="ignore", invalid="ignore"):
        shifted = X - centre
    if not np.isfinite(shifted).all():
        raise ValueError("inputs are so large that their mean or their differences overflow. Rescale the inputs.")
    return shifted


def _make_symmetric(s: Array, diagonal: Array) -> None:
    """Make a tile on the diagonal exactly symmetric, with an exact diagonal. A matrix product rounds both."""
    lower = np.tril(s, -1)
    np.add(lower, lower.T, out=s)
    np.fill_diagonal(s, diagonal)
