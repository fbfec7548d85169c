"""Steps of site precisions (n, C, C) that couple the classes of a datum, for engines with a dense coupled system."""

from __future__ import annotations

import numpy as np

from ..gaussian import DenseCoupledPosterior
from ..numerics.classes import contrast_basis

MIXING_RANGE = 0.3, 3.0  # factors by which mixing may change the precision of a plain step


def precision_move(q: DenseCoupledPosterior, wanted: np.ndarray) -> float:
    """Return the largest relative change of a datum's marginal covariance for new precisions (n, C, C)."""
    relative = (wanted - q.precision) @ q.contrast_cov
    return float(np.sqrt(np.max(np.maximum(np.einsum("icd,idc->i", relative, relative), 0.0))))


def is_moderate(mixed: np.ndarray, plain: np.ndarray) -> np.ndarray:
    """Return for each datum (n, 1, 1) whether mixing changes its precision (n, C, C) by a factor within MIXING_RANGE."""
    smallest, largest = MIXING_RANGE
    H = contrast_basis(plain.shape[1])
    low = np.linalg.eigvalsh(H.T @ (mixed - smallest * plain) @ H)[:, 0] >= 0
    high = np.trace(mixed, axis1=1, axis2=2) <= largest * np.trace(plain, axis1=1, axis2=2)
    return (low & high)[:, None, None]
