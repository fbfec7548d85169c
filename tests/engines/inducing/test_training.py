"""Default settings of training: the number of inducing points and of passes over the data."""

from itertools import pairwise

import numpy as np
import pytest

from gpclass.engines.inducing.training import DEFAULT_PASSES, FEWEST_STEPS, INDUCING_RANGE, MOST_STEPS, ROWS_RANGE, Training


def steps_of(training, n):
    return training.passes(n) * -(-n // min(training.batch_size or n, n))


@pytest.mark.parametrize("size", [50, 200, 500, 2000, None])
def test_minibatches_contain_enough_rows_and_not_too_many(size):
    training = Training(batch_size=size)
    for n in (60, 1000, 4435, 60_000, 1_000_000):
        of_pass = -(-n // min(size or n, n))
        steps = steps_of(training, n)
        fewest = np.clip(ROWS_RANGE[0] // min(size or n, n), *FEWEST_STEPS)
        most = np.clip(ROWS_RANGE[1] // min(size or n, n), *MOST_STEPS)
        assert fewest <= steps < most + of_pass, "whole passes: the last one may exceed the limit"
        assert training.passes(n) == DEFAULT_PASSES or steps < fewest + of_pass or steps >= most


def test_larger_minibatches_take_fewer_steps_of_more_rows():
    small, large = Training(batch_size=200), Training(batch_size=500)
    for n in (4435, 60_000, 1_000_000):
        assert steps_of(large, n) < 0.5 * steps_of(small, n)
        assert 500 * steps_of(large, n) <= 1.1 * 200 * steps_of(small, n)


def test_given_passes_are_taken():
    assert Training(epochs=3).passes(10**6) == 3


def test_number_of_inducing_points():
    """A third of the rows if there are few, but at least 20; otherwise a twentieth of the rows within a range."""
    count = Training().count
    assert [count(n) for n in (5, 20, 50, 90, 300)] == [5, 20, 20, 30, 100]
    assert [count(n) for n in (301, 2000, 3000, 4000, 10**9)] == [INDUCING_RANGE[0], 100, 150, 200, INDUCING_RANGE[1]]
    counts = [count(n) for n in range(1, 6000)]
    assert all(a <= b for a, b in pairwise(counts))
    assert Training(n_inducing=7).count(50) == 7
    with pytest.raises(ValueError, match="n_inducing=7 is more than the 5 rows"):
        Training(n_inducing=7).count(5)
