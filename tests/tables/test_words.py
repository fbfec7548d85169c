"""Words of messages."""

import numpy as np
import pytest

from gpclass.tables.words import and_more, cut, is_number, listed, one_line


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], "none"),
        (["a"], "'a'"),
        ("abcdefgh", "'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'"),
        ("abcdefghij", "'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h' and 2 more"),
    ],
)
def test_at_most_eight_names_are_listed(names, text):
    assert listed(names) == text


def test_long_texts_are_shortened_to_60_characters():
    assert cut("x" * 58) == repr("x" * 58)
    assert cut("x" * 59) == "'" + "x" * 56 + "..."


@pytest.mark.parametrize(("empty", "text"), [([1], ""), ([1, 1], ", and 1 more cell"), ([2, 0, 1], ", and 2 more cells")])
def test_further_cells_are_counted(empty, text):
    assert and_more(np.array(empty)) == text


@pytest.mark.parametrize(("cell", "number"), [("1e5", True), (" 2 ", True), (None, False), ("1,5", False), (10**400, False)])
def test_what_float_accepts(cell, number):
    assert is_number(cell) == number


def test_errors_without_a_message_are_named():
    assert one_line(ValueError("a\n  b")) == "a b"
    assert one_line(EOFError()) == "EOFError"
