"""Tables: every kind of column comes through, everything that cannot be used is refused by row, column and remedy."""

import csv
import gzip

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpclass import GPClassifier
from gpclass.tables import (
    TableEncoder,
    TableError,
    UnseenLevelWarning,
    csv_text,
    guarded,
    labels_as_trained,
    read_table,
    split_target,
    unguarded,
    with_ids,
    write_table,
)

FRAME = pd.DataFrame(
    {
        "age": [31, 42, 58, 24, 47, 39],
        "dose": [0.5, 1.25, 0.75, 2.0, 1.5, 1.0],
        "colour": ["red", "blue", "red", "green", "blue", "red"],
        "smoker": [True, False, False, True, True, False],
        "class": ["ill", "well", "ill", "well", "ill", "well"],
    }
)


def written(tmp_path, text, name="data.csv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


# files ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.csv.gz", "a.TSV.gz", "a.parquet"])
def test_every_format_comes_back(name, tmp_path):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    write_table(FRAME, tmp_path / name)
    numbered = FRAME.set_axis(range(1, 7), axis=0)
    pd.testing.assert_frame_equal(read_table(tmp_path / name), numbered, check_dtype=False)


def test_what_spreadsheets_write(tmp_path):
    assert read_table(written(tmp_path, "\ufeffa;b\n1;x\n2;y\n")).columns.tolist() == ["a", "b"]
    assert read_table(written(tmp_path, "a, b\n1, x\n\n2, y\n"))["b"].tolist() == ["x", "y"]
    assert read_table(written(tmp_path, '"a,1",b\n"x\ny",2\n'))["a,1"].tolist() == ["x\ny"]
    assert read_table(written(tmp_path, ",a\n1,5\n2,6\n")).columns.tolist() == ["a"]  # row numbers


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("a,b\n", "a header but no rows"),
        ("a,b,a\n1,2,3\n", "more than one column called 'a'"),
        ("a,b\n1,2,3\n4,5,6\n", "row 1 has 3 cells, but the header has 2"),
        ("a,b\n1,2\n4,5,6\n", "row 2 has 3 cells, but the header has 2; put quotes around text that contains ','"),
        ("\na,b\n\n1,'2\n\n4,5,6\n", "row 4 has 3 cells, but the header has 2"),
        ('a,b\n1,2\n"4', "cannot be read"),
        (",a,\n1,2,3\n", "columns 1, 3 have no name"),
        (",a\n7,2\n1,3\n", "column 1 has no name"),
    ],
)
def test_broken_text_is_refused(text, told, tmp_path):
    with pytest.raises(TableError, match=told):
        read_table(written(tmp_path, text))


def test_broken_files_are_refused(tmp_path):
    path = tmp_path / "a.csv"
    with pytest.raises(TableError, match="there is no file"):
        read_table(path)
    path.write_bytes(b"a,b\n\xff\xfe,1\n")
    with pytest.raises(TableError, match="not UTF-8"):
        read_table(path)
    packed = tmp_path / "a.csv.gz"
    packed.write_bytes(gzip.compress(b"a,b\n1,2\n" * 100)[:-20])
    with pytest.raises(TableError, match="cannot be read"):
        read_table(packed)
    packed.write_text("a,b\n1,2\n")
    with pytest.raises(TableError, match="cannot be read"):
        read_table(packed)
    with pytest.raises(TableError, match="is a folder"):
        read_table(tmp_path)
    (tmp_path / "a.xlsx").write_text("")
    with pytest.raises(TableError, match="Save the sheet as CSV"):
        read_table(tmp_path / "a.xlsx")


def test_a_broken_parquet_file_is_refused(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "a.parquet").write_bytes(b"PAR1 nothing PAR1")
    with pytest.raises(TableError, match="cannot be read"):
        read_table(tmp_path / "a.parquet")


# names of rows ----------------------------------------------------------------------------------------------------------


