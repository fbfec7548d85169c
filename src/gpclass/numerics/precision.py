"""The precision of factorisations: float64, or float32 for evaluations that need only a few digits.

Factorisations, inverses and products of matrices take most of the time of a sweep, and float32 halves their time and memory.
The covariance matrix, sites, means and scalars stay float64: only B = I + √τ K √τ and what is computed from it are rounded,
and means are corrected by iterative refinement. `single_precision` is a context for whole fits. The code that factorises
calls `factor_dtype` once, and everything computed from a factor has its dtype.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.linalg.blas
import scipy.linalg.lapack

_PREFIX = {"f": "s", "d": "d"}  # by the character of a dtype
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


@lru_cache
def epsilon(dtype: Any) -> float:
    """Return the relative spacing of numbers of a dtype."""
    return float(np.finfo(dtype).eps)


def blas(name: str, A: np.ndarray) -> Any:
    """Return the BLAS routine `name`, without its prefix, for the dtype of A. It returns arrays of that dtype."""
    return _routine(scipy.linalg.blas, name, A.dtype.char)


def lapack(name: str, A: np.ndarray) -> Any:
    """Return the LAPACK routine `name`, without its prefix, for the dtype of A. It returns arrays of that dtype."""
    return _routine(scipy.linalg.lapack, name, A.dtype.char)


@lru_cache  # small problems call it thousands of times
def _routine(library: Any, name: str, char: str) -> Any:
    return getattr(library, _PREFIX[char] + name)
