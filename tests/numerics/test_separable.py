"""Products of covariances of inputs and of classes."""

import numpy as np

from gpclass.numerics.separable import Separable, classes_of, combined, inputs_of


def test_factors_of_a_pair_and_of_an_array():
    K, between = np.eye(3), np.full((2, 2), 0.5)
    assert inputs_of(Separable(K, between)) is K
    assert classes_of(Separable(K, between)) is between
    assert inputs_of(K) is K
    assert classes_of(K) is None
    assert combined(K, None) is K
    assert combined(K, between).classes is between
