"""Dask collections as partitions, and encoders of tables by sums over partitions, against the whole table."""

import pickle
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from gpclass.distributed.collections import is_collection, parts_of
from gpclass.distributed.partitions import described, fitted_encoder_of, load
from gpclass.distributed.parts_of_files import file_parts
from gpclass.inputs.frames import as_frame, fitted_encoder
from gpclass.tables import TableEncoder, TableError, read_table

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

N = 60


def compute(tasks):
    return list(dask.compute(*tasks, scheduler="synchronous"))


def rows(seed=3):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(N, 3)), rng.choice(["a", "b", "c"], N), rng.integers(1, 4, N).astype(float)


def table(seed=3, gaps=True):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(20, 80, N),
            "dose": rng.normal(size=N).round(1),
            "colour": rng.choice(["red", "green", "blue"], N),
            "grade": pd.Categorical(rng.choice(["low", "high"], N), categories=["low", "high", "never"]),
            "smoker": rng.random(N) < 0.5,
            "visits": pd.array(rng.integers(0, 9, N), dtype="Int64"),
            "code": rng.choice(np.array([1, 2.0, "x", "y", True], dtype=object), N, p=[0.1, 0.1, 0.3, 0.3, 0.2]),
        }
    )
    if gaps:
        frame.loc[[3, 8], "dose"] = np.nan
        frame["visits"] = frame["visits"].mask(np.arange(N) % 10 == 0)
        frame.loc[[5, 41], "colour"] = None
        frame["smoker"] = frame["smoker"].astype(object).mask(np.arange(N) % 7 == 0)
    return frame


def cuts(n, seed, k=4):
    edges = np.sort(np.random.default_rng(seed).integers(0, n + 1, k))  # some partitions may be empty
    return np.split(np.arange(n), edges)


def delayed_pairs(frame, y, parts):
    return [dask.delayed((frame.iloc[part], y[part]), traverse=False) for part in parts]


def loaded(parts, missing="error"):
    parts = described(parts, compute)
    encoder = fitted_encoder_of(parts, missing, compute)
    raw = compute(parts.pieces)
    found = [load(one, name, encoder, parts.columns) for one, name in zip(raw, parts.names, strict=True)]
    return pickle.loads(pickle.dumps(found)), encoder


def check(parts, X, y, weight=None, missing="error"):
    """Check that the partitions together are the rows."""
    found, _ = loaded(parts, missing)
    assert_array_equal(np.concatenate([part.X for part in found]), X)
    assert_array_equal(np.concatenate([part.labels[part.place] for part in found if len(part)]), y)
    if weight is not None:
        assert_array_equal(np.concatenate([part.weight for part in found]), weight)
    return found


# collections ------------------------------------------------------------------------------------------------------------


