"""Contrasts of classes: the other classes of each datum, and a basis of all contrasts."""

from __future__ import annotations

import numpy as np


def other_classes(y: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the classes other than y, (n, C - 1), in increasing order."""
    rest = np.arange(n_classes - 1)
    return rest + (rest >= y[:, None])


def contrast_basis(n_classes: int) -> np.ndarray:
    """Return H (C, C-1), whose orthonormal columns sum to zero. Hᵀf does not depend on the mean of f (C,)."""
    H = np.tri(n_classes, n_classes - 1, -1) - np.eye(n_classes, n_classes - 1) * np.arange(n_classes - 1, 0, -1)
    return H / np.linalg.norm(H, axis=0)
