"""Checks of the quadratic bounds of a likelihood: below log p(y | f), tight at a point, with their best point and slopes."""

from __future__ import annotations

from typing import Any

import numpy as np

from .answers import check_slopes, checked_array, checked_triple
from .integrals import expectation, expected_bound
from .pieces import Array, log_prob, require

GAP_TOL = 1e-9  # bound against log_prob, both of order 10..1000: rounding of their difference is 1e-13


def check_bound(likelihood: Any, y: Array, mean: Array, var: Array) -> None:
    if not likelihood.offers("bound"):
        return
    f = np.linspace(-30, 30, 6001)
    fine = np.linspace(-0.01, 0.01, 2001)  # steps of 1e-5: the gap of a parabola near its minimum is then below 1e-10
    for touch in (-7.0, -1.0, -1e-6, 0.0, 1e-6, 0.3, 4.0):
        constant, nu, tau = checked_triple(likelihood.bound(y, np.full_like(y, touch)), y, f"bound at touch {touch}")

        def gap(x, constant=constant, nu=nu, tau=tau):
            quadratic = constant[:, None] + nu[:, None] * x - 0.5 * tau[:, None] * x**2
            return log_prob(likelihood, y[:, None], x) - quadratic

        everywhere = gap(f[None, :])
        lowest = everywhere.min()
        require(bool(lowest > -GAP_TOL), f"bound at touch {touch} exceeds log_prob by {-lowest:.3g}")
        lowest_at = f[everywhere.argmin(axis=1)]
        nearest = gap(lowest_at[:, None] + fine).min(axis=1)
        require(bool(nearest.max() < GAP_TOL), f"bound at touch {touch} is nowhere tight: smallest gap {nearest.max():.3g}")
    if likelihood.offers("bound_point"):
        point = checked_array(likelihood.bound_point(y, mean, var), y, "bound_point")
        best = expected_bound(likelihood, y, point, mean, var)
        ceiling = expectation(lambda f: log_prob(likelihood, y[:, None], f), mean, var)
        require(bool(np.all(best < ceiling + GAP_TOL)), "expected bound exceeds the expected log_prob")
        for touch in np.linspace(-20, 20, 401):
            other = expected_bound(likelihood, y, np.full_like(y, touch), mean, var)
            gain = (other - best).max()
            require(bool(gain < GAP_TOL), f"touch {touch:.3g} beats bound_point: expected bound higher by {gain:.3g}")
    if likelihood.offers("bound_curvature"):

        def slope(m):  # of the best expected bound; the best touch changes with the mean, but has no first-order effect
            _, nu, tau = likelihood.bound(y, likelihood.bound_point(y, m, var))
            return nu - tau * m

        curvature = checked_array(likelihood.bound_curvature(y, mean, var), y, "bound_curvature")
        check_slopes(curvature, slope, mean, np.minimum(1.0, np.sqrt(var)), "bound_curvature")
    if likelihood.offers("bound_slopes"):
        check_bound_slopes(likelihood, y, mean, var)


def best_bound(likelihood: Any, y: Array, mean: Array, var: Array) -> tuple[Array, Array]:
    """Return ν and τ of the best bound under N(mean, var)."""
    _, nu, tau = likelihood.bound(y, likelihood.bound_point(y, mean, var))
    return nu, tau


def check_bound_slopes(likelihood: Any, y: Array, mean: Array, var: Array) -> None:
    moves, width = likelihood.bound_slopes(y, mean, var), np.minimum(1.0, np.sqrt(var))
    for i, (name, part) in enumerate((("ν", moves.nu), ("τ", moves.tau))):
        what = f"bound_slopes of {name} in"
        check_slopes(part * moves.in_mean, lambda m: best_bound(likelihood, y, m, var)[i], mean, width, f"{what} mean")  # noqa: B023
        check_slopes(part * moves.in_var, lambda v: best_bound(likelihood, y, mean, v)[i], var, width**2, f"{what} var")  # noqa: B023
