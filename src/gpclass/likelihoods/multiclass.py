"""What likelihoods of several classes share: one latent function per class, labels 0 … C-1.

Latent values carry the class on their last axis, f (…, C); labels y have the shape of the axes before it.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from .base import Likelihood, Triple

NODES, STD_NODES = 1024, 128  # points of the quasi-random rule for integrals over C latent values
BLOCK = 1 << 20  # numbers in an array of them


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
            with np.errstate(invalid="ignore"):  # NaN
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

    def predictive(self, mean, cov) -> np.ndarray:
        """(m, C) class probabilities when the latent values are N(mean, cov), from mean (m, C) and cov (m, C, C)."""
        return np.concatenate([self.class_probabilities(f).mean(1) for f in _latent_values(mean, cov, NODES)])

    def predictive_std(self, mean, cov) -> np.ndarray:
        """(m, C) standard deviations of the class probabilities when the latent values are N(mean, cov)."""
        return np.concatenate([self.class_probabilities(f).std(1) for f in _latent_values(mean, cov, STD_NODES)])

    def _own_class(self, y, f) -> np.ndarray:
        """[y = c] as a boolean array of f's shape."""
        return np.broadcast_to(np.asarray(y)[..., None] == np.arange(self.n_classes), np.shape(f))


@lru_cache(maxsize=16)
def _nodes(count: int, n_latents: int) -> np.ndarray:
    """(count, C) standard normal points, quasi-random and in pairs ±x: the same for every row, and from run to run."""
    half = ndtri(qmc.Sobol(n_latents, rng=np.random.default_rng(0)).random(count // 2))
    return np.concatenate([half, -half])


def _latent_values(mean, cov, count):
    """(rows, count, C) points of N(mean, cov), for a block of rows at a time."""
    mean, cov = np.asarray(mean, float), np.asarray(cov, float)
    C = mean.shape[1]
    nodes = _nodes(count, C)
    value, vector = np.linalg.eigh(cov)
    roots = vector * np.sqrt(np.maximum(value, 0.0))[:, None, :]
    block = max(1, BLOCK // (count * C))
    for i in range(0, len(mean), block):
        yield mean[i : i + block, None] + nodes @ np.swapaxes(roots[i : i + block], 1, 2)
