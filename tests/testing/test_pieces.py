"""Comparisons of the checks: what they accept, and their messages."""

import numpy as np
import pytest

from gpclass.testing.pieces import close, raises


def test_close_names_the_worst_entry():
    with pytest.raises(AssertionError, match=r"answers: entry 1, 0 is 3\.5, not 3: off by 0\.5, allowed 0\.1"):
        close(np.array([[1.0, 2.2], [3.5, 4.0]]), np.array([[1.0, 2.0], [3.0, 4.0]]), 0.1, "answers")
    close(1.05, 1.0, 0.1, "a number")
    close(np.array([1.0, 100.0]), np.array([1.05, 130.0]), np.array([0.1, 40.0]), "each with its own tolerance")


def test_what_is_not_a_number_is_not_close():
    with pytest.raises(AssertionError, match="entry 0 is nan"):
        close(np.nan, 0.0, np.inf, "answers")
    with pytest.raises(AssertionError, match=r"shapes \(2,\) and \(3,\)"):
        close(np.zeros(2), np.zeros(3), 1.0, "answers")


def test_raises_wants_the_kind_and_the_word():
    def fails():
        raise ValueError("K is empty")

    raises(ValueError, fails, "no data", "empty")
    with pytest.raises(AssertionError, match="the error about no data should contain 'full': K is empty"):
        raises(ValueError, fails, "no data", "full")
    with pytest.raises(AssertionError, match="no data should raise TypeError, not ValueError: K is empty"):
        raises(TypeError, fails, "no data")
    with pytest.raises(AssertionError, match="no data should raise ValueError"):
        raises(ValueError, lambda: None, "no data")
