"""Lines before the header, row names without a name, and files of other formats."""

import warnings

import pytest

from gpclass.tables import FileRemark, Reading, TableError, read_table
from gpclass.tables.beginnings import lines_before_header, without_lines


def written(tmp_path, content):
    path = tmp_path / "t.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 9])
def test_first_lines_are_removed(count, end):
    lines = ["a", "", "b c"]
    assert without_lines(end.join(lines), count) == end.join(lines[count:])


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("title\na,b,c,d\n1,2,3,4\n", 1),
        ("title, 2024\na,b,c,d\n1,2,3,4\n", 1),  # one separator is fewer than half of four cells
        ("x,y,z\na,b,c,d\n1,2,3,4\n", None),  # a ragged header: more than half as many cells
        ("t,u\na,b\n1,2\n", None),
        ("\n\ntitle\n\na,b\n1,2\n", 4),
        ("title\n1,2\n3,4\n", None),  # numbers are no names of columns
        ("title\na,a\n3,4\n", None),
        ("title\na,\n3,4\n", None),
        ("title\nmore\n", None),
    ],
)
def test_lines_before_the_header(text, count, tmp_path):
    path = written(tmp_path, text)
    if count is None:
        assert lines_before_header(text, None, path) is None
        return
    with pytest.raises(TableError, match="not part of the table") as caught:
        read_table(path)
    (problem,) = caught.value.problems
    assert problem.options == (("--skip-lines", str(count), ""),)
    assert problem.python == f"read_table(path, reading=Reading(skip_lines={count}))"
    assert f"the first {'line' if count == 1 else f'{count} lines'} of" in problem.text
    assert len(read_table(path, reading=Reading(skip_lines=count))) == 1


def test_lines_before_the_header_with_a_given_separator(tmp_path):
    """With the separator ; the first line has as many cells as the others: it is the header."""
    path = written(tmp_path, "one;two\na,b;c,d\n1,2;3,4\n")
    assert read_table(path, reading=Reading(sep=";")).columns.tolist() == ["one", "two"]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("x,y\n1,5,a\n2,6,b\n", True),
        ("x,y\nu,5,a\nv,6,b\n", True),
        ("x,y\nu,5,a\nu,6,b\n", False),  # equal texts are no row names
        ("x,y\n2,5,a\n3,6,b\n", False),  # row numbers begin with 1
        ("x,y\nu,5,a\n", False),  # one row may be too long by mistake
        ("x,y\n1,5,\n2,6,\n", False),  # a separator at the end of each row
        ("x,7\n1,5,a\n2,6,b\n", False),  # numbers are no names of columns
        ("x,y\n1,5,a\n2,6\n", False),
    ],
)
def test_row_names_of_r(text, named, tmp_path):
    path = written(tmp_path, text)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        try:
            frame = read_table(path, text=["Unnamed: 0"])
        except TableError:
            frame = None
    assert any(issubclass(w.category, FileRemark) for w in found) == named
    if named:
        assert frame["x"].tolist() == [5, 6]
        assert frame["y"].tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"%PDF-1.4 ...", "a PDF document"),
        (b"SQLite format 3\x00", "an SQLite database"),
        (b"  <HTML><body>", "a web page"),
        (b'{"x": [1, 2]}', "a JSON document"),
        (b'\n[ { "x": 1}]', "a JSON document"),
    ],
)
def test_other_formats_are_named(content, what, tmp_path):
    with pytest.raises(TableError, match=f"t.csv is {what}"):
        read_table(written(tmp_path, content))
