"""Files as users have them: all problems are reported at once, and the suggested command works."""

import json
import shlex

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import gpclass
from gpclass.cli import app
from gpclass.tables import Reading, TableError, beginnings, read_table, split_target

N = 40
RNG = np.random.default_rng(0)
X, Z = RNG.normal(size=(2, N)).round(3)
LABELS = np.where(X + 0.3 * Z > 0, "ill", "well")
QUICK = ("-e", "laplace", "-k", "rbf")


def run(words, code=0):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output + str(result.exception)
    return result


def lines(header, cells):
    """The text of a table, given a function of the number of the row."""
    return "\n".join([header, *(cells(i) for i in range(N))]) + "\n"


def written(tmp_path, text, encoding="utf-8"):
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode(encoding))
    return path


def remedied(path, *words, target="y"):
    """Return the message of a first attempt, the suggested command, and the results of that command."""
    first = run(["fit", path, "-t", target, *QUICK, "-o", path.parent / "m", *words], code=2)
    told = first.stderr.strip().splitlines()
    assert told[-1].startswith("try: gpclass fit "), first.stderr
    command = shlex.split(told[-1].removeprefix("try: "))
    return " ".join(told[:-1]), command, json.loads(run([*command[1:], "--json"]).stdout)


def comma(value, decimals=2):
    return f"{value:.{decimals}f}".replace(".", ",")


# six files ----------------------------------------------------------------------------------------------------------------


def test_a_german_spreadsheet(tmp_path):
    """cp1252, semicolons, decimal commas, points between thousands, dates, row numbers and names: one retry."""
    days = pd.date_range("2021-03-01", periods=N, freq="9D")

    def row(i):
        income = f"{int(20000 + 9000 * abs(Z[i])):,}".replace(",", ".")
        cells = (str(i + 1), comma(170 + 10 * X[i]), income, days[i].strftime("%d.%m.%Y"), f"Straße {i}", LABELS[i])
        return ";".join(cells)

    path = written(tmp_path, lines("Nr;Größe;Einkommen;Datum;Straße;Diagnose", row), "cp1252")
    told, _, found = remedied(path, target="Diagnose")
    assert "t.csv has 6 problems" in told
    assert "in cp1252, the header has 'Größe'  →  --encoding cp1252" in told
    assert "'Größe' has numbers with decimal commas" in told
    assert "'Einkommen' has points between thousands" in told
    assert "--dates Datum" in told
    assert "'Straße' has 40 different texts in 40 rows" in told
    assert found["columns"] == ["Größe", "Einkommen", "Datum"]
    model = gpclass.load(tmp_path / "m")
    reading = Reading(encoding="cp1252", decimal=",", thousands=".")
    frame = read_table(path, reading=reading)
    np.testing.assert_allclose(frame["Größe"], np.round(170 + 10 * X, 2))
    np.testing.assert_array_equal(frame["Einkommen"], (20000 + 9000 * np.abs(Z)).astype(int))
    assert model["table"].columns_[2].form == "%d.%m.%Y"
    # predictions from the same file need the same reading options, which are suggested too, without those of training
    first = run(["predict", tmp_path / "m", path], code=2)
    again = shlex.split(first.stderr.strip().splitlines()[-1].removeprefix("try: "))
    assert "--dates" not in again
    assert run(again[1:]).stdout.count("\n") == N + 1


def test_an_american_export(tmp_path):
    """Dollars, thousands separators and units."""
    days = pd.date_range("2021-03-01", periods=N, freq="9D")

    def row(i):
        price = f'"${1000 + 700 * abs(Z[i]):,.0f}"'
        return f"{price},{13 + X[i]:.2f} cm,{50 + 10 * Z[i]:.0f} %,{days[i].strftime('%m/%d/%Y')},{LABELS[i]}"

    path = written(tmp_path, lines("price,width,share,sold,y", row))
    told, command, found = remedied(path)
    assert "column 'width' has numbers with a unit, such as '13.13 cm' in row 1  →  --units width" in told
    assert {"--units", "price,width,share", "--thousands", "--dates", "sold"} <= set(command)
    assert found["columns"] == ["price", "width", "share", "sold"]
    units = [c.unit for c in gpclass.load(tmp_path / "m")["table"].columns_]
    assert units == ["$", "cm", "%", ""]


