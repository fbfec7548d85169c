"""Squared exponential kernel, also called Gaussian."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .base import Array
from .comparisons import Distance
from .pairwise import Pairwise


class RBF(Pairwise):
    """k(x, z) = variance * exp(-½ r²), r² = Σ_d (x_d - z_d)² / lengthscale_d²."""

    _comparison = Distance
    _slope_is_shape = True

    def __init__(
        self, lengthscale: ArrayLike = 1.0, variance: float = 1.0, *, bounds: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(bounds, lengthscale=lengthscale, variance=variance)

    def _shape(self, s: Array) -> None:
        np.exp(s, out=s)

    def _expand(self, s: Array) -> tuple[Array, Array, dict[str, Array]]:
        h = np.exp(s, out=s)
        return h, h, {}
