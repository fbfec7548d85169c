"""Encodings, separators and names of the columns of text files."""

import warnings

import pytest

from gpclass.tables import FileRemark, Reading, TableError, looks_like_data, read_table


def written(tmp_path, content, name="t.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def problem_of(path, **settings):
    """The only problem of a file that cannot be read."""
    with pytest.raises(TableError) as caught:
        read_table(path, reading=Reading(**settings))
    (problem,) = caught.value.problems
    return problem


# encoding -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("encoding", "advised"),
    [("cp1252", "cp1252"), ("utf-16-le", "utf-16-le"), ("utf-16-be", "utf-16-be")],
)
def test_the_advised_encoding_reads_the_file(encoding, advised, tmp_path):
    text = "farbe,größe\nrot,1\ngrün,2\n"
    problem = problem_of(written(tmp_path, text.encode(encoding)))
    assert (problem.kind, problem.options) == ("encoding", (("--encoding", advised, ""),))
    assert problem.python == f"read_table(path, reading=Reading(encoding={advised!r}))"
    frame = read_table(tmp_path / "t.csv", reading=Reading(encoding=advised))
    assert frame["farbe"].tolist() == ["rot", "grün"]
    assert frame.columns.tolist() == ["farbe", "größe"]


def test_bytes_that_cp1252_does_not_define_are_latin_1(tmp_path):
    """Byte 0x81 has no character in cp1252."""
    problem = problem_of(written(tmp_path, b"a,b\n1,x\n2,\x81\n"))
    assert problem.options == (("--encoding", "latin-1", ""),)
    assert "(byte 10); in latin-1, row 2 has" in problem.text


def test_the_message_shows_the_cell_that_is_not_utf_8(tmp_path):
    assert "the header has 'größe'" in problem_of(written(tmp_path, "a,größe\n1,2\n".encode("cp1252"))).text
    assert "row 2 has 'grün'" in problem_of(written(tmp_path, "a;b\n1;rot\n2;grün\n".encode("cp1252"))).text


def test_a_wrong_encoding_is_refused(tmp_path):
    problem = problem_of(written(tmp_path, "a,b\n1,ü\n"), encoding="ascii")
    assert "is not ascii text (byte 6)" in problem.text
    assert problem.advice == "; use another --encoding"


# separator ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name", "columns"),
    [
        ("a,b\n1,2\n", "t.csv", ["a", "b"]),
        ("a;b\n1;2\n", "t.csv", ["a", "b"]),
        ("a\tb\n1\t2\n", "t.csv", ["a", "b"]),
        ("a\tb\n1\t2\n", "t.tsv", ["a", "b"]),
        ("a\tb\n1\t2\n", "t.txt", ["a", "b"]),
        ("a;b\n1;2\n", "t.txt", ["a", "b"]),
        ("a;b;c\n1;2,5;3\n4;5,5;6\n", "t.csv", ["a", "b", "c"]),  # decimal commas
        ("a\n1\n2\n", "t.csv", ["a"]),
        ("a b\n1\n2\n", "t.csv", ["a b"]),  # spaces that do not divide all rows
    ],
)
def test_usual_separators_are_found_without_a_remark(text, name, columns, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_table(written(tmp_path, text, name)).columns.tolist() == columns


@pytest.mark.parametrize(("text", "name"), [("a|b\n1|2\n", "t.csv"), ("a,b\n1,2\n", "t.tsv")])
def test_another_separator_is_used_with_a_remark(text, name, tmp_path):
    with pytest.warns(FileRemark, match="is read with the separator"):
        assert read_table(written(tmp_path, text, name)).columns.tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "option", "shown"),
    [
        ("a,b;c\n1;2\n3;4\n", ";", "';'"),  # the comma is part of a name
        ("a b\n1 2\n3 4\n", "space", "' '"),
        ("a:b\n1:2\n3:4\n", ":", "':'"),
        ("a|b\tc\n1|2\t3\n4|5\t6\n", "tab", r"'\t' or '|'"),
    ],
)
def test_doubtful_separators_are_asked_for(text, option, shown, tmp_path):
    problem = problem_of(written(tmp_path, text))
    assert problem.text.endswith(f"seem to be separated by {shown}")
    assert problem.options == (("--sep", option, ""),)
    assert len(read_table(tmp_path / "t.csv", reading=Reading(sep=option)).columns) == 2


# names --------------------------------------------------------------------------------------------------------------------


def test_repeated_names_are_numbered_on_request(tmp_path):
    path = written(tmp_path, "a,a (2),a,b,a\n1,2,3,4,5\n")
    assert problem_of(path).options == (("--rename-duplicates", "", ""),)
    frame = read_table(path, reading=Reading(rename_duplicates=True))
    assert frame.columns.tolist() == ["a", "a (2)", "a (3)", "b", "a (4)"]


def test_columns_without_a_header_are_numbered_from_1(tmp_path):
    frame = read_table(written(tmp_path, "x,1\ny,2\n"), reading=Reading(header=False))
    assert frame.columns.tolist() == ["1", "2"]
    assert frame.index.tolist() == [1, 2]
    assert frame["1"].tolist() == ["x", "y"]


@pytest.mark.parametrize(
    ("text", "target", "refused"),
    [
        ("5.1,3.5\n4.9,3.0\n", None, True),
        ("red,3.5,a\nblue,3.0,b\n", "y", True),  # no name is similar to the target
        ("red,3.5,y\nblue,3.0,b\n", "y", False),
        ("red,3.5,a\nblue,3.0,b\n", None, False),
    ],
)
def test_files_without_a_header(text, target, refused, tmp_path):
    path = written(tmp_path, text)
    if not refused:
        assert len(read_table(path, target=target)) == 1
        return
    with pytest.raises(TableError, match="has numbers where the names of columns should be") as caught:
        read_table(path, target=target)
    assert caught.value.problems[0].options == (("--no-header", "", ""),)
    assert len(read_table(path, reading=Reading(header=False))) == 2


@pytest.mark.parametrize(
    ("cells", "data"),
    [
        (["5.1", "3.5", "setosa"], True),  # one label among numbers
        (["5.1", "3.5"], True),
        (["5,1", "3,5"], True),
        (["5.1", "setosa"], False),  # of two cells, one may be a name
        (["5.1", "3.5", "a", "b"], False),
        (["y", "2019", "2020", "2021"], False),
        (["2019", "2020", "2022"], True),  # unequal distances
        (["2021", "2020", "2019"], True),
        (["0.5", "1.5", "2.5"], True),  # equal distances, but not whole numbers
        (["1"], False),
        (["a", "b"], False),
    ],
)
def test_first_lines_that_are_data(cells, data):
    assert looks_like_data(cells) == data
