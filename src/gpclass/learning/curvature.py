"""Estimates of the curvature of an objective, and slopes within bounds."""

from __future__ import annotations

import numpy as np


def updated_curvature(
    inverse: np.ndarray | None, step: np.ndarray, drop: np.ndarray, units: np.ndarray | float = 1.0
) -> np.ndarray | None:
    """Return the BFGS update of an inverse curvature for a step along which the gradient fell by `drop`.

    None as `inverse` means that nothing is known yet; then the curvature is taken to be equal in all directions, in these
    units of the parameters.
    """
    along = step @ drop
    if not along > 1e-8 * float(np.linalg.norm(step) * np.linalg.norm(drop)):
        return inverse
    eye = np.eye(len(step))
    before = eye * units**2 * along / np.sum((units * drop) ** 2) if inverse is None else inverse
    turn = eye - np.outer(step, drop) / along
    return turn @ before @ turn.T + np.outer(step, step) / along


def for_more_rows(inverse: np.ndarray | None, few: int, many: int) -> np.ndarray | None:
    """Return the inverse curvature to expect on `many` rows, from that on `few` of them.

    Curvature grows with the number of rows, but less than in proportion: later rows add less information.
    """
    return None if inverse is None else inverse * np.sqrt(few / many)


def free_gradient(theta: np.ndarray, gradient: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Return the gradient, with zeros where it points out of the bounds (p, 2)."""
    low, high = bounds.T
    held = ((theta <= low) & (gradient < 0)) | ((theta >= high) & (gradient > 0))
    return np.where(held, 0.0, gradient)


def largest_slope(theta: np.ndarray, gradient: np.ndarray, bounds: np.ndarray) -> float:
    """Return the largest slope, except those that point out of the bounds (p, 2)."""
    return float(np.max(np.abs(np.clip(theta + gradient, *bounds.T) - theta), initial=0.0))
