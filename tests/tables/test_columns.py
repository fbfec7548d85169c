"""Cells of single columns as numbers, 0 and 1, and levels; the problems of those that cannot be used."""

import numpy as np
import pandas as pd
import pytest

from gpclass.tables import TableEncoder, TableError
from gpclass.tables.columns import as_booleans, as_texts, kind_of


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pd.Series([1, 2]), "number"),
        (pd.Series([1.5, None]), "number"),
        (pd.Series([1, None], dtype="Int64"), "number"),
        (pd.Series([True, False]), "boolean"),
        (pd.Series([True, None], dtype="boolean"), "boolean"),
        (pd.Series([True, None, False], dtype=object), "boolean"),
        (pd.Series([True, 2], dtype=object), "category"),
        (pd.Series(["a", None]), "category"),
        (pd.Series([1j, 2]), "category"),
        (pd.Series(pd.Categorical([1, 2])), "category"),
        (pd.Series(pd.to_datetime(["2020-01-01"])), "date"),
        (pd.Series(pd.to_datetime(["2020-01-01"], utc=True)), "date"),
        (pd.Series(pd.to_timedelta([1], unit="D")), "date"),
    ],
)
def test_kinds(values, kind):
    assert kind_of(values) == kind


def test_booleans_in_all_spellings():
    cells = pd.Series(["true", " FALSE", "1", "0", 1.0, 0, True, np.False_], dtype=object)
    assert as_booleans(cells, "x").tolist() == [1, 0, 1, 0, 1, 0, 1, 0]
    with pytest.raises(TableError, match="column 'x' had true and false in the training data, but row b has 2"):
        as_booleans(pd.Series([1, 2], index=["a", "b"]), "x")


def test_levels_are_text_without_a_decimal_point():
    cells = pd.Series(["a", True, 3.0, 2.5, 7, np.int64(4)], dtype=object)
    assert as_texts(cells, "x") == ["a", "True", "3", "2.5", "7", "4"]
    with pytest.raises(TableError, match="row 1, column 'x' is a tuple; cells must be") as caught:
        as_texts(pd.Series(["a", (1, 2)]), "x")
    assert caught.value.problems[0].options == (("--drop", "x", ""),)


@pytest.mark.parametrize(
    ("cells", "kind", "options"),
    [
        (["1,5", "2,5", "3"], "numbers", [("--decimal", ",")]),
        (["1.5", "2 kg", "3 kg"], "units", []),
        (["1.5", "2 kg", "3 m"], "mixed", [("--missing-values", "2 kg"), ("--missing-values", "3 m")]),
        (["?", "2", "-"], "mixed", [("--missing-values", "?"), ("--missing-values", "-")]),
        (["a", "b", "c", "a"], "mixed", [("--missing-values", cell) for cell in "abc"]),
        (["a", "b", "c", "d"], "mixed", []),  # more than three are no marks of missing values
        (["1", "10:30", "2,5"], "numbers", [("--decimal", ",")]),
        (["1", "10:30", "20:15"], "mixed", [("--missing-values", "10:30"), ("--missing-values", "20:15")]),
        (["77,016", "1.5", "12,300"], "numbers", [("--thousands", ",")]),
        (["77,016", "9,500", "950"], "numbers", [("--thousands", ",")]),  # as `fit` reads them
        (["77,016", "950"], "numbers", []),  # perhaps 77.016
        (["77'016"], "numbers", [("--thousands", "'")]),
        (["(33)", "\u22125", "2"], "mixed", []),  # negative numbers
        (["5-6", "7-8", "8-9", "?", "6-7"], "mixed", []),
    ],
)
def test_text_where_the_training_data_had_numbers(cells, kind, options):
    encoder = TableEncoder().fit(pd.DataFrame({"x": [1.0, 2.0, 4.0]}))
    with pytest.raises(TableError) as caught:
        encoder.transform(pd.DataFrame({"x": cells}))
    (problem,) = caught.value.problems
    assert (problem.kind, problem.columns) == (kind, ("x",))
    assert [option[:2] for option in problem.options] == options


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        (pd.to_datetime(["2020-01-01"] * 2), "column 'x' contains dates or times, such as '2020-01-01"),
        (np.array([1j, 2.0]), "column 'x' contains complex numbers"),
        ([10**400, 1], "row 0 has 1000"),
    ],
)
def test_other_types_where_the_training_data_had_numbers(cells, told):
    encoder = TableEncoder().fit(pd.DataFrame({"x": [1.0, 2.0, 4.0]}))
    with pytest.raises(TableError, match=told):
        encoder.transform(pd.DataFrame({"x": cells}))


