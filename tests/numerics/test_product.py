"""Moments of Gaussians tilted by softmax: logit, a dense rule, limits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.likelihoods import Logit, Softmax
from gpclass.numerics.product import softmax_moments

rng = np.random.default_rng(0)


def test_softmax_of_two_classes_is_logit_of_the_difference():
    mean, var = rng.normal(size=(20, 2)), rng.uniform(0.05, 4.0, size=(20, 2))
    y = rng.integers(0, 2, size=20)
    value, slope, curvature = Softmax(2).tilted_moments(y, mean, var)
    sign = np.where(y == 1, 1.0, -1.0)
    truth = Logit().tilted_moments(sign, mean[:, 1] - mean[:, 0], var.sum(1))
    assert_allclose(value, truth[0], atol=2e-4)  # 40 nodes, at variances up to 8
    assert_allclose(slope[:, 1], truth[1], atol=1e-3)
    assert_allclose(slope[:, 0], -truth[1], atol=1e-3)
    assert_allclose(curvature[:, 1], truth[2], atol=2e-3)


def test_softmax_of_three_classes_against_a_dense_product_rule():
    x, w = np.polynomial.hermite_e.hermegauss(80)
    w = w / w.sum()
    a, b, c = np.meshgrid(x, x, x, indexing="ij")
    weights = (w[:, None, None] * w[None, :, None] * w).ravel()
    nodes = np.stack([a.ravel(), b.ravel(), c.ravel()], axis=1)
    for scale in (0.1, 1.0, 5.0):
        mean, var = rng.normal(size=3), scale * rng.uniform(0.5, 1.5, size=3)
        f = mean + np.sqrt(var) * nodes
        p = weights * np.exp(f[:, 0] - np.logaddexp.reduce(f, axis=1))
        first = (p[:, None] * f).sum(0) / p.sum()
        second = (p[:, None] * (f - first) ** 2).sum(0) / p.sum()
        value, slope, curvature = softmax_moments(mean[None], var[None])
        assert value[0] == pytest.approx(np.log(p.sum()), abs=1e-3)
        assert_allclose((mean + var * slope[0] - first) / np.sqrt(var), 0, atol=2e-3)
        assert_allclose((var + var**2 * curvature[0]) / second, 1, atol=4e-3)
        assert np.sum(slope) == pytest.approx(0, abs=2e-3)  # a shift of all latent values changes nothing


def test_softmax_with_many_classes_is_refused():
    with pytest.raises(ValueError, match="MultinomialProbit"):
        Softmax(8).tilted_moments(np.zeros(2, int), np.zeros((2, 8)), np.ones((2, 8)))


def test_softmax_certain_values():
    value, slope, curvature = Softmax(3).tilted_moments(np.array([1]), np.array([[0.0, 1.0, 2.0]]), np.zeros((1, 3)))
    assert value[0] == pytest.approx(1 - np.logaddexp.reduce([0.0, 1.0, 2.0]))
    assert np.all(slope == 0)  # their derivatives are undefined and not needed: such values do not change
    assert np.all(curvature == 0)
