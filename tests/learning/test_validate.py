"""Errors about X and y that speak of what the user gave."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from gpclass.learning.validate import validated


def test_numbers_pass():
    X, y = validated(BaseEstimator(), [[1, 2], [3, 4]], [1, 0], y_numeric=True)
    assert X.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert y.dtype == float


def test_text_is_found_where_it_is():
    with pytest.raises(ValueError, match=r"'red'; X holds text, but numbers are needed .*TableEncoder"):
        validated(BaseEstimator(), np.array([["red", 1.0], [2.0, 3.0]], object), [0.0, 1.0], y_numeric=True)
    with pytest.raises(ValueError, match="'red'; y holds text, but numbers are needed"):
        validated(BaseEstimator(), [[1.0], [2.0]], np.array(["red", "blue"], object), y_numeric=True)


def test_numbers_that_no_float_can_hold():
    with pytest.raises(ValueError, match="X contains a number that is too large for a float"):
        validated(BaseEstimator(), np.array([[10**400], [1]], object))


def test_other_complaints_are_scikit_learn_s():
    with pytest.raises(ValueError, match="NaN"):
        validated(BaseEstimator(), [[np.nan], [1.0]])
