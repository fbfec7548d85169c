"""Checks of the answers of a likelihood: shapes, finite values, and derivatives against central differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .pieces import Array, close, require

VALUE_TOL = 1e-10  # this quadrature and closed forms are accurate to 1e-13; a margin of three digits for other quadrature
STEP = 1e-4  # step of central differences, in widths of the function: truncation STEP²/6 = 2e-9, rounding eps / STEP
SLOPE_TOL = 1e-7  # 2e-9 times derivatives of order one, with a margin for larger ones


def checked_array(answer: Any, y: Array, what: str) -> Array:
    require(np.shape(answer) == y.shape, f"{what} has shape {np.shape(answer)}, not {y.shape}")
    require(bool(np.isfinite(answer).all()), f"{what} is not finite everywhere")
    return np.asarray(answer)


def checked_triple(answer: Any, y: Array, what: str) -> tuple[Array, Array, Array]:
    require(len(answer) == 3, f"{what} returns {len(answer)} arrays, not three")
    value, slope, curvature = (checked_array(part, y, what) for part in answer)
    return value, slope, curvature


def check_slopes(analytic: Array, function: Callable[[Array], Array], at: Array, width: ArrayLike, what: str) -> None:
    """Check elementwise derivatives of a function that varies on the scale of `width`."""
    h = STEP * np.asarray(width)
    up, down = at + h, at - h
    numeric = (function(up) - function(down)) / (up - down)
    # truncation, and rounding of the values divided by the step
    allowed = SLOPE_TOL * (1 + np.abs(numeric)) + 1e-14 * (1 + np.abs(function(at))) / h
    close(analytic, numeric, allowed, f"{what} against central differences")


def check_theta_slopes(analytic: Any, function: Callable[[Any], Array], likelihood: Any, n: int, what: str) -> None:
    theta = likelihood.theta
    require(np.shape(analytic) == (len(theta), n), f"{what} has shape {np.shape(analytic)}, not {(len(theta), n)}")
    for i, e in enumerate(np.eye(len(theta))):
        up, down = (function(likelihood.with_theta(theta + s * STEP * e)) for s in (1, -1))
        numeric = (up - down) / (2 * STEP)
        allowed = SLOPE_TOL * (1 + np.abs(numeric)) + 1e-14 * np.abs(up) / STEP
        close(analytic[i], numeric, allowed, f"{what} ({likelihood.names[i]}) against central differences")
