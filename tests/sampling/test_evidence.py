"""log Z by annealing, by importance and as an orthant probability: against the grid and each other."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_t

from gpclass.datasets import load
from gpclass.inference import EP, FV, KL, Laplace
from gpclass.kernels import RBF
from gpclass.likelihoods import Logit, MultinomialProbit, Probit, Softmax
from gpclass.sampling import annealed_importance, annealing, importance_sampling, orthant_evidence
from gpclass.sampling.importance import _log_t
from gpclass.testing.problems import grid_truth

from .problems import SEVERAL, TWO_POINTS, quadrature_truth, three_class_problem, two_class_problem

RUNS = {"n_runs": 64, "n_temperatures": 200, "random_state": 0}
BINARY = [Probit(), Probit(bias=0.5), Logit()]


def agree(estimate, truth, error=0.0, factor=4.0):
    return abs(estimate.log_evidence - truth) < factor * np.hypot(estimate.standard_error, error) + 1e-6


# annealing ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("likelihood", BINARY, ids=repr)
@pytest.mark.parametrize("engine", [None, Laplace(), EP(), KL()], ids=repr)
def test_annealing_two_points(likelihood, engine):
    K, y = TWO_POINTS
    start = None if engine is None else engine.fit(K, y, likelihood)
    result = annealed_importance(K, y, likelihood, start, **RUNS)
    assert agree(result, grid_truth(K, y, likelihood)[0])
    assert result.standard_error < 0.05
    assert result.thermodynamic <= result.log_evidence


@pytest.mark.parametrize("case", SEVERAL)
def test_annealing_several_classes(case):
    likelihood, K, y = SEVERAL[case]
    truth = quadrature_truth(K, y, likelihood)[0]
    assert agree(annealed_importance(K, y, likelihood, n_runs=64, n_temperatures=50, random_state=0), truth)


def test_annealing_from_anywhere_agrees():
    K, y = two_class_problem(n=40, variance=9.0)
    results = [
        annealed_importance(K, y, Probit(), start, n_temperatures=500, random_state=1)
        for start in (None, Laplace().fit(K, y, Probit()), EP().fit(K, y, Probit()))
    ]
    exact = orthant_evidence(K, y)
    for result in results:
        assert agree(result, exact.log_evidence, exact.standard_error)
    assert results[2].standard_error < results[0].standard_error  # [NR] 10.4: a good start helps


def test_annealing_steps_are_even(monkeypatch):
    """In what they do to the weights: as many equal strides of temperature lose nats more on the way."""
    K, y = two_class_problem(n=40, variance=25.0)
    even = annealed_importance(K, y, Probit(), n_temperatures=100, random_state=0)
    steps = np.diff(even.temperatures)
    assert np.all(steps >= 0)
    assert steps[0] < 0.05 * steps[-1]  # far from the prior's sharp likelihood the path may stride
    pilot = annealing._pilot

    def equal_strides(path, runs, n):
        schedule, t = pilot(path, runs, n), np.linspace(0, 1, n + 1)
        nearest = schedule.nearest[np.clip(np.searchsorted(schedule.temperatures, t), 0, n)]
        return replace(schedule, temperatures=t, nearest=nearest)

    monkeypatch.setattr(annealing, "_pilot", equal_strides)
    equal = annealed_importance(K, y, Probit(), n_temperatures=100, random_state=0)
    assert even.thermodynamic > equal.thermodynamic + 1  # both are below log Z on average; 2 to 5 nats over four seeds
    assert np.std(even.log_weights) < np.std(equal.log_weights)


def test_annealing_is_repeatable_and_returns_draws():
    K, y = two_class_problem()
    first, second = (annealed_importance(K, y, Probit(), **RUNS) for _ in range(2))
    assert first.log_evidence == second.log_evidence
    assert first.latent.shape == (64, 15)
    ep = EP().fit(K, y, Probit())
    # 64 independent final states: four standard errors of a mean of 64
    assert np.abs(first.latent.mean(0) - ep.mean).max() < 4.5 * np.sqrt(ep.var.max() / 64)
    assert "log Z" in repr(first)


def test_annealing_says_when_it_rests_on_few_runs():
    K, y = two_class_problem(n=60, variance=400.0)
    with pytest.warns(UserWarning, match="runs are effective"):
        annealed_importance(K, y, Probit(), n_temperatures=5, random_state=0)


def test_annealing_says_when_log_weights_are_spread_out():
    # 7 of 16 runs carry this one: too many to say so for their number alone
    with pytest.warns(UserWarning, match="runs are effective"):
        annealed_importance(1e8 * np.eye(12), np.arange(12) % 3, Softmax(3), n_runs=16, n_temperatures=50, random_state=4)


def test_annealing_errors():
    K, y = two_class_problem()
    for bad in ({"n_runs": 1}, {"n_temperatures": 0}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            annealed_importance(K, y, Probit(), **bad)
    with pytest.raises(TypeError, match="with sites"):
        annealed_importance(K, y, Probit(), FV().fit(K, y, Probit()))
    with pytest.raises(TypeError, match="several classes"):
        annealed_importance(K, (y > 0).astype(int), Softmax(2), EP().fit(K, y, Probit()))


def test_annealing_shows_progress(capsys):
    K, y = two_class_problem()
    annealed_importance(K, y, Probit(), n_temperatures=10, random_state=0, verbose=1)
    assert "annealed importance sampling" in capsys.readouterr().err


# importance -----------------------------------------------------------------------------------------------------------


def test_student_density():
    x = np.random.default_rng(0).normal(size=(5, 7))
    assert _log_t(x, 4.0) == pytest.approx(multivariate_t(np.zeros(5), np.eye(5), df=4).logpdf(x.T), abs=1e-12)


@pytest.mark.parametrize("likelihood", BINARY, ids=repr)
@pytest.mark.parametrize("covariance", ["posterior", "prior"])
@pytest.mark.parametrize("engine", [None, KL()], ids=repr)
def test_importance_two_points(likelihood, covariance, engine):
    K, y = TWO_POINTS
    log_z, mean, cov = grid_truth(K, y, likelihood)
    start = None if engine is None else engine.fit(K, y, likelihood)
    result = importance_sampling(K, y, likelihood, start, covariance=covariance, random_state=0)
    assert agree(result, log_z)
    assert result.log_evidence < result.upper_bound < result.log_evidence + 5 * result.standard_error
    error = np.sqrt(np.diagonal(cov) / result.effective_samples)
    assert np.abs((result.mean - mean) / error).max() < 4
    assert result.var == pytest.approx(np.diagonal(cov), rel=0.1)
    assert result.pareto_k < 0.7


@pytest.mark.parametrize("case", SEVERAL)
@pytest.mark.parametrize("covariance", ["posterior", "prior"])
def test_importance_several_classes(case, covariance):
    likelihood, K, y = SEVERAL[case]
    log_z, mean, _ = quadrature_truth(K, y, likelihood)
    result = importance_sampling(K, y, likelihood, covariance=covariance, n_samples=8000, random_state=0)
    assert agree(result, log_z)
    assert result.mean == pytest.approx(mean, abs=0.1)  # 8000 samples of variance 2


def test_importance_from_any_centre():
    likelihood, K, y = SEVERAL["softmax, two points"]
    truth = quadrature_truth(K, y, likelihood)[0]
    assert agree(importance_sampling(K, y, likelihood, np.full((2, 2), 0.3), random_state=0), truth)
    with pytest.raises(TypeError, match="array of means"):
        importance_sampling(K, y, likelihood, "ep")


def test_importance_predicts():
    K, y = two_class_problem(n=8)
    result = importance_sampling(K, y, Probit(), random_state=0)
    ep = EP().fit(K, y, Probit())
    Ks, kd = K[:, :4] * 0.7, np.diagonal(K)[:4]
    p, q = (np.exp(r.log_class_probabilities(Ks, kd)) for r in (result, ep))
    assert p == pytest.approx(q, abs=0.02)
    assert p.sum(1) == pytest.approx(np.ones(4), abs=1e-9)


def test_importance_warns_of_heavy_tails():
    K, y = two_class_problem(n=60, variance=100.0)
    with pytest.warns(UserWarning, match="Pareto"):
        result = importance_sampling(K, y, Probit(), covariance="prior", n_samples=3000, random_state=0)
    assert result.pareto_k > 0.7


def test_importance_errors():
    K, y = two_class_problem()
    for bad in ({"covariance": "both"}, {"df": 0}, {"n_samples": 1}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            importance_sampling(K, y, Probit(), **bad)


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


# the paper ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("log_scale", [0.0, 1.0, 2.0])
def test_expectation_propagation_is_close_where_laplace_is_not(log_scale):
    """[NR] section 12.2.4 on 200 rows of breast cancer: EP within half a nat, Laplace below in the non-Gaussian regime."""
    data = load("breast_cancer")
    X = (data.X - data.X.mean(0)) / data.X.std(0)
    y = np.where(data.y[:200] == np.unique(data.y)[1], 1.0, -1.0)
    K = RBF(np.exp(2.0), np.exp(2 * log_scale))(X[:200])
    ep, laplace = EP().fit(K, y, Probit()), Laplace().fit(K, y, Probit())
    truth = annealed_importance(K, y, Probit(), n_temperatures=2000, random_state=0)
    assert abs(ep.log_evidence - truth.log_evidence) < 0.5
    exact = orthant_evidence(K, y)
    assert agree(truth, exact.log_evidence, exact.standard_error)
    if log_scale == 2.0:
        assert laplace.log_evidence < truth.log_evidence - 0.5
