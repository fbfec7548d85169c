"""Validation of inputs, and the rows that the kernel takes."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import assert_all_finite, check_array, check_consistent_length, check_X_y, column_or_1d

from ..expressions import parse_kernel
from ..kernels import Kernel, as_kernel
from ..kernels.arrays import as_objects
from ..kernels.precomputed import without_numbers
from ..learning import validated
from ..numerics.fingerprint import single_precision_fingerprints
from .covariances import GivenMatrix, ObjectRows, SparseRows, Start, unit_leaf
from .frames import about_frames, as_frame, fitted_encoder, is_frame, naming_cells, refuse_names_twice

SPARSE_ADVICE = (
    "use kernel='linear' or kernel='tanimoto', which take sparse rows, X.toarray(), or TruncatedSVD for a few columns"
)


def fitted_inputs(model: Any, X: Any, y: Any, **settings: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return training inputs as an array of numbers, and y. Sets `covariances_` or `encoder_` of the estimator.

    Parameters
    ----------
    model : GPClassifier or GPRegressor
        The estimator, with its `kernel` and `missing`.
    X : array-like
        Rows of numbers, a data frame, a sparse matrix, a covariance matrix (n, n) or n objects, as the kernel takes them.
    y : array-like of shape (n,)
        Labels or targets.
    **settings : dict
        Further settings of `validate_data`, such as `dtype`.

    Returns
    -------
    X : ndarray of shape (n, D)
        Rows for the kernel of `starting_point`.
    y : ndarray of shape (n,)
    """
    for name in ("covariances_", "encoder_"):
        model.__dict__.pop(name, None)
    kernel = _object(model.kernel)
    takes = "numbers" if kernel is None else kernel.takes
    if takes == "covariances":
        K, y = validated(model, X, y, **settings | {"dtype": np.float64})
        model.covariances_, rows = GivenMatrix.training(K)
        return rows, y
    if takes == "objects":
        assert kernel is not None
        objects, y = _objects_and_labels(model, X, y, **settings)
        model.covariances_, rows = ObjectRows.training(_the_one(kernel), objects)
        return rows, y
    if issparse(X):
        leaf = _sparse_leaf(model.kernel, kernel)
        X, y = validated(model, X, y, **settings | {"dtype": np.float64, "accept_sparse": "csr"})
        model.covariances_, rows = SparseRows.training(leaf, X)
        return rows, y
    plain = model.missing == "error" and isinstance(X, np.ndarray)
    encoder = None if plain else fitted_encoder(X, model.missing)
    if encoder is None:
        return validated(model, X, y, **settings)
    rows, y = validated(model, encoder.transform(as_frame(X)), y, **settings)
    model.encoder_, model.n_features_in_ = encoder, encoder.n_features_in_
    if is_frame(X):
        model.feature_names_in_ = encoder.feature_names_in_
    return rows, y


def more_inputs(model: Any, X: Any) -> np.ndarray:
    """Return further rows, for predictions, as an array of numbers in double precision."""
    if model.covariances_ is not None:
        return model.covariances_.rows(model, X)
    if issparse(X):
        raise TypeError("X is sparse, but the model was fitted to an array: use X.toarray()")
    if model.encoder_ is not None:
        return check_array(_encoded(model, X), dtype=np.float64)
    if isinstance(X, np.ndarray):
        return validated(model, X, dtype=np.float64, reset=False)
    refuse_names_twice(X)
    with _naming_cells(model, X):
        return validated(model, X, dtype=np.float64, reset=False)


