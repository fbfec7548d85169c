"""Similarities and their derivatives against loops over pairs of rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.kernels.similarity import FAR_NORM, Distance, Inner, WeightSums

rng = np.random.default_rng(0)
F, H = rng.normal(size=(7, 3)), rng.normal(size=(5, 3))
PAIR = {Inner: lambda f, h: f @ h, Distance: lambda f, h: -0.5 * np.sum((f - h) ** 2)}
FAR_SHIFT = 2 * np.sqrt(FAR_NORM)


def slow(cls, F, H):
    return np.array([[PAIR[cls](f, h) for h in H] for f in F]).reshape(len(F), len(H))


def whole(similarity):
    out = np.empty(similarity.shape)
    similarity.tile(slice(0, out.shape[0]), slice(0, out.shape[1]), out)
    return out


@pytest.mark.parametrize("cls", PAIR)
@pytest.mark.parametrize("by_rows", [False, True])
def test_values(cls, by_rows):
    similarity = cls(F, H, by_rows)
    assert_allclose(whole(similarity), slow(cls, F, H), atol=1e-14)  # rounding of numbers up to 10
    tile = np.empty((3, 2))
    similarity.tile(slice(2, 5), slice(1, 3), tile)
    assert_allclose(tile, slow(cls, F, H)[2:5, 1:3], atol=1e-14)
    assert_allclose(cls.with_self(F), np.diag(slow(cls, F, F)), atol=1e-14)


@pytest.mark.parametrize("cls", PAIR)
@pytest.mark.parametrize("columns", [None, np.array([4, 0, 4])])
def test_selected_rows(cls, columns):
    rows = np.array([3, 1])
    before = cls(H[:0], H, by_rows=True)
    expected = slow(cls, H[rows], H if columns is None else H[columns])
    for _ in range(2):  # selecting changes nothing
        assert_allclose(whole(before.select(H[rows], columns)), expected, atol=1e-14)


def test_near_rows_far_from_the_origin():
    """|f|² + |h|² - 2⟨f, h⟩ alone would be wrong by eps * 1e14 = 0.02 here."""
    far = 1e7 + rng.integers(-8, 8, size=(6, 3)) / 8.0  # exact in binary, so differences are too
    points = np.vstack([far, F])
    similarity = Distance(points, points, by_rows=True)
    assert similarity.far
    assert_allclose(whole(similarity)[:6, :6], slow(Distance, far, far), rtol=1e-15)
    chosen = similarity.select(points[[1, 4]], None)
    assert_allclose(whole(chosen)[:, :6], slow(Distance, far[[1, 4]], far), rtol=1e-15)
    assert Distance(F, F, by_rows=True).select(far, None).far  # also if only the other rows are far


@pytest.mark.parametrize("shift", [0.0, FAR_SHIFT], ids=["near", "far"])
@pytest.mark.parametrize("cls", PAIR)
def test_gradients(cls, shift):
    """Central differences of Σ M_ij s_ij; s is quadratic, so their only error is rounding."""
    A, B, M = F + shift, H + shift, rng.normal(size=(7, 5))
    similarity = cls(A, B)
    weights = WeightSums(similarity, both_sides=True)
    for I, J in ((slice(0, 4), slice(0, 5)), (slice(4, 7), slice(0, 2)), (slice(4, 7), slice(2, 5))):
        weights.add(I, J, M[I, J])
    h = 1e-3
    tol = dict(rtol=1e-9, atol=1e-15 * max(1.0, shift**2) / h * np.abs(M).sum())  # rounding of s, divided by h

    def value(A, B):
        return np.sum(M * slow(cls, A, B))

    for gradient, at, function in (
        (similarity.feature_gradient(A, weights.MH, weights.row_sums), A, lambda a: value(a, B)),
        (similarity.feature_gradient(B, weights.MtF, weights.column_sums), B, lambda b: value(A, b)),
    ):
        for index in np.ndindex(*at.shape):
            e = np.zeros_like(at)
            e[index] = h
            assert_allclose(gradient[index], (function(at + e) - function(at - e)) / (2 * h), **tol)
    # s is homogeneous of degree two in each column, which is divided by its lengthscale: the derivative is -2 times its part
    parts = [-2 * np.sum(M * slow(cls, A[:, [d]], B[:, [d]])) for d in range(3)]
    assert_allclose(similarity.scale_gradient(weights), parts, rtol=1e-11, atol=1e-15 * max(1.0, shift**2) * np.abs(M).sum())


@pytest.mark.parametrize("cls", PAIR)
def test_gradient_of_the_diagonal(cls):
    m, h = rng.normal(size=7), 1e-3
    gradient = cls.with_self_gradient(F, m)
    for index in np.ndindex(*F.shape):
        e = np.zeros_like(F)
        e[index] = h
        up, down = (m @ np.diag(slow(cls, F + s * e, F + s * e)) for s in (1, -1))
        assert_allclose(gradient[index], (up - down) / (2 * h), atol=1e-11)  # eps / h


@pytest.mark.parametrize("cls", PAIR)
def test_norms_that_would_overflow(cls):
    with pytest.raises(ValueError, match="Rescale the inputs"):
        cls(F, 1e130 * H)