def test_utf16_of_a_spreadsheet_is_read_with_a_remark(tmp_path):
    path = written(tmp_path, lines("größe\tfarbe\ty", lambda i: f"{X[i]}\t{('rot', 'grün')[i % 2]}\t{LABELS[i]}"), "utf-16")
    result = run(["fit", path, "-t", "y", *QUICK, "-o", tmp_path / "m"])
    assert "has the byte order mark of UTF-16 and is read as UTF-16 (--encoding utf-16)" in result.stderr
    assert gpclass.load(tmp_path / "m")["table"].columns_[1].levels == ("grün", "rot")


def test_a_frame_that_was_written_with_its_index_twice(tmp_path):
    frame = pd.DataFrame({"x": X, "z": Z, "y": LABELS})
    frame.loc[5, "x"], frame.loc[7, "z"] = np.nan, np.inf
    frame.to_csv(tmp_path / "once.csv")
    pd.read_csv(tmp_path / "once.csv").set_index(pd.RangeIndex(7, N + 7)).to_csv(tmp_path / "t.csv")
    told, command, found = remedied(tmp_path / "t.csv")
    assert "column 1 has no name" in told
    assert "'Unnamed: 0' counts the rows" in told
    assert "column 'z' is inf" in told
    assert found["columns"] == ["x", "z"]
    assert {"--missing-values", "inf", "--impute", "median"} <= set(command)
    model = gpclass.load(tmp_path / "m")
    assert model["table"].row_names_[0] == "1 (7)"


def test_names_twice_and_separators_at_the_end(tmp_path):
    text = lines("x;z;x;y;;", lambda i: f"{X[i]};{Z[i]};{X[i] ** 2:.3f};{LABELS[i]};;" + ";;more" * (i == 16))
    told, command, found = remedied(written(tmp_path, text), target="Y")
    assert "more than one column called 'x'  →  --rename-duplicates" in told
    assert "row 17 has 8 cells, but the header has 6  →  --skip-ragged" in told
    assert "there is no column 'Y' (did you mean 'y'?)" in told
    assert found["columns"] == ["x", "z", "x (2)"]
    assert found["rows"] == N - 1
    assert "1 row with too many cells left out" in run(command[1:]).stderr


def test_negative_amounts_are_read(tmp_path):
    amount = [f"${300 * z:.0f}" if z > 0 else f"(${-300 * z:.0f})" for z in Z]
    path = written(tmp_path, lines("x,balance,y", lambda i: f"{X[i]},{'?' if i == 5 else amount[i]},{LABELS[i]}"))
    told, command, _ = remedied(path)
    assert "t.csv has 2 problems" in told  # the cells that the mark makes empty are none
    assert command[-6:] == ["--impute", "median", "--units", "balance", "--missing-values", "?"]
    frame = read_table(path, reading=Reading(missing_values=["?"]))
    balance = gpclass.load(tmp_path / "m")["table"].transform(frame)[:, 1]
    np.testing.assert_allclose(np.delete(balance, 5), np.delete(np.round(300 * Z), 5))


def test_empty_cells_are_counted_without_marks(tmp_path):
    path = written(tmp_path, lines("x,c,y", lambda i: f"{X[i]},{('', '?', Z[i])[min(i, 2)]},{LABELS[i]}"))
    told, _, _ = remedied(path)
    assert "row 1, column 'c' is empty or NA  →" in told


def test_values_that_are_written_in_many_ways_are_not_left_out(tmp_path):
    cells = [f"about {i}" if i % 3 == 0 else f"{Z[i]}" for i in range(N)]
    path = written(tmp_path, lines("x,c,y", lambda i: f"{X[i]},{cells[i]},{LABELS[i]}"))
    result = run(["fit", path, "-t", "y", *QUICK, "-o", tmp_path / "m"], code=2)
    assert "write them as numbers" in result.stderr
    assert "try: " not in result.stderr


