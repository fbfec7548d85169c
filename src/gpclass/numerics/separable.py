"""Product covariances of several classes, cov(f_c(x), f_d(z)) = inputs(x, z) · classes(c, d).

Code that accepts both arrays and `Separable` reads them with `inputs_of` and `classes_of` and makes them with `combined`. It
does not check the type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Separable:
    """The factors of K = inputs ⊗ classes, or the derivatives in each factor.

    Parameters
    ----------
    inputs : ndarray of shape (n, n), (n, m) or (m,)
        Factor of the inputs: among training points, with other points, or variances.
    classes : ndarray of shape (C, C)
        Factor of the classes.
    """

    inputs: np.ndarray
    classes: np.ndarray


def inputs_of(value: Any) -> Any:
    """Return the factor of the inputs, or an array unchanged."""
    return value.inputs if isinstance(value, Separable) else value


def classes_of(value: Any) -> np.ndarray | None:
    """Return the factor (C, C) of the classes, or None for an array, which means independent classes."""
    return value.classes if isinstance(value, Separable) else None


def combined(inputs: Any, classes: np.ndarray | None) -> Any:
    """Return `Separable(inputs, classes)`, or `inputs` if `classes` is None. Inverse of `inputs_of` and `classes_of`."""
    return inputs if classes is None else Separable(inputs, classes)
