"""A kernel on standardised inputs: k(x, z) = kernel(u(x), u(z)), u(x) = (x - centre) / spread with outliers compressed.

Everywhere else inputs keep their own units: inducing inputs, streams, predictions and model files.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, isfinite
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..numerics.columns import compressed
from .arrays import Array
from .base import Evaluator, Kernel, MatrixKernel, Part


class Standardized(MatrixKernel):
    """A kernel that measures each input column from its centre, in units of its spread.

    theta, names and bounds are those of the wrapped kernel. Lengthscales are in units of the spreads: 2.0 means two
    spreads of the column. Estimators wrap the default kernel and kernels given as text.

    Parameters
    ----------
    kernel : Kernel
        The kernel on the standardised inputs. Its values are matrices.
    centre : array_like of shape (D,)
        The centre of each input column.
    spread : array_like of shape (D,)
        The spread of each input column, positive.
    tail : float, default=inf
        The distance from the centre, in spreads, beyond which values are compressed: u becomes
        ±tail (1 + log(|u| / tail)), whose slope is continuous. Then a few outliers do not dominate the distances between
        rows. By default nothing is compressed.
    """

    kernel: MatrixKernel
    centre: Array  # (D,) read-only
    spread: Array  # (D,) read-only
    tail: float

    def __init__(self, kernel: Kernel, centre: ArrayLike, spread: ArrayLike, tail: float = inf) -> None:
        if not isinstance(kernel, MatrixKernel):
            name = type(kernel).__name__
            raise TypeError(f"Standardized takes a kernel whose values are matrices; put it inside {name} instead.")
        if kernel.takes not in ("numbers", "any"):
            raise TypeError(f"{kernel!r} takes {kernel.takes}, which cannot be standardised.")
        centre, spread = _vector(centre, "centre"), _vector(spread, "spread")
        if centre.shape != spread.shape:
            raise ValueError(f"centre has {len(centre)} values but spread has {len(spread)}; both need one per column.")
        if not (spread > 0).all():
            raise ValueError(f"spread must be positive; got {spread}.")
        if not tail > 0:
            raise ValueError(f"tail must be positive; got {tail}.")
        self.__dict__.update(kernel=kernel, centre=centre, spread=spread, tail=float(tail))

    def _around(self, kernel: Kernel) -> Standardized:
        """Return another kernel in the same units."""
        new = object.__new__(Standardized)  # the units have been checked
        new.__dict__.update(self.__dict__, kernel=kernel)
        return new

    # -- values and derivatives ----------------------------------------------------------------------------------------

    def seen(self, X: Array) -> Array:
        return self.kernel.seen(self._scaled(X))

    @property
    def own_units(self) -> bool:
        return True

    @property
    def common_units(self) -> bool:
        return len(self.spread) > 1 and bool(np.all(self.spread == self.spread[0]))

    def _scaled(self, X: Array) -> Array:
        if X.shape[1] != len(self.centre):
            raise ValueError(f"the kernel is for inputs with {len(self.centre)} columns; got {X.shape[1]}.")
        with np.errstate(over="ignore"):
            scaled = X - self.centre  # before the division, to be accurate also far from zero
            scaled /= self.spread
        # the sum of squares is faster to check, but can overflow although all entries are finite
        if not isfinite(np.vdot(scaled, scaled)) and not np.isfinite(scaled).all():
            raise ValueError(f"inputs of {np.abs(X).max():.3g} overflow in units of the columns' spreads.")
        return compressed(scaled, self.tail)

    def _slope(self, X: Array) -> Array:
        """Return the derivatives of the standardised inputs in X: 1 / spread, times tail / |u| beyond the tail."""
        if self.tail == inf:
            return 1.0 / self.spread
        distance = np.abs((X - self.centre) / self.spread)
        return self.tail / np.maximum(distance, self.tail) / self.spread

    def _matrix(self, X: Array, Z: Array | None) -> Array:
        return self.kernel._matrix(self._scaled(X), None if Z is None else self._scaled(Z))

    def _diagonal(self, X: Array) -> Array:
        return self.kernel._diagonal(self._scaled(X))

    def _pullback(
        self, X: Array, Z: Array | None, G: Array, inputs: bool, value: Array | None
    ) -> tuple[Array, Array | None]:
        others = None if Z is None else self._scaled(Z)
        dtheta, dinputs = self.kernel._pullback(self._scaled(X), others, G, inputs, value)
        return dtheta, None if dinputs is None else dinputs * self._slope(X if Z is None else Z)

    def _pullback_diagonal(self, X: Array, g: Array) -> tuple[Array, Array]:
        dtheta, dX = self.kernel._pullback_diagonal(self._scaled(X), g)
        return dtheta, dX * self._slope(X)

    def _evaluator(self, X: Array) -> Evaluator:
        evaluate = self.kernel._evaluator(self._scaled(X))
        return lambda Z, rows: evaluate(self._scaled(Z), rows)

    # -- parameters ----------------------------------------------------------------------------------------------------

    @property
    def theta(self) -> Array:
        return self.kernel.theta

    @property
    def names(self) -> list[str]:
        return self.kernel.names

    @property
    def bounds(self) -> Array:
        return self.kernel.bounds

    def with_theta(self, theta: ArrayLike) -> Standardized:
        return self._around(self.kernel.with_theta(theta))

    def fix(self, *names: str) -> Standardized:
        return self._around(self.kernel.fix(*names))

    def free(self, *names: str) -> Standardized:
        return self._around(self.kernel.free(*names))

    def _all_names(self) -> list[str]:
        return self.kernel._all_names()

    def settings(self) -> dict[str, Any]:
        return self.kernel.settings()

    def with_settings(self, **settings: Any) -> Standardized:
        return self._around(self.kernel.with_settings(**settings))

    def for_columns(self, n_columns: int) -> Standardized:
        return self._around(self.kernel.for_columns(n_columns))

    # -- structure -----------------------------------------------------------------------------------------------------

    @property
    def lengthscale(self) -> Any:
        """The lengthscale of the wrapped kernel, in units of the spreads."""
        return self.kernel.lengthscale

    @property
    def leaves(self) -> tuple[Kernel, ...]:
        """The kernels that the wrapped kernel combines. Their inputs are standardised."""
        return self.kernel.leaves

    def _with_leaves(self, leaves: Iterator[Kernel]) -> Kernel:
        return self._around(self.kernel._with_leaves(leaves))

    def parts(self) -> list[Part]:
        return [part._replace(kernel=self._around(part.kernel)) for part in self.kernel.parts()]

    def off(self) -> Array | None:
        return self.kernel.off()

    # -- identity ------------------------------------------------------------------------------------------------------

    def _identity(self) -> tuple[Any, ...]:
        return self.kernel, self.centre.tobytes(), self.spread.tobytes(), self.tail

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Standardized) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash((Standardized, self._identity()))

    def __repr__(self) -> str:
        return f"Standardized({self.kernel!r})"


def _vector(values: ArrayLike, name: str) -> Array:
    array = np.array(values, dtype=np.float64) + 0.0  # -0.0 becomes 0.0, so that equal kernels have equal bytes
    if array.ndim != 1 or not len(array) or not np.isfinite(array).all():
        raise ValueError(f"{name} must be a vector of finite numbers, one for each input column; got {values!r}.")
    array.flags.writeable = False
    return array
