"""Errors about X and y that name the user's input."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from gpclass.learning.validate import TRAINING, validated


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


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.eye(3), np.array([1, 0, 1])),
        (np.eye(3), np.array(["a", "b", "a"])),
        (np.eye(3)[:, ::-1].T, np.array([True, False, True])),
        (np.eye(3, dtype=np.float32), np.array([1.0, 0.0, 1.0])),
    ],
)
def test_arrays_that_are_ready_are_returned_as_scikit_learn_returns_them(X, y):
    ours, theirs = BaseEstimator(), BaseEstimator()
    ours.feature_names_in_ = theirs.feature_names_in_ = np.array(["of", "an", "earlier fit"], object)
    found, expected = validated(ours, X, y, dtype=TRAINING), validate_data(theirs, X, y, dtype=TRAINING)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    assert vars(ours) == vars(theirs) == {"n_features_in_": 3}


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.array([[np.inf]]), np.array([1])),
        (np.zeros((2, 0)), np.array([0, 1])),
        (np.zeros((0, 2)), np.array([], int)),
        (np.eye(3), np.array([0, 1])),
        (np.eye(3)[0], np.array([0, 1, 1])),
        (np.eye(2), np.array([np.nan, 1.0])),
        (np.eye(2), np.array([[0, 1], [1, 0]])),
    ],
)
def test_arrays_that_are_not_ready_are_refused(X, y):
    with pytest.raises(ValueError, match=r"."):
        validated(BaseEstimator(), X, y, dtype=TRAINING)
