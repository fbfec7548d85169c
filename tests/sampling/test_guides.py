"""Guides: sites that follow EP's as hyperparameters change, without an EP fit at each of them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.gaussian import Prior
from gpclass.inference import EP
from gpclass.kernels import RBF
from gpclass.learning import Objective, resolve_priors
from gpclass.likelihoods import Probit, Softmax
from gpclass.sampling.guides import FITS_PER_TERM, AverageGuide, Regression, RegressionGuide, new_guides
from gpclass.sampling.target import Target

rng = np.random.default_rng(0)
X = rng.normal(size=(15, 2))
Y = np.where(X[:, 0] + 0.5 * rng.normal(size=15) > 0, 1.0, -1.0)


def target(theta, likelihood=None, y=Y):
    return Target.of(RBF(1.0, 1.0).with_theta(theta)(X), y, likelihood or Probit(), Prior.cholesky)


def values_at(theta):
    return np.column_stack([1 + theta[:, 0], theta[:, 0] * theta[:, 1] - theta[:, 1] ** 2])


def test_a_regression_finds_a_quadratic_function():
    theta = rng.normal(size=(400, 2))
    values = values_at(theta)
    model = Regression(theta, values)
    # the ridge takes 1/400 off each coefficient of a standardised term
    assert_allclose([model(t) for t in 0.5 * theta[:20]], values_at(0.5 * theta[:20]), atol=0.05)
    far = model(np.array([100.0, -100.0]))
    assert np.all((far >= values.min(0)) & (far <= values.max(0)))


@pytest.mark.parametrize(("terms", "order"), [(1, 0), (FITS_PER_TERM * 3, 1), (FITS_PER_TERM * 6, 2)])
def test_few_observations_have_few_terms(terms, order):
    model = Regression(rng.normal(size=(terms, 2)), rng.normal(size=(terms, 3)))
    assert model.order == order
    assert model(np.zeros(2)).shape == (3,)


def test_sites_are_close_to_those_of_ep():
    thetas = np.array([0.3, 1.5]) + 0.6 * rng.normal(size=(200, 2))
    guide = RegressionGuide(2, target(thetas[0]), n_chains=1)
    before = guide.sites(thetas[0], target(thetas[0]))
    for theta in thetas:
        guide.learn(theta, target(theta), np.zeros((1, 15, 1)))
    assert guide.version > 0
    for spread in (0.0, 1.0, 2.0):
        theta = np.array([0.3, 1.5]) + spread * 0.6 * np.array([1.0, -1.0])
        exact = EP().fit(target(theta).prior.covariance[0], Y, Probit()).sites
        # EP's fits have a tolerance of 1e-2, and the regression has an error of its own; far from what was seen it is larger
        assert_allclose(guide.sites(theta, target(theta)).tau, exact.tau, rtol=0.1 * (1 + spread), atol=0.02)
    exact = EP().fit(target(thetas[0]).prior.covariance[0], Y, Probit()).sites
    after = guide.sites(thetas[0], target(thetas[0]))
    assert np.abs(after.nu - exact.nu).max() < 0.5 * np.abs(before.nu - exact.nu).max()  # the guide has learned


def test_after_the_warm_up_sites_are_a_function_of_theta():
    """Only then do the moves leave the posterior invariant."""
    theta = np.array([0.1, 1.0])
    guide = RegressionGuide(2, target(theta), n_chains=1)
    for _ in range(30):
        guide.learn(theta + 0.1 * rng.normal(size=2), target(theta), np.zeros((1, 15, 1)))
    first = guide.reference(theta, target(theta))
    guide.reference(theta + 1, target(theta + 1))
    again = guide.reference(theta, target(theta))
    np.testing.assert_array_equal(first.tau, again.tau)
    np.testing.assert_array_equal(first.nu, again.nu)


def test_chains_share_what_ep_teaches():
    kernel, classes = RBF(1.0, 1.0), np.arange(15) % 3
    two = Objective(X, Y, kernel, Probit(), EP(), resolve_priors(None, kernel.names))
    three = Objective(X, classes, kernel, Softmax(3), EP(), resolve_priors(None, kernel.names))
    shared = new_guides(two, [target(kernel.theta)] * 2)
    assert shared[0] is shared[1]
    own = new_guides(three, [target(kernel.theta, Softmax(3), classes)] * 2)
    assert own[0] is not own[1]
    assert isinstance(own[0], AverageGuide)
