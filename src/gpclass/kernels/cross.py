"""Covariances of given inputs with new ones, as predictions need them: one matrix, or one for each class."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..numerics.linalg import STRIP_ROWS
from .arrays import Array
from .base import Kernel

VALUES_PER_CALL = 8192  # values of a kernel that predictions compute in one call, for any number of rows


def covariances_with(kernel: Kernel, Z: Array, X: Array) -> Any:
    """Return k(Z, X) for inputs Z (M, D), or one matrix for each class, (C, M, m), for inputs Z (C, M, D)."""
    if np.ndim(Z) == 2:
        return kernel(Z, X)
    kernels = kernel.class_kernels if len(kernel.class_kernels) > 1 else [kernel] * len(Z)
    if len(kernels) != len(Z):
        raise ValueError(f"the kernel is for {len(kernels)} classes, but Z has inputs for {len(Z)}")
    return np.stack([k(own, X) for k, own in zip(kernels, Z, strict=True)])


class CrossCovariances:
    """Covariances of given inputs with new ones. Whatever depends only on the given inputs is computed once.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    Z : ndarray of shape (M, D) or (C, M, D)
        The given inputs.
    """

    def __init__(self, kernel: Kernel, Z: Array) -> None:
        self._kernel, self._Z = kernel, Z
        one_matrix = np.ndim(Z) == 2 and len(kernel.class_kernels) == 1 and kernel.separated[1] is None
        # rows of covariances are left out: they depend on which rows are the training rows
        self._evaluate = kernel._evaluator(Z) if one_matrix and kernel.takes == "numbers" else None
        self._rows = STRIP_ROWS * max(1, VALUES_PER_CALL // (STRIP_ROWS * max(1, Z.shape[-2])))

    def __call__(self, X: Array) -> Any:
        """Return `covariances_with(kernel, Z, X)` for checked inputs X (m, D).

        A row has the same values in any batch, unless another row is so far that the block takes another formula
        (`similarity.FAR_NORM`).
        """
        if self._evaluate is None or not len(X):
            return covariances_with(self._kernel, self._Z, X)
        rows, out = self._rows, np.empty((len(X), len(self._Z)))
        for i in range(0, len(X), rows):
            some = X[i : i + rows]
            # products of equal shape round each row in the same way, so the last block is padded with copies
            whole = some if len(some) == rows else np.concatenate([some, np.repeat(some[-1:], rows - len(some), axis=0)])
            out[i : i + rows] = self._evaluate(whole, None)[: len(some)]
        return out.T

    def __reduce__(self) -> tuple[Any, ...]:
        return CrossCovariances, (self._kernel, self._Z)
