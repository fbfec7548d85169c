"""Declared dates and units: their form in the training data, and the problems of columns without one."""

import numpy as np
import pandas as pd
import pytest

from gpclass.tables import Part, TableEncoder, TableError


def encoded(cells, later=None, **settings):
    frame = pd.DataFrame({"c": cells})
    encoder = TableEncoder(**settings).fit(frame)
    return encoder.transform(frame if later is None else pd.DataFrame({"c": later}))


def problems_of(cells, later=None, **settings):
    with pytest.raises(TableError) as caught:
        encoded(cells, later, **settings)
    return caught.value.problems


def divided(sizes, frame):
    """Sums over parts of the frame with these numbers of rows."""
    ends = np.cumsum(sizes)
    parts = [Part(frame.iloc[end - size : end], f"part {k}") for k, (size, end) in enumerate(zip(sizes, ends, strict=True))]

    def total(function, *arguments):
        found = [function(part, *arguments) for part in parts]
        return sum(found[1:], start=found[0])

    return total


# units --------------------------------------------------------------------------------------------------------------------


def test_cells_that_are_no_numbers_may_be_missing_values():
    (problem,) = problems_of(["1 cm", "2 cm", "3 cm", "unknown"], units=["c"])
    assert problem.text == "column 'c' has numbers in 'cm', but row 3 has 'unknown'"
    assert problem.options == (("--missing-values", "unknown", ""),)


def test_many_cells_with_digits_are_no_missing_values():
    """However the rows are divided."""
    odd = ["5-6 cm", "7-8 cm", "8-9 cm", "9-10 cm"]
    cells = ["1 cm", "2 cm", "3 cm", *odd]
    (problem,) = problems_of(cells, units=["c"])
    assert problem.text == "column 'c' has numbers in 'cm', but row 3 has '5-6 cm'"
    assert problem.advice == "; write them as numbers, or leave cells empty whose values are missing"
    assert not problem.options
    with pytest.raises(TableError) as caught:
        TableEncoder(units=["c"]).fit_parts(divided([4, 1, 2], pd.DataFrame({"c": cells})))
    assert [p.options for p in caught.value.problems] == [()]
    (problem,) = problems_of(["1 cm", "2 cm"], ["3 cm", *odd], units=["c"])
    assert (problem.text.split("but ")[1], problem.options) == ("row 1 has '5-6 cm'", ())


def test_negative_amounts():
    assert encoded(["$5", "($33)", "\u2212$2", "-$1"], units=["c"])[:, 0].tolist() == [5, -33, -2, -1]


def test_a_single_later_number_with_two_readings_has_no_option():
    (problem,) = problems_of(["$1", "$2.5"], ["$2", "$77,016"], units=["c"])
    assert (problem.kind, problem.options) == ("numbers", ())
    assert "if it is 1.2, use --decimal ," in problem.advice
    (problem,) = problems_of(["$1", "$2.5"], ["$2", "$1,200.5"], units=["c"])
    assert problem.frame == "X['c'].str.replace(',', '', regex=True)"  # the unit stays


@pytest.mark.parametrize(
    ("cell", "options", "code"),
    [
        ("2,5 cm", [("--decimal", ",")], "decimal=','"),
        ("1.200,5 cm", [("--decimal", ","), ("--thousands", ".")], "decimal=',', thousands='.'"),
        ("1'200 cm", [("--thousands", "'")], 'thousands="\'"'),
    ],
)
def test_later_numbers_in_another_convention(cell, options, code):
    (problem,) = problems_of(["1 cm", "2.5 cm"], ["2 cm", cell], units=["c"])
    assert problem.kind == "numbers"
    assert [option[:2] for option in problem.options] == options
    assert problem.python == f"read_table(path, reading=Reading({code}))"


def test_a_declared_column_without_units():
    (problem,) = problems_of([1.5, 2.5, 3.5], units=["c"])
    assert problem.text == "column 'c' has no numbers with a unit: '1.5'"


def test_the_most_frequent_unit_is_that_of_the_column():
    """Whatever the first cell has, and however the rows are divided."""
    cells = ["3 m", "1 cm", "2 cm", "5", "4 cm"]
    told = ["row 0 has '3 m', in 'm'", "row 3 has '5', without a unit"]
    assert [problem.text.split("but ")[1] for problem in problems_of(cells, units=["c"])] == told
    total = divided([2, 1, 2], pd.DataFrame({"c": cells}))
    with pytest.raises(TableError) as caught:
        TableEncoder(units=["c"]).fit_parts(total)
    assert [problem.text.split("but ")[1] for problem in caught.value.problems] == [
        "row 0 of part 0 has '3 m', in 'm'",
        "row 3 of part 2 has '5', without a unit",
    ]


def test_units_of_parts_are_counted_together():
    """In the first part m is as frequent as cm, in the second less so."""
    total = divided([2, 2], pd.DataFrame({"c": ["3 m", "1 cm", "2 cm", "4 cm"]}))
    with pytest.raises(TableError, match="numbers in 'cm', but row 0 of part 0 has '3 m'"):
        TableEncoder(units=["c"]).fit_parts(total)


