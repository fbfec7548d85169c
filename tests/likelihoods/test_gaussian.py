"""Gaussian noise against scipy.stats."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

from gpclass.likelihoods import Gaussian

rng = np.random.default_rng(4)
Y, MEAN, VAR = rng.normal(size=9), rng.normal(scale=3.0, size=9), rng.uniform(0.01, 10.0, size=9)


@pytest.mark.parametrize("noise", [1e-4, 0.3, 20.0])
def test_closed_forms(noise):
    likelihood, sd = Gaussian(noise), np.sqrt(noise)
    total = np.sqrt(VAR + noise)
    assert_allclose(likelihood.log_prob(Y, MEAN)[0], norm.logpdf(Y, MEAN, sd), rtol=1e-12)
    assert_allclose(likelihood.tilted_moments(Y, MEAN, VAR)[0], norm.logpdf(Y, MEAN, total), rtol=1e-12)
    assert_allclose(likelihood.log_predictive(Y, MEAN, VAR), norm.logpdf(Y, MEAN, total), rtol=1e-12)
    assert_allclose(likelihood.predictive(MEAN, VAR), norm.sf(0, MEAN, total), rtol=1e-12)
    expected = norm.logpdf(Y, MEAN, sd) - VAR / (2 * noise)
    assert_allclose(likelihood.expected_log_prob(Y, MEAN, VAR)[0], expected, rtol=1e-12)
    # the tilted Gaussian is the product of two: precisions add
    _, d1, d2 = likelihood.tilted_moments(Y, MEAN, VAR)
    product = 1 / (1 / VAR + 1 / noise)
    assert_allclose(VAR + VAR**2 * d2, product, rtol=1e-10)  # cancels like VAR / noise
    assert_allclose(MEAN + VAR * d1, product * (MEAN / VAR + Y / noise), rtol=1e-10, atol=1e-14)


def test_parameter_is_log_variance():
    likelihood = Gaussian(0.3)
    assert_allclose(likelihood.theta, [np.log(0.3)])
    assert likelihood.names == ["noise_variance"]
    assert_allclose(likelihood.with_theta([np.log(2.0)]).variance, 2.0)
    with pytest.raises(ValueError, match="has 1 free parameter, but got 2"):
        likelihood.with_theta([0.0, 0.0])
