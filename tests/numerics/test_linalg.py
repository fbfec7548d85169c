"""Factor and its helpers against numpy.linalg, at sizes around the blocks."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import LinAlgError

from gpclass.numerics import Factor, NotPositiveDefinite, mirror_lower, scale_lower, scaled_plus_identity
from gpclass.numerics.linalg import RECURSIVE_SIZE, TRIANGLE_ROWS

SIZES = [1, 5, TRIANGLE_ROWS - 1, TRIANGLE_ROWS, TRIANGLE_ROWS + 1, 2 * TRIANGLE_ROWS + 16]
HALF_SIZES = [RECURSIVE_SIZE, RECURSIVE_SIZE + 1, 2 * RECURSIVE_SIZE + 3]  # the last one is halved twice
TOL = 1e-12  # rounding: eps × condition (below 100 here) × √n, with room


def spd(n, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, n))
    return A @ A.T / n + np.eye(n) * 0.1


def lower_with_garbage(A):
    """The lower triangle of A, with garbage above it that must never be read."""
    return np.where(np.tri(len(A), dtype=bool), A, np.nan)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("inverted", [False, True])
def test_factor(n, inverted):
    A, rng = spd(n), np.random.default_rng(1)
    L, inverse = np.linalg.cholesky(A), np.linalg.inv(A)
    factor = Factor(lower_with_garbage(A))
    if inverted:
        assert_allclose(factor.diag_inverse(), np.diag(inverse), rtol=TOL)
    assert_allclose(factor.log_det, np.linalg.slogdet(A)[1], rtol=TOL, atol=TOL)
    wide = rng.normal(size=(n, 7))
    for X in (rng.normal(size=n), wide, np.asfortranarray(wide), wide[:, ::2], rng.normal(size=(7, n)).T, wide[:, :1]):
        before = X.copy()
        for got, truth in (
            (factor.whiten(X), np.linalg.solve(L, X)),
            (factor.whiten(X, transpose=True), np.linalg.solve(L.T, X)),
            (factor.solve(X), np.linalg.solve(A, X)),
        ):
            assert got.shape == X.shape
            assert_allclose(got, truth, rtol=TOL, atol=TOL * 10)
        assert_array_equal(X, before)


@pytest.mark.parametrize("n", SIZES)
def test_inverse_and_diagonal_in_any_order(n):
    A, x = spd(n), np.random.default_rng(2).normal(size=n)
    inverse = np.linalg.inv(A)
    for order in (("diag_inverse", "inverse_lower", "diag_inverse"), ("inverse_lower", "diag_inverse")):
        factor = Factor(lower_with_garbage(A))
        for question in order:
            got = getattr(factor, question)()
            truth = np.diag(inverse) if question == "diag_inverse" else inverse
            if question == "inverse_lower":
                got = mirror_lower(got)  # writing to the result must not change the factor
                got_again = mirror_lower(factor.inverse_lower())
                assert_array_equal(got, got_again)
            assert_allclose(got, truth, rtol=TOL, atol=TOL)
            assert_allclose(factor.solve(x), inverse @ x, rtol=TOL, atol=TOL)


@pytest.mark.parametrize("n", [*SIZES, *HALF_SIZES])
@pytest.mark.parametrize("inverted", [False, True])
def test_what_is_done_in_place(n, inverted):
    A, X = spd(n), np.random.default_rng(3).normal(size=(4, n))
    L, inverse = np.linalg.cholesky(A), np.linalg.inv(A)
    lower = lower_with_garbage(A)
    factor = Factor(lower)
    if inverted:
        assert_allclose(factor.inverse_root(), np.linalg.inv(L), rtol=TOL, atol=TOL)
    assert_allclose(factor.root(), L, rtol=TOL, atol=TOL)
    white = X.copy()
    factor.whiten_rows(white)
    assert_allclose(white, np.linalg.solve(L, X.T).T, rtol=TOL, atol=TOL * 10)
    spent = factor.into_inverse()
    assert np.shares_memory(spent, lower)
    assert_allclose(mirror_lower(spent), inverse, rtol=TOL, atol=TOL)


@pytest.mark.parametrize("n", SIZES)
def test_scale_lower(n):
    A, scale = spd(n), np.random.default_rng(4).normal(size=n)
    got = scale_lower(lower_with_garbage(A), scale)
    assert_allclose(mirror_lower(got), scale[:, None] * A * scale, rtol=TOL)


def test_factor_works_in_place():
    A = spd(50)
    lower = lower_with_garbage(A)
    factor = Factor(lower)
    assert np.shares_memory(factor._lower, lower)
    assert_allclose(np.tril(lower), np.linalg.cholesky(A), rtol=TOL, atol=TOL)
    factor.diag_inverse()
    assert np.shares_memory(factor._lower, lower)


@pytest.mark.parametrize("n", [1, 5, TRIANGLE_ROWS + 1])
def test_not_positive_definite(n):
    assert issubclass(NotPositiveDefinite, LinAlgError)
    indefinite = spd(n)
    indefinite[-1, -1] = -1.0
    with pytest.raises(NotPositiveDefinite, match=f"^K is not positive definite .*minor {n} of {n} fails"):
        Factor(indefinite, "K")
    with pytest.raises(NotPositiveDefinite):
        Factor(np.zeros((n, n)))
    for bad in (np.nan, np.inf):
        for place in {(n - 1, n - 1), (n - 1, 0), (0, 0), (n // 2, 0)}:
            broken = spd(n)
            broken[place] = bad
            with pytest.raises(NotPositiveDefinite, match="finite"):
                Factor(broken)


@pytest.mark.parametrize("n", SIZES)
def test_scaled_plus_identity(n):
    rng = np.random.default_rng(3)
    K, scale = lower_with_garbage(spd(n)), rng.uniform(0, 3, size=n)
    before = K.copy()
    got = scaled_plus_identity(K, scale)
    truth = np.eye(n) + scale[:, None] * spd(n) * scale
    lower = np.tri(n, dtype=bool)
    assert_allclose(got[lower], truth[lower], rtol=1e-15)
    assert got.flags.c_contiguous
    assert_array_equal(K, before)


@pytest.mark.parametrize("n", SIZES)
def test_mirror_lower(n):
    A = lower_with_garbage(spd(n))
    got = mirror_lower(A)
    assert got is A
    assert_array_equal(got, np.tril(spd(n)) + np.tril(spd(n), -1).T)