def test_marks_of_missing_values_and_labels_in_several_spellings(tmp_path):
    spelt = {"ill": ("Yes", "yes "), "well": ("No", "NO")}

    def row(i):
        label = spelt[LABELS[i]][i % 2] if i != 30 else ""
        return f"{'?' if i % 9 == 3 else 30 + i},{'-' if i % 11 == 2 else X[i]},{label}"

    told, command, found = remedied(written(tmp_path, lines("age,score,Ill?", row)), target="ill")
    for part in ("--missing-values '?'", "--missing-values -", "--merge-labels", "--skip-unlabelled"):
        assert part in told
    assert "empty or NA" not in told  # the table has no empty inputs before the marks are read
    assert "--impute" in command
    assert found["rows"] == N - 1
    assert len(found["classes"]) == 2
    # the model scores such labels without an option
    table = json.loads(run(["predict", tmp_path / "m", tmp_path / "t.csv", "--missing-values", "?,-", "--json"]).stdout)
    assert table["rows"] == N


@pytest.mark.usefixtures("quick_reports")
@pytest.mark.parametrize("command", ["predict", "audit", "report"])
def test_rows_without_a_label_are_not_scored(command, tmp_path):
    """The scores are those of the other rows, whether they are training rows or not."""
    table = pd.DataFrame({"x": X, "z": Z, "y": LABELS})
    table[:30].to_csv(tmp_path / "train.csv", index=False)
    run(["fit", tmp_path / "train.csv", "-t", "y", *QUICK, "-o", tmp_path / "m"])
    bare, some, gaps = [0, 3, 35], tmp_path / "some.csv", tmp_path / "gaps.csv"
    table.drop(index=bare).to_csv(some, index=False)
    table.assign(y=table["y"].drop(index=bare)).to_csv(gaps, index=False)
    more = ["-o", tmp_path / "r.html", "--force"] if command == "report" else []
    both = [run([command, tmp_path / "m", path, *more, "--json"]) for path in (gaps, some)]
    assert ["note: 3 rows without a label in 'y' are not scored" in result.stderr for result in both] == [True, False]
    found = [json.loads(result.stdout) for result in both]
    ours, theirs = ([told[key] for key in ("scored", "scored_by_leave_one_out", "nlpd", "error")] for told in found)
    assert ours[:2] == [37, 28]
    assert ours == pytest.approx(theirs)
    table.assign(y=None).to_csv(gaps, index=False)
    last = run([command, tmp_path / "m", gaps, *more], code=2 if command == "report" else 0).stderr
    assert "the target 'y' is empty in every row" in last


def test_files_with_rows_without_a_label(tmp_path):
    table = pd.DataFrame({"x": X, "z": Z, "y": LABELS})
    table.to_csv(tmp_path / "train.csv", index=False)
    run(["fit", tmp_path / "train.csv", "-t", "y", *QUICK, "-o", tmp_path / "m"])
    (tmp_path / "parts").mkdir()
    for k in range(2):
        table[20 * k : 20 * k + 20].assign(y=table["y"].drop(index=20 * k)).to_csv(tmp_path / f"parts/{k}.csv", index=False)
    result = run(["predict", tmp_path / "m", tmp_path / "parts", "-o", tmp_path / "out", "--json"])
    assert "note: 2 rows without a label in 'y' are not scored" in result.stderr
    told = json.loads(result.stdout)
    assert (told["rows"], told["scored"], told["scored_by_leave_one_out"]) == (40, 38, 38)


