"""Tiles cover each entry once, and products in small pieces equal whole products."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.kernels.tiles import (
    INNER_LENGTH,
    TILE_AREA,
    TILE_SIDE,
    TileBuffer,
    lower_tiles,
    multiply,
    summed_product,
    tiles,
)

SHAPES = [(0, 5), (5, 0), (1, 1), (7, 300), (1, TILE_AREA + 3), (TILE_AREA + 3, 1), (100, 2000), (2000, 100), (500, 401)]


@pytest.mark.parametrize(("n", "m"), SHAPES)
def test_tiles_cover_each_entry_once(n, m):
    count = np.zeros((n, m), int)
    for I, J in tiles(n, m):
        count[I, J] += 1
        assert TileBuffer()(I, J).shape == count[I, J].shape  # no tile is larger than the buffer
    assert np.all(count == 1)


@pytest.mark.parametrize("n", [0, 1, TILE_SIDE, 2 * TILE_SIDE + 17])
def test_lower_tiles_cover_the_triangle_once(n):
    count = np.zeros((n, n), int)
    for I, J in lower_tiles(n):
        count[I, J] += 1
        if I != J:
            count[J, I] += 1
    assert np.all(count == 1)


@pytest.mark.parametrize("inner", [0, 1, INNER_LENGTH, 2 * INNER_LENGTH + 9, 1000])
@pytest.mark.parametrize(("n", "m"), [(1, 40_000), (3, 700), (192, 192), (368, 100), (50, 500)])
def test_multiply(n, m, inner):
    """Pieces of rows, of columns and of the inner dimension, and whole products."""
    rng = np.random.default_rng(0)
    A, B = rng.integers(-9, 9, size=(n, inner)).astype(float), rng.integers(-9, 9, size=(inner, m)).astype(float)
    exact = np.einsum("ij,jk->ik", A, B)  # sums of integers have no rounding
    assert np.array_equal(multiply(A, B), exact)
    assert np.array_equal(multiply(A, B, few=True), exact)
    out = np.full((n, m), np.nan)
    assert multiply(np.asfortranarray(A), np.asfortranarray(B), out) is out
    assert np.array_equal(out, exact)


def test_summed_product():
    A, B = np.random.default_rng(1).normal(size=(2, 30, 20))
    assert_allclose(summed_product(A, B), sum(a * b for a, b in zip(A.flat, B.flat, strict=True)), rtol=1e-13)
