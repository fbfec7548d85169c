"""Labels of tables: their kind, what is refused, labels of another table."""

import numpy as np
import pandas as pd
import pytest

from gpclass.tables import (
    Reading,
    TableError,
    labels_as_trained,
    read_table,
    split_target,
)

from .patients import FRAME

# labels -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "kind"),
    [(["a", "b", "a"], "U"), ([0, 1, 0], "i"), ([1.0, 2.0, 1.0], "i"), ([True, False, True], "b"), (["1", "b", "1"], "U")],
)
def test_labels_keep_their_kind(values, kind):
    X, y = split_target(pd.DataFrame({"x": [1, 2, 3], "y": values}), "y")
    assert X.columns.tolist() == ["x"]
    assert y.dtype.kind == kind
    assert y.tolist() == values


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (["a", None, "b", None], "'y' is empty in row b, and 1 more cell"),
        ([0.5, 1.5, 1.0, 2.0], "measurements, not labels: row a has 0.5"),
        (pd.to_datetime(["2020-01-01"] * 4), "has Timestamp values"),
        ([1.0, np.inf, 1.0, 2.0], "measurements, not labels: row b has inf"),
        ([1.0, 1.0, 2.0**60, 2.0], "measurements, not labels: row c has"),  # beyond the whole numbers of floats
        ([(1, 2)] * 4, "has tuple values; labels are text or whole numbers"),
        (["a", "a ", "b", "b"], "labels 'a' and 'a ' of the target 'y' differ only in case or spaces"),
        (["x  Y", "X y", "b", "b"], "labels 'x  Y' and 'X y'"),
    ],
)
def test_bad_labels_are_refused(values, told):
    with pytest.raises(TableError, match=told):
        split_target(pd.DataFrame({"x": range(4), "y": values}, index=list("abcd")), "y")


@pytest.mark.parametrize(
    ("classes", "rows", "refused"), [(51, 203, True), (51, 204, False), (50, 60, False), (2, 2, False), (3, 3, False)]
)
def test_how_many_classes_are_no_labels(classes, rows, refused):
    """More than 50 that are more than a quarter of the rows."""
    frame = pd.DataFrame({"x": range(rows), "y": [f"c{i % classes}" for i in range(rows)]})
    if refused:
        with pytest.raises(TableError, match=f"{classes} different values in {rows} rows, such as 'c0'"):
            split_target(frame, "y")
    else:
        assert len(set(split_target(frame, "y")[1])) == classes


def test_merged_labels_are_spelt_as_the_most_frequent():
    frame = pd.DataFrame({"x": range(6), "y": ["No", "yes", " YES", "NO", " YES", "No"]})
    assert split_target(frame, "y", merge_labels=True)[1].tolist() == ["No", "YES", "YES", "No", "YES", "No"]
    assert split_target(frame, "y", merge_labels=False)[1].tolist() == frame["y"].tolist()
    numbers = frame.assign(y=[1, 2, 1, 2, 1, 2])
    assert split_target(numbers, "y", merge_labels=True)[1].tolist() == [1, 2, 1, 2, 1, 2]


def test_labels_of_another_table_keep_the_type_of_the_classes():
    assert labels_as_trained(np.array(["1", "0"]), np.array([0, 1]), "y").tolist() == [1, 0]
    found = labels_as_trained(np.array(["true", "False"]), np.array([False, True]), "y")
    assert found.tolist() == [True, False]
    assert labels_as_trained(np.array(["B", "b"]), np.array(["B", "b"]), "y").tolist() == ["B", "b"]


def test_a_target_that_is_not_there():
    with pytest.raises(TableError, match=r"no column 'clas' \(did you mean 'class'\?\); there are 'age', 'dose'"):
        split_target(FRAME, "clas")
    with pytest.raises(TableError, match="the only column"):
        split_target(FRAME[["class"]], "class")
    with pytest.raises(TableError, match="200 different values in 200 rows"):
        split_target(pd.DataFrame({"x": range(200), "id": range(200)}), "id")


def test_labels_of_another_table_are_matched_as_text():
    classes = np.array(["1", "2", "a"])
    assert labels_as_trained(np.array([2, 1]), classes, "y").tolist() == ["2", "1"]
    with pytest.raises(TableError, match="labels '3', but the model knows '1', '2', 'a'"):
        labels_as_trained(np.array([3, 1]), classes, "y")
    assert labels_as_trained(np.array([" A", "2 "]), classes, "y").tolist() == ["a", "2"]
    with pytest.raises(TableError, match="labels 'B '"):  # the class B or b?
        labels_as_trained(np.array(["B "]), np.array(["B", "b"]), "y")


def test_rows_without_a_label_are_left_out_on_request():
    frame = pd.DataFrame({"x": range(4), "y": ["a", None, "b", None]})
    X, y = split_target(frame, "y", skip_unlabelled=True)
    assert (X["x"].tolist(), y.tolist()) == ([0, 2], ["a", "b"])


def test_labels_that_are_one_number_but_two_texts_are_refused(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,y\n1,01\n2,1\n3,2\n", encoding="utf-8")
    with pytest.raises(TableError, match="labels '01' and '1' of the target 'y' are the same number"):
        read_table(path, target="y")
    assert read_table(path)["y"].tolist() == [1, 1, 2]  # as numbers they are equal
    for cells in (["?", "01", "1"], ["1.0", "?", "1"], ["2", "2.0", "1"]):  # with an empty cell they are floats
        path.write_text("\n".join(["a;y", *(f"0;{cell}" for cell in cells)]), encoding="utf-8")
        with pytest.raises(TableError, match="of the target 'y' are the same number"):
            read_table(path, target="y", reading=Reading(missing_values=["?"]))
    path.write_text("a;y\n1;?\n2;01\n3;1\n", encoding="utf-8")
    with pytest.raises(TableError, match="labels '01' and '1' of the target 'y' are the same number"):
        read_table(path, target="y", reading=Reading(missing_values=["?"]))
    path.write_text("a,y\n01,01\n1,02\n3, 02\n", encoding="utf-8")
    assert read_table(path, target="y")["y"].tolist() == [1, 2, 2]
    path.write_text("a,y\n1,1.0\n2,\n3,2.0\n4,1.0\n", encoding="utf-8")
    assert split_target(read_table(path, target="y"), "y", skip_unlabelled=True)[1].tolist() == [1, 2, 1]
    path.write_text("a,y\n1,0.5\n2,0.50\n", encoding="utf-8")
    assert read_table(path, target="y")["y"].tolist() == [0.5, 0.5]  # measurements, not labels
