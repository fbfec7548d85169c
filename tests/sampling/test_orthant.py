"""log Z as an orthant probability, against the grid and against annealing."""

import numpy as np
import pytest

from gpclass.likelihoods import Logit, MultinomialProbit, Probit
from gpclass.sampling import annealed_importance, orthant_evidence
from gpclass.testing.problems import grid_truth

from .problems import SEVERAL, TWO_POINTS, quadrature_truth, three_class_problem, two_class_problem

RUNS = {"n_runs": 64, "n_temperatures": 200, "random_state": 0}


def agree(estimate, truth, error=0.0, factor=4.0):
    return abs(estimate.log_evidence - truth) < factor * np.hypot(estimate.standard_error, error) + 1e-6


# orthants -------------------------------------------------------------------------------------------------------------


def test_orthant_two_points():
    K, y = TWO_POINTS
    rho = y[0] * y[1] * K[0, 1] / np.sqrt((1 + K[0, 0]) * (1 + K[1, 1]))
    exact = np.log(0.25 + np.arcsin(rho) / (2 * np.pi))
    result = orthant_evidence(K, y)
    assert result.log_evidence == pytest.approx(exact, abs=1e-4)
    assert agree(result, exact, 1e-6)


def test_orthant_with_bias():
    K, y = TWO_POINTS
    likelihood = Probit(bias=0.7)
    assert orthant_evidence(K, y, likelihood).log_evidence == pytest.approx(grid_truth(K, y, likelihood)[0], abs=1e-4)


@pytest.mark.parametrize("case", [c for c in SEVERAL if "probit" in c])
def test_orthant_several_classes(case):
    likelihood, K, y = SEVERAL[case]
    truth = quadrature_truth(K, y, likelihood)[0]
    assert orthant_evidence(K, y, likelihood).log_evidence == pytest.approx(truth, abs=1e-3)


def test_orthant_and_annealing_at_fifteen_points():
    K, y = two_class_problem(n=15, variance=9.0)
    exact = orthant_evidence(K, y)
    assert exact.standard_error < 1e-3
    assert agree(annealed_importance(K, y, Probit(), **RUNS), exact.log_evidence, exact.standard_error)


def test_orthant_and_annealing_for_three_classes():
    K, y = three_class_problem(n=8)
    exact = orthant_evidence(K, y)
    assert exact.n_dimensions == 16
    annealed = annealed_importance(K, y, MultinomialProbit(3), n_temperatures=100, random_state=0)
    assert agree(annealed, exact.log_evidence, exact.standard_error)


@pytest.mark.parametrize("variance", [1e-12, 1e-2, 1e4, 1e8])
def test_orthant_extremes(variance):
    K, y = two_class_problem(n=30, variance=variance)
    result = orthant_evidence(K, y)
    assert np.isfinite(result.log_evidence)
    assert result.standard_error < 0.05
    if variance == 1e-12:
        assert result.log_evidence == pytest.approx(-30 * np.log(2), abs=1e-5)


def test_orthant_of_one_variable():
    # K = s² 11ᵀ: all latents are one variable
    n, s = 12, 1.5
    y = np.array([1.0] * 9 + [-1.0] * 3)
    t = np.linspace(-12, 12, 20001)
    log_p = sum(Probit().log_prob(np.full(len(t), label), s * t)[0] for label in y)
    exact = np.log(np.sum(np.exp(log_p - 0.5 * t**2)) * (t[1] - t[0]) / np.sqrt(2 * np.pi))
    assert orthant_evidence(np.full((n, n), s**2), y).log_evidence == pytest.approx(exact, abs=2e-3)


def test_orthant_errors():
    K, y = two_class_problem()
    with pytest.raises(TypeError, match=r"needs orthant, which Logit does not offer. Likelihoods that do: .*Probit"):
        orthant_evidence(K, y, Logit())
    with pytest.raises(ValueError, match="power of two"):
        orthant_evidence(K, y, n_samples=1000)
    with pytest.raises(ValueError, match="labels"):
        orthant_evidence(K, ["a"] * 15)
    with pytest.raises(ValueError, match="too many"):
        orthant_evidence(np.eye(2000), np.ones(2000))
    assert orthant_evidence(K, y, random_state=5).log_evidence == orthant_evidence(K, y, random_state=5).log_evidence
