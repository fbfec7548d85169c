"""Extreme scales: finite results or a clear error, and no avoidable loss of digits. RuntimeWarnings are errors here."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.kernels import (
    RBF,
    Constant,
    Linear,
    Matern32,
    Matern52,
    NeuralNetwork,
    Periodic,
    Polynomial,
    RationalQuadratic,
    White,
)

rng = np.random.default_rng(4)
X = rng.normal(size=(9, 2))
X[5] = X[2]
STATIONARY = (RBF, Matern32, Matern52, RationalQuadratic)
SOME = [cls(l) for cls in STATIONARY for l in (1e-8, 1.0)]
SOME += [Periodic(), Linear(), Polynomial(3), NeuralNetwork(), Constant(), White(), Linear() * Linear()]
SOME += [RBF() * Linear() + 1.0]
WITH_LENGTHSCALE = (*STATIONARY, Periodic, Linear, Polynomial, NeuralNetwork)


@pytest.mark.parametrize("lengthscale", [1e-8, 1e-3, 1e3, 1e8])
@pytest.mark.parametrize("cls", WITH_LENGTHSCALE)
def test_lengthscales(cls, lengthscale):
    k = cls(lengthscale=lengthscale)
    G = rng.normal(size=(9, 9))
    K = k(X)
    parts = [K, k(X, X), *k.pullback(X, G, inputs=True), *k.pullback(X, X, G, inputs=True), k.pullback(X, G, value=K)]
    for part in parts:
        assert np.isfinite(part).all()
    assert_allclose(K[2, 5], K[2, 2], rtol=1e-7)  # duplicates; the arcsine is steep, see its docstring
    eigenvalues = np.linalg.eigvalsh(K)
    assert eigenvalues[0] > -1e-8 * eigenvalues[-1]


@pytest.mark.parametrize("scale", [1e100, 1e150, 1e200, 1e308])
@pytest.mark.parametrize("k", SOME, ids=repr)
def test_huge_inputs(k, scale):
    A = scale * np.array([[1.0, -1.0], [1.0, 1.0], [1.0, 1.0], [-1.0, 0.5]])
    try:
        results = [k(A), k(A, A[:2]), k.diag(A), *k.pullback(A, np.ones((4, 4)), inputs=True)]
    except ValueError as error:
        assert "Rescale" in str(error)  # noqa: PT017
    else:
        assert all(np.isfinite(part).all() for part in results)


def test_tiny_inputs_and_huge_variance():
    K = RBF(1e-8, 1e300)(1e-300 * X)
    assert_allclose(K, 1e300)


@pytest.mark.parametrize("cls", STATIONARY)
def test_far_from_the_origin_and_from_each_other(cls):
    """Two clusters 1e8 lengthscales apart: near twins keep their distances, which |x|² + |z|² - 2 x·z would lose."""
    near = rng.normal(size=(6, 2))
    far = near + np.array([1e8, 0.0])
    both = np.vstack([near, far])
    k, G = cls(), rng.normal(size=(12, 12))
    assert_allclose(k(both)[:6, :6], k(near), atol=1e-6)  # inputs themselves are rounded at 1e8 * eps
    expected = k.pullback(near, G[:6, :6]) + k.pullback(near, G[6:, 6:])
    got = k.pullback(both, G)
    if cls is not RationalQuadratic:  # its tail is long
        assert_allclose(got, expected, atol=1e-5)
        assert_allclose(k.pullback(both, G, value=k(both)), expected, atol=1e-5)


@pytest.mark.parametrize("cls", STATIONARY)
@pytest.mark.parametrize("far", [1e6, 1e100])
def test_a_far_test_row_leaves_the_others_alone(cls, far):
    """Inputs are centred at the training rows only, so that other rows of a batch do not affect a prediction."""
    k, Z = cls(), rng.normal(size=(4, 2))
    with_far = np.vstack([Z, np.full((1, 2), far)])
    assert_allclose(k(X, with_far)[:, :4], k(X, Z), rtol=1e-13)  # BLAS rounds four columns and five differently
    assert_allclose(k(X, with_far)[:, 4], 0.0, atol=1e-10)  # RationalQuadratic: r^-2


@pytest.mark.parametrize("cls", STATIONARY)
def test_translation_costs_no_digits(cls):
    shift = 2.0**20  # inputs shifted and rounded on a grid that both share, so that the truth is the same
    grid = np.round(X * 2**20) / 2**20
    assert_allclose(cls()(grid + shift), cls()(grid), atol=1e-9)


def test_many_periods():
    k = Periodic(period=0.25)
    A = np.array([[0.0], [0.1], [0.2]])
    assert_allclose(k(A, A + 2.0**20), k(A), atol=1e-7)  # inputs are rounded at 2^20 eps = 2e-10, times slope 8π


def test_empty_and_single():
    for k in (RBF(), Linear(), Periodic(), NeuralNetwork(), White(), RBF() + Constant()):
        assert k(X[:0]).shape == (0, 0)
        assert k(X, X[:0]).shape == (9, 0)
        assert k.pullback(X[:0], np.ones((0, 0))).shape == k.theta.shape
        assert k.pullback(X, X[:0], np.ones((9, 0)), inputs=True)[1].shape == (0, 2)
        assert_allclose(k(X[:1])[0], k.diag(X[:1]))


def test_rational_quadratic_approaches_rbf():
    assert_allclose(RationalQuadratic(alpha=1e12)(X), RBF()(X), atol=1e-10)  # the gap is r⁴ / (8 alpha)
