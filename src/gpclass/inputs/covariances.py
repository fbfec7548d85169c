"""Rows of covariances with the training rows: from a matrix of the user, from objects, from sparse rows.

Each class keeps what further rows need. `training` makes the object and the training rows, `rows` further rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.utils import assert_all_finite

from ..kernels import Kernel, Precomputed, covariance_rows
from ..kernels.arrays import as_objects
from ..kernels.parameters import Parameter
from ..learning import validated

ROUNDING = 1e-8  # share of the largest entry up to which a matrix may differ from its transpose, and variances be equal


@dataclass(frozen=True)
class Start:
    """Where learning starts."""

    variance: float  # prior variance of kernels given as text
    literal: bool  # whether the kernel is an object, which is used as it is
    learned: bool  # whether anything is learned

    def parameter(self, level: float) -> Parameter:
        """Return the factor on covariances whose mean variance is `level`."""
        return Parameter.make("variance", self.variance / level if level > 0 else 1.0, None, False)


@dataclass(frozen=True)
class GivenMatrix:
    """A covariance matrix of the user.

    Attributes
    ----------
    n_rows : int
        Number of training rows.
    variance : float or None
        The prior variance of each row, or None if those of the training rows differ.
    level : float
        Mean prior variance of the training rows.
    """

    n_rows: int
    variance: float | None
    level: float

    @staticmethod
    def training(K: np.ndarray) -> tuple[GivenMatrix, np.ndarray]:
        """Return the object and the training rows of a matrix (n, n), or raise a ValueError if it is not a covariance."""
        _check_covariance(K)
        variances = np.diag(K)
        equal = np.ptp(variances) <= ROUNDING * np.max(variances)
        given = GivenMatrix(len(K), float(np.mean(variances)) if equal else None, float(np.mean(variances)))
        return given, covariance_rows(K, variances, np.arange(len(K)))

    def rows(self, model: Any, X: Any) -> np.ndarray:
        """Return further rows from covariances (m, n), or (m, n + 1) with the prior variances in the last column."""
        K = self._checked(model, X)
        if K.shape[1] == self.n_rows + 1:
            if np.any(K[:, -1] < 0):
                raise ValueError("the last column of X contains the prior variances of its rows, but some are negative")
            return covariance_rows(K[:, :-1], K[:, -1])
        if self.variance is None:
            raise ValueError(
                f"the prior variances of these {len(K)} rows are not known: the diagonal of the training matrix is not "
                f"constant. Append them as a last column (X of shape ({len(K)}, {self.n_rows + 1})), or scale the matrix "
                "to a constant diagonal, K[i, j] / sqrt(K[i, i] * K[j, j]), before fit"
            )
        return covariance_rows(K, self.variance)

    def _checked(self, model: Any, X: Any) -> np.ndarray:
        shape = np.shape(X)
        if len(shape) != 2 or shape[1] != self.n_rows + 1:
            return validated(model, X, dtype=np.float64, reset=False)
        assert_all_finite(X, input_name="X")
        return np.asarray(X, dtype=np.float64)

    def kernel(self, kernel: Kernel, start: Start) -> Kernel:
        """Return the kernel that learning starts from. Text starts at a prior variance, but is literal without learning."""
        if start.literal or not start.learned:
            return kernel
        return on_covariances(kernel, start.parameter(self.level))


def _check_covariance(K: np.ndarray) -> None:
    """Raise a ValueError if K is not square, not symmetric, or has an entry that is too large for its variances."""
    if K.shape[0] != K.shape[1]:
        raise ValueError(f"kernel='precomputed' needs a square matrix X in fit, like SVC; got shape {K.shape}")
    largest = np.max(np.abs(K))
    asymmetry = np.abs(K - K.T)
    if np.max(asymmetry) > ROUNDING * largest:
        i, j = np.unravel_index(np.argmax(asymmetry), K.shape)
        raise ValueError(f"the matrix X is not symmetric: X[{i}, {j}] is {K[i, j]:.6g}, but X[{j}, {i}] is {K[j, i]:.6g}")
    variances = np.diag(K)
    if np.any(variances < 0):
        least = int(np.argmin(variances))
        found = f"the variance X[{least}, {least}] is {variances[least]:.6g}"
        raise ValueError(f"the matrix X is not a covariance matrix: {found}")
    sd = np.sqrt(variances)
    excess = np.abs(K) - np.outer(sd, sd)  # |cov(a, b)| ≤ sd(a) sd(b)
    if np.max(excess) > ROUNDING * largest:
        i, j = np.unravel_index(np.argmax(excess), K.shape)
        raise ValueError(
            f"the matrix X is not a covariance matrix: X[{i}, {j}] is {K[i, j]:.6g}, but the variances X[{i}, {i}] and "
            f"X[{j}, {j}] are {variances[i]:.6g} and {variances[j]:.6g}. Is it a matrix of distances?"
        )


@dataclass(frozen=True)
class ObjectRows:
    """Training objects, and the kernel that compares further ones with them.

    Attributes
    ----------
    leaf : Kernel
        The kernel, such as `FunctionKernel`.
    objects : ndarray of shape (n, ...)
        The training objects.
    """

    leaf: Any
    objects: Any

    @staticmethod
    def training(leaf: Kernel, objects: np.ndarray) -> tuple[ObjectRows, np.ndarray]:
        """Return the object and the training rows."""
        return ObjectRows(leaf, objects), _training_rows(leaf, objects)

    def rows(self, model: Any, X: Any) -> np.ndarray:
        """Return the rows of further objects."""
        return self.compared(as_objects(X))

    def compared(self, objects: Any) -> np.ndarray:
        """Return the rows of objects that have been checked."""
        return covariance_rows(self.leaf.unit_values(objects, self.objects), self.leaf.unit_diagonal(objects))

    def kernel(self, kernel: Kernel, start: Start) -> Kernel:
        """Return the kernel on rows of covariances that learning starts from. Text starts at a prior variance."""
        level = float(np.mean(self.leaf.unit_diagonal(self.objects)))
        return on_covariances(kernel, None if start.literal else start.parameter(level))


@dataclass(frozen=True)
class SparseRows:
    """Training rows of a sparse matrix, and the kernel that compares further ones with them.

    Attributes
    ----------
    leaf : Kernel
        A kernel that takes sparse rows.
    data, indices, indptr : ndarray
        The training rows in compressed sparse row format.
    n_columns : int
        Number of columns.
    """

    leaf: Any
    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    n_columns: int

    @staticmethod
    def training(leaf: Kernel, X: Any) -> tuple[SparseRows, np.ndarray]:
        """Return the object and the training rows of a sparse matrix."""
        return SparseRows(leaf, X.data, X.indices, X.indptr, X.shape[1]), _training_rows(leaf, X)

    @cached_property
    def _objects(self) -> ObjectRows:
        shape = (len(self.indptr) - 1, self.n_columns)
        rows = csr_array((self.data, self.indices, self.indptr), shape=shape)
        rows.check_format(full_check=True)  # they may come from a file, and products do not check indices
        return ObjectRows(self.leaf, rows)

    def rows(self, model: Any, X: Any) -> np.ndarray:
        """Return the rows of further sparse or dense rows."""
        X = validated(model, X, dtype=np.float64, reset=False, accept_sparse="csr")
        return self._objects.compared(csr_array(X))

    def kernel(self, kernel: Kernel, start: Start) -> Kernel:
        """Return the kernel on rows of covariances that learning starts from, see `ObjectRows.kernel`."""
        return self._objects.kernel(kernel, start)


def _training_rows(leaf: Kernel, objects: Any) -> np.ndarray:
    K = leaf.unit_values(objects, None)
    variances = leaf.unit_diagonal(objects)
    np.fill_diagonal(K, variances)
    _check_covariance(K)
    return covariance_rows(K, variances, np.arange(len(K)))


def unit_leaf(leaf: Kernel) -> Kernel:
    """Return the kernel itself, or raise a TypeError if learning would change more than its variance."""
    moving = [name for name in leaf.names if name != "variance"]
    if moving or (leaf.lengthscale is not None and np.ndim(leaf.lengthscale)):
        raise TypeError(
            f"{type(leaf).__name__} compares sparse rows with one fixed lengthscale, so that only its variance is learned: "
            f"use {type(leaf).__name__}(), or X.toarray()"
        )
    return leaf


def on_covariances(kernel: Kernel, variance: Parameter | None) -> Kernel:
    """Return the kernel with its leaf for objects or sparse rows replaced by `Precomputed` with the same variance.

    `variance` replaces that of the leaf.
    """
    replaced = []
    for leaf in kernel.leaves:
        own: Any = leaf
        if leaf.takes != "any":
            p = own._parameters["variance"]
            factor: Any = p if variance is None else replace(variance, free=p.free)
            own = Precomputed(factor)
        replaced.append(own)
    return kernel._with_leaves(iter(replaced))
