"""Multinomial probit without an integral: the noise that all contrasts of a datum share is sampled with the latent values.

p(y | f) = E_u ∏_{j≠y} Φ(f_y - f_j + u), u ~ N(0, 1). A gradient-based sampler evaluates it thousands of times, and the
integral over u costs at least 18 times as much as the integrand. So u becomes an additional latent function with independent
standard Gaussian values. The joint density of (f, u) contains no integral, and its marginal in f is the posterior.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import block_diag

from ..gaussian import Prior, other_classes
from .target import Target


class NoisyPrior(Prior):
    """N(0, K) for each latent function and N(0, I) for the shared noise, in coordinates (C + 1, n, R).

    If K has rank r < n, the last n - r coordinates of a latent function have no effect. They exist only so that all
    functions have the same number of coordinates.
    """

    def __init__(self, prior: Prior, n_latents: int):
        n, r = prior.root.shape[1:]
        root, inverse = np.zeros((2, n_latents + 1, n, n))
        root[:-1, :, :r], inverse[:-1, :r] = prior.root, prior.whiten(np.broadcast_to(np.eye(n), (len(prior.root), n, n)))
        root[-1] = inverse[-1] = np.eye(n)
        super().__init__(root, inverse)


@dataclass(frozen=True)
class NoisyTarget(Target):
    """The posterior of (f, u) ∝ N(f | 0, K) N(u | 0, I) ∏_ij Φ(contrasts of f_i + u_i)."""

    own: Any = None  # the Target of f, without u
    contrasts: Any = None  # (n, C - 1, C + 1) matrices that map the coordinates (f_i, u_i) to f_y - f_j + u
    offsets: Any = None  # (n, C - 1, 1) differences of biases, added to the contrasts

    @property
    def problem(self) -> Target:
        return self.own

    @property
    def shape(self) -> tuple[int, int]:
        return self.own.likelihood.n_latents + 1, self.prior.rank

    def latent(self, F: np.ndarray) -> np.ndarray:
        return self.own.latent(F[:-1])

    def marginal(self, F: np.ndarray, log_likelihood: np.ndarray) -> np.ndarray:
        return self.own.log_likelihood(F[:-1])

    def log_likelihood(self, F: np.ndarray) -> np.ndarray:
        """Return Σ log Φ of all contrasts, (R,)."""
        return self._factor.log_prob_value(1.0, self._lead(F)).sum((0, 1))

    def slope(self, F: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value, pull = self._factor.log_prob_slope(1.0, self._lead(F))
        return value.sum((0, 1)), np.swapaxes(np.matmul(np.swapaxes(self.contrasts, 1, 2), pull), 0, 1)

    def curvature(self, F: np.ndarray) -> np.ndarray:
        bend = -self._factor.log_prob(1.0, self._lead(F))[2].mean(2)
        return np.einsum("nj,nja->an", bend, self.contrasts**2)

    @property
    def _factor(self):
        return self.likelihood.contrast_factor()

    def _lead(self, F):
        """Return the contrasts (n, C - 1, R)."""
        return np.matmul(self.contrasts, np.swapaxes(F, 0, 1)) + self.offsets


def smooth_target(K: np.ndarray, y: Any, likelihood: Any) -> Target:
    """Return the problem for gradient-based samplers, with the shared noise as a latent function if there is such noise.

    With weights it is integrated out: powers of an integral over the noise are no integral over one variable.
    """
    own = Target.of(K, y, likelihood)
    if not likelihood.offers("contrast_factor") or not own.data.plain:
        return own
    C = likelihood.n_latents
    basis = None if own.basis is None else block_diag(own.basis, 1.0)
    eye = np.eye(C + 1)
    contrasts = eye[y][:, None] - eye[other_classes(y, C)] + eye[-1]
    if basis is not None:
        contrasts = contrasts @ basis.T
    offsets = likelihood.contrast_offset(y)[:, :, None]
    return NoisyTarget(NoisyPrior(own.prior, C), y, likelihood, basis, own, contrasts, offsets)
