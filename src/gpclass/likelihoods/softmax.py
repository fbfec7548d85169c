"""Softmax, the multinomial logit: p(y | f) = exp(f_y) / Σ_c exp(f_c)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .base import Triple
from .multiclass import Multiclass


@dataclass(frozen=True)
class Softmax(Multiclass):
    """p(y | f) = exp(f_y) / Σ_c exp(f_c), y in 0 … n_classes - 1."""

    def log_prob_slope(self, y, f) -> tuple[np.ndarray, np.ndarray]:
        own = self._own_class(y, f)
        log_p = _log_softmax(f)
        return np.sum(log_p, axis=-1, where=own), own - np.exp(log_p)

    def log_prob(self, y, f) -> Triple:
        value, slope = self.log_prob_slope(y, f)
        p = self.class_probabilities(f)
        return value, slope, p[..., :, None] * p[..., None, :] - p[..., None] * np.eye(self.n_classes)

    def class_probabilities(self, f) -> np.ndarray:
        return np.exp(_log_softmax(f))


def _log_softmax(f):
    shifted = f - np.max(f, axis=-1, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True))
