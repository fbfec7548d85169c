"""Linear kernel, for Bayesian linear models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike

from .arrays import Array, squared_norms
from .leaf import LengthscaleAndVariance
from .pairwise import Pairwise
from .parameters import Parameter
from .similarity import Inner


class Linear(LengthscaleAndVariance, Pairwise):
    """k(x, z) = variance * Σ_d x_d z_d / lengthscale_d².

    A common factor of the lengthscales has the same effect as the variance, so one of them is fixed by default: the
    lengthscale if it is one number, the variance if there is a lengthscale for each column. `free` makes it free.

    Parameters
    ----------
    lengthscale : float or array_like of shape (D,), default=1.0
        One lengthscale, or one for each input column.
    variance : float, default=1.0
        The variance σ_f².
    ard : bool, default=False
        Whether each input column gets its own lengthscale, all starting at the given one. Estimators insert them when the
        number of columns is known (`for_columns`).
    bounds : mapping of str to pairs of float, optional
        Bounds of the parameters, as values.
    """

    _similarity = Inner
    takes_sparse = True

    def __init__(
        self,
        lengthscale: ArrayLike = 1.0,
        variance: float = 1.0,
        *,
        ard: bool = False,
        bounds: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(lengthscale, variance, ard=ard, bounds=bounds)
        if isinstance(lengthscale, Parameter) or isinstance(variance, Parameter):
            return  # a Parameter says what is fixed
        redundant = "variance" if self.ard or self._parameters["lengthscale"].is_vector else "lengthscale"
        self._parameters[redundant] = self._parameters[redundant].marked(None, False)

    def off(self) -> Array | None:
        """Return theta with the variance at its lower bound or, if it is fixed, the lengthscales at their upper bounds."""
        off = super().off()
        return self._at_bound("lengthscale", 1) if off is None else off

    def unit_values(self, X: Any, Z: Any) -> Array:
        """Return k(X, Z) for variance 1 and one lengthscale. X and Z are sparse arrays."""
        return (X @ (X if Z is None else Z).T).toarray() / self.lengthscale**2

    def unit_diagonal(self, X: Any) -> Array:
        """Return the diagonal of k(X) for variance 1 and one lengthscale."""
        return squared_norms(X) / self.lengthscale**2

    def _shape(self, s: Array) -> None:
        pass

    def _expand(self, s: Array) -> tuple[Array, float, dict[str, Array]]:
        return s, 1.0, {}
