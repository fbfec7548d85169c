"""log Z by annealed importance sampling, against the grid and against other starts."""

from dataclasses import replace

import numpy as np
import pytest

from gpclass.datasets import load
from gpclass.inference import EP, FV, KL, Laplace
from gpclass.kernels import RBF
from gpclass.likelihoods import Logit, Probit, Softmax
from gpclass.sampling import annealed_importance, annealing, orthant_evidence
from gpclass.testing.problems import grid_truth

from .problems import SEVERAL, TWO_POINTS, quadrature_truth, two_class_problem

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
    """The effect on the weights is even: the same number of equal temperature steps loses more nats."""
    K, y = two_class_problem(n=40, variance=25.0)
    even = annealed_importance(K, y, Probit(), n_temperatures=100, random_state=0)
    steps = np.diff(even.temperatures)
    assert np.all(steps >= 0)
    assert steps[0] < 0.05 * steps[-1]  # away from the sharp likelihood at the prior the steps may be longer
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
    # 7 of 16 runs have all of the weight here: too many for a warning by their number alone
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
