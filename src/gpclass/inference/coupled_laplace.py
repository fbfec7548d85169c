"""Laplace's approximation for softmax: the mode of C coupled latent functions, by Newton's method.

The Hessian of log softmax is -(diag(p) - p pᵀ), a site of the coupled structure with π = p. As for two classes, steps with
the factorisation at hand are taken until they stop paying; only then the curvature is renewed.

[RW] Rasmussen & Williams 2006, section 3.5.   [RJV] Riihimäki, Jylänki & Vehtari 2013, section 4.1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..gaussian import CoupledPosterior, CoupledSystem
from .fit import CoupledFit, require
from .iterate import Status

CHORDS = 8  # steps per factorisation
PAYING = 0.5  # a step that leaves more than this part of the gap asks for new curvature
SHORTEST = 2.0**-20  # of a line search


def coupled_mode(engine: Any, K: np.ndarray, y: np.ndarray, likelihood: Any, start: Any) -> CoupledFit:
    """The mode, and the Gaussian there."""
    require(likelihood, ("curvature_weights",), "Laplace for several classes")
    path = Climb(K, y, likelihood, start)
    gap, sweep = np.inf, 0
    while sweep < engine.max_iter:
        sweep += 1
        system = CoupledSystem(K, likelihood.curvature_weights(path.f))
        gap = path.settle(system, engine.tol)
        if gap < engine.tol:
            break
    pi = likelihood.curvature_weights(path.f)
    moved = np.max(np.abs(pi - system.pi) * system.prior_var, initial=0.0)
    if moved > engine.tol:  # the last steps were small but not nothing
        system, sweep = CoupledSystem(K, pi), sweep + 1
    nu = path.slope + system.times_Pi(path.f)
    q = CoupledPosterior(K, pi, nu, system, (path.alpha, path.f))
    status = Status(gap < engine.tol, sweep, gap)
    return CoupledFit(engine, q, y, likelihood, status, path.value - 0.5 * q.log_det)  # [RW] (3.44)


class Climb:
    """f = Kα on its way to the mode of log p(y | f) - ½ αᵀf."""

    def __init__(self, K, y, likelihood, start):
        self.y, self.likelihood = y, likelihood
        shape = (len(y), likelihood.n_latents)
        earlier = getattr(start, "alpha", None)
        if start is not None and (earlier is None or np.shape(earlier) != shape):
            raise ValueError(f"start must be an earlier fit to {shape[0]} points of {shape[1]} classes")
        alpha = np.zeros(shape) if earlier is None else earlier
        kernels = np.broadcast_to(K, (shape[1], *K.shape)) if K.ndim == 2 else K
        self._accept(alpha, np.stack([k @ alpha[:, c] for c, k in enumerate(kernels)], axis=1))

    def _evaluate(self, alpha, f):
        value, slope = self.likelihood.log_prob_slope(self.y, f)
        return float(value.sum() - 0.5 * np.sum(alpha * f)), slope

    def _accept(self, alpha, f):
        self.alpha, self.f = alpha, f
        self.value, self.slope = self._evaluate(alpha, f)

    def settle(self, system: CoupledSystem, tol: float) -> float:
        """Newton steps with a given curvature, while they pay; the length of the last one, in standard deviations."""
        before = np.inf
        for _ in range(CHORDS):
            missing = self.slope - self.alpha  # the gradient in f
            d_alpha, d_f = system.solve(missing)
            gap = float(np.sqrt(max(np.sum(missing * d_f), 0.0)))
            if gap < tol or gap > PAYING * before:
                break
            before = gap
            self._step(d_alpha, d_f, gap)
        return gap

    def _step(self, d_alpha, d_f, gap):
        share = 1.0
        while share > SHORTEST:
            value, _ = self._evaluate(self.alpha + share * d_alpha, self.f + share * d_f)
            if value >= self.value + 0.1 * share * gap**2 - 1e-12 * abs(self.value):
                break
            share *= 0.5
        self._accept(self.alpha + share * d_alpha, self.f + share * d_f)


def coupled_gradient(fit: CoupledFit) -> np.ndarray:
    """d log Z / dK with the implicit terms. [RW] (5.23), with third derivatives of softmax"""
    return fit.posterior.gradient((_implicit(fit), fit.alpha))


def coupled_theta_gradient(fit: CoupledFit) -> np.ndarray:
    """d log Z / dθ: a bias shifts the latent values of its class, and the mode gives way by (I + KW)⁻¹."""
    return fit.likelihood.theta_gradient((fit.alpha + _implicit(fit)).sum(0))


def _implicit(fit):
    """(n, C) u with d log Z = uᵀ dK α by way of the mode."""
    q = fit.posterior
    p, cov = q.pi, q.cov
    # -½ tr(Σ dW/df_c) = -½ Σ_a v_a dp_a/df_c with v = diag Σ - 2 Σp, and dp/df is W itself
    v = np.diagonal(cov, axis1=1, axis2=2) - 2 * np.einsum("icd,id->ic", cov, p)
    pull = -0.5 * q.system.times_Pi(v)
    return pull - q.system.apply_M(q.system.times_K(pull))  # (I + WK)⁻¹ pull
