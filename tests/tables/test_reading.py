"""Files as tables: every format is read back, broken files are refused, rows are numbered."""

import gzip

import numpy as np
import pandas as pd
import pytest

from gpclass.tables import (
    FileRemark,
    Reading,
    TableEncoder,
    TableError,
    csv_columns,
    read_table,
    read_tables,
    split_target,
    with_ids,
    write_table,
)

from .patients import FRAME


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


def test_settings_of_reading(tmp_path):
    path = written(tmp_path, "a,b,c\n1,?,x\n2,5,-\n")
    frame = read_table(path, reading=Reading(missing_values=["?", "-"]))
    assert frame["b"].tolist()[1] == 5.0
    assert frame.isna().to_numpy().tolist() == [[False, True, False], [False, False, True]]
    assert read_table(path, drop=["b", "zzz"]).columns.tolist() == ["a", "c"]
    assert read_table(path, text=["a"])["a"].tolist() == ["1", "2"]


@pytest.mark.parametrize("header", [True, False])
def test_rows_that_are_too_long_are_left_out_on_request(header, tmp_path):
    path = written(tmp_path, "x,y\n" * header + "1,a\n\n2,b,,c\n3,d,\n4,e,f\n5,g\n")
    with pytest.raises(TableError, match="row 3 has 4 cells, but the header has 2, and 1 more row too"):
        read_table(path, reading=Reading(header=header))
    with pytest.warns(FileRemark, match="2 rows with too many cells left out"):
        frame = read_table(path, reading=Reading(header=header, skip_ragged=True))
    assert frame.index.tolist() == [1, 4, 6]
    assert frame.iloc[:, 1].tolist() == ["a", "d", "g"]


# several files ----------------------------------------------------------------------------------------------------------


def test_several_files_are_one_table(tmp_path):
    one, two = written(tmp_path, "x,y\n1,1\n2,2\n", "1.csv"), written(tmp_path, "y,x\n1,0.5\n\nb,7\n", "2.csv")
    frame = read_tables([one, two], target="y")
    assert frame.columns.tolist() == ["x", "y"]
    assert frame.index.tolist() == [f"1 of {one}", f"2 of {one}", f"1 of {two}", f"3 of {two}"]
    assert frame["x"].tolist() == [1, 2, 0.5, 7]
    assert frame["y"].tolist() == ["1", "2", "1", "b"]  # text in one file is text in all
    written(tmp_path, "x,y\n1,3\n", "2.csv")
    assert read_tables([one, two], target="y")["y"].tolist() == [1, 2, 3]
    written(tmp_path, "x,y\n1,01\n", "2.csv")
    with pytest.raises(TableError, match="labels '01' and '1' of the target 'y' are the same number"):
        read_tables([one, two], target="y")
    written(tmp_path, "x,y\n1,01\n2,\n", "2.csv")
    with pytest.raises(TableError, match="labels '01' and '1' of the target 'y' are the same number"):
        read_tables([one, two], target="y")
    assert read_tables([one, two], drop=["x"]).columns.tolist() == ["y"]
    written(tmp_path, "x,z\n1,3\n", "2.csv")
    with pytest.raises(TableError, match=r"2.csv has no column 'y', but .*1.csv has"):
        read_tables([one, two], target="y")


def test_labels_of_parquet_files_keep_their_type(tmp_path):
    pytest.importorskip("pyarrow")
    paths = [tmp_path / "1.parquet", tmp_path / "2.parquet"]
    for path, label in zip(paths, ("01", "1"), strict=True):
        write_table(pd.DataFrame({"x": [1.5], "y": [label]}), path)
    assert read_tables(paths, target="y")["y"].tolist() == ["01", "1"]


# names of columns -------------------------------------------------------------------------------------------------------


def test_names_of_columns_without_reading_the_rows(tmp_path, monkeypatch):
    path = written(tmp_path, "title\n ,'=a, größe\n" + "0,1,ü\n" * 50)
    reading = Reading(skip_lines=1)
    for beginning in (1 << 16, *range(40, 60)):  # some end within a character of two bytes
        monkeypatch.setattr("gpclass.tables.reading.BEGINNING", beginning)
        assert csv_columns(path, reading) == ["=a", "größe"]
        assert csv_columns(path, reading, unnamed=True) == ["Unnamed: 0", "=a", "größe"]
    assert csv_columns(path, Reading(skip_lines=2, header=False)) == ["1", "2", "3"]
    assert csv_columns(written(tmp_path, "title\na,b"), reading) == ["a", "b"]  # no line end
    with pytest.warns(FileRemark, match="row names"):
        assert csv_columns(written(tmp_path, "x,y\n1,5,a\n2,6,b\n")) == ["x", "y"]
    with pytest.raises(TableError, match="is empty"):
        csv_columns(written(tmp_path, "\n\n"))


# names of rows ----------------------------------------------------------------------------------------------------------


def test_rows_are_numbered_as_a_spreadsheet_numbers_them(tmp_path):
    """By line; the header is line 0, and blank lines count."""
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
    """A bad cell is put into each row in turn; the message must name its row."""
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
