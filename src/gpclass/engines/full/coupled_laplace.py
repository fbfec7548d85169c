"""Laplace's approximation for softmax: the mode of C coupled latent functions, by Newton's method.

The Hessian of log softmax is -(diag(p) - p pᵀ), a site of the coupled structure with π = p. As for two classes, each
factorisation is reused for several steps. The curvature is updated when the steps become slow.

[RW] Rasmussen & Williams 2006, section 3.5.   [RJV] Riihimäki, Jylänki & Vehtari 2013, section 4.1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ...gaussian import CoupledPosterior, CoupledSystem, matrix_cavity, precisions, too_large
from ..climb import uphill
from ..fit import Fit
from ..iterate import Status, ending
from ..observations import Data

SETTLE_STEPS = 8  # Newton steps per factorisation
SLOW_STEP = 0.5  # a step that leaves more than this fraction of the gap triggers new curvature


def coupled_mode(engine: Any, K: np.ndarray, data: Data, likelihood: Any, start: Any) -> Fit:
    """Fit with the mode and the Gaussian approximation there."""
    path, count = ModeClimb(K, data, start), data.at_places(np.ones((len(data.y), 1)))

    def curvature(f):  # does not depend on the label: the weight of the place counts
        return count * likelihood.curvature_weights(f)

    system, gap, sweep = path.climb(engine, curvature)
    pi = curvature(path.f)
    moved = np.max(np.abs(pi - system.pi) * system.prior_var, initial=0.0)
    if moved > engine.tol:  # the last steps were small but not negligible
        system, sweep = CoupledSystem(K, pi), sweep + 1
    nu = path.slope + system.times_Pi(path.f)
    q = CoupledPosterior(K, pi, nu, system, (path.alpha, path.f))
    status = path.ending(q, sweep, gap, engine.tol)
    return Fit(engine, q, data.given, likelihood, status, path.value - 0.5 * q.log_det)  # [RW] (3.44)


class ModeClimb:
    """Newton iteration for f = Kα towards the mode of log p(y | f) - ½ αᵀf."""

    def __init__(self, K, data: Data, start):
        self.K, self.data = K, data
        shape = (data.n, data.likelihood.n_latents)
        earlier = getattr(start, "alpha", None)
        if start is not None and (earlier is None or np.shape(earlier) != shape):
            raise ValueError(f"start must be an earlier fit to {shape[0]} points of {shape[1]} classes")
        self.alpha = np.zeros(shape) if earlier is None else earlier
        self.f: np.ndarray = np.zeros(shape)
        self.value, self.slope = -np.inf, np.zeros(shape)
        self.stuck = False  # whether a step with new curvature failed

    def climb(self, engine: Any, curvature: Callable) -> tuple[CoupledSystem, float, int]:
        """Take Newton steps until the gradient is zero or no step succeeds; return the last system, the gap and the sweeps.

        Parameters
        ----------
        engine : object
            Has `tol` and `max_iter`.
        curvature : callable
            Maps latent values (n, C) to the π (n, C) of the precisions that the Newton steps use.
        """
        kernels = np.broadcast_to(self.K, (self.alpha.shape[1], *self.K.shape[-2:]))
        self._accept(self._look(self.alpha, np.stack([k @ self.alpha[:, c] for c, k in enumerate(kernels)], axis=1)))
        gap, sweep = np.inf, 0
        while sweep < engine.max_iter and gap >= engine.tol and not self.stuck:
            sweep += 1
            system = CoupledSystem(self.K, curvature(self.f))
            gap = self.settle(system, engine.tol)
        return system, gap, sweep

    def _look(self, alpha, f):
        """Return (α, f), the objective there, and the slope of log p(y | f)."""
        log_p, slope = self.data.likelihood.log_prob_slope(self.data.y, self.data.places.spread(f))
        return alpha, f, self.data.total(log_p) - 0.5 * float(np.sum(alpha * f)), self.data.at_places(slope)

    def _accept(self, found):
        self.alpha, self.f, self.value, self.slope = found

    def settle(self, system: CoupledSystem, tol: float) -> float:
        """Take Newton steps with fixed curvature while they are fast; return the distance left, in standard deviations."""
        # accumulated steps carry the rounding of the largest one: recompute f, which must equal Kα since predictions use α
        self._accept(self._look(self.alpha, system.times_K(self.alpha)))
        before = np.inf
        for _ in range(SETTLE_STEPS):
            missing = self.slope - self.alpha  # the gradient in f
            d_alpha, d_f = system.solve(missing)
            along = float(np.sum(missing * d_f))
            # negative only by rounding, whose size it then shows; zero if K is singular (equal rows) and α can move without
            # f: so each datum's own move counts too
            gap = max(np.sqrt(abs(along)), system.largest_move(missing))
            if gap < tol or gap > SLOW_STEP * before:
                break
            moved = self._step(d_alpha, d_f, along, tol)
            self.stuck = not moved and before == np.inf
            if not moved:
                break
            before = gap
        return gap

    def _step(self, d_alpha, d_f, along, tol) -> bool:
        """Take a step that leads uphill, shortened while it overshoots; return False if there is none."""

        def look(length):
            found = self._look(self.alpha + length * d_alpha, self.f + length * d_f)
            # the difference is small relative to α: subtracting α before the step keeps its digits
            return float(np.sum((found[3] - self.alpha - length * d_alpha) * d_f)), found

        length, found = uphill(look, along, negligible=tol**2)
        if length:
            self._accept(found)
        return length > 0

    def ending(self, q: Any, n_iter: int, gap: float, tol: float) -> Status:
        status = ending(q, n_iter, gap, tol)
        if status.converged or not self.stuck:
            return status
        advice = f"No step leads closer to the mode than {gap:.0e} standard deviations: {too_large(self.K)}"
        return replace(status, message="no step uphill is left", advice=advice)


def coupled_gradient(fit: Fit) -> np.ndarray:
    """Return d log Z / dK with the implicit terms. [RW] (5.23), with third derivatives of softmax"""
    return fit.posterior.gradient((_implicit(fit), fit.alpha))


def coupled_theta_gradient(fit: Fit) -> np.ndarray:
    """Return d log Z / dθ: a bias shifts the latent values of its class, and the mode changes by (I + KW)⁻¹."""
    return fit.likelihood.theta_gradient((fit.alpha + _implicit(fit)).sum(0))


def _implicit(fit):
    """Return u (n, C) such that the part of d log Z through the mode is uᵀ dK α."""
    q = fit.posterior
    p, cov = q.pi / q.system.total[:, None], q.cov
    # -½ tr(Σ dW/df_c) = -½ w Σ_a v_a dp_a/df_c with v = diag Σ - 2 Σp, and w dp/df is W itself
    v = np.diagonal(cov, axis1=1, axis2=2) - 2 * np.einsum("icd,id->ic", cov, p)
    pull = -0.5 * q.system.times_Pi(v)
    return q.system.solve(pull)[0]  # (I + WK)⁻¹ pull


def coupled_cavity(fit: Fit) -> tuple[np.ndarray, np.ndarray]:
    """Return mean (m, C) and covariance (m, C, C) of the latent values of each observation, without one copy of it.

    The site of a copy has the slope of its own label, and its part of the curvature of the place.
    """
    q, data = fit.posterior, fit.targets
    if data.plain:
        return q.cavity()
    part = np.minimum(data.weight, 1.0)[:, None]
    f, cov, pi = (data.places.spread(x) for x in (q.mean, q.cov, q.pi / q.system.total[:, None]))
    precision = part[:, :, None] * precisions(pi)
    slope = part * data.likelihood.log_prob_slope(data.y, f)[1]
    return matrix_cavity(f, cov, precision, slope + np.einsum("icd,id->ic", precision, f))
