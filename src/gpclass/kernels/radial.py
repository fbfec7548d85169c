"""Kernels of a distance whose parameters are lengthscale and variance: RBF (also called squared exponential), Matérn.

Samples of Matérn kernels with smoothness 3/2 and 5/2 are once and twice differentiable.
"""

from __future__ import annotations

import numpy as np

from .arrays import Array
from .leaf import LengthscaleAndVariance
from .pairwise import Pairwise
from .similarity import Distance


class Radial(LengthscaleAndVariance, Pairwise):
    """A kernel variance * h(r), r² = Σ_d (x_d - z_d)² / lengthscale_d², without other parameters."""

    _similarity = Distance


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


class Matern32(Radial):
    """k(x, z) = variance * (1 + a) exp(-a), a = √3 r, r² = Σ_d (x_d - z_d)² / lengthscale_d².

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

    def _shape(self, s: Array) -> None:
        a = _root(s, 6)
        np.exp(-a, out=s)
        a += 1
        s *= a

    def _expand(self, s: Array) -> tuple[Array, Array, dict[str, Array]]:
        a = _root(s, 6)
        decay = np.exp(-a)
        return (1 + a) * decay, 3 * decay, {}  # dh/dr² = -(3/2) exp(-a), and s = -½ r²


class Matern52(Radial):
    """k(x, z) = variance * (1 + a + a²/3) exp(-a), a = √5 r, r² = Σ_d (x_d - z_d)² / lengthscale_d².

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

    def _shape(self, s: Array) -> None:
        a = _root(s, 10)
        np.exp(-a, out=s)
        polynomial = a / 3
        polynomial += 1
        polynomial *= a
        polynomial += 1
        s *= polynomial

    def _expand(self, s: Array) -> tuple[Array, Array, dict[str, Array]]:
        a = _root(s, 10)
        decay = np.exp(-a)
        slope = (1 + a) * decay
        return slope + a * a * decay / 3, (5 / 3) * slope, {}  # dh/dr² = -(5/6) (1 + a) exp(-a)


def _root(s: Array, factor: float) -> Array:
    """Return √(-factor s). Since s = -½ r², the factor is 4ν for smoothness ν."""
    a = s * -factor
    return np.sqrt(a, out=a)
