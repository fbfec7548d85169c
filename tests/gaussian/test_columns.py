"""Covariances by columns: a matrix, some of its rows, and derivatives collected into one."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from gpclass.gaussian import MatrixColumns, MatrixGradient
from gpclass.gaussian.columns import cross, gram
from gpclass.testing.problems import covariance, inputs

K = covariance(inputs(6))
ROWS, INDICES = np.array([4, 0, 3]), np.array([2, 1])


def test_some_rows_are_the_covariance_among_them():
    some = MatrixColumns(K).take(ROWS)
    among = K[np.ix_(ROWS, ROWS)]
    assert len(some) == 3
    assert_array_equal(some.diag, np.diagonal(among))
    assert_array_equal(some.columns(INDICES), among[:, INDICES])
    assert_array_equal(some.columns(INDICES, rows=np.array([2])), among[2:, INDICES])
    assert_array_equal(some.take(INDICES).columns(np.array([0, 1])), among[np.ix_(INDICES, INDICES)])


def test_cross_and_gram():
    covariances = MatrixColumns(K)
    assert_array_equal(cross(covariances, INDICES, ROWS), K[np.ix_(INDICES, ROWS)])
    assert cross(covariances, INDICES[:0], ROWS).shape == (0, 3)
    assert_array_equal(gram(covariances, ROWS), gram(covariances, ROWS).T)
    assert_allclose(gram(covariances, ROWS), K[np.ix_(ROWS, ROWS)])


def test_a_collected_derivative_is_that_along_symmetric_directions():
    """Σ total dK over all entries equals the sum over the parts and their covariances."""
    rng = np.random.default_rng(0)
    G, F, g = rng.normal(size=(2, 2)), rng.normal(size=(2, 3)), rng.normal(size=3)
    G, sink = G + G.T, MatrixGradient(6)
    sink.gram(INDICES, G)
    sink.cross(INDICES, ROWS, F, K[np.ix_(INDICES, ROWS)])
    sink.diag(ROWS, g)
    D = rng.normal(size=(6, 6))
    D = D + D.T
    wanted = np.sum(G * D[np.ix_(INDICES, INDICES)]) + np.sum(F * D[np.ix_(INDICES, ROWS)]) + g @ D[ROWS, ROWS]
    assert_allclose(np.sum(sink.total * D), wanted, rtol=1e-12)
