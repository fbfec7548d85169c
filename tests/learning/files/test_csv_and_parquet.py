"""CSV and Parquet files as sources: difficult files are read correctly, and errors name the line."""

import csv
import re
import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from gpclass.learning import csv_file, parquet_file
from gpclass.learning.files import csv_rows
from gpclass.learning.streams import BUFFER
from gpclass.tables import TableError, read_table

SMALL = {"chunk": 4, "buffer": 16}  # files of a few dozen rows do not fit, so that chunks are read in random order


def rows_of(source, size=7, seed=(0, 1)):
    """X and y in the order of the file."""
    batches = list(source.batches(size, seed))
    assert all(len(batch.y) == size for batch in batches[:-1])
    X, y, rows = (np.concatenate([batch[i] for batch in batches]) for i in range(3))
    assert_array_equal(np.sort(rows), np.arange(source.n_rows))
    place = np.argsort(rows)
    return X[place], y[place]


def written(path, text, **settings):
    path.write_text(text, encoding="utf-8", newline="", **settings)
    return path


def table(n=30):
    """Lines of a file with columns a, label, b."""
    return ["a,label,b", *(f"{i},{'yes' if i % 2 else 'no'},{i / 8}" for i in range(n))]


# right answers ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_random_tables_come_back_as_they_were_written(seed, tmp_path):
    """Quotes, line breaks, delimiters and spaces in labels, blank lines anywhere, all line ends; the csv module writes."""
    rng = np.random.default_rng(seed)
    n, D = int(rng.integers(1, 60)), int(rng.integers(1, 4))
    delimiter, end = rng.choice([",", ";", "\t"]), rng.choice(["\n", "\r\n", "\r"])
    X = rng.normal(size=(n, D)) * 10.0 ** rng.integers(-30, 30, (n, D))
    texts = ["a", "b;c", "d,e", 'say "f"', "two\nlines", "Zürich", "6", "06", "g h", 'x"y']
    y = rng.choice(texts, n)
    place, path = int(rng.integers(D + 1)), tmp_path / "t.csv"
    with open(path, "w", encoding=rng.choice(["utf-8", "utf-8-sig"]), newline="") as file:
        write = csv.writer(file, delimiter=delimiter, lineterminator=end, quoting=int(rng.integers(2)))
        write.writerow([f"column, {j}" for j in range(D + 1)])
        for x, label in zip(X.tolist(), y, strict=True):
            file.write(rng.choice(["", end, 6 * end, "  " + end], p=[0.7, 0.1, 0.1, 0.1]))
            write.writerow([*map(repr, x[:place]), label, *map(repr, x[place:])])
        file.write(rng.choice(["", 9 * end]))
    for settings in ({}, SMALL):
        source = csv_file(path, f"column, {place}", delimiter=delimiter, **settings)
        assert (source.n_rows, source.n_columns) == (n, D)
        found, labels = rows_of(source)
        assert_array_equal(found, X)  # to the last digit
        assert labels.tolist() == y.tolist()


def test_a_chunk_of_blank_lines_does_not_end_the_file(tmp_path):
    lines = table()
    path = written(tmp_path / "t.csv", "\n".join([*lines[:9], *50 * [""], *lines[9:]]))
    assert csv_file(path, 1, **SMALL).n_rows == 30
    assert_array_equal(rows_of(csv_file(path, 1, **SMALL))[0][:, 0], np.arange(30))


@pytest.mark.parametrize("block", [1, 2, 3, 7, 1 << 18])
def test_lines_end_with_feeds_returns_or_both(block, tmp_path, monkeypatch):
    monkeypatch.setattr(csv_rows, "BLOCK", block)
    path = written(tmp_path / "t.csv", 'a,b\r1,yes\r2,"n\ro"\r\n\r\n3,yes\n4,"n\r\no"\r')
    X, y = rows_of(csv_file(path))
    assert X[:, 0].tolist() == [1, 2, 3, 4]
    assert y.tolist() == ["yes", "n\ro", "yes", "n\r\no"]


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path):
    path = written(tmp_path / "t.csv", "\ufefflabel,a\nyes,1\nno,2\n")
    assert rows_of(csv_file(path, "label"))[1].tolist() == ["yes", "no"]


