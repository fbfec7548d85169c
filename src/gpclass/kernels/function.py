"""Kernels given by a function of two objects of any type: text, graphs, sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .arrays import Array
from .leaf import VarianceOnly

DIAGONAL_BLOCK = 16  # size of the matrices whose diagonals are used, if the function takes many objects at once


class FunctionKernel(VarianceOnly):
    """k(a, b) = variance * function(a, b), for objects of any type.

    The function must be symmetric and positive semidefinite. Estimators evaluate it once for each pair of training objects;
    learning then changes the variance only. It has no derivatives in the inputs, so engines with inducing inputs cannot use
    it. Model files contain no functions, so a model with this kernel cannot be saved; pickle works if the function is
    defined in a module.

    Parameters
    ----------
    function : callable
        function(a, b) returns a number. If `vectorized`, function(A, B) returns an array of shape (len(A), len(B)).
    variance : float, default=1.0
        The factor on the function.
    vectorized : bool, default=False
        Whether the function takes many objects at once: an object array of shape (n,), or the rows of a 2-d array.
    bounds : mapping of str to pairs of float, optional
        Bounds of the parameters, as values.

    Examples
    --------
    >>> kernel = FunctionKernel(lambda a, b: len(set(a) & set(b)) / len(set(a) | set(b)))
    >>> kernel(["abc", "bcd"]).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """

    _takes = "objects"

    def __init__(
        self,
        function: Callable[[Any, Any], Any],
        variance: float = 1.0,
        *,
        vectorized: bool = False,
        bounds: Mapping[str, Any] | None = None,
    ) -> None:
        if not callable(function):
            raise TypeError(f"FunctionKernel takes a function of two objects; got {type(function).__name__}.")
        super().__init__(variance, bounds=bounds)
        self.__dict__.update(function=function, vectorized=bool(vectorized))

    function: Callable[[Any, Any], Any]
    vectorized: bool

    def seen(self, X: Any) -> Array:
        return np.zeros((len(X), 1))  # objects have no distances

    def unit_values(self, X: Any, Z: Any) -> Array:
        """Return the values of the function (n, m); symmetric (n, n) if Z is None."""
        if self.vectorized:
            return self._checked_values(self.function(X, X if Z is None else Z), (len(X), len(X if Z is None else Z)))
        if Z is not None:
            return self._checked_values([[self.function(a, b) for b in Z] for a in X], (len(X), len(Z)))
        K = np.empty((len(X), len(X)))
        for i, a in enumerate(X):
            K[i, : i + 1] = K[: i + 1, i] = [self._number(a, b) for b in X[: i + 1]]
        return self._checked_values(K, K.shape)

    def unit_diagonal(self, X: Any) -> Array:
        """Return function(a, a) for each object, (n,)."""
        if not self.vectorized:
            return self._checked_values([self.function(a, a) for a in X], (len(X),))
        blocks = [X[i : i + DIAGONAL_BLOCK] for i in range(0, len(X), DIAGONAL_BLOCK)]
        squares = [self._checked_values(self.function(some, some), (len(some), len(some))) for some in blocks]
        return np.concatenate([np.diag(square) for square in squares]) if squares else np.zeros(0)

    def _number(self, a: Any, b: Any) -> float:
        return float(self._checked_values(self.function(a, b), ()))

    def _checked_values(self, values: Any, shape: tuple[int, ...]) -> Array:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        try:
            array = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name} must return numbers; it returned {type(values).__name__}.") from error
        if array.shape != shape:
            one = "for each pair of objects" if not self.vectorized else f"of shape {shape}"
            raise ValueError(f"{name} must return one number {one}; its values have shape {array.shape}.")
        if not np.isfinite(array).all():
            raise ValueError(f"{name} returned values that are not finite.")
        return array

    def _matrix(self, X: Any, Z: Any) -> Array:
        K = self.unit_values(X, Z)
        return self.variance * (K if Z is not None else 0.5 * (K + K.T))

    def _diagonal(self, X: Any) -> Array:
        return self.variance * self.unit_diagonal(X)

    def _pullback(self, X: Any, Z: Any, G: Array, inputs: bool, value: Array | None) -> tuple[Array, Array | None]:
        if inputs:
            raise TypeError("FunctionKernel has no derivatives in the inputs, so inducing inputs cannot be learned.")
        return self._variance_gradient(X, Z, G, value), None

    def __hash__(self) -> int:
        return hash((super().__hash__(), self.vectorized, self.function))

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", repr(self.function))
        return f"FunctionKernel({name}, variance={self._parameters['variance']})"
