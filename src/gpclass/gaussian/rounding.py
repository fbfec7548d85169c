"""Effects of rounding: on B = I + √τ K √τ, on its factorisation, and on small variances."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..numerics import Factor, NotPositiveDefinite, epsilon

EPS = np.finfo(float).eps
# Sweeps stop improving at this multiple of the rounding: at most 5 in measurements, on problems made for it. Results in
# float32 are confirmed in float64, so there a typical value is enough.
STALL_FACTOR = {np.float64: 8.0, np.float32: 0.5}
NEGLIGIBLE_ROUNDING = 1e-3  # rounding of the eigenvalues of B that is too small to make a factorisation fail
SAFE_ENTRY = 1e8  # entries of K with negligible rounding for ten thousand rows, if no site precision is much above one
SMALLER = "scale the kernel's variance down, or standardise the inputs"  # advice if K is too large
# Smallest posterior variance, relative to the prior variance. The variance of a point that coincides with data can be below
# zero by about this much, because of rounding.
SMALLEST_VARIANCE = 1e-14


def rounding_of_B(K: np.ndarray, tau: np.ndarray, dtype: Any = np.float64) -> float:
    """Return the rounding error of the largest entry of B = I + √τ K √τ in `dtype`."""
    return epsilon(dtype) * float((1 + np.abs(tau) * K.diagonal()).max())


def factor_of_B(B: np.ndarray, what: str, K: np.ndarray, kind: Any = Factor) -> Any:
    """Return the Cholesky factor of B = I + √τ K √τ, or of the identity plus another matrix made from K.

    All eigenvalues of B are at least one. So the factorisation fails for one of two reasons: K is not a covariance matrix,
    or the rounding of K is larger than the identity. The error says which. `K` (..., n, n) is used for the message only; its
    entries must be finite.
    """
    rounding = len(B) * epsilon(B.dtype) * float(B.diagonal().max(initial=0.0))  # NaN if B overflows
    try:
        return kind(B, what)
    except NotPositiveDefinite as error:
        if rounding < NEGLIGIBLE_ROUNDING:
            raise
        raise NotPositiveDefinite(too_large(K)) from error


def too_large(K: np.ndarray, what: str = "K") -> str:
    """Return the error message for K (..., n, n) whose rounding exceeds the information in the data."""
    largest = float(np.max(np.diagonal(K, axis1=-2, axis2=-1)))
    return (
        f"{what} has entries of {largest:.0e}, which float64 rounds by {EPS * largest:.0e}; its rank is too low to "
        f"tolerate that (entries up to {SAFE_ENTRY:.0e} are safe): {SMALLER}."
    )
