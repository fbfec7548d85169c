"""The largest of Gaussians against Monte Carlo, closed forms and scipy's integrals."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import log_ndtr

from gpclass.numerics import largest, log_largest

rng = np.random.default_rng(0)


def test_two_are_one_difference():
    mean, var = 5 * rng.normal(size=(50, 2)), np.exp(2 * rng.normal(size=(50, 2)))
    z = (mean[:, 0] - mean[:, 1]) / np.sqrt(var.sum(1))
    assert_allclose(log_largest(mean, var), log_ndtr(np.stack([z, -z], axis=1)), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("C", [3, 5, 12])
def test_probabilities_against_draws(C):
    mean, var = rng.normal(size=(20, C)), np.exp(rng.normal(size=(20, C)))
    p = np.exp(log_largest(mean, var))
    assert_allclose(p.sum(1), 1, atol=1e-9)  # the rule's own error
    draws = mean[:, None] + np.sqrt(var)[:, None] * rng.normal(size=(20, 40_000, C))
    share = np.stack([np.mean(draws.argmax(2) == c, axis=1) for c in range(C)], axis=1)
    assert np.abs(share - p).max() < 4.5 * 0.5 / np.sqrt(40_000)  # standard errors of a share are below that


def test_derivatives():
    mean, var, h = rng.normal(size=(8, 4)), np.exp(rng.normal(size=(8, 4))), 1e-4
    at = largest(mean, var)
    for c in range(4):
        e = h * np.eye(4)[c]
        up, down = largest(mean + e, var), largest(mean - e, var)
        assert_allclose(at.slope[:, c], (up.log_mass - down.log_mass) / (2 * h), atol=1e-7)
        assert_allclose(-at.known[:, c] / var[:, c], (up.slope[:, c] - down.slope[:, c]) / (2 * h), atol=1e-7)


def test_far_tails_are_finite():
    mean = np.array([[-1e4, 0.0, 1e4], [0.0, 0.0, 0.0]])
    at = largest(mean, np.array([[1e-12, 1.0, 1e8], [1e-200, 1e-200, 1e-200]]))
    assert all(np.all(np.isfinite(part)) for part in at)
    assert at.log_mass[1] == pytest.approx(-np.log(3), abs=1e-9)
