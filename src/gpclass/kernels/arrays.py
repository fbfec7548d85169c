"""Arrays that kernels take: their types, and checks."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array: TypeAlias = NDArray[np.float64]


def pullback_arguments(Z: Any, G: Any) -> tuple[Any, Any]:
    """Return Z and G for `pullback(X, G)` and `pullback(X, Z, G)`."""
    if G is None:
        Z, G = None, Z
    if G is None:
        raise ValueError("pullback needs the derivatives G: pullback(X, G) or pullback(X, Z, G).")
    return Z, G


def checked_inputs(X: Any, Z: Any = None, takes: str = "numbers") -> tuple[Any, Any]:
    """Return X (n, D) and Z (m, D) as finite float64 arrays, or raise ValueError. Objects become arrays of objects."""
    if takes == "objects":
        return as_objects(X), None if Z is None else as_objects(Z)
    X = _checked(X, "X")
    if Z is None:
        return X, None
    Z = _checked(Z, "Z")
    if X.shape[1] != Z.shape[1]:
        raise ValueError(f"X has {X.shape[1]} columns but Z has {Z.shape[1]}; both need the same inputs.")
    return X, Z


def as_objects(X: Any) -> NDArray[Any]:
    """Return a sequence of objects as an array (n,) of objects. An array is returned as it is: its rows are the objects."""
    if isinstance(X, np.ndarray) and X.ndim:
        return X
    if hasattr(X, "to_numpy"):  # rows of a data frame, entries of a series
        return X.to_numpy()
    try:
        items = list(X)
    except TypeError:
        raise TypeError(f"X must be a sequence of objects; got {type(X).__name__}.") from None
    if isinstance(X, str):
        raise TypeError("X must be a sequence of objects; got a string. Use [text] for a single object.")
    objects = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):  # one by one: `objects[:] = items` would split objects that are sequences
        objects[i] = item
    return objects


def _checked(X: ArrayLike, name: str) -> Array:
    try:
        array = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a 2-d array of numbers; got {type(X).__name__}.") from error
    if array.ndim != 2:
        hint = f" Use {name}[:, None] for one column, {name}[None, :] for one row." if array.ndim == 1 else ""
        raise ValueError(f"{name} must be 2-d (rows are points); got shape {array.shape}.{hint}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} has NaN or infinite entries; kernels need finite inputs.")
    return array


def squared_norms(X: Any) -> Array:
    """Return |x|² of each row of an array or a sparse matrix, (n,). It may be infinite."""
    if isinstance(X, np.ndarray):
        with np.errstate(over="ignore"):
            return np.einsum("ij,ij->i", X, X)
    return np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()


def checked_shape(G: ArrayLike, shape: tuple[int, ...], name: str) -> Array:
    """Return G as a float64 array, or raise ValueError if it has another shape."""
    G = np.asarray(G, dtype=np.float64)
    if G.shape != shape:
        raise ValueError(f"{name} has shape {G.shape}, but the covariances have shape {shape}.")
    return G
