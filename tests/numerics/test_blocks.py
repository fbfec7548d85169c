"""Blocks of rows: they cover all rows once, and keep arrays within bounds."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from gpclass.numerics import blocks


@pytest.mark.parametrize(("n", "width", "numbers", "size"), [(10, 3, 9, 3), (10, 3, 30, 10), (7, 100, 50, 1), (5, 0, 4, 4)])
def test_rows_are_covered_once_within_bounds(n, width, numbers, size):
    some = list(blocks(n, width, numbers))
    assert_array_equal(np.concatenate([np.arange(n)[s] for s in some]), np.arange(n))
    assert all(s.stop - s.start == size for s in some[:-1])
    assert 0 < some[-1].stop - some[-1].start <= size
    assert some[-1].stop == n


def test_least_rows_and_none():
    assert list(blocks(100, 1000, 10, least=64)) == [slice(0, 64), slice(64, 100)]
    assert list(blocks(0, 5)) == []
