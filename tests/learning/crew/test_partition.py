"""Partitions, shards and crews: rows are found for any partitions."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from gpclass.learning.crew import Partition, divided

rng = np.random.default_rng(0)
N = 50
X, Y, WEIGHT = rng.normal(size=(N, 3)), np.array(list("abc"))[rng.integers(0, 3, N)], rng.uniform(1, 2, N)
LABELS = np.array(list("abc"))
SIZES, OWNERS = [10, 0, 25, 15], [1, 0, 0, 1]


def crew():
    return divided(X, Y, SIZES, OWNERS, WEIGHT)


def rows_of(shard):
    return shard.n_rows


def test_sums_are_over_all_shards():
    assert crew().sum(rows_of) == N == crew().n_rows
    assert sorted(crew().each(rows_of)) == [25, 25]


def test_rows_are_taken_with_their_numbers():
    for shard in crew().shards:
        batch = shard.take(np.arange(0, shard.n_rows, 3))
        assert_array_equal(batch.rows, shard.numbers()[::3])
        assert_array_equal(batch.X, X[batch.rows])
        assert_array_equal(batch.y, Y[batch.rows])
        assert_array_equal(batch.weight, WEIGHT[batch.rows])


def test_pieces_are_all_rows():
    for shard in crew().shards:
        seen = np.zeros(shard.n_rows, int)
        for piece in shard.pieces(LABELS):
            rows = shard.numbers()[piece.at]
            assert_array_equal(piece.X, X[rows])
            assert_array_equal(LABELS[piece.place], Y[rows])
            assert_array_equal(piece.weight, WEIGHT[rows])
            seen[piece.at] += 1
        assert np.all(seen == 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": np.where(np.arange(9) == 4, np.nan, 1.0).reshape(3, 3)}, "somewhere: X has NaN .* row 2, column 2"),
        ({"y": np.array(["a", None, "b"], object)}, r"somewhere: the label of row 2 \(counted from 1\) is missing"),
        ({"y": np.array([1, "a", 2], object)}, "labels are of different types: 1 in row 1, but 'a' in row 2 .counted"),
        ({"y": np.zeros(2)}, r"somewhere: X must be \(m, D\) and y \(m,\)"),
        ({"weight": [1.0, 0.0, 1.0]}, r"somewhere: the weight of row 2 \(counted from 1\) is 0.0"),
        ({"weight": [1.0]}, "somewhere: sample_weight must have one entry for each of 3 rows"),
    ],
)
def test_errors_name_the_partition_and_the_row(change, message):
    given = {"X": np.ones((3, 3)), "y": np.array(["a", "b", "a"]), "weight": None, "name": "somewhere", **change}
    with pytest.raises(ValueError, match=message):
        Partition.of(**given)
