"""Problems of tables: one is a sentence, several are a list, many of one kind are one."""

import pytest

from gpclass.tables import Findings, Option, Problem, TableError


def of_column(name, kind="units"):
    option = Option("--units", name)
    return Problem(kind, f"column {name!r} is bad", (name,), "; do this", (option,), f"repair({name!r})")


def test_one_problem_is_a_sentence():
    error = TableError.of(of_column("a"))
    assert str(error) == "column 'a' is bad; do this"
    assert error.problems == [of_column("a")]


def test_several_problems_are_a_list():
    error = TableError.of(of_column("a"), Problem("other", "it is late", advice="; go home"), of_column("a"))
    assert str(error).splitlines() == [
        "the table has 2 problems:",
        "  - column 'a' is bad; use repair('a')",
        "  - it is late; go home",
    ]


@pytest.mark.parametrize("count", [3, 4, 9])
def test_four_problems_of_a_kind_are_one(count):
    names = tuple("abcdefghij"[:count])
    error = TableError.of(*map(of_column, names))
    if count < 4:
        assert [p.column for p in error.problems] == list(names)
        return
    (problem,) = error.problems
    shown = ", ".join(map(repr, names[:8])) + (" and 1 more" if count == 9 else "")
    assert problem.text == f"{count} columns have the same problem: {shown}. The first: column 'a' is bad"
    assert problem.columns == names
    assert problem.options == tuple(Option("--units", name) for name in names)
    assert problem.python == "repair('a')"


def test_several_problems_of_one_column_are_counted():
    cells = [Problem("units", f"row {k} is bad", ("a",)) for k in range(5)]
    assert TableError.of(*cells).problems[0].text == "5 problems are of one kind, in 'a'. The first: row 0 is bad"
    files = [Problem("encoding", f"file {k} is bad") for k in range(5)]
    assert TableError.of(*files).problems[0].text == "5 problems are of one kind. The first: file 0 is bad"


def test_problems_of_no_kind_are_never_put_together():
    error = TableError.of(*(Problem("other", f"sentence {k}") for k in range(5)))
    assert len(error.problems) == 5


def test_an_error_about_a_file_names_it_in_each_problem():
    one = TableError("it is late").about("t.csv")
    assert (str(one), one.problems[0].text) == ("t.csv: it is late", "t.csv: it is late")
    two = TableError.of(of_column("a"), of_column("b", "dates")).about("t.csv")
    assert [p.text for p in two.problems] == ["t.csv: column 'a' is bad", "t.csv: column 'b' is bad"]
    assert "  - t.csv: column 'b' is bad" in str(two)


def test_findings_are_reported_together():
    found = Findings()
    found.report()
    with found.collecting():
        raise TableError.of(of_column("a"))
    found.add(of_column("b", "dates"))
    with pytest.raises(ValueError, match="other"), found.collecting():
        raise ValueError("other errors are not collected")
    with pytest.raises(TableError, match="2 problems") as caught:
        found.report()
    assert [p.column for p in caught.value.problems] == ["a", "b"]