# single problems ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "cells", "kind", "option"),
    [
        ("x,c,y", lambda i: f"{X[i]},{'' if i == 4 else Z[i]},{LABELS[i]}", "empty", "--impute median"),
        ("x,c,y", lambda i: f"{X[i]},,{LABELS[i]}", "nothing", "--drop c"),
        ("x,c,y", lambda i: f"{X[i]},{Z[i]},{'' if i == 4 else LABELS[i]}", "unlabelled", "--skip-unlabelled"),
        ("x,c,y", lambda i: f"{X[i]},2021-01-{i % 28 + 1:02d} 10:00,{LABELS[i]}", "dates", "--dates c"),
        ("x,c,y", lambda i: f"{X[i]},0{i % 9 + 1}/0{i % 7 + 1}/2021,{LABELS[i]}", "dates", "--dates c=%m/%d/%Y"),
        ("x,c,y", lambda i: f"{X[i]},{Z[i]} kg,{LABELS[i]}", "units", "--units c"),
        ("x,c,y", lambda i: f'{X[i]},"{comma(Z[i])} kg",{LABELS[i]}', "units", "--units c --decimal ,"),
        ("x,c,y", lambda i: f'{X[i]},"{comma(Z[i])}",{LABELS[i]}', "numbers", "--decimal ,"),
        ("x,c,y", lambda i: f'{X[i]},"{900 + 10 * i:,}",{LABELS[i]}', "numbers", "--thousands ,"),
        ("x,c,y", lambda i: f"{X[i]},{'1 2' if i % 2 else '2 3'}{i:02d},{LABELS[i]}", "numbers", "--thousands ' '"),
        ("x,c,y", lambda i: f"{X[i]},{'inf' if i == 3 else Z[i]},{LABELS[i]}", "infinite", "--missing-values inf"),
        ("x,c,y", lambda i: f"{X[i]},{'?' if i == 3 else Z[i]},{LABELS[i]}", "mixed", "--missing-values '?'"),
        ("x,c,y", lambda i: f"{X[i]},{'about ' + 'abcd'[i % 4] if i % 3 == 0 else Z[i]},{LABELS[i]}", "mixed", "--drop c"),
        ("x,c,c,y", lambda i: f"{X[i]},{Z[i]},1,{LABELS[i]}", "twice", "--rename-duplicates"),
        ("x,id,y", lambda i: f"{X[i]},{i + 1},{LABELS[i]}", "ids", "--id id"),
        ("x,,y", lambda i: f"{X[i]},{(7 * i) % 40},{LABELS[i]}", "unnamed", "--id 'Unnamed: 1'"),
        ("x,c,y", lambda i: f"{X[i]},{Z[i]},{LABELS[i]}" + ",1" * (i == 8), "ragged", "--skip-ragged"),
        ("x c y", lambda i: f"{X[i]} {Z[i]} {LABELS[i]}", "separator", "--sep space"),
        ("x,c,Yy", lambda i: f"{X[i]},{Z[i]},{LABELS[i]}", "target", "--target Yy"),
    ],
)
def test_every_problem_has_its_remedy(header, cells, kind, option, tmp_path):
    path = written(tmp_path, lines(header, cells))
    out = json.loads(run(["fit", path, "-t", "y", *QUICK, "-o", tmp_path / "m", "--json"], code=2).stdout)
    assert (out["problems"][0]["kind"], out["problems"][0]["option"]) == (kind, option)
    found = json.loads(run(shlex.split(out["command"])[1:]).stdout)
    assert found["rows"] >= N - 1


def test_a_file_without_a_header(tmp_path):
    path = written(tmp_path, lines("5.1,3.5,ill", lambda i: f"{X[i]},{Z[i]},{LABELS[i]}"))
    told, _, found = remedied(path, target="class")
    assert "has numbers where the names of columns should be  →  --no-header" in told
    assert "column 3 has 2 different values  →  --target 3" in told
    assert found["rows"] == N + 1
    years = written(tmp_path, lines("y,2019,2020,2021", lambda i: f"{LABELS[i]},{X[i]},{Z[i]},1"))
    run(["fit", years, "-t", "y", *QUICK, "-o", tmp_path / "m"])  # years are names of columns


