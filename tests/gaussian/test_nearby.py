"""Predicted variances agree with those of a new factorisation to first order, for every structure."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.gaussian import ContrastPosterior, FullPosterior, NearbyPosterior, SharedPosterior, Sites, StackedPosterior
from gpclass.gaussian.nearby import strong_sites
from gpclass.gaussian.sites import Places
from gpclass.kernels import Matern32

N, C = 40, 4


@pytest.fixture(scope="module")
def K():
    return Matern32(lengthscale=1.5, variance=6.0)(np.random.default_rng(0).normal(size=(N, 2)))


def priors(K):
    y = np.random.default_rng(1).integers(C, size=N)
    return {
        "full": FullPosterior.without_sites(K),
        "contrasts": ContrastPosterior.without_sites(K, y, C),
        "stacked": StackedPosterior.without_sites(K, C),
    }


@pytest.fixture(params=["full", "contrasts", "stacked"])
def posterior(request, K):
    prior = priors(K)[request.param]
    rng = np.random.default_rng(2)
    return prior.renewed(Sites(np.exp(rng.normal(-1, 1.5, prior.mean.size)), rng.normal(size=prior.mean.size)))


def predicted(q, tau):
    return NearbyPosterior.at(q, q.response()).renewed(Sites(tau, q.sites.nu), (q.alpha, q.mean))


def test_at_the_same_sites_nothing_changes(posterior):
    near = NearbyPosterior.at(posterior, posterior.response())
    assert_allclose(near.var, posterior.var, rtol=1e-10)
    for ours, exact in zip(near.cavity(), posterior.cavity(), strict=True):
        assert_allclose(ours, exact, rtol=1e-10, atol=1e-10)


def test_the_error_of_predicted_variances_is_of_second_order(posterior):
    direction = np.random.default_rng(3).normal(size=posterior.mean.size)
    errors = []
    for h in (0.1, 0.01):  # single precision adds 1e-7 of the change
        tau = posterior.sites.tau * np.exp(h * direction)
        exact = posterior.renewed(Sites(tau, posterior.sites.nu))
        moved = np.max(np.abs(np.log(exact.cavity()[1] / posterior.cavity()[1])))
        errors.append(np.max(np.abs(np.log(predicted(posterior, tau).cavity()[1] / exact.cavity()[1]))))
        assert moved > 0.02 * h  # the change is not negligible
        assert errors[-1] < 4 * h * moved
    assert errors[1] < 0.02 * errors[0]


def test_the_own_site_does_not_change_its_cavity(posterior):
    tau = posterior.sites.tau.copy()
    tau[5] *= 1.5
    assert_allclose(predicted(posterior, tau).cavity()[1][5], posterior.cavity()[1][5], rtol=1e-12)


def test_steps_of_the_mean_are_those_of_the_factorisation(posterior):
    nu = np.random.default_rng(4).normal(size=posterior.mean.size)
    for ours, exact in zip(NearbyPosterior.at(posterior, posterior.response()).covariance_step(nu),
                           posterior.covariance_step(nu), strict=True):
        assert_allclose(ours, exact, atol=1e-5 * np.max(np.abs(exact)))  # single precision


def test_only_sites_that_contribute_count():
    tau, var = np.array([1.0, 1e-12, 0.5, 0.1]), np.full(4, 0.8)
    assert strong_sites(tau, var, 4).tolist() == [0, 2, 3]
    assert strong_sites(tau, var, 2).tolist() == [0, 2]


def test_there_is_no_prediction_with_negative_precisions_or_shared_latent_values(K):
    tau = np.ones(N)
    tau[0] = -0.01
    assert FullPosterior(K, Sites(tau, tau)).response() is None
    prior = SharedPosterior.without_sites(K, Places(N), np.full(N, 2.0))
    assert prior.renewed(Sites(np.ones(N), tau)).response() is None


def test_points_without_variance_stay_without():
    K = np.array([[1.0, 0.0, 0.5], [0.0, 0.0, 0.0], [0.5, 0.0, 2.0]])
    base = FullPosterior(K, Sites(np.array([1.0, 0.5, 2.0]), np.ones(3)))
    near = NearbyPosterior.at(base, base.response())
    moved = near.renewed(Sites(np.array([1.1, 0.6, 2.2]), np.ones(3)), (near.alpha, near.mean))
    assert moved.var[1] == 0
    assert np.all(np.isfinite(moved.var))
