"""Laplace: the mode, the curvature there, and the error of the approximation."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.inference import Laplace
from gpclass.likelihoods import Heaviside, Logit, MultinomialProbit, OneAgainstRest, Probit

from .truth import ERRATA_K, ERRATA_Y, TWO_POINTS, arcsine, data, errors, one_variable, orthant, refitted_loo

LIKELIHOODS = [Probit(), Logit(), Probit(0.5), Logit(-0.5)]


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
def test_is_the_gaussian_at_the_mode(likelihood):
    """Textbook formulas with explicit inverses."""
    K, y = data(10, seed=1, nugget=0.1)
    fit = Laplace().fit(K, y, likelihood)
    value, slope, curvature = likelihood.log_prob(y, fit.mean)
    assert_allclose(np.linalg.solve(K, fit.mean), slope, atol=1e-7)  # stationary; 10 × tol
    V = np.linalg.inv(np.linalg.inv(K) - np.diag(curvature))
    assert_allclose(fit.var, np.diagonal(V), rtol=1e-8)
    assert_allclose(fit.W, -curvature, atol=1e-8)
    log_det = np.linalg.slogdet(np.eye(10) - K * curvature)[1]
    evidence = value.sum() - 0.5 * fit.mean @ np.linalg.solve(K, fit.mean) - 0.5 * log_det
    assert_allclose(fit.log_evidence, evidence, atol=1e-8)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
def test_no_neighbour_has_a_higher_posterior(likelihood):
    K, y = data(6, seed=2, nugget=0.1)
    mode = Laplace().fit(K, y, likelihood).mean

    def log_joint(f):
        return np.sum(likelihood.log_prob(y, f)[0]) - 0.5 * f @ np.linalg.solve(K, f)

    rng = np.random.default_rng(0)
    assert all(log_joint(mode) > log_joint(mode + 0.01 * rng.normal(size=6)) for _ in range(50))


def test_numbers_of_the_errata():
    # errata item 1: the sign of the log determinant
    assert_allclose(arcsine(ERRATA_K, ERRATA_Y), -1.6414, atol=5e-5)
    assert_allclose(Laplace().fit(ERRATA_K, ERRATA_Y, Probit()).log_evidence, -1.6814, atol=5e-5)


@pytest.mark.parametrize(("likelihood", "log_z", "mean", "var"), [(Probit(), 0.09, 0.47, 0.19), (Logit(), 0.07, 0.26, 0.16)])
def test_measured_accuracy(likelihood, log_z, mean, var):
    """Two points, σ_f² = 4: 0.087, 0.462, 18 % (probit) and 0.068, 0.259, 15 % (logit) were measured."""
    assert np.all(errors(Laplace(), likelihood) <= (log_z, mean, var))


def test_measured_accuracy_with_ten_data():
    K, y = data(10, seed=10)
    assert_allclose(Laplace().fit(K, y, Probit()).log_evidence, orthant(K, y), atol=0.1)  # measured: 0.094 too low


@pytest.mark.parametrize("likelihood", [Probit(), Logit()], ids=repr)
def test_constant_covariance(likelihood):
    """Lengthscale → ∞: measured 0.0074 and 0.0272 with eight data and σ_f = 2."""
    y = np.array([1.0, 1, 1, 1, -1, -1, 1, 1])
    fit = Laplace().fit(4 * np.ones((8, 8)), y, likelihood)
    assert_allclose(fit.log_evidence, one_variable(2.0, y, likelihood), atol=0.03)


def test_leave_one_out_against_refits():
    K, y = data(12, seed=5, variance=4.0)
    for likelihood, tol in ((Probit(), 0.012), (Logit(), 0.006)):  # measured: 0.0101 and 0.0047
        assert_allclose(Laplace().fit(K, y, likelihood).loo(), refitted_loo(Laplace(), K, y, likelihood), atol=tol)


def test_newton_is_quick():
    for K, y in TWO_POINTS:
        assert Laplace().fit(K, y, Logit()).n_iter <= 6


def test_heaviside_has_no_mode():
    with pytest.raises(TypeError, match=r"Laplace needs log_prob, which Heaviside does not offer.*Logit, Probit"):
        Laplace().fit(ERRATA_K, ERRATA_Y, Heaviside())


def test_several_classes_are_softmax_only():
    """For other likelihoods minus the second derivative is not diag(π) - π πᵀ."""
    y = np.arange(9) % 3
    for likelihood in (MultinomialProbit(3), OneAgainstRest(3)):
        with pytest.raises(TypeError, match="needs curvature_weights"):
            Laplace().fit(np.eye(9), y, likelihood)
