"""Preconditioned conjugate gradients for A x = b, A symmetric and positive definite."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def dot(left: np.ndarray, x: np.ndarray) -> float:
    return float(np.sum(left * x))


def conjugate_gradients(
    right: np.ndarray,
    product: Callable[[np.ndarray], np.ndarray],
    precondition: Callable[[np.ndarray], np.ndarray],
    tol: float,
    most: int,
    first: np.ndarray | None = None,
    inner: Callable[[np.ndarray, np.ndarray], float] = dot,
) -> tuple[np.ndarray, np.ndarray]:
    """Return x with A x ≈ right, and the preconditioned residual that is left.

    Parameters
    ----------
    right : ndarray
        The right side b; any shape.
    product : callable
        x → A x.
    precondition : callable
        residual → z, an approximation of A⁻¹ residual, symmetric and positive definite too.
    tol : float
        Stop when residual · z has fallen to this part of its first value.
    most : int
        Largest number of steps, each one product and one preconditioning.
    first : ndarray, optional
        precondition(right), if it is known.
    inner : callable
        (residual, x) → residual · x. Needed where an x carries more than the solution, such as K⁻¹ x beside x.
    """
    z = direction = precondition(right) if first is None else first
    x, left = np.zeros_like(z), right
    size = start = inner(left, z)
    for _ in range(most):
        if not size > tol * start:  # also when rounding has turned its sign
            break
        curved = product(direction)
        share = size / inner(curved, direction)
        x, left = x + share * direction, left - share * curved
        z, before = precondition(left), size
        size = inner(left, z)
        direction = z + size / before * direction
    return x, z