def test_rows_are_numbered_as_a_spreadsheet_numbers_them(tmp_path):
    """By the place of their line, the header's place being 0; blank lines have places, too."""
    for end in ("\n", "\r\n"):
        for before, between in (("", ""), ("", end), (end, end + end), ("", "  " + end)):
            text = before + "x,y" + end + "1,a" + end + between + "2,b" + end + end
            frame = read_table(written(tmp_path, text))
            lines = text.split(end)
            header = lines.index("x,y")
            assert frame.index.tolist() == [lines.index("1,a") - header, lines.index("2,b") - header]
    many = read_table(written(tmp_path, 'x,y\n1,"a\n\nb"\n\n2,c\n'))
    assert many.index.tolist() == [1, 3]  # a cell of three lines is one row, the blank line after it another


def test_every_complaint_names_the_row_of_the_file(tmp_path):
    """A bad cell is put into each row in turn; the complaint must lead to it."""
    good = ["1.5,red,true,a", "2.5,blue,false,b", "3.5,red,true,a", "4.5,blue,false,b"]
    bad = {"x": "much,red,true,a", "colour": "1.5,,true,a", "flag": "1.5,red,often,a", "y": "1.5,red,true,"}
    encoder = TableEncoder(target="y").fit(read_table(written(tmp_path, "x,colour,flag,y\n" + "\n".join(good))))
    for column, line in bad.items():
        for place in range(4):
            lines = [*good[:place], line, *good[place:]]
            frame = read_table(written(tmp_path, "x,colour,flag,y\n" + "\n".join(lines)))
            work = (lambda f: split_target(f, "y")) if column == "y" else encoder.transform
            with pytest.raises(TableError, match=rf"{column}.*row {place + 1}\b|row {place + 1}\b.*{column}"):
                work(frame)


def test_an_id_column_names_rows_and_is_no_input(tmp_path):
    path = written(tmp_path, "who,x,y\n007,1,a\n008,2,b\n,3,a\n")
    frame = read_table(path, text=["who"])
    assert with_ids(frame, "who").index.tolist() == ["1 (007)", "2 (008)", "3"]
    encoder = TableEncoder(target="y", id="who").fit(frame)
    assert encoder.feature_names_in_.tolist() == ["x"]
    assert encoder.row_names_.tolist() == ["1 (007)", "2 (008)", "3"]
    with pytest.raises(TableError, match=r"row 2 \(008\), column 'x' is empty"):
        encoder.transform(frame.assign(x=[1.0, np.nan, 2.0]))
    with pytest.raises(TableError, match=r"no id column 'whom' \(did you mean 'who'"):
        with_ids(frame, "whom")


# spreadsheets -----------------------------------------------------------------------------------------------------------

RISKY = ["=1+1", "+x", "-x", "@SUM(A1)", "\tx", "\rx", "-1-1", "="]
LABELS = [*RISKY, "-1", "+1.5e3", "-.5", "plain", "'quoted", "'=1", "''=1", "'-1"]


def runs_in_a_spreadsheet(cell):
    """As the Open Worldwide Application Security Project lists it; numbers are numbers."""
    if cell[:1] not in ("=", "+", "-", "@", "\t", "\r"):
        return False
    try:
        float(cell)
    except ValueError:
        return True
    return False


def test_no_cell_is_a_formula_and_all_come_back(tmp_path):
    assert [unguarded([guarded(label)])[0] for label in LABELS] == LABELS
    frame = pd.DataFrame({"=name": LABELS, "x": range(len(LABELS)), "n": [-1] * len(LABELS)})
    for name, separator in (("a.csv", ","), ("a.tsv", "\t")):
        write_table(frame, tmp_path / name)
        with open(tmp_path / name, newline="", encoding="utf-8") as stream:
            cells = [cell for row in csv.reader(stream, delimiter=separator) for cell in row]
        assert not any(runs_in_a_spreadsheet(cell) for cell in cells)
        assert "-1" in cells  # a number stays one
        back = read_table(tmp_path / name)
        assert back.columns.tolist() == frame.columns.tolist()
        assert back["=name"].tolist() == LABELS
        assert back["n"].tolist() == [-1] * len(LABELS)
    assert csv_text(frame) == (tmp_path / "a.csv").read_bytes().decode()
    write_table(pd.DataFrame({"y": ["=a", "b"]}).astype("category"), tmp_path / "c.csv")
    assert read_table(tmp_path / "c.csv")["y"].tolist() == ["=a", "b"]


