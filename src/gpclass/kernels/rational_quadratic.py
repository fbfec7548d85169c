"""Rational quadratic kernel: a mixture of RBF kernels with different lengthscales."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .arrays import Array
from .pairwise import Pairwise
from .parameters import Positive
from .similarity import Distance


class RationalQuadratic(Pairwise):
    """k(x, z) = variance * (1 + r² / (2 alpha))^-alpha, r² = Σ_d (x_d - z_d)² / lengthscale_d².

    Parameters
    ----------
    lengthscale : float or array_like of shape (D,), default=1.0
        One lengthscale, or one for each input column.
    variance : float, default=1.0
        The variance σ_f².
    alpha : float, default=1.0
        The weight of long distances. As alpha grows, the kernel approaches RBF.
    ard : bool, default=False
        Whether each input column gets its own lengthscale, all starting at the given one. Estimators insert them when the
        number of columns is known (`for_columns`).
    bounds : mapping of str to pairs of float, optional
        Bounds of the parameters, as values.
    """

    _similarity = Distance
    alpha = Positive()

    def __init__(
        self,
        lengthscale: ArrayLike = 1.0,
        variance: float = 1.0,
        alpha: float = 1.0,
        *,
        ard: bool = False,
        bounds: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(bounds, ard, lengthscale=lengthscale, variance=variance, alpha=alpha)

    def _shape(self, s: Array) -> None:
        s /= -self.alpha
        np.log1p(s, out=s)
        s *= -self.alpha
        np.exp(s, out=s)

    def _expand(self, s: Array) -> tuple[Array, Array, dict[str, Array]]:
        u = s / -self.alpha
        log_base = np.log1p(u)
        h = np.exp(-self.alpha * log_base)
        slope = h / (1 + u)
        return h, slope, {"alpha": self.alpha * (u * slope - h * log_base)}
