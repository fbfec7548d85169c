"""Which rows lie far from all that the model was trained on? There its predictions are mostly prior.

How near two rows are is their prior correlation, k(x, z) / √(k(x, x) k(z, z)): 1 at the same place, 0.6 a lengthscale apart
with RBF, and nothing far away. A row is far if no training row is near it, by a plain measure and by that of the training
rows themselves: in many dimensions all rows are far from each other, and nothing is strange about it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..numerics.separable import inputs_of
from .models import classifier, to_inputs

NEAR_CORRELATION = 0.9  # correlation from which on a row is near, whatever else: half a lengthscale off with RBF
USUAL = 0.01  # part of the training rows that may be as lonely
MOST = 2000  # training rows that are looked at to learn what is usual


def nearness(model: Any, X: Any) -> np.ndarray:
    """(m,) largest prior correlation of each row with a row that the model rests on."""
    kernel, inputs = _kernel_and_inputs(model)
    return _largest(kernel, to_inputs(model, X), inputs)


def far_rows(model: Any, X: Any) -> np.ndarray:
    """(m,) whether each row is far from the training data; see above."""
    kernel, inputs = _kernel_and_inputs(model)
    step = max(1, len(inputs) // MOST)
    usual = _largest(kernel, inputs[::step], inputs, themselves=np.arange(0, len(inputs), step))
    return _largest(kernel, to_inputs(model, X), inputs) < min(NEAR_CORRELATION, float(np.quantile(usual, USUAL)))


def _kernel_and_inputs(model):
    last = classifier(model)
    inputs = np.asarray(last.inputs_, float)
    return last.kernel_, inputs.reshape(-1, inputs.shape[-1])


def _largest(kernel, X, inputs, themselves=None, block: int = 512):
    """(m,) largest correlation of each row of X with one of `inputs`, but for the one that it is itself."""
    own = _variances(kernel, inputs)
    out = np.empty(len(X))
    for i in range(0, len(X), block):
        rows = X[i : i + block]
        c = inputs_of(kernel(rows, inputs)) / np.sqrt(_variances(kernel, rows)[..., :, None] * own[..., None, :])
        c = c.max(axis=0) if c.ndim == 3 else c  # near for one class is near
        if themselves is not None:
            c[np.arange(len(rows)), themselves[i : i + block]] = -np.inf
        out[i : i + block] = c.max(axis=1)
    return out


def _variances(kernel, X):
    return np.maximum(inputs_of(kernel.diag(X)), np.finfo(float).tiny)
