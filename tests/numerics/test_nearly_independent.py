"""The series for the largest of nearly independent Gaussian values, against exact cases and averages over many points."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from gpclass.numerics import orthants, winner_probabilities
from gpclass.numerics.nearly_independent import nearly_independent
from gpclass.numerics.winner import log_largest


def latent_values(C, rows, correlation, seed=0):
    """Means and covariances as those of a classifier: different variances, a common part, small correlations besides."""
    rng = np.random.default_rng([C, rows, seed])
    sd = np.exp(rng.uniform(0.0, 1.0, (rows, C)))
    A = rng.normal(size=(rows, C, 4 * C))
    A /= np.linalg.norm(A, axis=2, keepdims=True)
    R = correlation * (A @ np.swapaxes(A, 1, 2))
    np.einsum("icc->ic", R)[...] = 1.0
    common = 0.2 * rng.uniform(size=(rows, C))  # V_cd + a_c + a_d has the same differences as V
    return 2 * rng.normal(size=(rows, C)), sd[:, :, None] * R * sd[:, None] + common[:, :, None] + common[:, None]


def by_many_points(mean, cov):
    """Contrasts drawn in turn at 8192 points, none of them left out; the error is some 5e-5."""
    mu, L, drawn = orthants.in_turn(*orthants.contrasts(mean, cov))
    first, orthants.FIRST = orthants.FIRST, 1 << 13
    try:
        p = orthants.in_rows(orthants._averaged(mu, L, drawn, len(mu)), mean.shape[1])
    finally:
        orthants.FIRST = first
    return p / p.sum(1, keepdims=True)


@pytest.mark.parametrize("C", [3, 4, 10])
def test_independent_values_need_no_series(C):
    rng = np.random.default_rng(C)
    mean, var, common = rng.normal(size=(20, C)), np.exp(rng.uniform(-1, 1, (20, C))), rng.normal(size=(20, C))
    cov = np.eye(C) * var[:, :, None]
    p, last = nearly_independent(mean, cov + common[:, :, None] + common[:, None])  # the same differences
    assert_allclose(last, 0.0, atol=1e-13)
    assert_allclose(p, np.exp(log_largest(mean, var)), rtol=0, atol=1e-6)  # of WIDEST


@pytest.mark.parametrize("C", [4, 6, 10])
def test_the_series_agrees_with_averages_over_many_points(C):
    mean, cov = latent_values(C, 25, 0.3)
    p, last = nearly_independent(mean, cov)
    truth = by_many_points(mean, cov)
    used = (np.abs(last) <= orthants.LAST_TERM).all(1)
    assert used.mean() > 0.5
    # a third of the last term, as `orthants` states, and the error of the averages
    assert np.all(np.abs(p - truth)[used] <= np.abs(last[used]).max(1)[:, None] / 3 + 1e-4)
    assert np.abs(p - truth)[used].max() < 0.5 * np.abs(p - last - truth)[used].max()  # the second term counts
    assert_allclose(p[used].sum(1), 1.0, atol=1e-9)


def test_rows_that_the_rule_cannot_serve_are_marked():
    narrow = np.diag([1e-6, 1.0, 1.0, 1.0])  # one value is much narrower than the range of the nodes
    negative = np.array([[1.0, 5.0, 0, 0], [5.0, 40.0, 0, 0], [0, 0, 1.0, 0.0], [0, 0, 0, 1.0]])  # no a leaves variances
    last = nearly_independent(np.zeros((2, 4)), np.stack([narrow, negative]))[1]
    assert np.all(np.isinf(last))


def test_the_series_and_points_serve_rows_side_by_side():
    """Rows of nearly independent and of strongly correlated values, and rare classes: alone as together, bit for bit."""
    rng = np.random.default_rng(3)
    C = 6
    mean, cov = latent_values(C, 40, 0.2)
    A = rng.normal(size=(20, C, C))
    cov[::2] += 3 * A @ np.swapaxes(A, 1, 2)
    mean[5:9, 2] -= 30.0
    last = np.abs(nearly_independent(mean, cov)[1]).max(1)
    assert 0.1 < np.mean(last > orthants.LAST_TERM) < 0.9
    p = winner_probabilities(mean, cov)
    assert_array_equal(p, np.concatenate([winner_probabilities(mean[i : i + 1], cov[i : i + 1]) for i in range(40)]))
    assert_allclose(p, by_many_points(mean, cov), rtol=0, atol=1e-3)


def test_contrasts_that_are_certain_are_left_out_of_the_average():
    """The same probabilities within the loss that `CERTAIN` states, with fewer contrasts drawn."""
    mean, cov = latent_values(8, 30, 0.5)
    mean[:, 4:] -= 25.0
    mu, S = orthants.contrasts(mean, cov)
    drawn = orthants.in_turn(mu, S, orthants.CERTAIN)[2]
    assert drawn.min() >= 1
    assert np.mean(drawn < 7) > 0.5
    p = orthants.in_rows(orthants._by_points(mu, S), 8)
    assert_allclose(p / p.sum(1, keepdims=True), by_many_points(mean, cov), rtol=0, atol=1e-3)
