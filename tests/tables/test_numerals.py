"""Numbers with units and with commas, points and groups of digits."""

import numpy as np
import pandas as pd
import pytest

from gpclass.tables import TableEncoder
from gpclass.tables.numerals import COMMA, PLAIN, Convention, best_convention, canonical, measure, usual_unit

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
        ("\u22125 cm", "\u22125", "cm"),  # a minus sign instead of a hyphen
        ("($1,200)", "-1,200", "$"),  # negative in accounts
        ("(5 €)", "-5", "€"),
        ("(33)", "-33", ""),
    ],
)
def test_numbers_with_units(text, number, unit):
    assert measure(text) == (number, unit)


@pytest.mark.parametrize(
    "text", ["cm", "A1", "twelve", "$5 kg", "2020-01-01", "", "-$-5", "+-5", "(-5)", "(5 kg)", "($5", "()"]
)
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
        (["1,200", "0,250"], COMMA, False),  # thousands do not begin with zero
        (["1.200,5", "3"], Convention(",", "."), False),
        (["1 200", "3\u00a0000,5"], Convention(",", " "), False),
        (["1'200.5", "3"], Convention(".", "'"), False),
    ],
)
def test_conventions(texts, convention, doubtful):
    assert best_convention(dict.fromkeys(texts, 1)) == (convention, 1.0, doubtful)


def test_the_usual_unit_is_counted_by_cells():
    assert usual_unit({"1 kg": 2, "3 kg": 1, "5 g": 2, "none": 5}) == ("kg", 0.3)
    assert usual_unit({"1 kg": 1, "5 g": 2, "9 g": 1}) == ("g", 0.75)
    assert usual_unit({"1": 3, "none": 1}) == ("", 0.0)


def test_canonical_numbers():
    """Cells that are no numbers or no text are unchanged. The result is None if at most half of the texts are numbers."""
    assert canonical(["1,5", "2,25 cm", 7, None, "?"], COMMA) == ["1.5", "2.25 cm", 7, None, "?"]
    assert canonical(["1,5", "2,25 cm", "3,5 cm"], COMMA, with_units_only=True) == ["1,5", "2.25 cm", "3.5 cm"]
    assert canonical(["1,5", "a", "b"], COMMA) is None
    assert canonical(["1,5", "a", 3], COMMA) is None
    assert canonical(["\u22121,5", "-2,5 cm"], COMMA) == ["-1.5", "-2.5 cm"]
    assert canonical(["1,5", "2,5", "a"], COMMA) == ["1.5", "2.5", "a"]
    assert canonical([1, 2.0], COMMA) is None
    assert canonical(["1,5", "(2,5)", "3,5"], COMMA) == ["1.5", "-2.5", "3.5"]
    assert canonical(["(1,5)", "(2,5)", "3,5"], COMMA) is None  # pairs
    assert canonical(["$5", "($2,5)", "($3,5)"], COMMA) == ["5 $", "-2.5 $", "-3.5 $"]


def test_a_few_levels_with_a_unit_are_categories():
    """Three sizes of a package are categories, not measurements."""
    frame = pd.DataFrame({"x": X, "size": ["5 kg", "10 kg", "20 kg"] * (N // 3)})
    assert TableEncoder().fit(frame).columns_[1].levels == ("10 kg", "20 kg", "5 kg")