def test_problems_without_a_remedy_are_reported_with_the_others(tmp_path):
    path = written(tmp_path, lines("x,when,y", lambda i: f"{X[i]},2021-01-{i % 28 + 1:02d},{Z[i]}"))
    result = run(["fit", path, "-t", "y", "-o", tmp_path / "m"], code=2)
    assert "has measurements, not labels: row 1 has" in result.stderr
    assert "GPRegressor" in result.stderr
    assert "--dates when" in result.stderr
    assert "try: " not in result.stderr


def test_many_columns_with_one_problem_are_one_line(tmp_path):
    names = [f"c{k}" for k in range(12)]
    path = written(tmp_path, lines(",".join([*names, "y"]), lambda i: f"{X[i]}," + f"{Z[i]} kg," * 11 + LABELS[i]))
    out = json.loads(run(["fit", path, "-t", "y", "-o", tmp_path / "m", "--json"], code=2).stdout)
    assert len(out["problems"]) == 1
    assert out["problems"][0]["columns"] == names[1:]
    assert out["problems"][0]["option"] == "--units " + ",".join(names[1:])


def test_a_second_target_is_no_input(tmp_path):
    path = written(tmp_path, lines("x,y,y", lambda i: f"{X[i]},{LABELS[i]},{LABELS[i]}"))
    told, _, found = remedied(path)
    assert "column 'y (2)' has the name of the target and would be an input" in told
    assert found["columns"] == ["x"]


def test_names_that_need_quotes(tmp_path):
    path = written(tmp_path, lines('x,"size, o\'clock $HOME",y', lambda i: f"{X[i]},{Z[i]} kg,{LABELS[i]}"))
    _, command, found = remedied(path)
    assert command[command.index("--units") + 1] == '"size, o\'clock $HOME"'
    assert found["columns"] == ["x", "size, o'clock $HOME"]


def test_separators(tmp_path):
    text = lines("x|c|y", lambda i: f"{X[i]}|{Z[i]}|{LABELS[i]}")
    with pytest.warns(UserWarning, match="read with the separator '|'"):
        assert read_table(written(tmp_path, text)).columns.tolist() == ["x", "c", "y"]
    both = "a;b,c\n1;2,3\n4;5,6\n"
    with pytest.raises(TableError, match="separated by ',' or ';'"):
        read_table(written(tmp_path, both))
    assert read_table(tmp_path / "t.csv", reading=Reading(sep=";")).columns.tolist() == ["a", "b,c"]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"sep": "ab"}, "separator must be one character"),
        ({"decimal": ";"}, "a point or a comma"),
        ({"thousands": "x"}, "thousands must be one of"),
        ({"decimal": ",", "thousands": ","}, "both the decimal and the thousands"),
        ({"encoding": "utf-9"}, "no encoding 'utf-9'"),
    ],
)
def test_settings_that_cannot_be(settings, told):
    with pytest.raises(TableError, match=told):
        Reading(**settings)


def test_thousands_are_groups_of_three_digits(tmp_path):
    """Other texts stay text: pandas would read 01.02.2020 as 1022020."""
    text = "a;b;c\n1.200;01.02.2020;1.2\n3.400.000;02.02.2020;3.44\n"
    frame = read_table(written(tmp_path, text), text=["c"], reading=Reading(decimal=",", thousands="."))
    assert frame["a"].tolist() == [1200, 3400000]
    assert frame["b"].tolist() == ["01.02.2020", "02.02.2020"]
    assert frame["c"].tolist() == ["1.2", "3.44"]


def test_compare_offers_a_command_too(tmp_path):
    path = written(tmp_path, lines("x,c,y", lambda i: f"{X[i]},{Z[i]} kg,{LABELS[i]}"))
    words = ["compare", path, "-t", "y", "--engines", "laplace", "--folds", 2, "-k", "rbf"]
    told = run(words, code=2).stderr.strip().splitlines()
    assert told[0].startswith("gpclass: column 'c' has numbers with a unit")
    run(shlex.split(told[-1].removeprefix("try: "))[1:])


