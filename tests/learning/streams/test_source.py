"""Sources of rows: every row once in each pass, the same order for the same seed, clear errors about bad data."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chi2, chi2_contingency

from gpclass import GPClassifier
from gpclass.learning import Arrays, Batches, SortedStreamWarning, as_source, csv_file, parquet_file
from gpclass.learning.streams import (
    CHUNK,
    Batch,
    Order,
    Pool,
    Without,
    codes,
    spread_order,
    unevenness,
    warn_if_uneven,
)

N = 53
X = np.random.default_rng(0).normal(size=(N, 3))
Y = np.array(["a", "b", "c"])[np.arange(N) % 3]


def chunks():
    for i in range(0, N, 20):
        yield X[i : i + 20], Y[i : i + 20]


def write_csv(path, X=X, Y=Y):
    lines = ["x0,label,x1,x2", *(f"{a!r},{label},{b!r},{c!r}" for (a, b, c), label in zip(X.tolist(), Y, strict=True))]
    if not path.exists():  # a source refuses a file that was rewritten
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_parquet(path, X=X, Y=Y, **settings):
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow")
    import pyarrow.parquet as parquet

    if not path.exists():
        parquet.write_table(pyarrow.table({"x0": X[:, 0], "label": Y, "x1": X[:, 1], "x2": X[:, 2]}), path, **settings)
    return path


def streams(tmp_path, **settings):
    return [
        Batches.of(chunks, **settings),
        Batches.of(list(chunks()), **settings),
        Batches.of([(X[i : i + 1], Y[i : i + 1]) for i in range(N)], **settings),
        csv_file(write_csv(tmp_path / "t.csv"), "label", chunk=2, **settings),
        parquet_file(write_parquet(tmp_path / "t.parquet", row_group_size=15), "label", chunk=2, **settings),
    ]


def sources(tmp_path):
    """Arrays, streams that fit into their buffer, and streams that do not."""
    return [Arrays(X, Y), *streams(tmp_path), *streams(tmp_path, buffer=17)]


@pytest.mark.parametrize("size", [1, 8, 20, 60])
def test_every_row_once_whatever_the_source(size, tmp_path):
    without = [Without(source, np.array([0, 7, 8, 50])) for source in sources(tmp_path)]
    for source in [*sources(tmp_path), *without]:
        kept = np.delete(np.arange(N), source.rows) if isinstance(source, Without) else np.arange(N)
        assert (source.n_rows, source.n_columns) == (len(kept), 3)
        got = list(source.batches(size, (0, 1)))
        assert [len(b.y) for b in got] == [*(len(kept) // size) * [size], *([len(kept) % size] if len(kept) % size else [])]
        rows = np.concatenate([b.rows for b in got])
        assert_array_equal(np.sort(rows), np.arange(len(kept)))
        assert_array_equal(np.concatenate([b.X for b in got]), X[kept][rows])
        assert np.all(np.concatenate([b.y for b in got]) == Y[kept][rows])
        assert all(b.X.dtype == float for b in got)
        again = np.concatenate([b.rows for b in source.batches(size, (0, 1))])
        assert np.all(rows == again)
        if size < N:
            other = np.concatenate([b.rows for b in source.batches(size, (0, 2))])
            assert np.any(rows != other)


def test_streams_that_fit_into_the_buffer_are_arrays(tmp_path):
    for source in streams(tmp_path, buffer=N):
        for ours, theirs in zip(source.batches(8, (3, 1)), Arrays(X, Y).batches(8, (3, 1)), strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("size", [10, 400])
def test_no_more_than_a_buffer_is_held(size):
    """Count rows that were read from the stream but not passed on yet."""
    n, buffer = 4000, 300
    brought = 0

    def make():
        nonlocal brought
        for i in range(0, n, 10):
            brought += 10
            yield np.full((10, 1), i), np.arange(i, i + 10) % 2

    given = 0
    source = Batches(make, n, 1, buffer)
    for batch in source.batches(size, (0, 0)):
        assert brought - given <= max(buffer, size) + CHUNK
        given += len(batch.y)
    assert given == n


def test_rows_drawn_from_a_pool():
    """Against a set: drawn rows are removed, all others stay, and each row has the same probability."""
    rng, pool, held = np.random.default_rng(0), Pool(), set()
    source = Arrays(np.arange(500.0)[:, None], np.arange(500).astype(str))
    first = np.zeros(30)
    for batch in source.batches(25, (0, 0)):
        pool.add(batch)
        held |= set(batch.rows.tolist())
        drawn = pool.draw(int(rng.integers(1, 25)), rng)
        assert set(drawn.rows.tolist()) <= held
        held -= set(drawn.rows.tolist())
        assert_array_equal(drawn.X[:, 0], drawn.rows)
        assert drawn.y.tolist() == drawn.rows.astype(str).tolist()
        assert pool.held == len(held)
    for _ in range(2000):
        pool = Pool()
        pool.add(Batch(np.zeros((30, 1)), np.zeros(30), np.arange(30)))
        first[pool.draw(3, rng).rows] += 1
    # 2000 draws of 3 among 30: variance 2000 × 0.1 × 0.9 each, with 29 degrees of freedom
    assert np.sum((first - 200) ** 2 / 180) * 29 / 30 < chi2.isf(1e-4, 29)


def test_orders_that_are_spread():
    for count, held in ((1, 5), (7, 100), (100, 8), (1000, 50), (10, 1)):
        order = spread_order(count, held, np.random.default_rng(1))
        assert_array_equal(np.sort(order), np.arange(count))
    # any 50 consecutive ones have one of each 50th of the source
    order = spread_order(1000, 50, np.random.default_rng(1)) // 20
    for i in range(950):
        assert_array_equal(np.sort(order[i : i + 50]), np.arange(50))
    # and each chunk is equally frequent at each place
    first = np.array([spread_order(60, 10, np.random.default_rng(s))[0] for s in range(1200)])
    assert np.sum((np.bincount(first, minlength=60) - 20) ** 2 / 20) < chi2.isf(1e-4, 59)
    assert_array_equal(spread_order(99, 9, np.random.default_rng(1)), spread_order(99, 9, np.random.default_rng(1)))


def test_parquet(tmp_path):
    source = parquet_file(write_parquet(tmp_path / "t.parquet"), "label")
    assert source.look((0, 0)).counts.tolist() == [18, 18, 17]
    with pytest.raises(ValueError, match="no column 'y'"):
        parquet_file(tmp_path / "t.parquet", "y")


# order of labels ----------------------------------------------------------------------------------------------------------


def test_unevenness_is_the_likelihood_ratio_per_row():
    """Against SciPy's G-test of the same table."""
    counts = np.array([[50, 30, 20], [10, 80, 10], [0, 9, 40]])
    test = chi2_contingency(counts, correction=False, lambda_="log-likelihood")
    assert_allclose(unevenness(counts), (test.statistic - test.dof) / 2 / counts.sum(), rtol=1e-12)
    assert unevenness(np.array([[50, 50]])) == 0
    assert unevenness(np.array([[50, 50], [45, 55]])) == 0
    assert unevenness(np.array([[50], [40]])) == 0
    # sorted labels: each window has one label only, and the loss is the entropy of the labels
    assert_allclose(unevenness(np.diag([10**6] * 4)), np.log(4), atol=1e-5)


