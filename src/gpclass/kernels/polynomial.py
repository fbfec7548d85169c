"""Polynomial kernel, whose features are all monomials up to a degree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike

from .arrays import Array
from .pairwise import Pairwise
from .similarity import Inner


class Polynomial(Pairwise):
    """k(x, z) = variance * (1 + Σ_d x_d z_d / lengthscale_d²)^degree.

    Parameters
    ----------
    degree : {1, 2, 3}, default=2
        The degree. It is not learned.
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
    degree: int

    def __init__(
        self,
        degree: int = 2,
        lengthscale: ArrayLike = 1.0,
        variance: float = 1.0,
        *,
        ard: bool = False,
        bounds: Mapping[str, Any] | None = None,
    ) -> None:
        if degree not in (1, 2, 3):
            raise ValueError(f"degree must be 1, 2 or 3; got {degree!r}.")
        self.__dict__["degree"] = int(degree)
        super().__init__(bounds, ard, lengthscale=lengthscale, variance=variance)

    def _shape(self, s: Array) -> None:
        s += 1
        if self.degree > 1:
            s *= s * s if self.degree == 3 else s

    def _expand(self, s: Array) -> tuple[Array, Any, dict[str, Array]]:
        base = 1 + s
        power = base ** (self.degree - 1)
        return base * power, self.degree * power, {}
