"""RBF kernel, also called squared exponential or Gaussian."""

from __future__ import annotations

import numpy as np

from .arrays import Array
from .radial import Radial


class RBF(Radial):
    """k(x, z) = variance * exp(-½ r²), r² = Σ_d (x_d - z_d)² / lengthscale_d².

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

    _slope_is_shape = True

    def _shape(self, s: Array) -> None:
        np.exp(s, out=s)

    def _expand(self, s: Array) -> tuple[Array, Array, dict[str, Array]]:
        h = np.exp(s, out=s)
        return h, h, {}