def sorted_rows(n=2000, n_classes=5):
    X = np.random.default_rng(0).normal(size=(n, 3))
    return X, np.sort(np.arange(n) % n_classes)


@pytest.mark.parametrize("n_classes", [2, 5, 20])
def test_sorted_rows_are_mixed_where_they_can_be_read_in_any_order(n_classes, tmp_path):
    X, y = sorted_rows(n_classes=n_classes)
    pairs = [(X[i : i + 8], y[i : i + 8]) for i in range(0, len(y), 8)]
    for source in (
        Batches.of(pairs, buffer=400),
        csv_file(write_csv(tmp_path / "t.csv", X, y), "label", chunk=4, buffer=400),
        parquet_file(write_parquet(tmp_path / "t.parquet", X, y, row_group_size=100), "label", chunk=4, buffer=400),
        parquet_file(write_parquet(tmp_path / "u.parquet", X, y), "label", chunk=4, buffer=400),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warn_if_uneven(source, source.look((0, 0)))
        # so are the batches of training: the place in the pass is independent of the row, up to chance
        rows = np.concatenate([batch.rows for batch in source.batches(20, (0, 0))])
        for part in np.split(rows, 5):
            assert abs(part.mean() - len(y) / 2) < 5 * len(y) / np.sqrt(12 * len(part))


def test_sorted_rows_that_come_in_their_own_order_are_reported(tmp_path):
    X, y = sorted_rows()
    mixed = np.random.default_rng(1).permutation(len(y))

    def stream(order):
        return Batches.of(lambda: ((X[order[i : i + 50]], y[order[i : i + 50]]) for i in range(0, len(y), 50)), buffer=200)

    with pytest.warns(SortedStreamWarning, match=r"uneven order.*or use arrays, a memory map or a list"):
        warn_if_uneven(stream(np.arange(len(y))), stream(np.arange(len(y))).look((0, 0)))
    large = csv_file(write_csv(tmp_path / "t.csv", X, y), "label", chunk=200, buffer=200)
    with pytest.warns(SortedStreamWarning, match="smaller chunks or a larger buffer: csv_file"):
        warn_if_uneven(large, large.look((0, 0)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(20):
            warn_if_uneven(stream(mixed), stream(mixed).look((seed, 0)))


@pytest.mark.parametrize("n", [1, 2, 3, 53, 256, 257, 100_003])
def test_orders_are_permutations(n):
    order = Order.of(n, (0, 1))
    assert_array_equal(order.positions(order.part(0, n)), np.arange(n))
    whole = order.part(0, n)
    assert np.array_equal(np.sort(whole), np.arange(n))
    size = max(40, n // 9)
    assert np.array_equal(np.concatenate([order.part(i, min(i + size, n)) for i in range(0, n, size)]), whole)
    if n > 50:
        # as in a random order, neighbours are not close to each other, and places are independent of numbers
        other = Order.of(n, (0, 2)).part(0, n)
        expected, sd = n / 3, n / np.sqrt(18) / np.sqrt(n) * 2  # of the mean distance; neighbours share one number
        for x in (whole, other):
            assert abs(np.mean(np.abs(np.diff(x))) - expected) < 5 * sd
            assert abs(np.corrcoef(np.arange(n), x)[0, 1]) < 5 / np.sqrt(n)
        assert abs(np.corrcoef(whole, other)[0, 1]) < 5 / np.sqrt(n)
        # every number is about equally frequent at every place
        first = np.array([Order.of(n, (0, s)).part(0, 1)[0] for s in range(400)])
        assert abs(first.mean() - (n - 1) / 2) < 5 * n / np.sqrt(12 * 400)
        assert len(np.unique(first)) > 0.8 * n * (1 - np.exp(-400 / n))


def test_a_look_at_all(tmp_path):
    for source in sources(tmp_path):
        summary = source.look((0, 0), sample=20)
        assert summary.labels.tolist() == ["a", "b", "c"]
        assert summary.counts.tolist() == [18, 18, 17]
        assert len(np.unique(summary.X, axis=0)) == 20
        assert np.all(np.isin(summary.X, X))


def test_every_row_has_the_same_chance_to_be_looked_at():
    """Sorted rows and a small buffer: how often each of 60 rows is among the 20 chosen, in 600 trials."""
    n, looks = 60, 600
    source = Batches.of(lambda: [(np.arange(n)[:, None], np.arange(n) // 30)], buffer=10)
    times = np.zeros(n)
    for seed in range(looks):
        times[source.look((seed, 0), sample=20).X[:, 0].astype(int)] += 1
    expected = looks / 3
    assert times.sum() == looks * 20
    assert np.sum((times - expected) ** 2) / (expected * 2 / 3) * (n - 1) / n < chi2.isf(1e-4, n - 1)


def test_some_rows_of_arrays():
    part = Arrays(X, Y).some(np.arange(10, 30)).some(np.array([1, 3]))
    (batch,) = part.batches(10, (0, 0))
    assert_allclose(batch.X, X[[11, 13]])
    assert_allclose(batch.rows, [0, 1])


def test_rows_taken_out_of_any_source(tmp_path):
    out = np.array([3, 4, 20, 52])
    for source in sources(tmp_path):
        rest, taken = source.without(out, (0, 0))
        assert_array_equal(taken.X, X[out])
        assert taken.y.tolist() == Y[out].tolist()
        (all_others,) = rest.batches(100, (0, 0))
        place = np.argsort(all_others.rows)
        assert_array_equal(all_others.X[place], np.delete(X, out, axis=0))
        assert all_others.y[place].tolist() == np.delete(Y, out).tolist()


def test_what_is_wrong_with_a_stream():
    with pytest.raises(ValueError, match="ended after 53 of 60 rows"):
        list(Batches(chunks, 60, 3).batches(10, (0, 0)))
    with pytest.raises(ValueError, match="has more rows than the 40"):
        list(Batches(chunks, 40, 3).batches(10, (0, 0)))
    for n in (40, 60):
        with pytest.raises(ValueError, match=f"has 53 rows, but it had {n} before"):
            list(Batches(list(chunks()), n, 3).batches(10, (0, 0)))
    with pytest.raises(ValueError, match=r"X \(m, 2\) and y"):
        list(Batches(chunks, N, 2).batches(10, (0, 0)))
    with pytest.raises(ValueError, match="no rows"):
        Batches.of([])
    with pytest.raises(TypeError, match="an iterator can be read only once"):
        Batches.of(chunks())
    spent = Batches(iter(list(chunks())).__iter__, N, 3)  # can be read once only
    assert len(list(spent.batches(100, (0, 0)))) == 1
    with pytest.raises(ValueError, match="ended after 0 of 53 rows; can it be read more than once"):
        list(spent.batches(100, (0, 1)))
    with pytest.raises(ValueError, match="X must be"):
        Arrays(X, Y[:5])
    with pytest.raises(ValueError, match="NaN"):
        list(Arrays(np.full((3, 2), np.nan), np.arange(3)).batches(2, (0, 0)))
    with pytest.raises(ValueError, match="buffer must be"):
        Batches.of(list(chunks()), buffer=0)


@pytest.mark.parametrize("odd", [np.nan, np.inf, "word"])
def test_rows_that_cannot_be_used_are_named(odd):
    wrong = [(X[:30].astype(object), Y[:30]), (X[30:].astype(object), Y[30:])]
    wrong[1][0][11, 2] = odd
    where = "row 42, column 3" if odd != "word" else "rows 31 to 53.*word"
    for make in (wrong, lambda: wrong):
        with pytest.raises(ValueError, match=where):
            Batches.of(make)
    if odd != "word":
        whole = np.concatenate([part for part, _ in wrong]).astype(float)
        with pytest.raises(ValueError, match=where):
            list(Arrays(whole, Y).batches(10, (0, 0)))


def test_labels_of_a_stream_are_of_one_type():
    for labels, what in (
        (np.array(["a", None, "b"], dtype=object), r"label of row 2 of the stream \(counted from 1\) is missing"),
        (np.array([1.0, 2.0, np.nan]), r"label of row 3 of the stream \(counted from 1\) is missing"),
        (np.array(["a", "b", 3], dtype=object), "different types: 'a' in row 1, but 3 in row 3"),
    ):
        with pytest.raises(ValueError, match=what):
            Batches.of([(X[:3], labels)])
    mixed = Batches.of(lambda: [(X[:3], np.array([0, 1, 0])), (X[3:5], np.array(["0", "1"]))])
    with pytest.raises(ValueError, match=r"texts in row 4 \(counted from 1\), but numbers in others"):
        list(mixed.batches(2, (0, 0)))
    # longer texts that come later, and objects that are all text, are not cut
    texts = [(X[:3], np.array(["a", "b", "a"], dtype=object)), (X[3:5], np.array(["a longer one", "b"]))]
    for buffer in (2, 100):
        got = list(Batches.of(lambda: texts, buffer=buffer).batches(1, (0, 0)))
        assert sorted(str(batch.y[0]) for batch in got) == ["a", "a", "a longer one", "b", "b"]


def test_labels_to_codes():
    labels = np.array(["a", "b", "c"])
    assert codes(np.array(["c", "a"]), labels).tolist() == [2, 0]
    assert codes(np.array([5, 3]), np.array([3, 5])).tolist() == [1, 0]
    assert codes(np.array(["c", "a", "b"]), np.array(["b", "c", "a"])).tolist() == [1, 2, 0]  # labels in another order
    with pytest.raises(ValueError, match=r"labels \['d'\] are unknown"):
        codes(np.array(["a", "d"]), labels)
    with pytest.raises(ValueError, match=r"labels \['d'\] are unknown"):
        codes(np.array(["a", "d"]), np.array(["b", "c", "a"]))


def test_as_source():
    assert isinstance(as_source(X.tolist(), Y.tolist()), Arrays)
    assert isinstance(as_source(list(chunks())), Batches)
    source = Arrays(X, Y)
    assert as_source(source) is source


@pytest.mark.parametrize(
    ("stream", "error", "message"),
    [
        (iter([(np.zeros((4, 2)), np.arange(4) % 2)]), TypeError, "an iterator can be read only once"),
        ([(np.zeros((4, 2)), np.arange(4) % 2, np.ones(4))], ValueError, r"pairs \(X, y\), but has 3 items"),
        (lambda: [np.zeros((4, 2))], ValueError, r"pairs \(X, y\), but has ndarray"),
    ],
)
def test_what_is_almost_a_stream_is_refused_by_what_it_lacks(stream, error, message):
    with pytest.raises(error, match=message):
        GPClassifier(inference="scalable-ep").fit(stream)
