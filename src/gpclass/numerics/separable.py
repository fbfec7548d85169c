"""Covariances of latent functions of several classes that are products, cov(f_c(x), f_d(z)) = inputs(x, z) · classes(c, d),
and differences between classes.

Code that accepts arrays and `Separable` alike reads them with `inputs_of` and `classes_of`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Separable:
    """The factors of K = inputs ⊗ classes, or derivatives in each of them."""

    inputs: np.ndarray  # (n, n) among training points, (n, m) with others, (m,) variances
    classes: np.ndarray  # (C, C)


def inputs_of(value: Any) -> Any:
    """Return the factor of the inputs, which is the value itself if it is an array."""
    return value.inputs if isinstance(value, Separable) else value


def classes_of(value: Any) -> np.ndarray | None:
    """Return the factor (C, C) of the classes, or None if the value is an array: classes are then independent."""
    return value.classes if isinstance(value, Separable) else None


def contrasts(n_classes: int) -> np.ndarray:
    """Return H (C, C-1), whose orthonormal columns sum to zero. Hᵀf does not depend on the mean of f (C,)."""
    H = np.tri(n_classes, n_classes - 1, -1) - np.eye(n_classes, n_classes - 1) * np.arange(n_classes - 1, 0, -1)
    return H / np.linalg.norm(H, axis=0)