@pytest.mark.parametrize(
    ("labels", "kind"), [(["1", "01", "1", "2"], "U"), (["1", "-2", "0", "30"], "i"), (["1.0", "1", "0", "0"], "U"),
                         (["-0", "0", "1", "1"], "U"), (["9" * 20, "1", "2", "3"], "U")]
)  # fmt: skip
def test_labels_are_integers_only_if_none_of_them_changes(labels, kind, tmp_path):
    many = labels * 10
    path = written(tmp_path / "t.csv", "\n".join(["a,y", *(f"{i},{label}" for i, label in enumerate(many))]))
    found = rows_of(csv_file(path, "y", **SMALL))[1]
    assert found.dtype.kind == kind
    assert [str(label) for label in found] == many


def test_text_after_many_numbers_makes_all_labels_text(tmp_path):
    path = written(tmp_path / "t.csv", "\n".join(["a,y", *(f"{i},{i % 2}" for i in range(50)), "50,unknown"]))
    source = csv_file(path, "y", **SMALL)
    assert source.look((0, 0)).labels.tolist() == ["0", "1", "unknown"]
    assert all(batch.y.dtype.kind == "U" for batch in source.batches(7, (0, 0)))


@pytest.mark.parametrize(("target", "place"), [("a", 0), ("label", 1), (0, 0), (2, 2), (-1, 2), (-3, 0), (np.int64(1), 1)])
def test_targets_by_name_and_place(target, place, tmp_path):
    path = written(tmp_path / "t.csv", "a,label,b\n1,2,3\n4,5,6\n")
    X, y = rows_of(csv_file(path, target))
    assert y.tolist() == [1 + place, 4 + place]
    assert_array_equal(X, np.delete([[1.0, 2, 3], [4, 5, 6]], place, axis=1))


@pytest.mark.parametrize("target", [3, 100, -4, "z", "A", "", True, 1.0, None])
def test_targets_that_are_not_there(target, tmp_path):
    path = written(tmp_path / "t.csv", "a,label,b\n1,2,3\n4,5,6\n")
    with pytest.raises((ValueError, TypeError), match=re.escape(repr(target))):
        csv_file(path, target)
    bare = written(tmp_path / "u.csv", "1,2,3\n4,5,6\n")
    with pytest.raises((ValueError, TypeError), match=re.escape(repr(target))):
        csv_file(bare, target, header=False)


def test_without_a_header(tmp_path):
    path = written(tmp_path / "t.csv", "\n1,2.5,x\n\n4,5,y\n")
    assert rows_of(csv_file(path, header=False))[1].tolist() == ["x", "y"]
    with pytest.raises(TableError, match="header=False"):  # the first row would be lost
        csv_file(path)
    assert csv_file(written(path, "0,1,2\n7,8,x\n")).n_rows == 1  # names as pandas gives them
    with pytest.raises(TableError, match=r"line 1 of .*column '1' holds 'a'"):
        csv_file(written(path, "\n".join(table())), 1, header=False)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_memory_of_a_pass_does_not_grow_with_the_file(kind, tmp_path):
    peaks = []
    for n in (1900, 2000, 20_000):  # files that the first run leaves behind do not matter
        X, y = np.random.default_rng(0).normal(size=(n, 2)), np.arange(n) % 2
        if kind == "csv":
            lines = [f"{a!r},{label},{b!r}" for (a, b), label in zip(X.tolist(), y, strict=True)]
            source = csv_file(written(tmp_path / f"{n}.csv", "\n".join(["a,label,b", *lines])), 1, buffer=1000)
        else:
            path = parquet(tmp_path / f"{n}.parquet", {"x0": X[:, 0], "label": y, "x1": X[:, 1]}, row_group_size=500)
            source = parquet_file(path, "label", chunk=64, buffer=1000)
        tracemalloc.start()
        assert sum(len(batch.y) for batch in source.batches(100, (0, 0))) == n
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] - peaks[1] < 0.5 * 8 * 18_000  # half a number of eight bytes for each further row; each has three


# errors -------------------------------------------------------------------------------------------------------------------

