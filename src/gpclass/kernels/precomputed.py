"""Covariances that are given, not computed: rows of a matrix as inputs.

An input row of `Precomputed` is (number, prior variance, covariances with all n training rows). The number is the position
among the training rows, or -1 for other rows. So covariances among a subset of the training rows are known, which searches
on fewer rows and active sets need. `covariance_rows` makes such rows; estimators call it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arrays import Array
from .leaf import VarianceOnly

NUMBER, VARIANCE, FIRST_COVARIANCE = 0, 1, 2  # columns of an input row: number, prior variance, first covariance


class Precomputed(VarianceOnly):
    """k(x, z) = variance * K[x, z], with a covariance matrix K of the user.

    `GPClassifier(kernel=Precomputed())` and `kernel="precomputed"` take K (n, n) in `fit` and the covariances (m, n) of test
    rows with the training rows in `predict`. Terms that do not depend on inputs can be added, such as `Precomputed() +
    White()`. The rows that this kernel itself takes are those of `covariance_rows`.

    Parameters
    ----------
    variance : float, default=1.0
        The factor on K.
    bounds : mapping of str to pairs of float, optional
        Bounds of the parameters, as values.
    """

    _takes = "covariances"

    def seen(self, X: Array) -> Array:
        return np.zeros((len(X), 1))  # there are no lengthscales, and covariances have no distances

    def _given(self, X: Array, Z: Array | None) -> Array:
        """Return the covariances in the matrix that the user gave."""
        if Z is None:
            K = _between(X, X)
            K = 0.5 * (K + K.T)  # K is symmetric up to rounding
            np.fill_diagonal(K, X[:, VARIANCE])
            return K
        return _between(X, Z)

    def _matrix(self, X: Array, Z: Array | None) -> Array:
        return self.variance * self._given(X, Z)

    def _diagonal(self, X: Array) -> Array:
        return self.variance * X[:, VARIANCE]

    def _pullback(
        self, X: Array, Z: Array | None, G: Array, inputs: bool, value: Array | None
    ) -> tuple[Array, Array | None]:
        if inputs:
            raise TypeError("a precomputed matrix has no derivatives in the inputs, so inducing inputs cannot be learned.")
        return self._variance_gradient(X, Z, G, value), None


def covariance_rows(K: ArrayLike, variances: ArrayLike, numbers: NDArray[np.intp] | None = None) -> Array:
    """Return the input rows (m, n + 2) of a `Precomputed` kernel.

    Parameters
    ----------
    K : array_like of shape (m, n)
        Covariances with the n training rows.
    variances : array_like of shape (m,) or float
        Prior variances of the rows.
    numbers : ndarray of shape (m,), optional
        Positions among the training rows. By default these are other rows.

    Returns
    -------
    ndarray of shape (m, n + 2)
    """
    K = np.asarray(K, dtype=np.float64)
    rows = np.empty((len(K), K.shape[1] + FIRST_COVARIANCE))
    rows[:, NUMBER] = -1 if numbers is None else numbers
    rows[:, VARIANCE] = variances
    rows[:, FIRST_COVARIANCE:] = K
    return rows


def without_numbers(rows: Array) -> Array:
    """Return rows without their number: a training row and the same row given again are then equal."""
    return rows[:, VARIANCE:]


def _between(X: Array, Z: Array) -> Array:
    """Return the covariances (n, m) between rows. X or Z must consist of training rows."""
    rows, columns = (_numbers(part) for part in (X, Z))
    if (columns >= 0).all():
        return X[:, FIRST_COVARIANCE + columns]
    if (rows >= 0).all():
        return np.ascontiguousarray(Z[:, FIRST_COVARIANCE + rows].T)
    raise ValueError("the matrix has no covariances between two rows that are not training rows.")


def _numbers(X: Array) -> NDArray[np.intp]:
    numbers = X[:, NUMBER].astype(int)
    n_training = X.shape[1] - FIRST_COVARIANCE
    if n_training <= 0 or not np.array_equal(numbers, X[:, NUMBER]) or numbers.max(initial=-1) >= n_training:
        raise ValueError(
            "Precomputed takes rows of covariances (gpclass.kernels.covariance_rows), which estimators make of a matrix."
        )
    return numbers
