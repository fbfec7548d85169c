"""Periodic kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .arrays import Array
from .pairwise import Pairwise
from .parameters import Positive
from .similarity import Distance


class Periodic(Pairwise):
    """k(x, z) = variance * exp(-2 Σ_d sin²(π (x_d - z_d) / period) / lengthscale_d²).

    It is an RBF kernel on a circle: with φ = 2π x / period, (cos φ - cos φ')² + (sin φ - sin φ')² = 4 sin²((φ - φ') / 2).

    Parameters
    ----------
    lengthscale : float or array_like of shape (D,), default=1.0
        One lengthscale, or one for each input column.
    period : float, default=1.0
        The period of all input columns.
    variance : float, default=1.0
        The variance σ_f².
    ard : bool, default=False
        Whether each input column gets its own lengthscale, all starting at the given one. Estimators insert them when the
        number of columns is known (`for_columns`).
    bounds : mapping of str to pairs of float, optional
        Bounds of the parameters, as values.
    """

    _similarity = Distance
    _slope_is_shape = True
    _has_feature_parameters = True
    lengthscale_has_units = False  # the period has them
    compressible = False  # the period would grow with the distance from the centre
    period = Positive()

    def __init__(
        self,
        lengthscale: ArrayLike = 1.0,
        period: float = 1.0,
        variance: float = 1.0,
        *,
        ard: bool = False,
        bounds: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(bounds, ard, lengthscale=lengthscale, period=period, variance=variance)

    def _shape(self, s: Array) -> None:
        np.exp(s, out=s)

    def _expand(self, s: Array) -> tuple[Array, Array, dict[str, Array]]:
        h = np.exp(s, out=s)
        return h, h, {}

    def _features(self, X: Array) -> Array:
        self._check_columns(X)
        phase = 2 * np.pi * (np.fmod(X, self.period) / self.period)  # fmod is exact, even after many periods
        return np.hstack([np.cos(phase) / self.lengthscale, np.sin(phase) / self.lengthscale])

    def _scale_parameters(self, scale_gradient: Array) -> dict[str, Any]:
        cosines, sines = np.split(scale_gradient, 2)
        return {"lengthscale": cosines + sines}

    def _feature_parameters(self, X: Array, F: Array, dF: Array) -> dict[str, Any]:
        return {"period": -np.sum(X * self._to_inputs(X, F, dF))}  # φ depends on x / period only, so d/dlog period = -x d/dx

    def _to_inputs(self, X: Array, F: Array, dF: Array) -> Array:
        (cosines, sines), (dcosines, dsines) = np.hsplit(F, 2), np.hsplit(dF, 2)
        return 2 * np.pi / self.period * (dsines * cosines - dcosines * sines)
