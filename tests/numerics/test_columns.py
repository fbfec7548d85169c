"""Centre and spread of columns: plain for clean columns, robust to outliers, the same in all units."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from gpclass.numerics.columns import MOMENT_ROWS, column_spread, column_units, typical_distance

rng = np.random.default_rng(3)
CLEAN = np.column_stack([rng.normal(5, 2, 200), rng.uniform(-1, 1, 200), rng.exponential(1.0, 200), rng.random(200) < 0.3])


@pytest.mark.parametrize("n", [2, 3, 10, 20, 200])
def test_clean_columns_have_mean_and_standard_deviation(n):
    centre, spread = column_units(CLEAN[:n, :3])
    assert_allclose(centre, CLEAN[:n, :3].mean(0), rtol=1e-14)
    assert_allclose(spread, CLEAN[:n, :3].std(0), rtol=1e-14)


@pytest.mark.parametrize("wild", [1e3, 1e9, 1e300, -1e300])
def test_outliers_hardly_count(wild):
    X = CLEAN.copy()
    X[7] = wild
    centre, spread = column_units(X)
    # a clipped value lies at most three ranges outside the middle rows, which is about eleven standard deviations
    assert np.all(np.abs(centre - CLEAN.mean(0)) < 0.15 * CLEAN.std(0))
    assert np.all((spread > 0.9 * CLEAN.std(0)) & (spread < 1.5 * CLEAN.std(0)))


def test_constant_columns_have_spread_one_and_their_value_as_centre():
    X = np.column_stack([np.full(7, 0.1), np.zeros(7), np.arange(7.0)])
    centre, spread = column_units(X)
    assert_array_equal(centre[:2], [0.1, 0.0])
    assert_array_equal(spread[:2], 1.0)
    assert_array_equal(column_spread(X)[:2], 0.0)


def test_a_rare_level_has_its_plain_spread():
    X = np.zeros((100, 1))
    X[:3] = 1.0  # fewer than 5 % of the rows: the middle rows are all equal
    assert_allclose(column_units(X).spread, X.std(0), rtol=1e-14)


@pytest.mark.parametrize(("factor", "shift"), [(1e-3, 0.0), (1e280, 0.0), (1e-280, 0.0), (-4.0, 1e3), (2.0, 1e6)])
def test_units_follow_the_columns(factor, shift):
    X = CLEAN.copy()
    X[3] = 1e6
    (centre, spread), (moved, scaled) = column_units(X), column_units(factor * (X + shift))
    tol = 1e-12 * (1 + shift)  # rounding of the shift
    assert_allclose(scaled, abs(factor) * spread, rtol=tol)
    assert_allclose(moved / factor, centre + shift, rtol=1e-12, atol=tol)


def test_many_rows_are_measured_without_random_numbers():
    X = np.random.default_rng(0).normal(size=(2 * MOMENT_ROWS + 1, 1))
    assert_allclose(column_units(X).spread, 1.0, rtol=0.01)  # 1/√(2·70000) is 0.003
    assert_array_equal(column_units(X).spread, column_units(X).spread)


def test_rows_are_transformed_before_they_are_measured():
    centre, spread = column_units(CLEAN)

    def seen(rows):
        return (rows - centre) / spread

    assert_allclose(column_spread(CLEAN, seen), 1.0, rtol=1e-14)
    expected = typical_distance(seen(CLEAN), np.random.default_rng(0))
    assert typical_distance(CLEAN, np.random.default_rng(0), seen) == expected
