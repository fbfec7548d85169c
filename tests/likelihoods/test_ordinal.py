"""Ordinal: differences of normal probabilities, far tails, wide and narrow categories, starting thresholds."""

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

from gpclass.likelihoods import Ordinal, Probit
from gpclass.likelihoods.interval import third_derivative
from gpclass.testing.integrals import expectation

rng = np.random.default_rng(0)


def test_ordinal_is_differences_of_normal_probabilities():
    likelihood = Ordinal((-1.0, 0.5, 2.0))
    f = np.linspace(-4, 4, 9)
    cuts = np.array([-np.inf, -1.0, 0.5, 2.0, np.inf])
    for k in range(4):
        truth = norm.cdf(cuts[k + 1] - f) - norm.cdf(cuts[k] - f)  # errors are 1e-16 relative to one
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


@pytest.mark.parametrize("far", [1e9, 1e28, -1e28, 1e80])
def test_beyond_rounding_an_interval_still_pulls(far):
    """Both ends round to the same number; a warm start may begin there, and the slope must lead back."""
    y = np.arange(3)
    value, slope, curvature = Ordinal((-1.0, 1.0)).log_prob(y, np.full(3, far))
    pulled = y != (2 if far > 0 else 0)
    assert_allclose(slope, np.where(pulled, -far, 0.0), rtol=1e-8)
    assert_allclose(curvature, np.where(pulled, -1.0, 0.0), rtol=1e-8)
    assert np.all(np.isfinite(value))


@pytest.mark.parametrize("width", [1e-4, 0.1, 3.0, 5.9, 6.1, 9.0, 100.0])
def test_expectations_of_narrow_and_wide_categories(width):
    """Both ends of a wide category are resolved, whatever the width of the Gaussian."""
    rng = np.random.default_rng(1)
    likelihood, n = Ordinal((-width / 3, 2 * width / 3)), 20
    mean, var, y = rng.normal(size=n) * (3 + width), np.exp(rng.uniform(-6, 7, size=n)), np.ones(n)
    for i, got in enumerate(likelihood.expected_log_prob(y, mean, var)):
        truth = expectation(lambda f, i=i: likelihood.log_prob(np.ones_like(f), f)[i], mean, var)
        assert_allclose(got, truth, rtol=1e-10, atol=1e-10)  # of the quadrature; slopes of 1/width lose digits
    truth = expectation(lambda f: likelihood.log_prob_theta(np.ones(f.size), f.ravel())[0][1].reshape(f.shape), mean, var)
    assert_allclose(likelihood.expected_log_prob_theta(y, mean, var)[1], truth, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("ends", [(0.0, 1.0), (-4.0, 7.0), (3.0, 3.01), (100.0, 100.5), (2.0, 14.0)])
def test_third_derivative_in_extended_precision(ends):
    low, high = map(mpmath.mpf, ends)
    with mpmath.workdps(50):
        cuts = [(high - low) * i / 4 for i in range(5)]

        def moment(function):
            return mpmath.quad(lambda t: function(t) * mpmath.exp(-t * low - t * t / 2), cuts)

        mass = moment(lambda t: 1)
        mean = moment(lambda t: t) / mass
        truth = float(moment(lambda t: (t - mean) ** 3) / mass)  # third cumulant of a truncated Gaussian
    got = third_derivative(np.array([ends[0], -ends[1]]), np.array([ends[1], -ends[0]]))
    assert_allclose(got, [truth, -truth], rtol=1e-11)


def test_two_categories_are_probit():
    y, f = np.array([0.0, 1.0, 1.0]), np.array([-0.4, 3.0, -7.0])
    ordinal, probit = Ordinal((0.7,)), Probit(bias=-0.7, learn_bias=True)
    signs = 2 * y - 1
    for got, want in zip(ordinal.log_prob(y, f), probit.log_prob(signs, f), strict=True):
        assert_allclose(got, want, rtol=1e-12)
    assert_allclose(ordinal.log_prob_third(y, f), probit.log_prob_third(signs, f), rtol=1e-9)
    for got, want in zip(ordinal.log_prob_theta(y, f), probit.log_prob_theta(signs, f), strict=True):
        assert_allclose(got, -want, rtol=1e-9, atol=1e-14)  # a threshold is minus a bias
    got, want = ordinal.expected_log_prob_theta(y, f, 2 + y), probit.expected_log_prob_theta(signs, f, 2 + y)
    assert_allclose(got, -want, rtol=1e-9)
    mean, var = np.array([0.3, -5.0]), np.array([2.0, 0.1])
    std = probit.predictive_std(mean, var)
    assert_allclose(ordinal.class_probability_std(mean, var), np.stack([std, std], axis=1), rtol=1e-7)
    assert_allclose(ordinal.expected_entropy(mean, var), probit.expected_entropy(mean, var), rtol=1e-9)


def test_start_has_the_frequencies_under_the_prior():
    counts = np.array([5, 0, 60, 35])
    found = Ordinal((0.0, 1.0, 2.0)).starting_at(counts, 4.0)
    p = found.predictive(np.zeros(1), np.full(1, 4.0))[0]
    assert_allclose(p, (counts + 0.5) / (counts + 0.5).sum(), rtol=1e-12)
    assert Ordinal.for_targets("class labels", 3) is None
    assert Ordinal.for_targets("ordered categories", 3) == Ordinal((-0.5, 0.5))
    assert Probit(0.3).starting_at([3, 7], 4.0) == Probit(0.3)