def test_collections_are_recognised_without_importing_dask():
    X, y, _ = rows()
    assert is_collection(da.from_array(X))
    assert is_collection(dd.from_pandas(table(), npartitions=2))
    assert is_collection(dd.from_pandas(pd.Series(y), npartitions=2))
    assert is_collection([dask.delayed((X, y))])
    for plain in (X, table(), [X, y], [], "text", None, 3, [(X, y)], [dask.delayed(1), 2]):
        assert not is_collection(plain)
    code = (
        "import sys, gpclass; from gpclass.distributed.collections import is_collection; "
        "assert not is_collection([1]); sys.exit('dask' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("chunks", [(N, 3), (7, 3), (7, 2), ((30, 0, 30), 1)])
def test_arrays_of_any_chunks_are_their_rows(chunks):
    X, y, weight = rows()
    parts = parts_of(da.from_array(X, chunks), da.from_array(y, 11), da.from_array(weight, 13))
    found = check(parts, X, y, weight)
    assert parts.framed is False
    assert parts.columns is None
    assert [part.name for part in found] == [f"partition {k}" for k in range(len(da.from_array(X, chunks).chunks[0]))]


def test_nothing_is_computed_before_it_is_asked_for():
    def refuse(*_):
        raise AssertionError

    X = da.from_array(np.zeros((6, 2)), (3, 2)).map_blocks(refuse, dtype=float, meta=np.zeros((0, 0)))
    frame = dd.from_map(refuse, range(2), meta=pd.DataFrame({"a": [1.0], "y": [1]}))
    for parts in (parts_of(X, X[:, 0]), parts_of(frame[["a"]], frame["y"]), parts_of([dask.delayed(refuse)()])):
        with pytest.raises(AssertionError):
            compute(parts.pieces)


def test_unknown_chunk_sizes_need_as_many_partitions():
    frame = table(gaps=False)[["age", "dose"]]
    _, y, _ = rows()
    whole = dd.from_pandas(frame.assign(y=y), npartitions=4)
    X, labels = whole[["age", "dose"]].to_dask_array(), whole["y"].to_dask_array()
    assert np.isnan(X.chunks[0]).all()
    check(parts_of(X, labels), frame.to_numpy(), y)
    with pytest.raises(ValueError, match="X has 4 partitions, but y has 2"):
        parts_of(X, da.from_array(y, 30))


def test_frames_with_series_or_arrays_of_labels():
    frame = table(gaps=False)[["age", "dose"]]
    _, y, weight = rows()
    whole = dd.from_pandas(frame.assign(y=y, w=weight), npartitions=3)
    X = whole[["age", "dose"]]
    check(parts_of(X, whole["y"], whole["w"]), frame.to_numpy(), y, weight)
    check(parts_of(X, whole["y"].to_dask_array(), whole["w"]), frame.to_numpy(), y, weight)
    check(parts_of(X.clear_divisions(), whole["y"]), frame.to_numpy(), y)
    check(parts_of(da.from_array(frame.to_numpy(), 20), whole["y"]), frame.to_numpy(), y)
    assert parts_of(X, whole["y"]).columns == ["age", "dose"]


def test_what_inputs_and_labels_share_is_computed_once():
    calls = []

    def read(i):
        calls.append(i)
        return pd.DataFrame({"a": [1.0, 2.0], "y": [0, 1]})

    whole = dd.from_map(read, range(3), meta=read(0))
    calls.clear()
    compute(parts_of(whole[["a"]], whole["y"]).pieces)
    assert sorted(calls) == [0, 1, 2]


def test_delayed_pairs_and_triples_of_frames_and_arrays():
    X, y, weight = rows()
    halves = [slice(0, 20), slice(20, None)]
    check(parts_of([dask.delayed((X[s], y[s])) for s in halves]), X, y)
    check(parts_of([dask.delayed((X[s], y[s], weight[s])) for s in halves]), X, y, weight)
    frame = table(gaps=False)[["dose", "age"]]
    turned = [dask.delayed((frame.iloc[:20], y[:20])), dask.delayed((frame.iloc[20:, ::-1], y[20:]))]
    check(parts_of(turned), frame.to_numpy(), y)


@pytest.mark.parametrize(
    "labels",
    [
        [True, False, True, True],
        [3, 1, 2, 1],
        ["b", "a", "b", "c"],
        pd.Categorical(["b", "a", "b", "c"], categories=["c", "b", "a", "z"]),
        pd.array([1, 2, 1, 3], dtype="Int64"),
    ],
)
def test_labels_have_the_classes_of_one_process(labels):
    y = pd.Series(labels)
    X = dd.from_pandas(pd.DataFrame({"a": np.arange(4.0)}), npartitions=2)
    found, _ = loaded(parts_of(X, dd.from_pandas(y, npartitions=2)))
    classes = np.unique(np.concatenate([part.labels for part in found]))
    assert classes.tolist() == np.unique(np.asarray(y)).tolist()
    assert all(part.labels.dtype != object for part in found)


def test_the_order_of_a_categorical_is_kept():
    y = pd.Series(pd.Categorical(["low", "high"] * 5, categories=["low", "mid", "high"], ordered=True))
    X = dd.from_pandas(pd.DataFrame({"a": np.arange(10.0)}), npartitions=2)
    assert parts_of(X, dd.from_pandas(y, npartitions=2)).order == ["low", "mid", "high"]
    with pytest.raises(ValueError, match="as_known"):
        parts_of(X, dd.from_pandas(y, npartitions=2).cat.as_unknown())


def test_arguments_that_do_not_go_together_are_refused():
    X, y, weight = rows()
    dX, dy = da.from_array(X, 20), da.from_array(y, 20)
    frame = dd.from_pandas(table(), npartitions=2)
    with pytest.raises(TypeError, match=r"X is a Dask array, but y is a numpy ndarray: use dask.array.from_array\(y"):
        parts_of(dX, y)
    with pytest.raises(TypeError, match="y is a Dask collection, but X is a numpy ndarray"):
        parts_of(X, dy)
    with pytest.raises(TypeError, match="sample_weight is a numpy ndarray"):
        parts_of(dX, dy, weight)
    with pytest.raises(TypeError, match=r"y is a Dask DataFrame: pass one column, such as y\['age'\]"):
        parts_of(dX, frame)
    with pytest.raises(TypeError, match="needs labels y"):
        parts_of(dX)
    with pytest.raises(TypeError, match="must be None"):
        parts_of([dask.delayed((X, y))], dy)
    with pytest.raises(ValueError, match="X has 60 rows, but y has 50"):
        parts_of(dX, dy[:50])
    with pytest.raises(ValueError, match=r"one entry for each row, but has the shape \(60, 3\); for soft labels"):
        parts_of(dX, dX)
    with pytest.raises(TypeError, match="partition 1 is a int, but must be a pair"):
        loaded(parts_of([dask.delayed((X, y)), dask.delayed(3)]))


def test_errors_of_loading_name_the_partition():
    X, y, _ = rows()
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, 2.0]})
    bad = X.copy()
    bad[45, 1] = np.nan
    with pytest.raises(ValueError, match=r"partition 2: X has NaN.*row 6, column 2"):
        loaded(parts_of(da.from_array(bad, (20, 3)), da.from_array(y, 20)))
    with pytest.raises(ValueError, match=r"partition 1: X must be \(m, D\) and y \(m,\)"):
        loaded(parts_of([dask.delayed((X, y)), dask.delayed((X, y[1:]))]))
    with pytest.raises(TableError, match="partition 1 has no column 'b', but partition 0 has"):
        loaded(parts_of([dask.delayed((frame, [0, 1])), dask.delayed((frame[["a"]], [0, 1]))]))
    with pytest.raises(TableError, match="partition 1 has a column 'b', but partition 0 has not"):
        loaded(parts_of([dask.delayed((frame[["a"]], [0, 1])), dask.delayed((frame, [0, 1]))]))
    with pytest.raises(TypeError, match="partition 1 is an array, but partition 0 is a data frame"):
        loaded(parts_of([dask.delayed((frame, [0, 1])), dask.delayed((X, y))]))
    with pytest.raises(ValueError, match="X has 2 columns in partition 1, but 3 in partition 0"):
        loaded(parts_of([dask.delayed((X, y)), dask.delayed((X[:, :2], y))]))
    text = frame.assign(b=["x", "y"])
    with pytest.raises(TableError, match="partition 3: column 'b' is of type"):
        load((text, [0, 1], None), "partition 3", None, ["a", "b"])
    gap = frame.assign(b=[1.0, np.nan])
    with pytest.raises(TableError, match=r"partition 3: row 1, column 'b' is empty or NA.*missing='indicator'"):
        load((gap, [0, 1], None), "partition 3", None, ["a", "b"])
    with pytest.raises(TableError, match="partition 3 has no column 'b'"):
        load((frame[["a"]], [0, 1], None), "partition 3", None, ["a", "b"])


