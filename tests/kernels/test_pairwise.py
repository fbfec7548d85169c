"""The evaluator: values and derivatives against explicit (n, m, D) arrays, memory, and the amount of work."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.kernels import RBF, Linear, Matern32, Matern52, NeuralNetwork, Periodic, RationalQuadratic
from gpclass.kernels.tiles import TILE_SIDE

rng = np.random.default_rng(2)
N, M = 2 * TILE_SIDE + 17, TILE_SIDE + 5
X, Z = rng.normal(size=(N, 3)), rng.normal(size=(M, 3))
ELL = (0.7, 1.0, 2.0)
MANY_TILES = [RBF(ELL), Matern52(ELL), RationalQuadratic(ELL), Linear(ELL), NeuralNetwork(), Periodic(period=3.0)]


def slow(kernel, A, B):
    """k(A, B), and its derivatives (p, n, m) in theta and (D, n, m) in the columns of B, from all differences."""
    ell = np.broadcast_to(kernel.lengthscale, A.shape[1])
    scaled = ((A[:, None] - B) / ell) ** 2
    r2 = scaled.sum(axis=2)
    extra = []
    if isinstance(kernel, RBF):
        h, slope = np.exp(-r2 / 2), -np.exp(-r2 / 2) / 2  # slope is dh/dr²
    elif isinstance(kernel, Matern32):
        a = np.sqrt(3 * r2)
        h, slope = (1 + a) * np.exp(-a), -1.5 * np.exp(-a)
    elif isinstance(kernel, Matern52):
        a = np.sqrt(5 * r2)
        h, slope = (1 + a + a**2 / 3) * np.exp(-a), -5 / 6 * (1 + a) * np.exp(-a)
    else:
        alpha = kernel.alpha
        base = 1 + r2 / (2 * alpha)
        h, slope = base**-alpha, -0.5 * base ** (-alpha - 1)
        extra = [h * (r2 / (2 * base) - alpha * np.log(base))]  # in log alpha
    in_lengthscales = -2 * np.moveaxis(slope[:, :, None] * scaled, 2, 0)
    if np.ndim(kernel.lengthscale) == 0:
        in_lengthscales = in_lengthscales.sum(axis=0, keepdims=True)
    in_theta = kernel.variance * np.array([*in_lengthscales, h, *extra])
    in_B = kernel.variance * np.moveaxis(-2 * slope[:, :, None] * (A[:, None] - B) / ell**2, 2, 0)
    return kernel.variance * h, in_theta, in_B


STATIONARY = (RBF, Matern32, Matern52, RationalQuadratic)


@pytest.mark.parametrize("cls", STATIONARY)
@pytest.mark.parametrize("lengthscale", [1.3, ELL], ids=["isotropic", "ard"])
@pytest.mark.parametrize(("n", "m"), [(7, 5), (N, M), (3, 700), (700, 3)])
@pytest.mark.parametrize("shift", [0.0, 1e4], ids=["near", "far"])
def test_against_all_differences(cls, lengthscale, n, m, shift):
    """Far means that the inputs X are 1e4 lengthscales apart in two groups, beyond the reach of the product form."""
    kernel = cls(lengthscale, 2.5)
    A, B = rng.normal(size=(n, 3)), rng.normal(size=(m, 3))
    A[::2] += shift
    B[::2] += shift
    tol = 1e-12 if shift == 0 else 1e-10  # eps * 1e4, times slopes of a few
    for columns, other in ((n, None), (m, B)):
        K, in_theta, in_B = slow(kernel, A, A if other is None else other)
        G = rng.normal(size=(n, columns))
        assert_allclose(kernel(A, other), K, atol=tol)
        by_pair = [np.sum(G * slopes) for slopes in in_theta]
        scale = np.abs(G[None] * in_theta).sum(axis=(1, 2)).max()
        weights = G + G.T if other is None else G  # rows of A are in both arguments
        moved = np.einsum("ij,dij->jd", weights, in_B)
        for value in (None, kernel(A, other)):
            dtheta, dinputs = kernel.pullback(A, other, G, inputs=True, value=value)
            assert_allclose(dtheta, by_pair, atol=tol * scale)
            assert_allclose(dinputs, moved, atol=tol * scale)
            assert_allclose(kernel.pullback(A, other, G, value=value), by_pair, atol=tol * scale)


@pytest.mark.parametrize("kernel", MANY_TILES, ids=repr)
def test_only_free_parameters_matter(kernel):
    G = rng.normal(size=(N, M))
    full = kernel.pullback(X, Z, G, inputs=True)
    for name in kernel.names:
        fixed, rest = kernel.fix(name), [n != name for n in kernel.names]
        dtheta, dZ = fixed.pullback(X, Z, G, inputs=True)
        assert_allclose(dtheta, full[0][rest], rtol=1e-12)
        assert_allclose(dZ, full[1], rtol=1e-12)


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
    assert CountingRBF.seen < N * N / 2 + N * (TILE_SIDE + 1)  # the triangle, and whole tiles on the diagonal
    CountingRBF.seen = 0
    kernel.pullback(X, K, value=K)
    assert CountingRBF.seen <= N  # the overflow check on the diagonal only


@pytest.mark.parametrize("D", [TILE_SIDE - 2, TILE_SIDE, 2 * TILE_SIDE + 9])
def test_many_features(D):
    A, B = rng.normal(size=(230, D)), rng.normal(size=(40, D))
    G = rng.normal(size=(230, 40))
    kernel = RBF(np.full(D, np.sqrt(D)))
    d2 = ((A[:, None] - B) ** 2).sum(2) / D
    K = np.exp(-d2 / 2)
    assert_allclose(kernel(A, B), K, rtol=1e-12)
    ard = [np.sum(G * K * (A[:, None, d] - B[:, d]) ** 2) / D for d in range(D)]
    assert_allclose(kernel.pullback(A, B, G), [*ard, np.sum(G * K)], rtol=1e-9, atol=1e-10)
