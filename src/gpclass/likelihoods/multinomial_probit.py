"""Multinomial probit: the class with the largest latent value after standard Gaussian noise on each.

    p(y | f) = ∫ N(u | 0, 1) ∏_{j≠y} Φ(u + f_y - f_j) du

As a function of u the integrand is entire and log-concave. To the right of its mode it is no wider than N(0, 1), and it is
no narrower than N(0, 1/C). So the trapezoid rule, between limits relative to the mode, converges geometrically.

[RJV] Riihimäki, Jylänki & Vehtari 2013, eqs. 2 and 24.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.special import ndtr

from ..numerics import (
    CACHE,
    blocks,
    draw_log_concave,
    gaussian_nodes,
    hazard,
    hazard_curvature,
    largest,
    log_ndtr_and_hazard,
    normal_below,
)
from ..numerics.classes import other_classes
from .label_noise import NoisyMulticlass
from .multiclass import Multiclass, class_order, largest_probabilities, own_first, restore_order
from .probit import Probit
from .tilted import Triple

# Number of nodes for log p, and their range: in standard deviations of the Laplace approximation to the left of the mode, of
# N(0, 1) to the right. The first rule is for up to FEW_CLASSES classes. The error of log p is below 2e-7, see tests
FEW_CLASSES = 5
FEW_CLASSES_RULE, MANY_CLASSES_RULE = (18, 5.8), (32, 7.0)
# Nodes for class probabilities: their range around the largest latent value, and their step, which is halved for more than
# MANY_CLASSES classes. The error is below 3e-10 for up to 300 classes; probabilities below 1e-30 are underestimated
LOWEST_NODE, HIGHEST_NODE, NODE_STEP, MANY_CLASSES = -10.0, 8.0, 0.4, 12
# Nodes of the envelope for draws, in standard deviations from the mode
ENVELOPE_NODES = np.array([-2.5, -1.5, -0.8, -0.25, 0.25, 0.8, 1.5, 2.5, 4.0])
CONTRAST_LIKELIHOOD = Probit()
SATURATED = 50.0  # log Φ and its hazard vanish here, so a factor at this value has no effect


@dataclass(frozen=True)
class NoiseFreeMultinomialProbit(Multiclass):
    """`MultinomialProbit` without label noise: p(y | f) = P(x_y > x_j for all j ≠ y), x = f + bias + N(0, I)."""

    noise: ClassVar[float] = 1.0  # variance of the noise on each latent value

    def lead(self, y, f) -> np.ndarray:
        """Return f_y - f_j (…, C), biases included. The entry of y itself is SATURATED, which acts as infinity."""
        own = self._own_class(y, f)
        f = f + self.offset
        ahead = np.sum(f, axis=-1, where=own)[..., None] - f
        return np.where(own, SATURATED, np.clip(ahead, -1e100, 1e100))

    def log_prob_slope(self, y, f) -> tuple[np.ndarray, np.ndarray]:
        lead = self.lead(y, f)
        rows = lead.reshape(-1, self.n_classes)
        value, pulls = np.empty(len(rows)), np.empty(rows.shape)
        for some in blocks(len(rows), self.n_classes * self._rule[0], CACHE):
            value[some], ratio, weights = self._integral(rows[some])
            pulls[some] = np.einsum("iq,iqc->ic", weights, ratio)
        pull = pulls.reshape(lead.shape)
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
        """Return ∫ φ(x - f_c) ∏_{j≠c} Φ(x - f_j) dx for every class c, with common nodes around the largest f."""
        f = np.asarray(f, float) + self.offset
        rows, C = f.reshape(-1, self.n_classes), self.n_classes
        behind = np.minimum(rows.max(1, keepdims=True) - rows, 1e100).T
        x = np.arange(LOWEST_NODE, HIGHEST_NODE, NODE_STEP if C <= MANY_CLASSES else 0.5 * NODE_STEP)[:, None]
        p = np.empty(rows.shape)
        for some in blocks(len(rows), C * len(x), CACHE):
            z = x + behind[:, None, some]
            cdf = ndtr(z)
            z *= z
            density = np.exp(np.multiply(z, -0.5, out=z), out=z)
            density /= cdf
            np.einsum("qi,cqi->ic", cdf.prod(0), density, out=p[some])
        return (p / p.sum(1, keepdims=True)).reshape(f.shape)

    def contrast_factor(self) -> Probit:
        """Return the likelihood of each contrast g_j = f_y - f_j + u, j ≠ y, u ~ N(0, 1). [RJV] (6)

        p(y | f) = E_u ∏_j Φ(g_j). Biases are not included: they shift the g.
        """
        return CONTRAST_LIKELIHOOD

    def contrast_power(self, power) -> np.ndarray:
        """Return the power b with which E_u ∏_j Φ(g_j)^b replaces p(y | f)^power, power ≤ 1.

        The two are equal where all f are equal: there Φ is uniform under u, and E_u ∏ Φ^b = 1/(1 + b (C - 1)). Elsewhere
        their logs differ by some 10 to 20 percent, in either direction, for powers well below one.
        """
        return np.expm1(power * np.log(self.n_classes)) / (self.n_classes - 1)

    def contrast_offset(self, y) -> np.ndarray:
        """Return the bias of class y minus that of each other class, in order, (n, C - 1)."""
        bias = self.offset
        return bias[y][:, None] - bias[other_classes(y, self.n_classes)]

    def orthant(self, y, K) -> tuple[np.ndarray, np.ndarray]:
        """Return the covariance (n (C - 1), n (C - 1)) of g and lower limits with p(y) = P(g > lower) under f ~ N(0, K)."""
        n, C = len(y), self.n_classes
        noisy = np.broadcast_to(K, (C, n, n)) + self.noise * np.eye(n)
        datum, other = np.repeat(np.arange(n), C - 1), class_order(y, C)[:, 1:].ravel()
        own = y[datum]
        # g = x_y - x_j, x = f + noise: the covariance of two g sums over their terms of the same class
        covariance = np.zeros((len(datum), len(datum)))
        for left, sign_left in ((own, 1.0), (other, -1.0)):
            for right, sign_right in ((own, 1.0), (other, -1.0)):
                same = left[:, None] == right
                covariance += np.where(same, sign_left * sign_right * noisy[left[:, None], datum[:, None], datum], 0.0)
        return covariance, -self.contrast_offset(y).ravel()

    def tilted_moments(self, y, mean, var) -> Triple:
        """Return log E[p(y | f)] (n,) and its first two derivatives (n, C) in the means of independent latent values."""
        wide = 1 + own_first(y, var)
        at = largest(own_first(y, mean + self.offset), wide)
        return at.log_mass, restore_order(y, at.slope), restore_order(y, -at.known / wide)

    def tilted_theta(self, y, mean, var) -> np.ndarray:
        """Return the derivatives (p, n) in θ of the value of `tilted_moments`."""
        return self.theta_gradient(self.tilted_moments(y, mean, var)[1].T)

    def expected_log_prob(self, y, mean, var) -> Triple:
        """Return a lower bound of E[log p(y | f)] (n,) and its first two derivatives (n, C) in the means.

        Latent values are independent. The bound is Σ_c E[log P(x_y > x_c | f)], because the events share x_y and are
        positively dependent.
        """
        mean_first, var_first = own_first(y, mean + self.offset), own_first(y, var)
        scale = np.sqrt(2 * self.noise)
        lead = (mean_first[:, :1] - mean_first[:, 1:]) / scale
        nodes, weights = gaussian_nodes(lead, (var_first[:, :1] + var_first[:, 1:]) / scale**2)
        log_p, ratio = log_ndtr_and_hazard(nodes)
        pull = np.einsum("icq,icq->ic", weights, ratio) / scale
        bend = -np.einsum("icq,icq->ic", weights, hazard_curvature(nodes, ratio)) / scale**2
        slope = restore_order(y, np.column_stack([pull.sum(1), -pull]))
        curvature = restore_order(y, np.column_stack([bend.sum(1), bend]))
        return np.einsum("icq,icq->i", weights, log_p), slope, curvature

    def predictive(self, mean, cov) -> np.ndarray:
        """Return class probabilities (m, C) under N(mean, cov); cov (m, C, C), or variances (m, C).

        Exact for up to three classes and for independent latent values. Otherwise the absolute error is below 1e-3, for up
        to ten classes. (The EP of [RJV] appendix A has errors up to 0.02 if latent values are correlated.)
        """
        return largest_probabilities(np.asarray(mean, float) + self.offset, cov, self.noise)

    def noisy_probabilities(self, mean, var) -> np.ndarray:
        """Return class probabilities (…, C) under independent latent values N(mean, var), with one variance for all."""
        shrunk = (mean + self.offset) / np.sqrt(1 + var)
        return replace(self, bias=None).class_probabilities(shrunk)

    def draw_auxiliary(self, y, f, rng: np.random.Generator) -> np.ndarray:
        """Draw v ~ N(f, I) (…, C) given that entry y of v + bias is the largest. The draw is exact. [RJV] (24)"""
        f = np.asarray(f, float)
        own = self._own_class(y, f)
        centre = f + self.offset
        ahead = _draw_winner(self.lead(y, f).reshape(-1, self.n_classes), rng).reshape(f.shape[:-1])
        best = np.sum(centre, axis=-1, where=own) + ahead
        # given the largest value, the others are independent and below it
        return np.where(own, best[..., None], centre + normal_below(best[..., None] - centre, rng)) - self.offset

    def _integral(self, lead):
        """Return log p, and the hazards (…, Q, C) and normalised weights (…, Q) of the integrand at the nodes."""
        u, step = self._nodes(lead)
        log_cdf, ratio = log_ndtr_and_hazard(u[..., None] + lead[..., None, :])
        log_mass = -0.5 * u * u + log_cdf.sum(-1)
        top = log_mass.max(-1, keepdims=True)
        mass = np.exp(log_mass - top)
        total = mass.sum(-1)
        value = top[..., 0] + np.log(total * step / np.sqrt(2 * np.pi))
        return np.minimum(value, 0.0), ratio, mass / total[..., None]

    @property
    def _rule(self) -> tuple[int, float]:
        """Number of nodes, and their range."""
        return FEW_CLASSES_RULE if self.n_classes <= FEW_CLASSES else MANY_CLASSES_RULE

    def _nodes(self, lead):
        mode, width = tilted_mode(lead)
        nodes, reach = self._rule
        left, right = mode - reach * width, mode + reach
        u = left[..., None] + (right - left)[..., None] * np.linspace(0, 1, nodes)
        return u, (right - left) / (nodes - 1)


@dataclass(frozen=True)
class MultinomialProbit(NoisyMulticlass, NoiseFreeMultinomialProbit):
    """p(y | f) = (1 - ε) P(x_y > x_j for all j ≠ y) + ε/C, x = f + bias + standard Gaussian noise; y in 0 … n_classes - 1.

    Parameters
    ----------
    n_classes : int
        Number of classes, at least 2.
    bias : tuple of float, optional
        One value per class, added to its latent function. None means zero.
    learn_bias : bool, default=False
        Whether the biases are free parameters, except that of class 0.
    epsilon : float, default=0.0
        Probability that a label is drawn at random from all C classes, in [0, 1). A positive value is the start of
        learning, and then only engines that use cavity integrals or values of p(y | f) support the likelihood.
    learn_epsilon : bool, default=True
        Whether log ε is a free parameter. Ignored if `epsilon` is 0.
    """

    # log p is no longer E_u ∏ Φ, nor bounded by a sum over classes
    noise_free_only = (
        "contrast_factor",
        "contrast_power",
        "contrast_offset",
        "orthant",
        "expected_log_prob",
        "expected_log_prob_theta",
    )


def _draw_winner(lead, rng):
    """Draw u with density ∝ N(u | 0, 1) ∏_j Φ(u + lead_j), one for each row of lead."""

    def log_density(u, rows):
        log_cdf, ratio = log_ndtr_and_hazard(u[..., None] + lead[rows][:, None])
        return -0.5 * u * u + log_cdf.sum(-1), ratio.sum(-1) - u

    mode, width = tilted_mode(lead)
    return draw_log_concave(log_density, mode[:, None] + width[:, None] * ENVELOPE_NODES, rng)


def tilted_mode(lead: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mode of N(u | 0, 1) ∏_j Φ(u + lead_j) over u, and the standard deviation of its Laplace approximation.

    The mode solves u = Σ_j h(u + lead_j) with h convex and decreasing, so Newton's method from the left is monotone.
    """
    mode = np.zeros(lead.shape[:-1])
    for _ in range(50):  # six usually suffice
        z = mode[..., None] + lead
        ratio = hazard(z)
        precision = 1 + hazard_curvature(z, ratio).sum(-1)
        move = (ratio.sum(-1) - mode) / precision
        mode = mode + move
        if np.all(np.abs(move) <= 1e-3 * (1 + np.abs(mode))):  # accurate enough to place nodes
            break
    return mode, 1 / np.sqrt(precision)