def test_columns_that_others_wrote_are_left_alone(tmp_path):
    """Where a formula stands as it is, an apostrophe before another is part of the text."""
    texts = ["=a", "'=a", "b"]
    assert unguarded(texts) == texts
    assert read_table(written(tmp_path, "y,x\n=a,1\n'=a,2\n"))["y"].tolist() == ["=a", "'=a"]


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
    ],
)
def test_bad_labels_are_refused(values, told):
    with pytest.raises(TableError, match=told):
        split_target(pd.DataFrame({"x": range(4), "y": values}, index=list("abcd")), "y")


def test_a_target_that_is_not_there_is_told():
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


# inputs -----------------------------------------------------------------------------------------------------------------


def test_columns_become_numbers():
    encoder = TableEncoder(target="class").fit(FRAME)
    assert encoder.get_feature_names_out().tolist() == ["age", "dose", "colour=blue", "colour=green", "colour=red", "smoker"]
    by_hand = np.column_stack(
        [FRAME.age, FRAME.dose, FRAME.colour == "blue", FRAME.colour == "green", FRAME.colour == "red", FRAME.smoker]
    )
    assert np.array_equal(encoder.transform(FRAME), by_hand.astype(float))
    shuffled = FRAME[["smoker", "colour", "class", "dose", "age"]].assign(more=1)
    assert np.array_equal(encoder.transform(shuffled), by_hand.astype(float))
    assert np.array_equal(clone(encoder).fit_transform(FRAME), by_hand.astype(float))


def test_categories_of_pandas_are_text():
    frame = pd.DataFrame({"size": pd.Categorical([1, 2, 1]), "x": [1.0, 2.0, 3.0]})
    assert TableEncoder().fit(frame).columns_[0].levels == ("1", "2")


def test_levels_that_were_not_there_are_zeros_and_told():
    encoder = TableEncoder(target="class").fit(FRAME)
    new = FRAME.assign(colour=["red", "pink", "red", "violet", "pink", "blue"])
    with pytest.warns(UnseenLevelWarning, match=r"'colour' has 'pink', 'violet' in 3 of 6 rows; .* 'blue', 'green', 'red'"):
        encoded = encoder.transform(new)
    assert np.array_equal(encoded[:, 2:5].sum(axis=1), [1, 0, 1, 0, 0, 1])


def test_empty_cells_are_refused_by_row_and_column():
    holes = FRAME.drop(columns="class").astype({"age": float})
    holes.loc[3, "dose"] = np.nan
    with pytest.raises(TableError, match="row 3, column 'dose' is empty or NA; fill"):
        TableEncoder().fit(holes)
    holes.loc[4, "colour"] = None
    with pytest.raises(
        TableError, match=r"row 3, column 'dose' is empty or NA, and 1 more cell in columns 'dose', 'colour'"
    ):
        TableEncoder().fit(holes)
    encoder = TableEncoder().fit(FRAME.drop(columns="class"))
    with pytest.raises(TableError, match="row 3, column 'dose' is empty or NA"):
        encoder.transform(holes)


def test_empty_cells_get_what_training_data_had():
    train = FRAME.drop(columns="class").astype({"smoker": object})
    train.loc[0, "dose"] = np.nan
    train.loc[1, "colour"] = None
    train.loc[2, "smoker"] = None
    encoder = TableEncoder(impute="median").fit(train)
    encoded = encoder.transform(train)
    assert encoded[0, 1] == np.median(FRAME.dose[1:])
    assert encoded[1, 2:5].tolist() == [0, 0, 1]  # red is the most frequent
    assert encoded[2, 5] == 1.0  # three of five others smoke
    nothing = pd.DataFrame({c: [np.nan] for c in train.columns})
    assert encoder.transform(nothing).tolist() == [[40.5, 1.25, 0, 0, 1, 1]]


