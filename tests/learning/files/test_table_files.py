"""Folders and patterns of table files: as one stream in one process, and as partitions for a cluster."""

import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from gpclass import GPClassifier
from gpclass.learning import files_of, table_files
from gpclass.learning.streams import SortedStreamWarning, warn_if_uneven
from gpclass.sparse import ScalableEP
from gpclass.tables import TableError

pytest.importorskip("pyarrow")

rng = np.random.default_rng(8)
N = 120
FRAME = pd.DataFrame({"a": rng.normal(size=N), "late": np.repeat(["no", "yes"], N // 2), "b": rng.integers(0, 9, N)})
CUTS = [0, 10, 45, 46, 90, N]


def write(frame, path):
    frame.to_parquet(path, index=False) if path.suffix == ".parquet" else frame.to_csv(path, index=False)
    return path


def folder(tmp_path, kind, frame=FRAME, cuts=CUTS):
    for k, (i, j) in enumerate(pairwise(cuts)):
        write(frame.iloc[i:j], tmp_path / f"part-{k}.{kind}")
    (tmp_path / "README.txt").write_text("not a table")
    (tmp_path / f"_metadata.{kind}").write_text("not a table")
    return tmp_path


def rows_of(source, size=7, seed=(0, 1)):
    """X and y in the order of the rows."""
    batches = list(source.batches(size, seed))
    X, y, rows = (np.concatenate([batch[i] for batch in batches]) for i in range(3))
    assert_array_equal(np.sort(rows), np.arange(source.n_rows))
    return X[np.argsort(rows)], y[np.argsort(rows)]


# streams ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("buffer", [16, 1 << 16])
def test_files_of_a_folder_are_one_table(kind, buffer, tmp_path):
    path = folder(tmp_path, kind)
    for pattern in (path, str(path / f"part-*.{kind}"), sorted(path.glob("part-*"))[::-1]):
        source = table_files(pattern, "late", chunk=4, buffer=buffer)
        assert (source.n_rows, source.n_columns) == (N, 2)
        X, y = rows_of(source)
        assert_array_equal(X, FRAME[["a", "b"]].to_numpy())
        assert_array_equal(y, FRAME["late"].to_numpy(str))


def test_patterns_find_files_in_the_order_of_their_names(tmp_path):
    path = folder(tmp_path, "csv")
    (path / "deep").mkdir()
    write(FRAME, path / "deep" / "z.csv")
    assert [found.name for found in files_of(path)] == [f"part-{k}.csv" for k in range(5)]
    assert [found.name for found in files_of(f"{path}/**/*.csv")] == ["z.csv", *(f"part-{k}.csv" for k in range(5))]
    assert files_of(path / "part-3.csv") == [path / "part-3.csv"]
    with pytest.raises(TableError, match="there are no files"):
        files_of(path / "*.parquet")
    (path / "empty").mkdir()
    with pytest.raises(TableError, match="has no files with the extensions"):
        files_of(path / "empty")
    write(FRAME, path / "x.parquet")
    with pytest.raises(TableError, match=r"part-4.csv and .*x.parquet are of different types"):
        files_of(path)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_files_with_one_label_each_are_mixed(kind, tmp_path):
    n = 4000
    y = np.repeat([0, 1], n // 2)
    frame = pd.DataFrame({"x": np.arange(n) * 1.0, "y": y})
    path = folder(tmp_path, kind, frame, list(range(0, n + 1, n // 20)))  # 20 files, more than are read at once
    source = table_files(path, "y", chunk=16, buffer=800)
    shares = [batch.y.mean() for batch in source.batches(400, (1, 2))]
    assert all(0.35 < share < 0.65 for share in shares)  # 6 standard deviations of a random minibatch
    with warnings.catch_warnings():
        warnings.simplefilter("error", SortedStreamWarning)
        warn_if_uneven(source, source.look((0, 0)))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_fit_is_the_same_as_that_of_one_table(kind, tmp_path):
    engine = ScalableEP(n_inducing=8, batch_size=30, epochs=2)
    settings = {"inference": engine, "random_state": 3}
    whole = GPClassifier(**settings).fit(table_files(write(FRAME, tmp_path / f"all.{kind}"), "late"))
    (tmp_path / "parts").mkdir()
    parts = GPClassifier(**settings).fit(table_files(folder(tmp_path / "parts", kind), "late"))
    X = FRAME[["a", "b"]].to_numpy()
    assert parts.classes_.tolist() == ["no", "yes"]
    assert_allclose(parts.predict_proba(X), whole.predict_proba(X), rtol=1e-12)


def test_labels_of_text_files_are_text_in_all_or_in_none(tmp_path):
    write(pd.DataFrame({"x": [1.0, 2.0], "y": [1, 2]}), tmp_path / "a.csv")
    write(pd.DataFrame({"x": [1.0, 2.0], "y": ["1", "none of them"]}), tmp_path / "b.csv")
    assert rows_of(table_files(tmp_path, "y"))[1].tolist() == ["1", "2", "1", "none of them"]
    assert rows_of(table_files(tmp_path / "a.csv", "y"))[1].tolist() == [1, 2]
    for name, labels in (("a", [1, 2]), ("b", ["1", "x"])):
        write(pd.DataFrame({"x": [1.0, 2.0], "y": labels}), tmp_path / f"{name}.parquet")
    with pytest.raises(TableError, match=r"labels of .*\.parquet are .*, but .* in other files"):
        rows_of(table_files(tmp_path / "*.parquet", "y"))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_errors_name_the_file_and_the_row_or_column(kind, tmp_path):
    path = folder(tmp_path, kind)
    write(FRAME.iloc[:5].drop(columns="b"), path / f"part-5.{kind}")
    with pytest.raises(TableError, match=rf"part-5.{kind} has no column 'b', but .*part-0.{kind} has"):
        table_files(path, "late")
    write(FRAME.iloc[:5].assign(more=1.0), path / f"part-5.{kind}")
    with pytest.raises(TableError, match=rf"part-5.{kind} has a column 'more', but .*part-0.{kind} has not"):
        table_files(path, "late")
    write(FRAME.iloc[:5][["b", "late", "a"]], path / f"part-5.{kind}")
    with pytest.raises(TableError, match=rf"column 1 of .*part-5.{kind} is 'b'.*same order"):
        table_files(path, "late")
    bad = FRAME.iloc[:5].copy()
    bad.loc[3, "a"] = np.nan
    write(bad, path / f"part-5.{kind}")
    with pytest.raises(TableError, match=rf"(row 4|line 5) of .*part-5.{kind}: column 'a' is empty"):
        rows_of(table_files(path, "late"))
    write(FRAME.iloc[:5].assign(b="text"), path / f"part-5.{kind}")
    with pytest.raises(TableError, match=rf"part-5.{kind}"):
        rows_of(table_files(path, "late"))


# partitions ---------------------------------------------------------------------------------------------------------------

MIXED = FRAME.assign(colour=rng.choice(["red", "blue"], N), id=np.arange(N))


def loaded(parts):
    dask = pytest.importorskip("dask")
    from gpclass.distributed.partitions import fitted_encoder_of, load

    def compute(tasks):
        return list(dask.compute(*tasks, scheduler="synchronous"))

    encoder = fitted_encoder_of(parts, "error", compute)
    raw = compute(parts.pieces)
    found = [load(one, name, encoder, parts.columns) for one, name in zip(raw, parts.names, strict=True)]
    return np.concatenate([part.X for part in found]), np.concatenate([part.labels[part.place] for part in found]), encoder


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_files_are_partitions_with_their_names(kind, tmp_path):
    pytest.importorskip("dask")
    from gpclass.distributed.parts_of_files import file_parts
    from gpclass.inputs.frames import fitted_encoder

    parts = file_parts(folder(tmp_path, kind, MIXED), "late", drop=["id"])
    assert parts.names == [str(tmp_path / f"part-{k}.{kind}") for k in range(5)]
    assert parts.columns == ["a", "b", "colour"]
    X, y, encoder = loaded(parts)
    whole = fitted_encoder(MIXED[["a", "b", "colour"]], "error")
    assert encoder.columns_ == whole.columns_
    assert_array_equal(X, whole.transform(MIXED[["a", "b", "colour"]]))
    assert y.tolist() == MIXED["late"].tolist()
    assert loaded(file_parts(tmp_path, "late", drop=["id", "colour"]))[2] is None


def test_row_groups_of_large_files_are_partitions(tmp_path, monkeypatch):
    pytest.importorskip("dask")
    from gpclass.distributed import parts_of_files

    monkeypatch.setattr(parts_of_files, "LARGE_FILE", 100)
    FRAME.set_index("a", drop=False).rename_axis(None).to_parquet(tmp_path / "x.parquet", row_group_size=50)
    parts = parts_of_files.file_parts(tmp_path, "late")
    assert parts.names == [f"{tmp_path / 'x.parquet'}, row group {g}" for g in range(3)]
    X, y, _ = loaded(parts)
    assert_array_equal(X, FRAME[["a", "b"]].to_numpy())
    assert y.tolist() == FRAME["late"].tolist()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_errors_of_partitions_name_the_file(kind, tmp_path):
    pytest.importorskip("dask")
    from gpclass.distributed.parts_of_files import file_parts

    path = folder(tmp_path, kind)
    with pytest.raises(TableError, match=rf"part-0.{kind} has no column 'early'; its columns are a, late, b"):
        file_parts(path, "early")
    write(FRAME.iloc[:5].drop(columns="b"), path / f"part-5.{kind}")
    with pytest.raises(TableError, match=rf"part-5.{kind} has no column 'b', but .*part-0.{kind} has"):
        file_parts(path, "late")
    bad = FRAME.iloc[:5].copy()
    bad.loc[3, "a"] = np.nan
    write(bad, path / f"part-5.{kind}")
    with pytest.raises(TableError, match=rf"part-5.{kind}.*row 4|row 4 of .*part-5.{kind}"):
        loaded(file_parts(path, "late"))
    write(FRAME.iloc[:5].assign(late=[None, "no", "no", "yes", "yes"]), path / f"part-5.{kind}")
    with pytest.raises(TableError, match=rf"part-5.{kind}: the target 'late' is empty in row 1"):
        loaded(file_parts(path, "late"))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_columns_that_are_left_out_may_hold_anything(tmp_path, kind):
    frame = pd.DataFrame({"id": ["p1", None, "p3"], "a": [1.0, 2.0, 3.0], "y": ["u", "v", "u"], "note": ["x", "y", "z"]})
    frame.to_csv(tmp_path / "t.csv", index=False) if kind == "csv" else frame.to_parquet(tmp_path / "t.parquet", index=False)
    found = table_files(tmp_path, "y", drop=["note", "id"])
    (batch,) = found.batches(3, (0, 0))
    assert found.n_columns == 1
    assert_array_equal(batch.X[np.argsort(batch.rows), 0], frame["a"])
    assert_array_equal(batch.y[np.argsort(batch.rows)], frame["y"])
    with pytest.raises(TableError, match="has no column 'z'"):
        table_files(tmp_path, "y", drop=["z"])
    with pytest.raises(TableError, match=r"'y' is the column of labels .* cannot be dropped"):
        table_files(tmp_path, "y", drop=["y"])
    with pytest.raises(TableError, match="no input columns besides the labels"):
        table_files(tmp_path, "y", drop=["a", "id", "note"])
