"""Latent functions of several classes: covariances that are products, cov(f_c(x), f_d(z)) = inputs(x, z) · classes(c, d),
and differences between classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Separable:
    """K = inputs ⊗ classes, unmultiplied; also used for a pair of derivatives, one in each factor."""

    inputs: np.ndarray  # (n, n) among training points, (n, m) with others, (m,) variances
    classes: np.ndarray  # (C, C)


def contrasts(n_classes: int) -> np.ndarray:
    """H (C, C-1) of orthonormal columns that sum to zero: Hᵀf is what is left of f (C,) without the mean over classes."""
    H = np.tri(n_classes, n_classes - 1, -1) - np.eye(n_classes, n_classes - 1) * np.arange(n_classes - 1, 0, -1)
    return H / np.linalg.norm(H, axis=0)