# dates --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("marks", "told"),
    [
        (["?"], "has dates, but also '?'"),
        (["?", "-", "none"], "has dates, but also '?', '-', 'none'"),
        (["?", "-", "none", "later"], "has no dates in one format"),  # more than three are no marks of missing values
    ],
)
def test_marks_among_dates(marks, told):
    problems = problems_of(["2020-01-01", *marks, "2020-01-02"], dates=["c"])
    assert told in problems[0].text
    if len(marks) < 4:
        assert [problem.kind for problem in problems] == ["dates"]
        assert problems[0].options == tuple(("--missing-values", mark, "") for mark in marks)
    else:
        assert problems[0].options == (("--drop", "c", ""),)


def test_dates_of_two_formats_are_asked_for():
    (problem,) = problems_of(["03/04/2021", "05/07/2021"], dates=["c"])
    assert problem.options == (("--dates", "c=%m/%d/%Y", ""),)
    assert problem.python == "TableEncoder(dates={'c': '%m/%d/%Y'})"


def test_dates_in_two_formats_are_refused():
    (problem,) = problems_of(["2020-01-01", "01.02.2020"], dates=["c"])
    assert problem.text == "column 'c' has no dates in one format: '2020-01-01'"
    assert problem.options == (("--drop", "c", ""),)


@pytest.mark.parametrize("settings", [{"dates": ["c"]}, {"units": ["c"]}])
def test_declared_columns_that_are_empty(settings):
    (problem,) = problems_of([None, None], **settings)
    assert problem.text == "column 'c' is empty in every row"


@pytest.mark.parametrize("cells", [pd.to_datetime(["2020-01-01"]), pd.to_timedelta([1], unit="D")])
def test_typed_dates_are_to_be_declared(cells):
    (problem,) = problems_of(cells)
    assert problem.options == (("--dates", "c", ""),)


def test_the_format_fits_the_rows_of_all_parts():
    """The first row may be 3 April or 4 March, the second one only 13 June."""
    frame = pd.DataFrame({"c": ["03/04/2021", "13/06/2021", None, "05/07/2021"]})
    for sizes in ([4], [1, 3], [1, 1, 1, 1]):
        encoder = TableEncoder(dates=["c"], impute="median").fit_parts(divided(sizes, frame))
        assert encoder.columns_[0].form == "%d/%m/%Y"
        assert not encoder.columns_[0].clock


@pytest.mark.parametrize(
    ("cells", "form"),
    [
        (["05/05/2021", "13/06/2021"], "%d/%m/%Y"),  # the first part alone may be of both formats, with the same dates
        (["13/06/2021", "05/05/2021"], "%d/%m/%Y"),
        (["05/05/2021", "06/06/2021"], "%m/%d/%Y"),  # the same dates in all parts
    ],
)
def test_formats_that_differ_only_in_other_parts(cells, form):
    frame = pd.DataFrame({"c": cells})
    for sizes in ([2], [1, 1]):
        assert TableEncoder(dates=["c"]).fit_parts(divided(sizes, frame)).columns_[0].form == form


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        (["?", "2020-01-01", "2020-01-02"], "column 'c' has dates, but also '?'"),
        (["?", "2020-01-01", "-", "!"], "column 'c' has dates, but also '?', '-', '!'"),
        (["?", "2020-01-01", "-", "!", "#"], "column 'c' has no dates in one format: '2020-01-01'"),
        (["a", "b"], "column 'c' has no dates in one format: 'a'"),
        (["05/05/2021", "03/04/2021"], "may be %m/%d/%Y or %d/%m/%Y"),
    ],
)
def test_messages_about_dates_do_not_depend_on_the_parts(cells, told):
    frame = pd.DataFrame({"c": cells})
    for sizes in ([len(cells)], [1, len(cells) - 1]):
        with pytest.raises(TableError) as caught:
            TableEncoder(dates=["c"]).fit_parts(divided(sizes, frame))
        (problem,) = caught.value.problems
        assert told in problem.text


@pytest.mark.parametrize(
    ("cells", "form", "columns"),
    [
        (["01/02/2020", "03/02/2020"], "%d/%m/%Y", 5),
        (["01/02/2020 00:00", "03/02/2020 06:00"], "%d/%m/%Y %H:%M", 7),
        (["06:00", "12:30"], "%H:%M", 3),
    ],
)
def test_given_formats_have_times_if_there_are_some(cells, form, columns):
    assert encoded(cells, dates={"c": form}).shape == (2, columns)


def test_times_in_one_part_are_times_of_the_column():
    frame = pd.DataFrame({"c": ["2020-01-01 00:00", "2020-01-02 00:00", "2020-01-02 06:00"]})
    for sizes in ([3], [2, 1], [1, 2]):
        (column,) = TableEncoder(dates=["c"]).fit_parts(divided(sizes, frame)).columns_
        assert column.names[-2:] == ["c (sine of day)", "c (cosine of day)"]


@pytest.mark.parametrize(
    ("moments", "columns"), [(["2020-01-01", "2020-01-04"], 5), (["2020-01-01", "2020-01-04 06:00"], 7)]
)
def test_typed_dates_have_times_if_one_is_not_midnight(moments, columns):
    found = encoded(pd.to_datetime(moments, format="ISO8601"), dates=["c"])
    assert found.shape == (2, columns)
    assert found[1, 0] == (3 if columns == 5 else 3.25)
