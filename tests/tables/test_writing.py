"""Written tables: no cell is a formula, columns of others stay."""

import csv
from pathlib import Path

import pandas as pd
import pytest

from gpclass.tables import (
    TableError,
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