# encoders -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["median", "indicator"])
@pytest.mark.parametrize("seed", range(6))
def test_the_encoder_of_any_partitioning_is_that_of_the_whole_table(missing, seed):
    frame, (_, y, _) = table(seed), rows()
    whole = fitted_encoder(frame, missing)
    found, encoder = loaded(parts_of(delayed_pairs(frame, y, cuts(N, seed))), missing)
    assert encoder.columns_ == whole.columns_
    assert encoder.feature_names_in_.tolist() == whole.feature_names_in_.tolist()
    assert_array_equal(np.concatenate([part.X for part in found]), whole.transform(as_frame(frame)))


def test_a_dask_frame_is_encoded_as_the_whole_frame():
    frame, (_, y, _) = table(gaps=False), rows()
    lazy = dd.from_pandas(frame.assign(code=frame["code"].astype(str), y=y), npartitions=4)
    X = lazy.drop(columns="y")
    found, encoder = loaded(parts_of(X, lazy["y"]))
    whole = fitted_encoder(X.compute(), "error")
    assert encoder.columns_ == whole.columns_
    assert_array_equal(np.concatenate([part.X for part in found]), whole.transform(X.compute()))


def test_arrays_are_encoded_if_missing_values_are_allowed():
    X, y, _ = rows()
    X[7, 1] = np.nan
    whole = fitted_encoder(X, "indicator")
    parts = parts_of(da.from_array(X, (9, 3)), da.from_array(y, 20))
    check(parts, whole.transform(as_frame(X)), y, missing="indicator")
    assert fitted_encoder_of(parts, "error", compute) is None


