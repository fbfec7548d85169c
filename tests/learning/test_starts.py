"""Typical distances, spreads of columns, and the ranges of random starts."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.inference import EP
from gpclass.kernels import RBF
from gpclass.learning import Objective
from gpclass.learning.starts import random_start
from gpclass.likelihoods import Probit
from gpclass.numerics.columns import DISTANCE_ROWS, column_spread, lengthscale_span, typical_distance


def rng():
    return np.random.default_rng(0)


def test_typical_distance_is_the_median_of_those_above_zero():
    assert typical_distance(np.array([[0.0], [0.0], [3.0]]), rng()) == 3.0
    assert typical_distance(np.array([[0.0], [1.0], [3.0]]), rng()) == 2.0
    assert typical_distance(np.ones((4, 2)), rng()) == 1.0
    X = rng().normal(size=(3 * DISTANCE_ROWS, 2))
    # of two standard normal rows: √2 times the median of a Rayleigh variable
    assert_allclose(typical_distance(X, rng()), np.sqrt(2) * np.sqrt(2 * np.log(2)), rtol=0.05)


@pytest.mark.parametrize("scale", [1e-250, 1e250])
def test_very_large_and_small_numbers(scale):
    X = rng().normal(size=(50, 3))
    assert_allclose(typical_distance(scale * X, rng()), scale * typical_distance(X, rng()), rtol=1e-12)
    assert_allclose(column_spread(scale * X), scale * X.std(0), rtol=1e-12)


def test_random_starts_stay_in_their_ranges():
    X = rng().normal(size=(20, 2))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    likelihood = Probit(0.5, learn_bias=True)
    objective = Objective(X, y, RBF((1.0, 1.0)), likelihood, EP(), [])
    generator = rng()
    starts = np.array([random_start(objective, 2.0, np.array([1.0, 10.0]), generator) for _ in range(400)])
    columns = {name: starts[:, i] for i, name in enumerate(objective.names)}
    # a column's own lengthscale: its spread times √(2 · 2), in a range relative to the typical distance
    low, high = np.array(lengthscale_span(X)) / 2.0
    for name, centre in (("lengthscale[0]", 2.0), ("lengthscale[1]", 20.0)):
        ratio = np.exp(columns[name]) / centre
        assert low <= ratio.min() < 1.1 * low
        assert high / 1.1 < ratio.max() <= high
    assert 0.3 <= np.exp(columns["variance"]).min() < 0.4
    assert 75 < np.exp(columns["variance"]).max() <= 100
    assert np.all(np.abs(columns["bias"] - 0.5) <= 1)


def test_the_span_reaches_from_neighbours_to_far_rows():
    X = np.array([[0.0], [1.0], [1.0], [3.0]])
    # the distances to the nearest different row are 1, 1, 1 and 2; those between rows are 1, 1, 3, 2 and 2
    assert lengthscale_span(X) == (0.5, 8.0)
    assert lengthscale_span(np.ones((3, 2))) == (1.0, 1.0)
    assert_allclose(lengthscale_span(1e200 * X), (0.5e200, 8e200))
