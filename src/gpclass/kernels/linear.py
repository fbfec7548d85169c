"""Linear kernel: Bayesian linear models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike

from .base import Array
from .comparisons import Inner
from .pairwise import Pairwise


class Linear(Pairwise):
    """k(x, z) = variance * Σ_d x_d z_d / lengthscale_d².

    A common factor of the lengthscales and the variance do the same, so one of them starts out fixed: the lengthscale
    if it is one number, the variance if there is a lengthscale per column. `free` releases it.
    """

    _comparison = Inner

    def __init__(
        self, lengthscale: ArrayLike = 1.0, variance: float = 1.0, *, bounds: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(bounds, lengthscale=lengthscale, variance=variance)
        redundant = "variance" if self._parameters["lengthscale"].is_vector else "lengthscale"
        self._parameters[redundant] = self._parameters[redundant].marked(None, False)

    def off(self) -> Array | None:
        off = super().off()
        return self._at_bound("lengthscale", 1) if off is None else off

    def _shape(self, s: Array) -> None:
        pass

    def _expand(self, s: Array) -> tuple[Array, float, dict[str, Array]]:
        return s, 1.0, {}
