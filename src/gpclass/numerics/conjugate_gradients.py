"""Preconditioned conjugate gradients for A x = b, A symmetric and positive definite."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def dot(left: np.ndarray, x: np.ndarray) -> float:
    """Return the inner product of two arrays of the same shape."""
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
    """Solve A x = right approximately.

    Parameters
    ----------
    right : ndarray
        The right-hand side b, of any shape.
    product : callable
        Maps x to A x.
    precondition : callable
        Maps a residual to z ≈ A⁻¹ residual. This map must be symmetric and positive definite, too.
    tol : float
        The iteration stops when residual · z has fallen to this fraction of its first value.
    most : int
        Maximum number of steps; each costs one product and one preconditioning.
    first : ndarray, optional
        precondition(right), if already computed.
    inner : callable, optional
        Maps (residual, x) to residual · x. Needed if the arrays x contain more than the solution, such as K⁻¹ x next to x.

    Returns
    -------
    x : ndarray
        The approximate solution.
    z : ndarray
        The preconditioned residual at x.
    """
    z = direction = precondition(right) if first is None else first
    x, left = np.zeros_like(z), right
    size = start = inner(left, z)
    for _ in range(most):
        if not size > tol * start:  # also true if rounding has made it negative
            break
        curved = product(direction)
        share = size / inner(curved, direction)
        x, left = x + share * direction, left - share * curved
        z, before = precondition(left), size
        size = inner(left, z)
        direction = z + size / before * direction
    return x, z
