"""Contrasts of classes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from gpclass.numerics.classes import contrast_basis, other_classes


def test_other_classes():
    assert_array_equal(other_classes(np.array([0, 1, 2]), 3), [[1, 2], [0, 2], [0, 1]])


@pytest.mark.parametrize("C", [2, 3, 7])
def test_contrasts_are_an_orthonormal_basis_of_differences(C):
    H = contrast_basis(C)
    assert_allclose(H.T @ H, np.eye(C - 1), atol=1e-15)
    assert_allclose(H @ H.T, np.eye(C) - 1 / C, atol=1e-15)  # all but the mean over classes
