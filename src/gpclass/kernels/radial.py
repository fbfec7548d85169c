"""Kernels of a distance whose parameters are lengthscale and variance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike

from .pairwise import Pairwise
from .similarity import Distance


class Radial(Pairwise):
    """A kernel variance * h(r), r² = Σ_d (x_d - z_d)² / lengthscale_d², without other parameters."""

    _similarity = Distance

    def __init__(
        self,
        lengthscale: ArrayLike = 1.0,
        variance: float = 1.0,
        *,
        ard: bool = False,
        bounds: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(bounds, ard, lengthscale=lengthscale, variance=variance)