def more_data(model: Any, X: Any, y: Any, **settings: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return further training rows, for `partial_fit`, as an array of numbers, and y."""
    if model.covariances_ is not None:
        raise ValueError(
            "partial_fit is not possible with a matrix, objects or sparse rows: covariances between the new rows are needed "
            "too; call fit with all rows"
        )
    if model.encoder_ is not None:
        return check_X_y(_encoded(model, X), y, **settings)
    refuse_names_twice(X)
    with _naming_cells(model, X):
        return validated(model, X, y, reset=False, **settings)


def _naming_cells(model: Any, X: Any) -> Any:
    return naming_cells(X, getattr(model, "feature_names_in_", None), model.n_features_in_)


def row_fingerprints(model: Any, rows: np.ndarray) -> np.ndarray:
    """Return fingerprints (n,) of rows from `fitted_inputs` or `more_inputs`, by which training rows are recognised."""
    known = getattr(model, "covariances_", None)
    return single_precision_fingerprints(rows if known is None else without_numbers(rows))


def on_rows(model: Any) -> Any:
    """Return a fitted estimator for the rows that its kernel takes: the same one, or a copy without encoding."""
    if all(getattr(model, name, None) is None for name in ("covariances_", "encoder_")):  # other packages' have neither
        return model
    inner = copy.copy(model)
    for name in ("covariances_", "encoder_", "feature_names_in_"):
        inner.__dict__.pop(name, None)
    inner.n_features_in_ = model.inputs_.shape[-1]
    return inner


def _encoded(model: Any, X: Any) -> np.ndarray:
    """Return rows encoded as the training rows."""
    if not is_frame(X) and hasattr(model, "feature_names_in_"):
        raise TypeError(
            f"X must be a pandas DataFrame with the columns of the training data; got {type(X).__name__}: the model was "
            "fitted to a frame with text, categories or missing values"
        )
    with about_frames():
        return model.encoder_.transform(as_frame(X))


def starting_point(model: Any, variance: float) -> Any:
    """Return what learning starts from: the kernel of the estimator, or its kernel on rows of covariances.

    `variance` is the prior variance at which kernels given as text start.
    """
    if model.covariances_ is None:
        return model.kernel
    kernel = _object(model.kernel)
    assert kernel is not None
    return model.covariances_.kernel(kernel, Start(variance, not isinstance(model.kernel, str), model.optimizer is not None))


def takes_covariances(kernel: Any) -> bool:
    """Return whether an estimator with this kernel takes a covariance matrix."""
    return _takes(kernel) == "covariances"


def takes_sparse(kernel: Any) -> bool:
    """Return whether an estimator with this kernel takes sparse matrices."""
    try:
        _sparse_leaf(kernel, _object(kernel))
    except (TypeError, ValueError):
        return False
    return True


def _takes(given: Any) -> str:
    try:
        kernel = _object(given)
    except (TypeError, ValueError):  # `fit` raises the error
        return "numbers"
    return "numbers" if kernel is None else kernel.takes


def _object(given: Any) -> Kernel | None:
    """Return a kernel as an object, for any number of columns; None for the default and "auto"."""
    if given is None or (isinstance(given, str) and given == "auto"):
        return None
    return parse_kernel(given, 1) if isinstance(given, str) else as_kernel(given)


def _comparisons(kernel: Kernel) -> list[Kernel]:
    """Return the leaves that depend on the rows, without those that differ from another one in the variance only."""
    found: dict[Any, Kernel] = {}
    for leaf in kernel.leaves:
        if leaf.takes != "any":
            settings = {name: value for name, value in leaf.settings().items() if name != "variance"}
            found.setdefault(repr((type(leaf), settings)), leaf)
    return list(found.values())


def _the_one(kernel: Kernel) -> Kernel:
    """Return the leaf that compares objects. Constants and noise may be added to it."""
    leaves = _comparisons(kernel)
    if len(leaves) > 1:
        names = " and ".join(map(repr, leaves))
        raise TypeError(
            f"estimators take one kernel that compares objects, but {kernel!r} has {names}; add up the functions"
        )
    return leaves[0]


def _sparse_leaf(given: Any, kernel: Kernel | None) -> Kernel:
    leaves = [] if kernel is None else _comparisons(kernel)
    if len(leaves) != 1 or not leaves[0].takes_sparse:
        raise TypeError(f"X is a sparse matrix, but kernel={given!r} takes arrays: {SPARSE_ADVICE}")
    return unit_leaf(leaves[0])


def _objects_and_labels(model: Any, X: Any, y: Any, **settings: Any) -> tuple[np.ndarray, np.ndarray]:
    objects = as_objects(X)
    if not len(objects):
        raise ValueError("X has no objects: at least one is needed")
    y = column_or_1d(y, warn=True, dtype=np.float64 if settings.get("y_numeric") else None)
    assert_all_finite(y, input_name="y")
    check_consistent_length(objects, y)
    for name in ("n_features_in_", "feature_names_in_"):  # of an earlier fit
        model.__dict__.pop(name, None)
    return objects, y
