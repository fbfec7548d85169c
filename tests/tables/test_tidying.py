"""Columns without a name, columns of the target's name, and numbers in other conventions."""

import numpy as np
import pytest

from gpclass.tables import Reading, TableError, read_table

COMMA = Reading(decimal=",")


def written(tmp_path, text):
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8")
    return path


# columns without a name ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        (",a\n0,5\n1,6\n", ["a"]),
        (",a\n1,5\n2,6\n", ["a"]),
        ("a,,b\n5,,x\n6,,y\n", ["a", "b"]),
        (",a,\n1,5,\n2,6,\n", ["a"]),
    ],
)
def test_row_numbers_and_empty_columns_are_left_out(text, columns, tmp_path):
    assert read_table(written(tmp_path, text)).columns.tolist() == columns


@pytest.mark.parametrize(
    ("text", "options", "told"),
    [
        (",a\n7,5\n8,6\n", [("--id", "Unnamed: 0")], "column 1 has no name"),
        (",a\n7,5\n7,6\n", [("--drop", "Unnamed: 0")], "column 1 has no name"),
        (",a\n7.5,5\n8.5,6\n", [("--drop", "Unnamed: 0")], "column 1 has no name"),
        (",a,\n7,5,u\n8,6,v\n", [("--id", "Unnamed: 0"), ("--drop", "Unnamed: 2")], "columns 1, 3 have no name"),
        (",a,\n1,5,u\n2,6,v\n", [("--id", "Unnamed: 0"), ("--drop", "Unnamed: 2")], "columns 1, 3 have no name"),
        (",a\n2,5\n3,6\n", [("--id", "Unnamed: 0")], "column 1 has no name"),
    ],
)
def test_other_columns_without_a_name_are_refused(text, options, told, tmp_path):
    with pytest.raises(TableError, match=told) as caught:
        read_table(written(tmp_path, text))
    (problem,) = caught.value.problems
    assert [tuple(option[:2]) for option in problem.options] == options
    used = {value for _, value in options}
    assert read_table(tmp_path / "t.csv", drop=used).columns.tolist() == ["a"]


# columns of the target's name ---------------------------------------------------------------------------------------------


def test_a_second_column_of_the_target_is_refused_only_with_a_target(tmp_path):
    path = written(tmp_path, "x,y,y\n1,a,a\n2,b,b\n")
    numbered = Reading(rename_duplicates=True)
    assert read_table(path, reading=numbered).columns.tolist() == ["x", "y", "y (2)"]
    assert read_table(path, target="x", reading=numbered).columns.tolist() == ["x", "y", "y (2)"]
    with pytest.raises(TableError, match=r"'y \(2\)' has the name of the target") as caught:
        read_table(path, target="y", reading=numbered)
    assert caught.value.problems[0].options == (("--drop", "y (2)", ""),)
    assert read_table(path, target="y", reading=numbered, drop=["y (2)"]).columns.tolist() == ["x", "y"]


def test_a_name_that_looks_numbered_is_an_input(tmp_path):
    path = written(tmp_path, "x,y,y (2)\n1,a,u\n2,b,v\n")
    assert read_table(path, target="y").columns.tolist() == ["x", "y", "y (2)"]


# numbers ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1,5", "2"], [1.5, 2.0]),
        (["1200", "-3"], [1200, -3]),
        (["1.200", "-3"], [1200, -3]),
        (["1.200", ""], [1200.0, np.nan]),
        (["1.200,5", "+3"], [1200.5, 3.0]),
        (["123.456.789.012.345.678.901", "1"], [123456789012345678901.0, 1.0]),  # beyond 64 bits
        (["1.200", "2.300", "?"], ["1200", "2300", "?"]),
        (["1.200 kg", "2,5 kg"], ["1200 kg", "2.5 kg"]),
        (["1.2", "x", "y"], ["1.2", "x", "y"]),
    ],
)
def test_numbers_of_a_convention(cells, expected, tmp_path):
    path = written(tmp_path, "\n".join(["a;b", *(f"{cell};u" for cell in cells)]) + "\n")
    column = read_table(path, reading=Reading(decimal=",", thousands="."))["a"]
    np.testing.assert_equal(column.tolist(), expected)
    assert {type(cell) for cell in column} == {type(cell) for cell in expected}


def test_targets_and_columns_of_text_keep_their_cells(tmp_path):
    path = written(tmp_path, "a;y;t\n1.200;1.200;1.200\n3;3;2,5 kg\n")
    frame = read_table(path, text=["t"], target="y", reading=Reading(decimal=",", thousands="."))
    assert frame["a"].tolist() == [1200, 3]
    assert frame["y"].tolist() == ["1.200", "3"]
    assert frame["t"].tolist() == ["1.200", "2,5 kg"]


@pytest.mark.parametrize(
    ("cells", "reading", "option", "told"),
    [
        (["1.200", "2.300"], COMMA, ("--thousands", "."), "points between thousands, such as '1.200'"),
        (["1.25", "2.5"], COMMA, ("--drop", "a"), "decimal points, such as '1.25'"),
        (["1.25", "2.5", "x"], COMMA, ("--drop", "a"), "decimal points, such as '1.25'"),
        (["1.200", "2.300"], Reading(decimal=",", thousands=" "), ("--drop", "a"), "decimal points"),
        (["inf", "inf", "x"], COMMA, None, ""),
        (["01.02.2020", "02.02.2020"], COMMA, None, ""),
        (["1.25", "x"], COMMA, None, ""),  # at most half of the cells
        (["1.25", "2.5"], Reading(), None, ""),
    ],
)
def test_points_in_a_file_with_decimal_commas(cells, reading, option, told, tmp_path):
    path = written(tmp_path, "\n".join(["a;b", *(f"{cell};u" for cell in cells)]) + "\n")
    if option is None:
        assert len(read_table(path, reading=reading)) == len(cells)
        return
    with pytest.raises(TableError, match=told) as caught:
        read_table(path, reading=reading)
    (problem,) = caught.value.problems
    assert problem.options == ((*option, ""),)
    assert len(read_table(path, text=["a"], reading=reading)) == len(cells)  # read as text, it is not checked