def test_labels_that_differ_in_case_are_kept_apart_on_request(tmp_path):
    path = tmp_path / "letters.csv"
    path.write_text("\n".join(["x,letter", *(f"{i},{'aAb'[i % 3]}" for i in range(30))]))
    frame = read_table(path)
    with pytest.raises(TableError, match="--keep-labels"):
        split_target(frame, "letter")
    assert sorted(set(split_target(frame, "letter", merge_labels=False)[1])) == ["A", "a", "b"]
    assert sorted(set(split_target(frame, "letter", merge_labels=True)[1])) == ["a", "b"]
    words = ("fit", path, "--target", "letter", "-o", tmp_path / "m.gpclass", "--json", *QUICK)
    assert "--merge-labels" in run(words, code=2).stderr
    assert len(json.loads(run([*words, "--keep-labels"]).stdout)["classes"]) == 3


# beginnings of files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", ["My data\n", "Report, 2024\n\n", "# made by a machine\n# version 2\n", "\n\ntitle\n"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_before_the_header_are_left_out_on_request(before, end, tmp_path):
    text = before + lines("x,z,w,y", lambda i: f"{X[i]},{Z[i]},{Z[i] > 0},{LABELS[i]}")
    path = written(tmp_path, text.replace("\n", end))
    told, command, found = remedied(path)
    count = str(before.count("\n"))
    assert "not part of the table" in told
    assert command[command.index("--skip-lines") + 1] == count
    assert (found["columns"], found["rows"]) == (["x", "z", "w"], N)
    assert read_table(path, reading=Reading(skip_lines=int(count))).index.tolist() == list(range(1, N + 1))


def test_lines_before_the_header_are_looked_for_in_the_beginning_of_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr(beginnings, "HEAD", 200)  # a few rows; the last of them is cut within a cell
    path = written(tmp_path, "title\n" + lines("x,z,y", lambda i: f"{X[i]},{Z[i]},{LABELS[i]}"))
    with pytest.raises(TableError, match=r"the first line of .* is not part of the table: 'title'"):
        read_table(path)
    assert len(read_table(path, reading=Reading(skip_lines=1))) == N


def test_lines_before_the_header_and_other_problems_are_reported_together(tmp_path):
    path = written(tmp_path, "Messung\n" + lines("x;z;y", lambda i: f"{comma(X[i])};{comma(Z[i])};{LABELS[i]}"))
    told, command, _ = remedied(path)
    assert {"--skip-lines", "--decimal"} <= set(command)
    assert "t.csv has 3 problems" in told


@pytest.mark.parametrize("quotes", ["", '"'])
@pytest.mark.parametrize("name", [lambda i: i + 1, lambda i: f"case {i}"], ids=["numbers", "texts"])
def test_row_names_of_r_are_no_inputs(name, quotes, tmp_path):
    """R writes row names without a name for their column, so that the header is shorter than the rows."""
    quoted = [f"{quotes}{label}{quotes}" for label in LABELS]
    header = ",".join(f"{quotes}{n}{quotes}" for n in ("x", "z", "y"))
    path = written(tmp_path, lines(header, lambda i: f"{quotes}{name(i)}{quotes},{X[i]},{Z[i]},{quoted[i]}"))
    with pytest.warns(UserWarning, match="one cell more than the header"):
        frame = read_table(path, text=["Unnamed: 0"])
    np.testing.assert_array_equal(frame["x"], X)
    assert frame["y"].tolist() == LABELS.tolist()


