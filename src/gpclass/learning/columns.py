"""Covariances of a kernel between rows of X in the form that sparse engines need, and gradients from derivatives in them."""

from __future__ import annotations

import numpy as np

from ..kernels import Kernel
from ..kernels.columns import KernelColumns


class KernelGradient:
    """Accumulates the gradient in the log parameters of the kernel from derivatives in covariances."""

    def __init__(self, kernel: Kernel, X: np.ndarray):
        self._kernel, self._X = kernel, X
        self.total = np.zeros(len(kernel.theta))

    def gram(self, active: np.ndarray, G: np.ndarray) -> None:
        """Add the gradient through the covariances among the active rows; G (d, d) are the derivatives in them."""
        self.total += self._kernel.pullback(self._X[active], G)

    def cross(self, active: np.ndarray, rows: np.ndarray, G: np.ndarray, value: np.ndarray) -> None:
        """Add the gradient through the covariances `value` (d, m) of active rows with other rows."""
        self.total += self._kernel.pullback(self._X[rows], self._X[active], G.T, value=value.T)

    def diag(self, rows: np.ndarray, g: np.ndarray) -> None:
        """Add the gradient through the variances of some rows."""
        self.total += self._kernel.pullback_diag(self._X[rows], g)


def covariances(kernel: Kernel, X: np.ndarray, n_latents: int) -> list[KernelColumns]:
    """Return the covariances of each latent function; the same object for all if they share a kernel."""
    own = kernel.class_kernels
    if len(own) == 1:
        return [KernelColumns(kernel, X)] * n_latents
    if len(own) != n_latents:
        raise ValueError(f"there are kernels for {len(own)} classes, but {n_latents} latent functions")
    return [KernelColumns(k, X) for k in own]


def gradients(kernel: Kernel, X: np.ndarray, n_latents: int) -> list[KernelGradient]:
    """Return a gradient accumulator for each latent function; the same object for all if they share a kernel."""
    if len(kernel.class_kernels) == 1:
        return [KernelGradient(kernel, X)] * n_latents
    return [KernelGradient(k, X) for k in kernel.class_kernels]


def gathered(sinks: list[KernelGradient]) -> np.ndarray:
    """Return the accumulated gradient, in the order of the kernel's theta."""
    return sinks[0].total if all(s is sinks[0] for s in sinks) else np.concatenate([s.total for s in sinks])
