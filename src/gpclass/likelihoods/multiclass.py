"""What likelihoods of several classes share: one latent function per class, labels 0 … C-1.

Latent values carry the class on their last axis, f (…, C); labels y have the shape of the axes before it.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from .base import Likelihood, Triple


@dataclass(frozen=True)
class Multiclass(Likelihood):
    """p(y | f) for y in 0 … n_classes - 1 and one latent value per class."""

    n_classes: int

    def __post_init__(self):
        if not isinstance(self.n_classes, (int, np.integer)) or self.n_classes < 2:
            raise ValueError(f"n_classes must be an integer of at least 2, but is {self.n_classes!r}")

    @property
    def n_latents(self) -> int:
        return int(self.n_classes)

    def check_targets(self, y) -> np.ndarray:
        """y as integers; any integer-valued array of labels within range will do."""
        y = np.asarray(y)
        if y.ndim != 1:
            raise ValueError(f"y must be one-dimensional, but has shape {y.shape}")
        try:
            codes = y.astype(int)
            whole = bool(np.all(codes == y))
        except (ValueError, TypeError, OverflowError):
            whole = False
        if not whole or np.any(codes < 0) or np.any(codes >= self.n_classes):
            raise ValueError(
                f"labels must be integers from 0 to {self.n_classes - 1} for {self.n_classes} classes, but y contains "
                f"{np.unique(y)[:5].tolist()}. Recode them, or use GPClassifier, which takes labels of any type."
            )
        return codes

    @abstractmethod
    def log_prob(self, y, f) -> Triple:
        """log p(y | f) (…), its gradient (…, C) and its Hessian (…, C, C)."""

    @abstractmethod
    def class_probabilities(self, f) -> np.ndarray:
        """p(y = c | f) for every class, (…, C); rows sum to one."""

    def _own_class(self, y, f) -> np.ndarray:
        """[y = c] as a boolean array of f's shape."""
        return np.broadcast_to(np.asarray(y)[..., None] == np.arange(self.n_classes), np.shape(f))