def test_numbers_and_booleans_without_gaps_need_no_encoder():
    frame, (_, y, _) = table(gaps=False)[["age", "dose", "smoker", "visits"]], rows()
    assert fitted_encoder(frame, "error") is None
    check(parts_of(delayed_pairs(frame, y, cuts(N, 1))), frame.to_numpy(dtype=float), y)


MIXED = {
    "int and float": ([1, 2, 3], [1.5, 2.0, 7.25]),
    "int and empty objects": ([1, 2, 3], [None, None, None]),
    "float and empty objects": ([1.0, 2.5, 3.0], [None, None, None]),
    "empty numbers and text": ([np.nan] * 3, ["a", "b", "a"]),
    "booleans and empty numbers": ([True, False, True], [np.nan] * 3),
    "booleans and empty objects": ([True, False, True], [None] * 3),
    "booleans and numbers": ([True, False, True], [1, 0, 1]),
    "text and numbers": (["a", "b", "a"], [1, 2.5, 3.0]),
    "nullable and float": (pd.array([1, None, 3], dtype="Int64"), [1.5, 2.0, 7.25]),
    "objects and int": (np.array([1, 2, None], dtype=object), [5, 6, 9]),
    "single and double": (np.array([0.1, 0.2, 0.7], np.float32), [0.1, 0.2, 0.3]),
}


@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize("turned", [False, True])
def test_types_may_differ_between_partitions_as_in_the_whole_frame(name, turned):
    frames = [pd.DataFrame({"x": values, "z": [1.0, 2.0, 3.0]}) for values in MIXED[name]]
    frames = frames[::-1] if turned else frames
    whole = pd.concat(frames)
    parts = parts_of([dask.delayed((frame, [0, 1, 0]), traverse=False) for frame in frames])
    found, encoder = loaded(parts, "indicator")
    expected = fitted_encoder(whole, "indicator")
    assert encoder.columns_ == expected.columns_
    assert_array_equal(np.concatenate([part.X for part in found]), expected.transform(as_frame(whole)))


def test_categories_may_differ_between_partitions():
    frames = [pd.DataFrame({"x": pd.Categorical(some), "z": [1.0, 2.0]}) for some in ([1, 2], [2, 3], [None, 3])]
    _, encoder = loaded(parts_of([dask.delayed((frame, [0, 1]), traverse=False) for frame in frames]), "median")
    assert encoder.columns_[0].levels == ("1", "2", "3")
    assert encoder.columns_[0].fill == "2"


