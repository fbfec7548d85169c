"""Find rows far from the training data, where predictions follow mostly from the prior.

The nearness of two rows is their prior correlation, k(x, z) / √(k(x, x) k(z, z)): 1 for equal rows, 0.6 one lengthscale
apart with RBF, and 0 far away. A row is far if its largest nearness to a training row is below NEAR_CORRELATION and below
the FAR_QUANTILE of the training rows' own: in many dimensions all rows are far from each other, and that is normal.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..numerics.separable import inputs_of
from .models import classifier, is_stacked, to_inputs

NEAR_CORRELATION = 0.9  # a row with a larger correlation is always near: half a lengthscale away with RBF
FAR_QUANTILE = 0.01  # of the training rows' own nearness; a row below this quantile is far
QUANTILE_ROWS = 2000  # training rows from which the quantile is estimated


def nearness(model: Any, X: Any) -> np.ndarray:
    """Return the largest prior correlation of each row with a row of the posterior.

    Parameters
    ----------
    model : GPClassifier or Pipeline
        A fitted classifier, or a fitted pipeline whose last step is one.
    X : array-like or DataFrame of shape (m, n_features)
        Rows in the format that the model was fitted to.

    Returns
    -------
    ndarray of shape (m,)
        Correlations. The rows of the posterior are the training rows, the active rows or the inducing points. If
        predictions average over several kernels, the smallest of their correlations.
    """
    rows = to_inputs(model, X)
    return np.min([_largest(kernel, rows, inputs) for kernel, inputs in _kernels_and_inputs(model)], axis=0)


def far_rows(model: Any, X: Any) -> np.ndarray:
    """Return whether each row is far from the training data; the module docstring defines "far".

    If predictions average over several kernels, it is far if one of them says so: under a linear kernel no row is far.

    Parameters
    ----------
    model, X
        As for `nearness`.

    Returns
    -------
    ndarray of shape (m,)
        Booleans.
    """
    rows = to_inputs(model, X)
    return np.any([_is_far(kernel, rows, inputs) for kernel, inputs in _kernels_and_inputs(model)], axis=0)


def _is_far(kernel, rows, inputs):
    step = max(1, len(inputs) // QUANTILE_ROWS)
    own = _largest(kernel, inputs[::step], inputs, themselves=np.arange(0, len(inputs), step))
    return _largest(kernel, rows, inputs) < min(NEAR_CORRELATION, float(np.quantile(own, FAR_QUANTILE)))


def _kernels_and_inputs(model):
    """Return pairs of kernel and inputs: of each kernel of a stack, or of the kernel at the mode or mean."""
    last = classifier(model)
    pairs = [(one.kernel, one.inputs) for one in last.members_] if is_stacked(last) else [(last.kernel_, last.inputs_)]
    return [(kernel, np.asarray(inputs, float).reshape(-1, inputs.shape[-1])) for kernel, inputs in pairs]


def correlations(kernel: Any, X: np.ndarray, inputs: np.ndarray) -> np.ndarray:
    """Return the prior correlations (m, n) of the rows of X (m, D) with `inputs` (n, D); (C, m, n) if classes differ."""
    scale = np.sqrt(_variances(kernel, X)[..., :, None] * _variances(kernel, inputs)[..., None, :])
    return inputs_of(kernel(X, inputs)) / scale


def _largest(kernel, X, inputs, themselves=None, block: int = 512):
    """Return the largest correlation (m,) of each row of X with a row of `inputs`.

    If `themselves` is given, row i of X is `inputs[themselves[i]]`, and is not compared with itself.
    """
    out = np.empty(len(X))
    for i in range(0, len(X), block):
        rows = X[i : i + block]
        c = correlations(kernel, rows, inputs)
        c = c.max(axis=0) if c.ndim == 3 else c  # one class is enough
        if themselves is not None:
            c[np.arange(len(rows)), themselves[i : i + block]] = -np.inf
        out[i : i + block] = c.max(axis=1)
    return out


def _variances(kernel, X):
    return np.maximum(inputs_of(kernel.diag(X)), np.finfo(float).tiny)
