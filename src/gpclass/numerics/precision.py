"""The precision of factorisations: float64, and float32 for evaluations that need only some digits.

Factorisations, inverses and products of matrices take most of the time of a sweep, and float32 halves it, and the memory.
The covariance matrix, sites, means and scalars stay float64: only B = I + √τ K √τ and what is computed from it is rounded,
and means are corrected by iterative refinement. `single_precision` is a context for whole fits. The code that factorises
asks `factor_dtype` once, and everything computed from a factor has its dtype.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import scipy.linalg.blas
import scipy.linalg.lapack

_PREFIX = {np.dtype(np.float32): "s", np.dtype(np.float64): "d"}
_dtype: ContextVar[Any] = ContextVar("factor_dtype", default=np.float64)


@contextmanager
def single_precision(wanted: bool = True) -> Iterator[None]:
    """Context in which posteriors are factorised in float32, if `wanted`."""
    token = _dtype.set(np.float32 if wanted else np.float64)
    try:
        yield
    finally:
        _dtype.reset(token)


def factor_dtype() -> Any:
    """Return the dtype of new factorisations in the current context."""
    return _dtype.get()


def epsilon(dtype: Any) -> float:
    """Return the relative spacing of numbers of a dtype."""
    return float(np.finfo(dtype).eps)


def blas(name: str, A: np.ndarray) -> Any:
    """Return the BLAS routine `name`, without its prefix, for the dtype of A. It returns arrays of that dtype."""
    return getattr(scipy.linalg.blas, _PREFIX[A.dtype] + name)


def lapack(name: str, A: np.ndarray) -> Any:
    """Return the LAPACK routine `name`, without its prefix, for the dtype of A. It returns arrays of that dtype."""
    return getattr(scipy.linalg.lapack, _PREFIX[A.dtype] + name)
