"""Ordinal: differences of normal probabilities, far tails."""

import numpy as np
from numpy.testing import assert_allclose
from scipy.stats import norm

from gpclass.likelihoods import Ordinal, Probit

rng = np.random.default_rng(0)


def test_ordinal_is_differences_of_normal_probabilities():
    likelihood = Ordinal((-1.0, 0.5, 2.0))
    f = np.linspace(-4, 4, 9)
    cuts = np.array([-np.inf, -1.0, 0.5, 2.0, np.inf])
    for k in range(4):
        truth = norm.cdf(cuts[k + 1] - f) - norm.cdf(cuts[k] - f)  # off by 1e-16 of one
        assert_allclose(np.exp(likelihood.log_predictive(np.full(9, k), f, np.zeros(9))), truth, rtol=1e-12, atol=1e-15)
    p = likelihood.predictive(f, np.full(9, 2.0))
    assert_allclose(p.sum(1), 1.0, rtol=1e-13)
    # two categories are probit with a bias
    y = np.array([0, 1, 1, 0, 1])
    mean, var = rng.normal(size=5), rng.uniform(0.1, 3, size=5)
    for got, want in zip(
        Ordinal((0.7,)).tilted_moments(y, mean, var),
        Probit(bias=-0.7).tilted_moments(2.0 * y - 1, mean, var),
        strict=True,
    ):
        assert_allclose(got, want, rtol=1e-12)


def test_ordinal_far_off():
    """A category that is a thousand widths away looks like a Gaussian observation at its edge: [RW] hazard ~ distance."""
    likelihood = Ordinal((-1.0, 1.0))
    value, slope, curvature = likelihood.tilted_moments(np.array([1, 1, 2, 0]), np.array([1e3, -1e3, -1e3, 1e3]), np.ones(4))
    assert np.all(np.isfinite(value))
    assert_allclose(np.abs(slope), [999 / 2, 999 / 2, 1001 / 2, 1001 / 2], rtol=1e-5)  # 1/distance² below
    assert_allclose(curvature, -0.5, rtol=1e-5)
