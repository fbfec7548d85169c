"""Sizes beyond one tile: values, pullbacks, memory, and the work not done."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.kernels import RBF, Linear, Matern52, NeuralNetwork, Periodic, RationalQuadratic
from gpclass.kernels.comparisons import TILE

rng = np.random.default_rng(2)
N, M = 2 * TILE + 17, TILE + 5
X, Z = rng.normal(size=(N, 3)), rng.normal(size=(M, 3))
ELL = (0.7, 1.0, 2.0)
MANY_TILES = [RBF(ELL), Matern52(ELL), RationalQuadratic(ELL), Linear(ELL), NeuralNetwork(), Periodic(period=3.0)]


@pytest.mark.parametrize("kernel", MANY_TILES, ids=repr)
def test_tiles_fit_together(kernel):
    K = kernel(X)
    assert np.array_equal(K, K.T)
    pick, other = rng.permutation(N)[:40], rng.permutation(M)[:30]
    assert_allclose(K[np.ix_(pick, pick)], kernel(X[pick]), atol=1e-12)  # rounding of distances, another centre
    assert_allclose(kernel(X, Z)[np.ix_(pick, other)], kernel(X[pick], Z[other]), atol=1e-12)
    assert_allclose(kernel.diag(X), np.diag(K), rtol=1e-14)


@pytest.mark.parametrize("kernel", MANY_TILES, ids=repr)
def test_pullback_over_tiles(kernel):
    G, Gs = rng.normal(size=(N, N)), rng.normal(size=(N, M))
    h = 1e-5  # central differences: h² and eps * sum|G K| / h = 2e-16 * 2e5 / 1e-5, both below 1e-5 of the result
    for A, B, weights in ((X, None, G), (X, Z, Gs)):
        args = (A, weights) if B is None else (A, B, weights)
        dtheta, dinputs = kernel.pullback(*args, inputs=True)
        for i, e in enumerate(np.eye(len(dtheta))):
            up, down = (np.sum(weights * kernel.with_theta(kernel.theta + s * h * e)(A, B)) for s in (1, -1))
            assert_allclose(dtheta[i], (up - down) / (2 * h), rtol=1e-5, atol=1e-3)
        direction = rng.normal(size=dinputs.shape)
        moved = [(A + s * h * direction, None) if B is None else (A, B + s * h * direction) for s in (1, -1)]
        up, down = (np.sum(weights * kernel(*pair)) for pair in moved)
        assert_allclose(np.sum(dinputs * direction), (up - down) / (2 * h), rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("inputs", [False, True])
def test_pullback_needs_no_large_arrays(inputs):
    n, D = 600, 50
    A, G = rng.normal(size=(n, D)), rng.normal(size=(n, n))
    kernel = RBF(np.full(D, 7.0))
    K = kernel(A)
    for value in (None, K):
        tracemalloc.start()
        kernel.pullback(A, G, inputs=inputs, value=value)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < n * n * 8 * 2  # a few tiles and copies of A; one n x n x D array would be 50 n x n


def test_evaluation_makes_no_second_matrix():
    n = 1500
    A = rng.normal(size=(n, 5))
    tracemalloc.start()
    Matern52()(A)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.2 * n * n * 8


class CountingRBF(RBF):
    seen = 0

    def _shape(self, s):
        type(self).seen += s.size
        super()._shape(s)

    def _expand(self, s):
        type(self).seen += s.size
        return super()._expand(s)


def test_work_is_done_once():
    kernel = CountingRBF()
    CountingRBF.seen = 0
    K = kernel(X)
    assert CountingRBF.seen < N * N / 2 + N * (TILE + 1)  # the triangle, and whole tiles on the diagonal
    CountingRBF.seen = 0
    kernel.pullback(X, K, value=K)
    assert CountingRBF.seen <= N  # the overflow check on the diagonal only


@pytest.mark.parametrize("D", [TILE - 2, TILE, 2 * TILE + 9])
def test_many_features(D):
    A, B = rng.normal(size=(230, D)), rng.normal(size=(40, D))
    G = rng.normal(size=(230, 40))
    kernel = RBF(np.full(D, np.sqrt(D)))
    d2 = ((A[:, None] - B) ** 2).sum(2) / D
    K = np.exp(-d2 / 2)
    assert_allclose(kernel(A, B), K, rtol=1e-12)
    ard = [np.sum(G * K * (A[:, None, d] - B[:, d]) ** 2) / D for d in range(D)]
    assert_allclose(kernel.pullback(A, B, G), [*ard, np.sum(G * K)], rtol=1e-9, atol=1e-10)