def test_rows_that_are_too_long_are_no_row_names(tmp_path):
    path = written(tmp_path, lines("x,y", lambda i: f"{X[i]},{LABELS[i]},{Z[i]}"))
    with pytest.raises(TableError, match="row 1 has 3 cells, but the header has 2"):
        read_table(path)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"PK\x03\x04 and more", "Excel"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "Excel"),
        (b"PAR1\x15\x04", r"\.parquet"),
        (b"\x1f\x8b\x08\x00", r"\.gz"),
        (b"\n<!DOCTYPE html>\n<html>", "web page"),
        (b'[{"x": 1, "y": "a"}, {"x": 2, "y": "b"}]', "JSON"),
    ],
)
def test_other_formats_under_the_name_of_a_table_are_named(content, what, tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(TableError, match=what):
        read_table(path)


def test_a_first_row_with_some_text_is_no_header(tmp_path):
    text = lines("", lambda i: f"{X[i]},{('red', 'green')[i % 2]},{Z[i]:.1f},{LABELS[i]}").lstrip("\n")
    told, command, found = remedied(written(tmp_path, text))
    assert "has numbers where the names of columns should be" in told
    assert "--no-header" in command
    assert found["columns"] == ["1", "2", "3"]


def test_a_misspelt_target_beside_names_that_are_numbers(tmp_path):
    path = written(tmp_path, lines("2019,2021,size,class", lambda i: f"{X[i]},{Z[i]},{X[i]},{LABELS[i]}"))
    told, command, _ = remedied(path, target="clas")
    assert "did you mean 'class'" in told
    assert "--no-header" not in command


def test_a_misspelt_file_name(tmp_path):
    written(tmp_path, lines("x,y", lambda i: f"{X[i]},{LABELS[i]}")).rename(tmp_path / "flowers.csv")
    with pytest.raises(TableError, match=r"no file .*flower\.csv \(did you mean 'flowers\.csv'\?\)"):
        read_table(tmp_path / "flower.csv")
    with pytest.raises(TableError, match=r"no file .*trees\.csv$"):  # an equal extension does not make names similar
        read_table(tmp_path / "trees.csv")
    with pytest.raises(TableError, match=r"no file .*flowers\.csv$"):
        read_table(tmp_path / "no folder" / "flowers.csv")


# tables that can be used, but probably not as they are --------------------------------------------------------------------


def warned(path):
    return run(["fit", path, "-t", "y", *QUICK, "-o", path.parent / "m", "--force"]).stderr


def test_copies_of_rows_are_reported(tmp_path):
    once = lines("x,z,w,y", lambda i: f"{X[i]},{Z[i]},{i % 3},{LABELS[i]}")
    rows = "".join(once.splitlines(keepends=True)[1:])
    assert "are copies" not in warned(written(tmp_path, once))
    assert f"{N} of {2 * N} rows are copies of other rows" in warned(written(tmp_path, once + rows))


@pytest.mark.parametrize(
    "cells",
    [lambda i: f"{i % 3},{0.5 * (i % 2)},{i % 2},{LABELS[i]}", lambda i: f"{X[i]:.1f},{i % 2}.5,{i % 3},{LABELS[i]}"],
    ids=["levels", "rounded"],
)
def test_rows_that_are_equal_by_chance_are_no_copies(cells, tmp_path):
    assert "are copies" not in warned(written(tmp_path, lines("x,z,w,y", cells)))


def test_numbers_and_labels_that_mean_missing_values_are_reported(tmp_path):
    def cells(i):
        return f"{-999 if i % 9 == 0 else X[i]},{99 if i % 9 == 1 else i % 5},{'?' if i % 8 == 0 else LABELS[i]}"

    told = warned(written(tmp_path, lines("x,z,y", cells)))
    assert "column 'x' has -999 in 5 rows; if that means a missing value, use --missing-values -999 --impute median" in told
    assert "column 'z' has 99 in 5 rows" in told
    assert "class '?' has 5 rows; if that means a missing label, use --missing-values '?' --skip-unlabelled" in told
    words = ("--missing-values", "?,-999,99", "--impute", "median", "--skip-unlabelled")
    found = json.loads(
        run(["fit", tmp_path / "t.csv", "-t", "y", *QUICK, "-o", tmp_path / "m", "--force", *words, "--json"]).stdout
    )
    assert found["classes"].keys() == {"ill", "well"}


def test_numbers_within_a_range_and_labels_of_signs_are_no_marks(tmp_path):
    """99 is a percentage here, and + and - are classes."""
    cells = lambda i: f"{99 if i % 9 == 0 else 60 + i},{'+' if X[i] > 0 else '-'}"  # noqa: E731
    told = warned(written(tmp_path, lines("x,y", cells)))
    assert "missing" not in told
