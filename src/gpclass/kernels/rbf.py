"""RBF kernel, also called squared exponential or Gaussian."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .arrays import Array
from .pairwise import Pairwise
from .similarity import Distance


class RBF(Pairwise):
    """k(x, z) = variance * exp(-½ r²), r² = Σ_d (x_d - z_d)² / lengthscale_d².

    Parameters
    ----------
    lengthscale : float or array_like of shape (D,), default=1.0
        One lengthscale, or one for each input column.
    variance : float, default=1.0
        The variance σ_f².
    ard : bool, default=False
        True makes one lengthscale per input column of the given one, as soon as an estimator knows the number of columns.
    bounds : mapping of str to pairs of float, optional
        Bounds of the parameters, as values.
    """

    _similarity = Distance
    _slope_is_shape = True

    def __init__(
        self,
        lengthscale: ArrayLike = 1.0,
        variance: float = 1.0,
        *,
        ard: bool = False,
        bounds: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(bounds, ard, lengthscale=lengthscale, variance=variance)

    def _shape(self, s: Array) -> None:
        np.exp(s, out=s)

    def _expand(self, s: Array) -> tuple[Array, Array, dict[str, Array]]:
        h = np.exp(s, out=s)
        return h, h, {}
