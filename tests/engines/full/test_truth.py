"""The oracles against each other."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.likelihoods import Gaussian, Heaviside, Logit, Probit

from .truth import ERRATA_K, ERRATA_Y, TWO_POINTS, arcsine, data, grid_truth, one_variable, orthant, step_evidence


@pytest.mark.parametrize(("K", "y"), [*TWO_POINTS, (ERRATA_K, ERRATA_Y)])
def test_grid_agrees_with_orthant_formula(K, y):
    assert_allclose(grid_truth(K, y, Probit())[0], arcsine(K, y), atol=1e-12)
    assert_allclose(orthant(K, y), arcsine(K, y), atol=1e-6)  # its abseps


@pytest.mark.parametrize("epsilon", [0.0, 0.05])
@pytest.mark.parametrize(("K", "y"), TWO_POINTS)
def test_grid_sees_a_jump_at_zero(K, y, epsilon):
    assert_allclose(grid_truth(K, y, Heaviside(epsilon))[0], step_evidence(K, y, epsilon), atol=1e-12)


@pytest.mark.parametrize("likelihood", [Logit(), Logit(0.4), Probit(-0.7)], ids=repr)
@pytest.mark.parametrize(("K", "y"), TWO_POINTS)
def test_grid_has_converged(K, y, likelihood):
    for coarse, fine in zip(grid_truth(K, y, likelihood), grid_truth(K, y, likelihood, order=110), strict=True):
        assert_allclose(coarse, fine, atol=1e-11)


def test_grid_is_exact_regression():
    K, y = TWO_POINTS[0][0], np.array([0.7, -1.2])
    inverse = np.linalg.inv(K + 0.3 * np.eye(2))
    log_z, mean, cov = grid_truth(K, y, Gaussian(0.3))
    assert_allclose(log_z, -0.5 * y @ inverse @ y + 0.5 * np.linalg.slogdet(inverse / (2 * np.pi))[1], atol=1e-11)
    assert_allclose(mean, K @ inverse @ y, atol=1e-11)
    assert_allclose(cov, K - K @ inverse @ K, atol=1e-10)


def test_three_points():
    K, _ = data(3, seed=1)
    y = np.array([1.0, -1.0, 1.0])
    assert_allclose(grid_truth(K, y, Probit(), order=48)[0], orthant(K, y), atol=1e-6)  # orthant's abseps


def test_one_variable_has_the_numbers_of_the_errata():
    # errata item 8: n = 2, σ_f = 2, probit
    assert_allclose(np.exp(one_variable(2.0, [1, 1], Probit())), 0.3976, atol=5e-5)
    assert_allclose(np.exp(one_variable(2.0, [1, -1], Probit())), 0.1024, atol=5e-5)


def test_one_variable_is_the_limit_of_the_grid():
    K = 4 * np.array([[1.0, 0.99], [0.99, 1.0]])
    for y in (np.array([1.0, 1.0]), np.array([1.0, -1.0])):
        assert_allclose(arcsine(4 * np.ones((2, 2)), y), one_variable(2.0, y, Probit()), atol=1e-12)
        # of first order in 1 - ρ = 0.01
        assert_allclose(grid_truth(K, y, Logit(), order=160)[0], one_variable(2.0, y, Logit()), atol=0.03)


def test_footnote_2():
    """[NR] footnote 2: the Gaussian with the posterior's moments does not have a diagonal W."""
    K = np.array([[7.0, 6.0], [6.0, 7.0]])
    _, _, cov = grid_truth(K, np.ones(2), Probit())
    W = np.linalg.inv(cov) - np.linalg.inv(K)
    assert_allclose(W, [[0.1416, -0.0168], [-0.0168, 0.1416]], atol=5e-5)
