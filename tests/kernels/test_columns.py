"""Columns computed on demand equal the columns of k(X)."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.kernels import (
    RBF,
    ClassCovariance,
    Constant,
    Correlated,
    Linear,
    Matern32,
    Matern52,
    NeuralNetwork,
    PerClass,
    Periodic,
    Polynomial,
    RationalQuadratic,
    White,
)
from gpclass.kernels.columns import KernelColumns

X = np.random.default_rng(0).normal(size=(40, 3))
KERNELS = [
    RBF(0.7, 2.0),
    RBF([0.7, 1.0, 2.0]),
    Matern32(0.5),
    Matern52(0.5, 3.0),
    RationalQuadratic(1.0),
    Linear(),
    Polynomial(3),
    NeuralNetwork(),
    Periodic(1.0, 2.0),
    Constant(2.0),
    White(0.3),
    RBF(1.0) + Linear() + White(0.3) + 2.0,
    RBF(1.0) * Linear() + Matern32(2.0),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_same_covariances(kernel):
    K, covariance = kernel(X), KernelColumns(kernel, X)
    some, rows = np.array([3, 7, 9]), np.array([1, 3, 30, 9])
    scale = np.abs(K).max()
    assert len(covariance) == 40
    assert_allclose(covariance.diag, np.diagonal(K), rtol=1e-14)
    for got, want in (
        (covariance.columns(some), K[:, some]),
        (covariance.columns(some[:1]), K[:, some[:1]]),
        (covariance.columns(some, rows=rows), K[np.ix_(rows, some)]),
        (covariance.columns(some[:1], rows=rows), K[np.ix_(rows, some[:1])]),
        (covariance.take(rows).columns(np.array([1, 3])), K[np.ix_(rows, rows[[1, 3]])]),
    ):
        assert_allclose(got, want, atol=1e-13 * scale)  # sums in another order


def test_near_twins_far_from_the_others():
    """|f|² + |h|² - 2⟨f, h⟩ would lose all digits of these distances."""
    far = np.vstack([X, 1e7 + X[:5], 1e7 + X[:5] + 1e-3])
    kernel = RBF(1.0)
    K, covariance = kernel(far), KernelColumns(kernel, far)
    assert_allclose(covariance.columns(np.array([41, 47])), K[:, [41, 47]], atol=1e-9)
    assert_allclose(covariance.columns(np.array([47])), K[:, [47]], atol=1e-9)


def test_many_rows_come_in_tiles():
    many = np.random.default_rng(1).normal(size=(50_000, 2))
    kernel = Matern32(1.0)
    assert_allclose(KernelColumns(kernel, many).columns(np.array([7, 40_000])), kernel(many, many[[7, 40_000]]), atol=1e-13)


def test_bad_inputs():
    with pytest.raises(ValueError, match="NaN"):
        KernelColumns(RBF(), np.array([[np.nan]]))
    with pytest.raises(ValueError, match="3 values"):
        KernelColumns(RBF([1.0, 2.0, 3.0]), X[:, :2])


@pytest.mark.parametrize("kernel", [PerClass(RBF(), RBF()), Correlated(RBF(), ClassCovariance(2))], ids=repr)
def test_kernels_without_a_single_matrix(kernel):
    with pytest.raises(TypeError, match="no single matrix"):
        KernelColumns(kernel, X)
