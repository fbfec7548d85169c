"""Products of covariances of inputs and of classes, and differences between classes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.numerics.separable import Separable, classes_of, combined, contrasts, inputs_of


@pytest.mark.parametrize("C", [2, 3, 7])
def test_contrasts_are_an_orthonormal_basis_of_differences(C):
    H = contrasts(C)
    assert_allclose(H.T @ H, np.eye(C - 1), atol=1e-15)
    assert_allclose(H @ H.T, np.eye(C) - 1 / C, atol=1e-15)  # all but the mean over classes


def test_factors_of_a_pair_and_of_an_array():
    K, between = np.eye(3), np.full((2, 2), 0.5)
    assert inputs_of(Separable(K, between)) is K
    assert classes_of(Separable(K, between)) is between
    assert inputs_of(K) is K
    assert classes_of(K) is None
    assert combined(K, None) is K
    assert combined(K, between).classes is between