BAD = {
    "dates": pd.date_range("2020-01-01", periods=8),
    "texts of dates": ["2020-01-01"] * 8,
    "decimal commas": ["1,5", "2,5", "a", "3,5", "4,5", "1,5", "b", "2,5"],
    "mostly numbers": ["1", "2", "3", "4", "5", "?", "1", "-"],
    "infinite": [1, 2, 3, 4, 5, np.inf, 6, -np.inf],
    "large": [1, 2, 3, 4, 5, 1e200, 6, 7],
    "objects": [1, "a", 2, "b", [1], "c", {}, 3],
    "complex": [1j] * 8,
    "empty": [None] * 8,
    "gaps": [1, 2, np.nan, 4, None, 6, 7, 8],
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("cut", [1, 4, 5, 8])
def test_errors_are_those_of_the_whole_table_and_name_the_partition(name, cut):
    frame = pd.DataFrame({"z": np.arange(8.0), "t": list("ababaaba"), "x": BAD[name], "w": [np.inf] * 8})
    with pytest.raises(TableError) as expected:
        fitted_encoder(frame, "error" if name == "gaps" else "median")
    pieces = delayed_pairs(frame, np.arange(8) % 2, np.split(np.arange(8), [cut]))
    with pytest.raises(TableError) as found:
        loaded(parts_of(pieces), "error" if name == "gaps" else "median")
    message, row = str(found.value), re.search(r"row (\d)", str(expected.value))
    assert re.sub(r"partition \d: | of partition \d", "", message) == str(expected.value)
    if row:
        assert f"partition {int(int(row.group(1)) >= cut)}" in message


ODD = {name: BAD[name] for name in ("decimal commas", "mostly numbers", "infinite", "dates")}


@pytest.mark.parametrize("name", ODD)
def test_advice_is_that_for_the_whole_table_for_frames_and_for_files(name, tmp_path):
    """A frame may come from no file, but files can be read in another way."""
    frame, y, halves = pd.DataFrame({"x": ODD[name], "z": np.arange(8.0)}), np.arange(8) % 2, np.split(np.arange(8), [4])
    with pytest.raises(TableError) as expected:
        fitted_encoder(frame, "median")
    with pytest.raises(TableError) as found:
        loaded(parts_of(delayed_pairs(frame, y, halves)), "median")
    assert [p.python for p in found.value.problems] == [p.python for p in expected.value.problems]
    assert re.sub(r"partition \d: | of partition \d", "", str(found.value)) == str(expected.value)

    for k, rows_of_file in enumerate(halves):
        frame.assign(y=y).iloc[rows_of_file].to_csv(tmp_path / f"{k}.csv", index=False)
    whole = pd.concat([read_table(path) for path in sorted(tmp_path.iterdir())]).drop(columns="y")
    with pytest.raises(TableError) as expected:
        TableEncoder(impute="median").fit(whole)
    with pytest.raises(TableError) as found:
        loaded(file_parts(tmp_path, "y"), "median")
    assert [p.python for p in found.value.problems] == [p.python for p in expected.value.problems]
    told = re.sub(rf"{re.escape(str(tmp_path))}\S*csv: | of {re.escape(str(tmp_path))}\S*csv", "", str(found.value))
    assert told == str(expected.value)


def test_names_are_no_categories_in_any_partitioning():
    frame = pd.DataFrame({"x": [f"name {i}" for i in range(60)]})
    for parts in ([np.arange(60)], np.split(np.arange(60), [20, 40])):
        with pytest.raises(TableError, match="60 different texts in 60 rows"):
            loaded(parts_of(delayed_pairs(frame, np.arange(60) % 2, parts)), "median")


def test_labels_of_text_files_are_numbers_only_if_written_so(tmp_path):
    """ "01" in one file and "1" in another are different classes."""
    from gpclass.distributed.parts_of_files import label_counts

    for name, labels in (("a.csv", ["1", "2"]), ("b.csv", ["01", "2"]), ("c.csv", ["True", "False"])):
        (tmp_path / name).write_text("x,y\n" + "".join(f"{k},{label}\n" for k, label in enumerate(labels)))

    def found(name):
        return dask.compute(file_parts(tmp_path / name, "y").pieces[0], scheduler="synchronous")[0][1]

    assert found("a.csv").tolist() == [1, 2]
    assert found("b.csv").tolist() == ["01", "2"]
    assert found("c.csv").tolist() == [True, False]
    (tmp_path / "c.csv").unlink()
    mixed = r"labels are numbers in .*a.csv, but texts in"
    with dask.config.set(scheduler="synchronous"), pytest.raises(ValueError, match=mixed):
        label_counts(file_parts(tmp_path, "y"))