@pytest.mark.parametrize(
    ("column", "told"),
    [
        (pd.to_datetime(["2020-01-01"] * 6), "dates or times, such as '2020-01-01"),
        (["2020-01-01", "2020-02-01"] * 3, "contains dates or times, such as '2020-01-01'.*--drop x"),
        (["1.2.2020", "30.11.2021"] * 3, "contains dates"),
        (["12:30", "13:00"] * 3, "contains dates or times"),
        (["1", "2", "?", "4", "5", "6"], r"mostly numbers, but row 2 has '\?'; if that means a missing value"),
        (["1,5", "2,5", "3,5"] * 2, "decimal commas"),
        (["unknown", "2,5", "3,5"] * 2, "decimal commas, such as '2,5'"),
        ([np.nan] * 6, "'x' is empty in every row"),
        ([1.0, 2.0, np.inf, 4.0, 5.0, 6.0], "row 2, column 'x' is inf"),
        ([1.0, 2.0, 1e200, 4.0, 5.0, 6.0], r"row 2, column 'x' is 1e\+200"),
        ([[1], [2], [3], [4], [5], [6]], "row 0, column 'x' is a list"),
        ([1j] * 6, "row 0, column 'x' is a complex"),
    ],
)
def test_columns_that_are_no_inputs_are_refused(column, told):
    for impute in (None, "median"):
        with pytest.raises(TableError, match=told):
            TableEncoder(impute=impute).fit(FRAME.assign(x=column))


def test_names_are_no_categories():
    frame = pd.DataFrame({"name": [f"somebody {i}" for i in range(80)], "x": range(80)})
    with pytest.raises(TableError, match=r"80 different texts in 80 rows.*--drop name"):
        TableEncoder().fit(frame)


def test_tables_of_other_columns_are_refused():
    encoder = TableEncoder(target="class").fit(FRAME)
    with pytest.raises(TableError, match="lacks columns 'age', 'smoker' of the training data; it has 'dose', 'colour'"):
        encoder.transform(FRAME[["dose", "colour"]])
    with pytest.raises(TableError, match="'age' had numbers in the training data, but row 1 has 'old'"):
        encoder.transform(FRAME.assign(age=["1", "old", "2", "3", "4", "5"]))
    with pytest.raises(TableError, match="'smoker' had true and false in the training data, but row 0 has 'often'"):
        encoder.transform(FRAME.assign(smoker="often"))
    with pytest.raises(TypeError, match="X must be a pandas DataFrame"):
        encoder.transform(np.zeros((2, 4)))
    with pytest.raises(TableError, match="more than one column called 'age'"):
        encoder.transform(pd.concat([FRAME, FRAME[["age"]]], axis=1))


def test_constant_columns_are_harmless():
    frame = FRAME.assign(unit="mg", one=1)
    model = make_pipeline(TableEncoder(target="class"), StandardScaler(), GPClassifier(optimizer=None))
    plain = clone(model).fit(FRAME, FRAME["class"]).predict_proba(FRAME)
    # the same up to rounding: sums over more columns are taken in another order
    assert_allclose(model.fit(frame, frame["class"]).predict_proba(frame), plain, rtol=1e-12)


# kernels from text ------------------------------------------------------------------------------------------------------










def test_labels_that_are_one_number_but_two_texts_are_refused(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,y\n1,01\n2,1\n3,2\n", encoding="utf-8")
    with pytest.raises(TableError, match="labels '01' and '1' of the target 'y' are the same number"):
        read_table(path, target="y")
    assert read_table(path)["y"].tolist() == [1, 1, 2]  # as a number, they are
    path.write_text("a,y\n01,01\n1,02\n3, 02\n", encoding="utf-8")
    assert read_table(path, target="y")["y"].tolist() == [1, 2, 2]
