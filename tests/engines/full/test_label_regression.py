"""Label regression: its Gaussian evidence against SciPy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from gpclass.inference import EP, LabelRegression
from gpclass.likelihoods import Gaussian, Heaviside, Logit, Probit

from .truth import data, refitted_loo


def log_z_reg(K, y, noise):
    return multivariate_normal.logpdf(y, cov=K + noise**2 * np.eye(len(y)))


@pytest.mark.parametrize("noise", [0.5, 1.3, 2.0])
def test_evidence_is_that_of_the_labels(noise):
    K, y = data(12, seed=1)
    fit = LabelRegression(noise=noise).fit(K, y, Probit())
    assert_allclose(fit.log_evidence, log_z_reg(K, y, noise), atol=1e-10)
    assert_allclose(fit.W, noise**-2.0)


@pytest.mark.parametrize(("seed", "variance"), [(1, 0.05), (1, 2.0), (2, 20.0), (3, 1e-4)])
def test_noise_is_the_best_in_its_range(seed, variance):
    K, y = data(12, seed=seed, variance=variance)
    fit = LabelRegression().fit(K, y, Logit())
    grid = np.geomspace(0.5, 2.0, 2001)
    values = np.array([log_z_reg(K, y, s) for s in grid])
    noise = fit.W[0] ** -0.5
    assert 0.5 <= noise <= 2.0
    assert_allclose(noise, grid[np.argmax(values)], rtol=8e-4)  # the grid's spacing
    # inside the range the evidence is flat; at an end the search stops 1e-6 before it, where the slope is of order n
    assert fit.log_evidence > values.max() - 1e-5


def test_noise_stops_at_the_ends():
    """Under a weak prior, the best noise for labels ±1 is about one."""
    K, y = data(12, seed=4, variance=0.01)
    for low, high, best in ((3.0, 4.0, 3.0), (0.1, 0.2, 0.2)):
        fit = LabelRegression(noise_range=(low, high)).fit(K, y, Probit())
        assert_allclose(fit.W[0] ** -0.5, best, rtol=1e-5)


def test_class_probabilities_come_from_the_likelihood():
    K, y = data(12, seed=5)
    mean, var = LabelRegression().fit(K, y, Probit()).predict(K, np.diagonal(K))
    same_mean, same_var = LabelRegression().fit(K, y, Logit()).predict(K, np.diagonal(K))
    assert_allclose(mean, same_mean, atol=0)
    assert_allclose(var, same_var, atol=0)
    assert np.all(Probit().predictive(mean, var) != Logit().predictive(mean, var))


def test_is_regression_if_the_noise_is_right():
    K, _ = data(12, seed=6)
    y = np.sin(np.arange(12.0))
    lr, exact = LabelRegression(noise=np.sqrt(0.3)).fit(K, y, Gaussian(0.3)), EP().fit(K, y, Gaussian(0.3))
    assert_allclose(lr.mean, exact.mean, atol=1e-9)
    assert_allclose(lr.log_evidence, exact.log_evidence, atol=1e-9)


def test_leave_one_out_is_exact_for_a_given_noise():
    K, y = data(12, seed=5, variance=4.0)
    for likelihood in (Probit(), Logit(), Heaviside()):
        engine = LabelRegression(noise=0.8)
        assert_allclose(engine.fit(K, y, likelihood).loo(), refitted_loo(engine, K, y, likelihood), atol=1e-10)


@pytest.mark.parametrize("settings", [{"noise": 0.0}, {"noise": -1.0}, {"noise": np.nan}, {"noise_range": (0.0, 1.0)}])
def test_noise_must_be_positive(settings):
    with pytest.raises(ValueError, match="noise width must be positive"):
        LabelRegression(**settings)
