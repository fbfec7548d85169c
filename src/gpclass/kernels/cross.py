"""Covariances of a few rows with inducing inputs, and their pullbacks, at the speed of matrix products.

`Kernel.__call__` takes products in strips that one thread does, for matrices of any size; here matrices are small, inputs
may have many columns, and BLAS is given whole products.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg.blas import dgemm

from .base import Array, Kernel
from .comparisons import FAR, Distance
from .pairwise import Pairwise, _make_symmetric
from .per_class import PerClass


def covariance(kernel: Kernel, X: Array, Z: Array | None = None) -> Array:
    """k(X) or k(X, Z), as the kernel has it."""
    pair = _features(kernel, X, Z)
    if pair is None:
        return kernel(X) if Z is None else kernel(X, Z)
    _, _, F, H = pair
    s = _half_distances(F, H)
    if Z is None:
        _make_symmetric(s, np.zeros(len(s)))
    kernel._shape(s)  # type: ignore[attr-defined]
    s *= kernel.variance  # type: ignore[attr-defined]
    return s


def between(kernel: Kernel, Z: Array, X: Array) -> Array:
    """k(Z, X), with an axis of classes before all else if the kernel, or inputs Z (C, M, D), are the classes' own."""
    if np.ndim(Z) == 2:
        return kernel(Z, X)
    kernels = kernel.kernels if isinstance(kernel, PerClass) else [kernel] * len(Z)
    return np.stack([k(own, X) for k, own in zip(kernels, Z, strict=True)])


def pullback(kernel: Kernel, X: Array, Z: Array | None, G: Array, value: Array) -> tuple[Array, Array]:
    """Gradient of Σ G k(X, Z) in theta and in Z; of Σ G k(X) in theta and in X if there is no Z. `value` is that k."""
    pair = _features(kernel, X, Z)
    if pair is None:
        pair = (X, G) if Z is None else (X, Z, G)
        return kernel.pullback(*pair, inputs=True, value=value)
    assert isinstance(kernel, Pairwise)
    X, Z, F, H = pair
    parts: dict[str, Any]
    if kernel._slope_is_shape:
        M = G * value
        parts = {"variance": M.sum()}
    else:
        s = _half_distances(F, H)
        if Z is None:
            np.fill_diagonal(s, 0.0)
        shape, slope, inner = kernel._expand(s)
        M = kernel.variance * G
        parts = {"variance": np.einsum("ij,ij->", M, shape), **{n: np.einsum("ij,ij->", M, d) for n, d in inner.items()}}
        M = M * slope
    if Z is None:
        M = M + M.T  # a row of X is both sides
    moved = _product(M.T, F)
    dH = moved - M.sum(0)[:, None] * H
    # Σ F ∘ dF + Σ H ∘ dH, columns apart, without dF: F and H meet in the same product
    scale = 2 * np.einsum("ij,ij->j", H, moved)
    scale -= np.einsum("i,ij,ij->j", M.sum(1), F, F) + np.einsum("i,ij,ij->j", M.sum(0), H, H)
    parts.update(kernel._scale_parameters(-0.5 * scale if Z is None else -scale))
    sides = [(Z if Z is not None else X, H, dH)]
    if Z is not None and type(kernel)._feature_parameters is not Pairwise._feature_parameters:
        sides.append((X, F, _product(M, H) - M.sum(1)[:, None] * F))
    for side in sides:
        for name, part in kernel._feature_parameters(*side).items():
            parts[name] = parts.get(name, 0.0) + part
    return kernel._gradient(parts), kernel._to_inputs(*sides[0])


def _features(kernel, X, Z):
    """Centred inputs and features, where the kernel is a function of a distance that the product form gives in full."""
    if not isinstance(kernel, Pairwise) or kernel._comparison is not Distance:
        return None
    X, Z = kernel._centred(X, Z)
    F = kernel._safe_features(X)
    H = F if Z is None else kernel._safe_features(Z)
    largest = max(np.max(np.einsum("ij,ij->i", A, A), initial=0.0) for A in (F, H))
    return (X, Z, F, H) if largest < FAR else None


def _half_distances(F, H):
    """-½ |f - h|²"""
    s = _product(F, H.T)
    s -= 0.5 * np.einsum("ij,ij->i", F, F)[:, None]
    s -= 0.5 * np.einsum("ij,ij->i", H, H)
    return np.minimum(s, 0.0, out=s)


def _product(A, B):
    """A B by SciPy's BLAS, for arrays of either order."""
    (a, ta), (b, tb) = ((M.T, 1) if M.flags.c_contiguous else (M, 0) for M in (A, B))
    return dgemm(1.0, b, a, trans_a=1 - tb, trans_b=1 - ta).T
