"""Multinomial probit: each class's latent value gets standard Gaussian noise, and the largest wins.

    p(y | f) = ∫ N(u | 0, 1) ∏_{j≠y} Φ(u + f_y - f_j) du

The integrand is entire, log-concave, and as a function of u no wider than N(0, 1) to the right of its mode and no
narrower than N(0, 1/C): the trapezoid rule between limits set from the mode converges geometrically.

[RJV] Riihimäki, Jylänki & Vehtari 2013, eqs. 2 and 24.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..numerics import hazard, hazard_curvature, log_concave, log_ndtr_and_hazard, normal_below
from .base import Triple
from .multiclass import Multiclass

NODES = 32  # log p good to 1e-9 for up to 20 classes, see tests
REACH = 7.0  # how far the nodes go: standard deviations of the narrow side left of the mode, of N(0, 1) right of it
HULL = np.array([-2.5, -1.5, -0.8, -0.25, 0.25, 0.8, 1.5, 2.5, 4.0])  # nodes of the envelope, in widths from the mode
BLOCK = 4096  # rows integrated at a time: arrays of nodes stay within the cache
SATURATED = 50.0  # log Φ and its hazard vanish here: the place of a factor that is not there


@dataclass(frozen=True)
class MultinomialProbit(Multiclass):
    """p(y | f) = P(f_y + ε_y > f_j + ε_j for all j ≠ y), ε standard Gaussian; y in 0 … n_classes - 1."""

    def lead(self, y, f) -> np.ndarray:
        """f_y - f_j (…, C); the entry of y itself is as good as infinite."""
        own = self._own_class(y, f)
        ahead = np.sum(f, axis=-1, where=own)[..., None] - f
        return np.where(own, SATURATED, np.clip(ahead, -1e100, 1e100))

    def log_prob_slope(self, y, f) -> tuple[np.ndarray, np.ndarray]:
        lead = self.lead(y, f)
        rows = lead.reshape(-1, self.n_classes)
        value, pull = np.empty(len(rows)), np.empty(rows.shape)
        for i in range(0, len(rows), BLOCK):
            some = slice(i, i + BLOCK)
            value[some], ratio, weights = self._integral(rows[some])
            pull[some] = np.einsum("iq,iqc->ic", weights, ratio)
        pull = pull.reshape(lead.shape)
        own = self._own_class(y, f)
        return value.reshape(lead.shape[:-1]), np.where(own, pull.sum(-1, keepdims=True), -pull)

    def log_prob(self, y, f) -> Triple:
        lead = self.lead(y, f)
        value, ratio, weights = self._integral(lead)
        # with contrasts g_j = f_y - f_j the Hessian is E[h hᵀ - diag(c)] - E[h] E[h]ᵀ; f enters through g = A f
        pull = np.einsum("...q,...qc->...c", weights, ratio)
        centred = ratio - pull[..., None, :]
        u = self._nodes(lead)[0]
        bend = np.einsum("...q,...qc->...c", weights, hazard_curvature(u[..., None] + lead[..., None, :], ratio))
        inner = np.einsum("...q,...qc,...qd->...cd", weights, centred, centred)
        inner -= bend[..., None] * np.eye(self.n_classes)
        own = self._own_class(y, f)
        contrast = own[..., None, :].astype(float) - np.eye(self.n_classes)
        hessian = np.swapaxes(contrast, -1, -2) @ inner @ contrast
        return value, np.where(own, pull.sum(-1, keepdims=True), -pull), hessian

    def class_probabilities(self, f) -> np.ndarray:
        f = np.asarray(f, float)
        log_p = np.stack([self.log_prob_slope(np.full(f.shape[:-1], c), f)[0] for c in range(self.n_classes)], axis=-1)
        p = np.exp(log_p)
        return p / p.sum(-1, keepdims=True)

    def draw_auxiliary(self, y, f, rng: np.random.Generator) -> np.ndarray:
        """v ~ N(f, I) given that v_y is its largest entry, (…, C): an exact draw from the cone. [RJV] (24)"""
        f = np.asarray(f, float)
        own = self._own_class(y, f)
        lead = self.lead(y, f)
        best = np.sum(f, axis=-1, where=own) + _draw_winner(lead.reshape(-1, self.n_classes), rng).reshape(f.shape[:-1])
        # given the winner the others are independent and below it
        return np.where(own, best[..., None], f + normal_below(best[..., None] - f, rng))

    def _integral(self, lead):
        """log p, and hazards (…, Q, C) with normalised weights (…, Q) of the integrand at the nodes."""
        u, step = self._nodes(lead)
        log_cdf, ratio = log_ndtr_and_hazard(u[..., None] + lead[..., None, :])
        log_mass = -0.5 * u * u + log_cdf.sum(-1)
        top = log_mass.max(-1, keepdims=True)
        mass = np.exp(log_mass - top)
        total = mass.sum(-1)
        value = top[..., 0] + np.log(total * step / np.sqrt(2 * np.pi))
        return np.minimum(value, 0.0), ratio, mass / total[..., None]

    def _nodes(self, lead):
        mode, width = tilted_mode(lead)
        left, right = mode - REACH * width, mode + REACH
        u = left[..., None] + (right - left)[..., None] * np.linspace(0, 1, NODES)
        return u, (right - left) / (NODES - 1)


def _draw_winner(lead, rng):
    """u of density ∝ N(u | 0, 1) ∏_j Φ(u + lead_j), one for each row of lead."""

    def log_density(u, rows):
        log_cdf, ratio = log_ndtr_and_hazard(u[..., None] + lead[rows][:, None])
        return -0.5 * u * u + log_cdf.sum(-1), ratio.sum(-1) - u

    mode, width = tilted_mode(lead)
    return log_concave(log_density, mode[:, None] + width[:, None] * HULL, rng)


def tilted_mode(lead: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mode of N(u | 0, 1) ∏_j Φ(u + lead_j) over u, and the width of the parabola that fits its logarithm there.

    u = Σ_j h(u + lead_j) with h convex and falling: Newton's method from the left climbs monotonically to the root.
    """
    mode = np.zeros(lead.shape[:-1])
    for _ in range(50):  # half a dozen suffice
        z = mode[..., None] + lead
        ratio = hazard(z)
        precision = 1 + hazard_curvature(z, ratio).sum(-1)
        move = (ratio.sum(-1) - mode) / precision
        mode = mode + move
        if np.all(np.abs(move) <= 1e-3 * (1 + np.abs(mode))):  # a place for the nodes, no more
            break
    return mode, 1 / np.sqrt(precision)

