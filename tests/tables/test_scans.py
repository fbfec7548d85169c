"""Tables that are divided into parts: kinds, levels, fills and messages are those of the whole table."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from gpclass.tables import Part, TableEncoder, TableError, check_columns, scanned

FRAME = pd.DataFrame(
    {
        "x": [4.0, np.nan, 1.0, 7.0, 2.0, 9.0],
        "flag": [False, True, True, None, False, True],
        "level": ["b", "a", "a", "c", None, "c"],
        "size": pd.Categorical(["s", "m", "s", "l", "s", "m"]),
    },
    index=list("uvwxyz"),
)


def divided(frame, *ends):
    """Sums over the parts of the frame that end before these rows; their names are A, B, …"""
    borders = [0, *ends, len(frame)]
    parts = [Part(frame.iloc[a:b], "ABCDEF"[k]) for k, (a, b) in enumerate(pairwise(borders))]

    def total(function, *arguments):
        found = [function(part, *arguments) for part in parts]
        return sum(found[1:], start=found[0])

    return total


@pytest.mark.parametrize("ends", [(), (3,), (1, 2), (1, 2, 3, 4, 5), (2, 2)])
def test_what_is_learned_by_hand(ends):
    x, flag, level, size = TableEncoder(impute="indicator").fit_parts(divided(FRAME, *ends)).columns_
    assert (x.kind, x.fill, x.median, x.indicator) == ("number", 4.0, 4.0, True)
    assert (flag.kind, flag.fill, flag.indicator) == ("boolean", 1.0, True)  # three of five are true
    assert (level.kind, level.levels, level.fill, level.indicator) == ("category", ("a", "b", "c"), "a", True)
    assert (size.kind, size.levels, size.fill, size.indicator) == ("category", ("l", "m", "s"), "s", False)
    scan = divided(FRAME, *ends)(scanned)
    assert scan.n_rows == 6
    assert scan.empty.tolist() == [1, 1, 1, 0]


@pytest.mark.parametrize(("cells", "fill"), [([1, 0], 1.0), ([1, 0, 0], 0.0), ([0], 0.0), ([1], 1.0)])
def test_empty_booleans_are_filled_with_the_most_frequent_value(cells, fill):
    (column,) = TableEncoder(impute="median").fit(pd.DataFrame({"flag": [*map(bool, cells), None]})).columns_
    assert column.fill == fill


@pytest.mark.parametrize("ends", [(1,), (3,), (1, 2, 3, 4, 5)])
def test_the_first_empty_cell_is_named_with_its_part(ends):
    part = "ABCDEF"[sum(end <= 1 for end in ends)]
    told = rf"row v of {part}, column 'x' is empty or NA, and 2 more cells in columns 'x', 'flag', 'level'"
    with pytest.raises(TableError, match=told):
        TableEncoder().fit_parts(divided(FRAME, *ends))


def test_the_first_empty_cell_of_columns_that_are_not_empty():
    """A column without any cell is another problem."""
    frame = FRAME[["x", "level"]].assign(nothing=np.nan)
    with pytest.raises(TableError) as caught:
        TableEncoder().fit_parts(divided(frame, 2))
    nothing, empty = caught.value.problems
    assert (nothing.kind, nothing.columns) == ("nothing", ("nothing",))
    assert empty.text == "row v of A, column 'x' is empty or NA, and 1 more cell in columns 'x', 'level'"


def test_bad_cells_are_named_with_their_part():
    frame = FRAME.assign(x=[1.0, 2.0, 3.0, np.inf, np.inf, 4.0], flag=True, level="a")
    with pytest.raises(TableError, match=r"^B: row x, column 'x' is inf"):
        TableEncoder().fit_parts(divided(frame, 2))
    with pytest.raises(TableError, match=r"^row x, column 'x' is inf"):
        TableEncoder().fit(frame)


def test_first_rows_of_texts_are_those_of_the_table():
    frame = pd.DataFrame({"c": ["1", "2", "?", "4", "?", "5"]})
    with pytest.raises(TableError, match="mostly numbers, but row 2 of B has"):
        TableEncoder().fit_parts(divided(frame, 2, 4))


def test_columns_of_parts_may_have_another_order():
    parts = [Part(FRAME.iloc[:3], "A"), Part(FRAME.iloc[3:, ::-1], "B")]
    scan = scanned(parts[0]) + scanned(parts[1])
    assert scan.names == ("x", "flag", "level", "size")
    assert scan.empty.tolist() == [1, 1, 1, 0]
    assert [None if place is None else tuple(place) for place in scan.first_empty] == [
        (1, "v of A"),
        (3, "x of B"),
        (4, "y of B"),
        None,
    ]


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["a"], "B has no column 'b', but A has"),
        (["b", "a", "c"], "B has a column 'c', but A has not"),
        (["a", "b", "a"], "B has two columns 'a'"),
    ],
)
def test_other_columns_are_refused(names, told):
    with pytest.raises(TableError, match=told):
        check_columns(names, "B", ["a", "b"], "A")
    check_columns(["b", "a"], "B", ["a", "b"], "A")


@pytest.mark.parametrize(
    ("column", "needed"),
    [([1, 2], False), ([1.5, None], True), (["a", "b"], True), ([True, False], False), (pd.Categorical([1, 2]), True)],
)
def test_what_needs_encoding(column, needed):
    assert scanned(Part(pd.DataFrame({"x": column}))).needs_encoding == needed
