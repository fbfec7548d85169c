"""Covariance of two normal probabilities under a Gaussian, by Plackett's identity.

With f ~ N(0, v), ρ = v/(1 + v) and limits h √(1 + v) and k √(1 + v), the covariance of Φ(h √(1 + v) - f) and
Φ(k √(1 + v) - f) is the integral of the bivariate normal density at (h, k) over correlations from 0 to ρ. All terms of the
integral are positive, so it keeps its relative accuracy in the tails and for small v, where E[ΦΦ] - E[Φ] E[Φ] cancels.

[P] Plackett 1954, A reduction formula for normal multivariate integrals.
"""

from __future__ import annotations

import numpy as np

LEGENDRE_NODES, LEGENDRE_WEIGHTS = np.polynomial.legendre.leggauss(48)  # error below 1e-13 for v up to 1e8 (tests/numerics)
LEGENDRE_NODES, LEGENDRE_WEIGHTS = 0.5 * (LEGENDRE_NODES + 1), 0.5 * LEGENDRE_WEIGHTS


def probit_covariance(h, k, rho) -> np.ndarray:
    """Return ∫₀^ρ N((h, k) | correlation t) dt, the covariance of two normal probabilities.

    Parameters
    ----------
    h, k : array-like
        Limits in units of √(1 + v). They may be infinite.
    rho : array-like
        v/(1 + v), from 0 to 1 (exclusive).

    Returns
    -------
    ndarray
        The covariance, of the shape of the broadcast arguments.
    """
    h, k, rho = np.broadcast_arrays(np.clip(h, -1e8, 1e8), np.clip(k, -1e8, 1e8), np.asarray(rho, float))
    # t = cos φ. For small φ the integrand changes on the scale of φ, so the rule is in log φ
    length = -np.log1p(-2 / np.pi * np.arcsin(rho))
    phi = 0.5 * np.pi * np.exp(-length[..., None] * LEGENDRE_NODES)
    apart, product = (h - k)[..., None], (h * k)[..., None]
    density = np.exp(-0.5 * ((apart / np.sin(phi)) ** 2 + product / np.cos(0.5 * phi) ** 2))
    return length * ((phi * density) @ LEGENDRE_WEIGHTS) / (2 * np.pi)