def test_text_that_is_numbers_is_read_as_numbers():
    encoder = TableEncoder().fit(pd.DataFrame({"x": [1.0, 2.0, 4.0]}))
    assert encoder.transform(pd.DataFrame({"x": ["1.5", " 2"]})).tolist() == [[1.5], [2.0]]


@pytest.mark.parametrize(
    ("large", "options"),
    [
        ([np.inf], [("--missing-values", "inf")]),
        ([-np.inf, np.inf, -1e300], [("--missing-values", mark) for mark in ("-inf", "-1e+300", "inf")]),
        ([1e151, 1e152, 1e153, 1e154], [("--drop", "x")]),  # more than three are no marks of missing values
    ],
)
def test_numbers_whose_squares_are_infinite(large, options):
    frame = pd.DataFrame({"x": [1e150, *large, -1e150]})
    with pytest.raises(TableError, match=r"row 1, column 'x' is .*; the limit is ±1e\+150") as caught:
        TableEncoder().fit(frame)
    (problem,) = caught.value.problems
    assert [option[:2] for option in problem.options] == options
    assert problem.python == f"X.replace({{'x': {min(large):g}}}, numpy.nan)"


def test_an_example_of_each_kind():
    frame = pd.DataFrame(
        {
            "number": [1.0, 3.0, 2.0],
            "flag": [True, True, False],
            "level": ["b", "a", "b"],
            "width": ["1.5 cm", "3.5 cm", "2.5 cm"],
            "day": ["01.02.2020", "03.02.2020", "20.02.2020"],
            "time": ["06:00", "12:30", "23:00"],
            "span": pd.to_timedelta([1, 2.5, 4], unit="D"),
            "moment": pd.to_datetime(["2020-01-01", "2020-01-02 12:00", "2020-01-09"], format="ISO8601"),
        }
    )
    encoder = TableEncoder(dates=["day", "time", "span", "moment"], units=["width"]).fit(frame)
    assert encoder.example().iloc[0].to_dict() == {
        "number": 2.0,
        "flag": 1.0,
        "level": "a",
        "width": "2.5 cm",
        "day": "03.02.2020",
        "time": "12:30",
        "span": pd.Timedelta(days=2.5),
        "moment": pd.Timestamp("2020-01-02 12:00"),
    }
    assert encoder.text_columns == ["level", "width", "day", "time", "span", "moment"]
    assert encoder.transform(encoder.example()).shape == (1, sum(column.width for column in encoder.columns_))


def refused(frame):
    """The problems of a later table, where the columns of the training data had numbers."""
    encoder = TableEncoder().fit(pd.DataFrame({name: [1.0, 2.0, 4.0] for name in frame}))
    with pytest.raises(TableError) as caught:
        encoder.transform(pd.DataFrame(frame))
    return caught.value.problems


def test_a_single_number_with_two_readings_has_no_option():
    (problem,) = refused({"x": ["77,016"]})
    assert problem.advice == "; if 1,200 is 1200, use --thousands ,, and if it is 1.2, use --decimal ,"
    assert not problem.options


def test_later_numbers_beside_decimal_commas():
    """1,200 is 1200, unless other columns have decimal commas, as in the training data."""
    problems = refused({"x": ["1,200", "2,300"], "z": ["1,5", "2,5"]})
    assert [option[:2] for problem in problems for option in problem.options] == [("--decimal", ",")] * 2
