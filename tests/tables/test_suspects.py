"""Columns of text that are not categories, and the remedies that are advised."""

from collections import Counter

import pytest

from gpclass.tables.suspects import has_decimal_commas, problem_of_texts


def levels_of(texts):
    """The number of rows of each text, and its first row; rows count from 1."""
    return {text: (count, str(texts.index(text) + 1)) for text, count in Counter(texts).items()}


def found(texts, comma=False):
    problem = problem_of_texts(levels_of(texts), "c", comma)
    return None if problem is None else (problem.kind, [tuple(option[:2]) for option in problem.options])


DATES = [f"2020-01-{day:02d}" for day in range(1, 20)]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        # dates: more than nine in ten
        ([*DATES, "?"], ("dates", [("--dates", "c")])),
        ([*DATES[:9], "?"], None),
        ([*DATES[:9], *["01.02.2020"] * 3], ("dates", [("--drop", "c")])),  # two formats
        (["01/02/2020", "03/04/2020"], ("dates", [("--dates", "c=%m/%d/%Y")])),
        # units: more than half of the cells, and many different numbers
        (["1 cm", "2 cm", "3 cm"], ("units", [("--units", "c")])),
        (["1 cm", "2 cm"], None),
        (["1 cm", "2 cm", "3 cm"] * 2, None),
        ([f"{k} cm" for k in range(8)] * 5, None),
        ([f"{k} cm" for k in range(9)] * 5, ("units", [("--units", "c")])),
        (["1 cm", "2 cm", "3 cm", "a", "b", "c"], None),
        (["1,5 cm", "2,5 cm", "3 cm"], ("units", [("--units", "c"), ("--decimal", ",")])),
        (["$1,200", "$950", "$2,100"], ("units", [("--units", "c"), ("--thousands", ",")])),
        # conventions: more than half of the cells
        (["1,5", "2,5", "a"], ("numbers", [("--decimal", ",")])),
        (["1,5", "a"], None),
        (["1.200,5", "3"], ("numbers", [("--decimal", ","), ("--thousands", ".")])),
        # numbers with a few marks: more than half of the cells
        (["1", "2", "?"], ("mixed", [("--missing-values", "?")])),
        (["1", "?"], None),
        (["1", "2", "3"], None),  # codes that the user wants as text
        (list("12345") + list("abc"), ("mixed", [("--missing-values", mark) for mark in "abc"])),
        (list("12345") + list("abcd"), ("mixed", [("--drop", "c")])),
        ([*list("12345"), "5-6", "7-8", "8-9", "?"], ("mixed", [])),  # ranges, not marks
        (["1", "2", "(33)", "4"], ("mixed", [])),  # negative numbers
        (["1", "2", "\u22125", "4"], ("mixed", [])),
        (["1", *(f"({k})" for k in range(60))], ("mixed", [])),
        (["(1)", "(2)", "(3)"], None),  # codes
        (["$1,200", "($950)", "($2,100)"], ("units", [("--units", "c"), ("--thousands", ",")])),
        (["1,200", "(950)", "2,100.5", "3"], ("numbers", [("--thousands", ",")])),
        (["(0,10)", "(10,20)", "(20,30)"], None),  # pairs
        # names
        ([f"name {k}" for k in range(21)], ("names", [("--id", "c")])),
        ([f"name {k}" for k in range(51)] + ["name 0"], ("names", [("--drop", "c")])),
        ([f"name {k}" for k in range(50)] + ["name 0"], None),
        (["a", "b", "a"], None),
    ],
)
def test_texts_and_their_remedies(texts, expected):
    assert found(texts) == expected


@pytest.mark.parametrize(
    ("texts", "commas"),
    [
        (["1,5", "2"], True),
        (["1,200", "950"], False),  # perhaps 1200
        (["1.5", "2"], False),
        (["1,5 kg", "2,5 kg"], True),
        (["1,5", "a"], False),
    ],
)
def test_decimal_commas(texts, commas):
    assert has_decimal_commas(Counter(texts)) == commas


def test_thousands_beside_decimal_commas():
    """1,200 is 1200, unless other columns have decimal commas."""
    texts = ["1,200", "2,300", "950"]
    assert found(texts) == ("numbers", [("--thousands", ",")])
    assert found(texts, comma=True) == ("numbers", [("--decimal", ",")])
    alone, beside = (problem_of_texts(levels_of(texts), "c", comma) for comma in (False, True))
    assert alone.text == "column 'c' has numbers with thousands separators, such as '1,200'"
    assert alone.advice.endswith("--thousands ,, if 1,200 is 1200 (otherwise --decimal ,)")
    assert beside.text == "column 'c' has numbers with decimal commas, such as '1,200'"
    assert beside.advice.endswith("use --decimal ,")


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (["1,5", "2,5"], "; write them with points, or use --decimal ,"),
        (["38'211", "9'500"], """; write them without separators, or use --thousands "'\""""),
        (["38\u202f211", "9\u202f500"], "; write them without separators, or use --thousands ' '"),
        (["1.200,5", "3"], "; write them with points and without separators, or use --decimal , --thousands ."),
        (["1", "(33)", "2"], "; write numbers with a point and a hyphen: -33 for '(33)'"),
        (["1", "\u22125", "2"], "; write numbers with a point and a hyphen: -5 for '\u22125'"),
    ],
)
def test_advice_on_how_to_write_numbers(texts, told):
    assert problem_of_texts(levels_of(texts), "c").advice == told


def test_messages_name_a_cell_and_its_row():
    units = problem_of_texts(levels_of(["?", "5 cm", "6 cm", "7 cm"]), "c")
    assert units.text == "column 'c' has numbers with a unit, such as '5 cm' in row 2"
    assert units.python == "TableEncoder(units=['c'])"
    marks = problem_of_texts(levels_of(["1", "2", "?", "3", "-", "4"]), "c")
    assert marks.text == "column 'c' is mostly numbers, but row 3 has '?', and other rows have '-'"
    assert marks.python == "read_table(path, reading=Reading(missing_values=['?', '-']))"
    commas = problem_of_texts(levels_of(["1,5", "2,5"]), "c")
    assert commas.python == "read_table(path, reading=Reading(decimal=','))"
    dates = problem_of_texts(levels_of(["01/02/2020", "03/04/2020"]), "c")
    assert "may be %m/%d/%Y or %d/%m/%Y" in dates.text
    assert dates.python == "TableEncoder(dates={'c': '%m/%d/%Y'})"
    two = problem_of_texts(levels_of(["2020-01-01", "01.02.2020"]), "c")
    assert two.message.endswith("in more than one format; leave the column out (--drop c)")
    assert two.python == "X.drop(columns='c')"
