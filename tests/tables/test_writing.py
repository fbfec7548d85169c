"""Written tables: no cell is a formula, and columns written by other programs are unchanged."""

import csv
import sys
from pathlib import Path

import pandas as pd
import pytest

from gpclass.tables import (
    TableError,
    check_table_path,
    csv_text,
    guarded,
    read_table,
    unguarded,
    write_table,
)
from gpclass.tables.writing import kind_of_table


def written(tmp_path, text, name="data.csv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


# spreadsheets -----------------------------------------------------------------------------------------------------------

RISKY = ["=1+1", "+x", "-x", "@SUM(A1)", "\tx", "\rx", "-1-1", "="]
LABELS = [*RISKY, "-1", "+1.5e3", "-.5", "plain", "'quoted", "'=1", "''=1", "'-1"]


def runs_in_a_spreadsheet(cell):
    """By the list of the Open Worldwide Application Security Project; numbers are harmless."""
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
        assert "-1" in cells  # numbers are unchanged
        back = read_table(tmp_path / name)
        assert back.columns.tolist() == frame.columns.tolist()
        assert back["=name"].tolist() == LABELS
        assert back["n"].tolist() == [-1] * len(LABELS)
    assert csv_text(frame) == (tmp_path / "a.csv").read_bytes().decode()
    write_table(pd.DataFrame({"y": ["=a", "b"]}).astype("category"), tmp_path / "c.csv")
    assert read_table(tmp_path / "c.csv")["y"].tolist() == ["=a", "b"]


def test_the_text_of_a_table():
    """No index, quotes only where they are needed, and the same line ends on every system."""
    frame = pd.DataFrame({"a": ["x", "y, z"], "b": [1.5, None]}, index=[7, 8])
    assert csv_text(frame) == 'a,b\nx,1.5\n"y, z",\n'
    assert csv_text(frame, ";") == "a;b\nx;1.5\ny, z;\n"
    formulas = pd.DataFrame({"a": ["=x", "y"], "b": [1, 2]}, index=[7, 7])
    assert csv_text(formulas) == "a,b\n'=x,1\ny,2\n"
    returns = pd.DataFrame({"a": ["x\ry", None], "b": [1, 2]})
    assert csv_text(returns) == '"a","b"\n"x\ry",1\n"",2\n'


def test_cells_that_are_not_text_are_not_guarded():
    frame = pd.DataFrame({"a": ["=x", -1.5, None, "-2"]}, dtype=object)
    assert csv_text(frame) == 'a\n\'=x\n-1.5\n""\n-2\n'


def test_files_are_written_without_the_index(tmp_path):
    frame = pd.DataFrame({"a": [1.5, 2.5]}, index=pd.Index(["u", "v"], name="id"))
    write_table(frame, tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_bytes() == b"a\n1.5\n2.5\n"
    pytest.importorskip("pyarrow")
    write_table(frame, tmp_path / "t.parquet")
    assert pd.read_parquet(tmp_path / "t.parquet").reset_index(drop=True).to_dict("list") == {"a": [1.5, 2.5]}
    assert pd.read_parquet(tmp_path / "t.parquet").index.tolist() == [0, 1]


def test_paths_are_checked_without_writing(tmp_path, monkeypatch):
    for name in ("t.csv", "t.tsv.gz"):
        check_table_path(tmp_path / name)
    with pytest.raises(TableError, match=r"supported table files are .*\.$"):
        check_table_path(tmp_path / "t.doc")
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # as if it were not installed
    for action in (check_table_path, lambda path: write_table(pd.DataFrame({"a": [1]}), path)):
        with pytest.raises(TableError, match=r"Parquet files need pyarrow: pip install"):
            action(tmp_path / "t.parquet")
    assert not list(tmp_path.iterdir())


def test_columns_that_others_wrote_are_left_alone(tmp_path):
    """If one formula has no apostrophe, apostrophes before others are part of the text."""
    texts = ["=a", "'=a", "b"]
    assert unguarded(texts) == texts
    assert read_table(written(tmp_path, "y,x\n=a,1\n'=a,2\n"))["y"].tolist() == ["=a", "'=a"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.csv", ".csv"), ("a.b.TSV", ".tsv"), ("a.csv.gz", ".csv"), ("a.tsv.GZ", ".tsv"), ("a.parquet", ".parquet")],
)
def test_extensions(name, kind):
    assert kind_of_table(Path(name)) == kind


@pytest.mark.parametrize("name", ["a", "a.gz", "a.parquet.gz", "a.doc", "csv"])
def test_other_extensions_are_refused(name):
    with pytest.raises(TableError, match="supported table files are"):
        kind_of_table(Path(name))
