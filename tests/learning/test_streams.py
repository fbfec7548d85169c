"""Sources of rows: every row once in each pass, the same order for the same seed, clear words where data are wrong."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.learning import Arrays, Batches, as_source, csv_file, parquet_file
from gpclass.learning.streams import Order, codes, look

N = 53
X = np.random.default_rng(0).normal(size=(N, 3))
Y = np.array(["a", "b", "c"])[np.arange(N) % 3]


def chunks():
    for i in range(0, N, 20):
        yield X[i : i + 20], Y[i : i + 20]


def write_csv(path):
    lines = ["x0,label,x1,x2", *(f"{a!r},{label},{b!r},{c!r}" for (a, b, c), label in zip(X.tolist(), Y, strict=True))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def sources(tmp_path):
    written = csv_file(write_csv(tmp_path / "t.csv"), "label", chunk=10)
    return [Arrays(X, Y), Batches.of(chunks), Batches.of(list(chunks())), written]


def test_every_row_once_whatever_the_source(tmp_path):
    for source in sources(tmp_path):
        assert (source.n_rows, source.n_columns) == (N, 3)
        got = list(source.batches(8, (0, 1)))
        assert max(len(b.y) for b in got) <= 8
        rows = np.concatenate([b.rows for b in got])
        assert_allclose(np.sort(rows), np.arange(N))
        assert_allclose(np.concatenate([b.X for b in got]), X[rows])
        assert np.all(np.concatenate([b.y for b in got]) == Y[rows])
        again = np.concatenate([b.rows for b in source.batches(8, (0, 1))])
        other = np.concatenate([b.rows for b in source.batches(8, (0, 2))])
        assert np.all(rows == again)
        assert np.any(rows != other)


def test_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow")
    import pyarrow.parquet as parquet

    table = pyarrow.table({"x0": X[:, 0], "label": Y, "x1": X[:, 1], "x2": X[:, 2]})
    parquet.write_table(table, tmp_path / "t.parquet")
    source = parquet_file(tmp_path / "t.parquet", "label", chunk=10)
    got = list(source.batches(8, (0, 1)))
    rows = np.concatenate([b.rows for b in got])
    assert_allclose(np.sort(rows), np.arange(N))
    assert_allclose(np.concatenate([b.X for b in got]), X[rows])
    assert np.all(np.concatenate([b.y for b in got]) == Y[rows])
    assert max(len(b.y) for b in got) <= 8
    # the same stream from a list of chunks as long
    listed = Batches.of([(X[i : i + 10], Y[i : i + 10]) for i in range(0, N, 10)])
    for ours, theirs in zip(got, listed.batches(8, (0, 1)), strict=True):
        assert_allclose(ours.X, theirs.X)
        assert ours.rows.tolist() == theirs.rows.tolist()
    assert look(source, (0, 0)).counts.tolist() == [18, 18, 17]
    with pytest.raises(ValueError, match="no column 'y'"):
        parquet_file(tmp_path / "t.parquet", "y")


@pytest.mark.parametrize("n", [1, 2, 3, 53, 256, 257, 100_003])
def test_orders_are_permutations(n):
    order = Order.of(n, (0, 1))
    whole = order.part(0, n)
    assert np.array_equal(np.sort(whole), np.arange(n))
    size = max(40, n // 9)
    assert np.array_equal(np.concatenate([order.part(i, min(i + size, n)) for i in range(0, n, size)]), whole)
    if n > 50:
        # as in a random order, neighbours are not near each other, and places say nothing of numbers
        other = Order.of(n, (0, 2)).part(0, n)
        expected, sd = n / 3, n / np.sqrt(18) / np.sqrt(n) * 2  # of the mean distance of two numbers; neighbours share one
        for x in (whole, other):
            assert abs(np.mean(np.abs(np.diff(x))) - expected) < 5 * sd
            assert abs(np.corrcoef(np.arange(n), x)[0, 1]) < 5 / np.sqrt(n)
        assert abs(np.corrcoef(whole, other)[0, 1]) < 5 / np.sqrt(n)
        # every number comes at every place about as often
        first = np.array([Order.of(n, (0, s)).part(0, 1)[0] for s in range(400)])
        assert abs(first.mean() - (n - 1) / 2) < 5 * n / np.sqrt(12 * 400)
        assert len(np.unique(first)) > 0.8 * n * (1 - np.exp(-400 / n))


def test_a_look_at_all(tmp_path):
    for source in sources(tmp_path):
        summary = look(source, (0, 0), sample=20)
        assert summary.labels.tolist() == ["a", "b", "c"]
        assert summary.counts.tolist() == [18, 18, 17]
        assert len(np.unique(summary.X, axis=0)) == 20
        assert np.all(np.isin(summary.X, X))


def test_some_rows_of_arrays():
    part = Arrays(X, Y).some(np.arange(10, 30)).some(np.array([1, 3]))
    (batch,) = part.batches(10, (0, 0))
    assert_allclose(batch.X, X[[11, 13]])
    assert_allclose(batch.rows, [0, 1])


def test_what_is_wrong_with_a_stream():
    with pytest.raises(ValueError, match="ended after 53 of 60 rows"):
        list(Batches(chunks, 60, 3).batches(10, (0, 0)))
    with pytest.raises(ValueError, match="goes on after the 40 rows"):
        list(Batches(chunks, 40, 3).batches(10, (0, 0)))
    with pytest.raises(ValueError, match=r"X \(m, 2\) and y"):
        list(Batches(chunks, N, 2).batches(10, (0, 0)))
    with pytest.raises(ValueError, match="no rows"):
        Batches.of([])
    once = Batches.of(list(chunks()))
    spent = Batches(iter(list(chunks())).__iter__, N, 3)  # can be read once only
    assert len(list(spent.batches(100, (0, 0)))) == 3
    with pytest.raises(ValueError, match="ended after 0 of 53"):
        list(spent.batches(100, (0, 1)))
    assert once.n_rows == N
    with pytest.raises(ValueError, match="X must be"):
        Arrays(X, Y[:5])
    with pytest.raises(ValueError, match="NaN"):
        list(Arrays(np.full((3, 2), np.nan), np.arange(3)).batches(2, (0, 0)))


def test_csv_that_cannot_be_read(tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text("a,b\n1,x\nnone,y\n", encoding="utf-8")
    with pytest.raises(ValueError, match="no numbers"):
        csv_file(path, "b")
    with pytest.raises(ValueError, match="no column 'z'; its columns are a, b"):
        csv_file(path, "z")


def test_labels_to_codes():
    labels = np.array(["a", "b", "c"])
    assert codes(np.array(["c", "a"]), labels, 3).tolist() == [2, 0]
    assert codes(np.array([5, 3]), np.array([3, 5]), 1).tolist() == [1.0, -1.0]
    with pytest.raises(ValueError, match=r"labels \['d'\] were never seen"):
        codes(np.array(["a", "d"]), labels, 3)


def test_as_source():
    assert isinstance(as_source(X.tolist(), Y.tolist()), Arrays)
    assert isinstance(as_source(list(chunks())), Batches)
    source = Arrays(X, Y)
    assert as_source(source) is source
