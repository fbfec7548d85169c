"""Polynomial kernel: all monomials up to a degree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike

from .base import Array
from .comparisons import Inner
from .pairwise import Pairwise


class Polynomial(Pairwise):
    """k(x, z) = variance * (1 + Σ_d x_d z_d / lengthscale_d²)^degree, degree 1, 2 or 3."""

    _comparison = Inner
    degree: int

    def __init__(
        self,
        degree: int = 2,
        lengthscale: ArrayLike = 1.0,
        variance: float = 1.0,
        *,
        bounds: Mapping[str, Any] | None = None,
    ) -> None:
        if degree not in (1, 2, 3):
            raise ValueError(f"degree must be 1, 2 or 3; got {degree!r}.")
        self.__dict__["degree"] = int(degree)
        super().__init__(bounds, lengthscale=lengthscale, variance=variance)

    def _shape(self, s: Array) -> None:
        s += 1
        if self.degree > 1:
            s *= s * s if self.degree == 3 else s

    def _expand(self, s: Array) -> tuple[Array, Any, dict[str, Array]]:
        base = 1 + s
        power = base ** (self.degree - 1)
        return base * power, self.degree * power, {}
