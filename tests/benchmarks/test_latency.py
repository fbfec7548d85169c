"""The benchmark of latencies, run at small size."""

from .test_examples import script


def test_latency_of_one_row_and_of_blocks():
    latency = script("benchmarks/latency.py")
    case = latency.Case("2 classes, 40 rows", 40, 2, {"kernel": "matern32"})
    found = latency.measure(case, calls=20, block=100)
    assert 0 < found.p50 <= found.p99
    assert found.per_second > 100  # a block of 100 rows in less than a second
    assert found.size > 1000
    assert latency.table([case], calls=2, block=50).count("\n") == 2


def test_blocks_against_scikit_learn():
    latency = script("benchmarks/latency.py")
    assert min(latency.against_sklearn(3, rows=40, block=60, rounds=1)) > 0
    assert latency.comparison([2], rows=40, block=50).splitlines()[-1].startswith("| 2 classes | ")


def test_overview_picture(tmp_path):
    script("examples/overview_picture.py").main(["--rows", "40", "--out", str(tmp_path / "overview.png")])
    assert (tmp_path / "overview.png").stat().st_size > 10_000