WRONG = {
    "1,yes": "there are 2 cells, but the first line has 3",
    "1": "there are 1 cells",
    "1,yes,2,3": "there are 4 cells",
    "1,yes,2,": "there are 4 cells",
    "1,,2": "the label, column 'label', is empty or NA",
    '1," ",2': "the label, column 'label', is empty or NA",
    "1,NA,2": "the label, column 'label', is empty or NA",
    ",yes,2": "column 'a' is empty or NA",
    "1,yes,": "column 'b' is empty or NA",
    "1,yes,nan": "column 'b' is empty or NA",
    "1,yes,inf": "column 'b' holds 'inf'",
    "1,yes,1e999": "column 'b' holds '1e999'",
    "x y,yes,2": "column 'a' holds 'x y'",
    "1,yes,true": "column 'b' holds 'true'",
    "1,yes,1_000": "column 'b' holds '1_000'",
    '"1,5",yes,2': "column 'a' holds '1,5'",
    ",,": "column 'a' is empty or NA",
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("at", [1, 17, 30])
@pytest.mark.parametrize("settings", [{}, SMALL], ids=["whole", "chunks"])
def test_errors_name_the_line(wrong, at, settings, tmp_path):
    lines = table(29)
    lines[10] = '10,"two\nlines",1'  # a row of two lines, and a blank line
    lines.insert(at, wrong)
    lines.insert(5, "")
    text = "\n".join(lines)
    line = text.split("\n").index(wrong) + 1
    with pytest.raises(TableError, match=rf"^line {line} of \S+/t.csv: " + re.escape(WRONG[wrong])):
        csv_file(written(tmp_path / "t.csv", text), "label", **settings)


def test_a_column_of_true_and_false_is_refused_whatever_its_chunk(tmp_path):
    lines = ["a,y", *(f"{'true' if 8 <= i < 12 else i},{i % 2}" for i in range(30))]
    with pytest.raises(TableError, match=r"line 10 of .* 'true'"):
        csv_file(written(tmp_path / "t.csv", "\n".join(lines)), **SMALL)


def test_bytes_that_are_no_text(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("\n".join([*table(20), "20,Zürich,1"]).encode("latin-1"))
    with pytest.raises(TableError, match=r"line 22 of .* is not UTF-8"):
        csv_file(path, "label", **SMALL)
    with pytest.raises(TableError, match=r"line 3 of .*quotes do not match"):
        csv_file(written(path, '1,yes\n2,no\n3,"yes\n' + 9 * "4,no\n"), header=False)


def test_files_without_rows(tmp_path):
    for text, what in (("", "is empty"), ("\n\n", "is empty"), ("a,b\n\n", "no rows"), ("a\n1\n", "has 1 column")):
        with pytest.raises(TableError, match=what):
            csv_file(written(tmp_path / "t.csv", text))
    with pytest.raises(FileNotFoundError):
        csv_file(tmp_path / "none.csv")
    for wrong in ({"chunk": 0}, {"buffer": 0}, {"delimiter": "::"}, {"chunk": 2.5}):
        with pytest.raises(ValueError, match="must be"):
            csv_file(written(tmp_path / "t.csv", "\n".join(table())), **wrong)


def test_a_name_twice(tmp_path):
    with pytest.raises(TableError, match="more than one column 'a'"):
        csv_file(written(tmp_path / "t.csv", "a,b,a\n1,2,3\n"), "a")


def test_a_file_that_changes_between_passes(tmp_path):
    path = written(tmp_path / "t.csv", "\n".join(table()))
    source = csv_file(path, "label", **SMALL)
    written(path, "\n".join(table(31)))
    with pytest.raises(TableError, match="has changed"):
        next(source.batches(5, (0, 0)))


def test_missing_values_are_those_of_tables(tmp_path):
    """The same cells are missing as in `read_table`, and no others."""
    from gpclass.learning.files import MISSING

    words = [*MISSING, "none", "Nan", "N", "-", "?", "NO", "0", "inf"]
    path = written(tmp_path / "t.csv", "\n".join(["a,y", *(f"{i},{word}" for i, word in enumerate(words))]))
    empty = read_table(path)["y"].isna().to_numpy()
    for i, word in enumerate(words):
        one = written(tmp_path / "u.csv", f"a,y\n{i},{word}\n")
        if empty[i]:
            with pytest.raises(TableError, match=r"line 2 of .* empty or NA"):
                csv_file(one, "y")
        else:
            assert csv_file(one, "y").n_rows == 1


# Parquet ------------------------------------------------------------------------------------------------------------------

N = 300
X = np.random.default_rng(0).normal(size=(N, 2))
Y = np.sort(np.array(["a", "b", "c"])[np.arange(N) % 3])


def parquet(path, columns=None, **settings):
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow")
    import pyarrow.parquet as written

    columns = {"x0": X[:, 0], "label": Y, "x1": X[:, 1]} | (columns or {})
    written.write_table(pyarrow.table(columns), path, **settings)
    return path


@pytest.mark.parametrize("groups", [10, 64, 299, 300])
@pytest.mark.parametrize("chunk", [7, 16, 1000])
def test_parquet_row_groups_of_any_size(groups, chunk, tmp_path):
    path = parquet(tmp_path / "t.parquet", row_group_size=groups)
    for buffer in (32, BUFFER):
        found, labels = rows_of(parquet_file(path, "label", chunk, buffer))
        assert_array_equal(found, X)
        assert_array_equal(labels, Y)


@pytest.mark.parametrize("groups", [10, 50, 300])
def test_a_sorted_parquet_file_is_mixed(groups, tmp_path):
    """The first third of a pass has about equal numbers of all three labels, up to chunks of 4 rows and chance."""
    source = parquet_file(parquet(tmp_path / "t.parquet", row_group_size=groups), 1, chunk=4, buffer=64)
    y = np.concatenate([batch.y for batch in source.batches(10, (0, 0))])[:100]
    counts = np.unique(y, return_counts=True)[1]
    assert len(counts) == 3
    assert np.all(np.abs(counts - 100 / 3) < 5 * np.sqrt(100 * 2 / 9))


@pytest.mark.parametrize(
    ("labels", "kind"),
    [(np.arange(N) % 3, "i"), ((np.arange(N) % 3).astype(np.float32), "i"), (np.arange(N) % 2 == 0, "b")],
    ids=["integers", "whole floats", "booleans"],
)
def test_parquet_labels(labels, kind, tmp_path):
    found = rows_of(parquet_file(parquet(tmp_path / "t.parquet", {"label": labels}), "label", 16, 32))[1]
    assert_array_equal(found, labels)
    assert found.dtype.kind == kind


def test_parquet_categories_and_whole_numbers(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow")
    columns = {"label": pyarrow.array(Y).dictionary_encode(), "x0": np.arange(N), "x1": np.arange(N) % 2 == 0}
    found, labels = rows_of(parquet_file(parquet(tmp_path / "t.parquet", columns), "label"))
    assert_array_equal(labels, Y)
    assert_array_equal(found, np.stack([np.arange(N), np.arange(N) % 2 == 0], axis=1))


def with_one(values, at, odd):
    values = list(values)
    values[at] = odd
    return values


@pytest.mark.parametrize("at", [0, 130, 299])
@pytest.mark.parametrize("name", ["x1", "label"])
def test_parquet_errors_name_the_row(name, at, tmp_path):
    values = X[:, 1].tolist() if name == "x1" else Y.tolist()
    path = parquet(tmp_path / "t.parquet", {name: with_one(values, at, None)}, row_group_size=100)
    with pytest.raises(TableError, match=rf"row {at + 1} of .*t.parquet: .*{name}.* is empty"):
        rows_of(parquet_file(path, "label", 16, 32))
    if name == "x1":
        for odd in (np.nan, np.inf):
            path = parquet(tmp_path / "t.parquet", {name: with_one(values, at, odd)})
            with pytest.raises(TableError, match=f"row {at + 1} of .*'x1'"):
                rows_of(parquet_file(path, "label", 16, 32))
    else:
        path = parquet(tmp_path / "t.parquet", {name: with_one(np.zeros(N), at, 0.5)})
        with pytest.raises(TableError, match=f"row {at + 1} of .*0.5; labels must be text or whole numbers"):
            rows_of(parquet_file(path, "label", 16, 32))


def test_parquet_files_that_cannot_serve(tmp_path):
    path = parquet(tmp_path / "t.parquet")
    for target in ("y", 3, -4):
        with pytest.raises(TableError, match=f"no column.*{target!r}.*columns are x0, label, x1"):
            parquet_file(path, target)
    with pytest.raises(TableError, match=r"column 'label' of .* is of type string; use numbers, or leave it out"):
        parquet_file(path, "x0")
    days = np.arange(N).astype("datetime64[D]")
    with pytest.raises(TableError, match="column 'label', are of type date"):
        parquet_file(parquet(tmp_path / "t.parquet", {"label": days}), "label")
    with pytest.raises(TableError, match="has no rows"):
        parquet_file(parquet(tmp_path / "t.parquet", {"x0": [0.0][:0], "label": ["a"][:0], "x1": [0.0][:0]}), "x0")
    (tmp_path / "t.parquet").write_text("a,b\n1,2\n")
    with pytest.raises(TableError, match=r"t.parquet cannot be read as a Parquet file"):
        parquet_file(tmp_path / "t.parquet", "a")
    source = parquet_file(parquet(tmp_path / "t.parquet"), "label")
    parquet(tmp_path / "t.parquet", row_group_size=7)
    with pytest.raises(TableError, match="has changed"):
        next(source.batches(5, (0, 0)))
