"""Numbers with units and with commas, points and groups of digits."""

import numpy as np
import pandas as pd
import pytest

from gpclass.tables import TableEncoder
from gpclass.tables.numerals import COMMA, PLAIN, Convention, best_convention, measure

N = 30
RNG = np.random.default_rng(0)
X = RNG.normal(size=N)


# how numbers are written --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "number", "unit"),
    [
        ("13.89 cm", "13.89", "cm"),
        ("5kg", "5", "kg"),
        ("12 %", "12", "%"),
        ("$1,200", "1,200", "$"),
        ("-$5", "-5", "$"),
        ("€ 5,50", "5,50", "€"),
        ("5,50 €", "5,50", "€"),
        ("3 m/s", "3", "m/s"),
        ("21 °C", "21", "°C"),
        ("1e5", "1e5", ""),
        ("-2", "-2", ""),
    ],
)
def test_numbers_with_units(text, number, unit):
    assert measure(text) == (number, unit)


@pytest.mark.parametrize("text", ["cm", "A1", "twelve", "$5 kg", "2020-01-01", ""])
def test_texts_that_are_no_numbers(text):
    assert measure(text) is None


@pytest.mark.parametrize(
    ("texts", "convention", "doubtful"),
    [
        (["1.5", "2"], PLAIN, False),
        (["1,5", "2"], COMMA, False),
        (["1,200", "950"], Convention(".", ","), True),
        (["1,200", "1,200,300"], Convention(".", ","), False),
        (["1,200", "1,25"], COMMA, False),
        (["1.200,5", "3"], Convention(",", "."), False),
        (["1 200", "3\u00a0000,5"], Convention(",", " "), False),
        (["1'200.5", "3"], Convention(".", "'"), False),
    ],
)
def test_conventions(texts, convention, doubtful):
    assert best_convention(dict.fromkeys(texts, 1)) == (convention, 1.0, doubtful)


def test_a_few_levels_with_a_unit_are_categories():
    """Three sizes of a package are no measurements that anybody must declare."""
    frame = pd.DataFrame({"x": X, "size": ["5 kg", "10 kg", "20 kg"] * (N // 3)})
    assert TableEncoder().fit(frame).columns_[1].levels == ("10 kg", "20 kg", "5 kg")
