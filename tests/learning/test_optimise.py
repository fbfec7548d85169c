"""Restarts, failures, history, progress."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from gpclass.engines import Engine
from gpclass.inference import EP, Laplace
from gpclass.kernels import RBF
from gpclass.learning import (
    Evaluation,
    Objective,
    column_spread,
    maximise,
    random_start,
    resolve_priors,
    typical_distance,
)
from gpclass.learning.memory import warn_if_too_large
from gpclass.likelihoods import Logit, Probit
from gpclass.numerics.columns import lengthscale_span
from tests.problems import two_classes


@pytest.fixture
def objective():
    X, y = two_classes(60, seed=5, noise=0.4)
    kernel = RBF()
    return Objective(X, y, kernel, Probit(), EP(), resolve_priors("weak", kernel.names))


def test_ends_where_a_fine_grid_has_its_maximum(objective):
    best = maximise(objective, [objective.theta]).best
    around = [best.theta + 0.05 * np.array(step) for step in ((1, 0), (-1, 0), (0, 1), (0, -1))]
    assert all(objective.evaluate(theta).value < best.value for theta in around)
    # SLOPE_TOL, or the remaining slope when an iteration gains less than VALUE_TOL at a curvature of about ten
    assert np.max(np.abs(best.gradient)) < 0.01


def test_restarts_never_end_worse(objective):
    single = maximise(objective, [objective.theta]).best.value
    rng = np.random.default_rng(0)
    bad = [np.array([-11.0, -11.0]), np.array([11.0, 11.0]), random_start(objective, 2.0, np.ones(2), rng)]
    assert maximise(objective, [objective.theta, *bad]).best.value >= single


def fragile(objective, breaks):
    """The objective, whose evaluations fail where `breaks(theta)` is true."""

    class Fragile(Objective):
        def fit(self, theta, start=None, tol=None):
            if breaks(theta):
                raise np.linalg.LinAlgError("too wide")
            return super().fit(theta, start, tol)

    return Fragile(**{k: getattr(objective, k) for k in ("X", "y", "kernel", "likelihood", "engine", "priors")})


def test_failed_evaluations_step_back(objective):
    """A kernel that fails beyond some variance does not end the search, but there is a warning."""
    search = maximise(fragile(objective, lambda theta: theta[1] > 1.0), [objective.theta])
    failed = [step for step in search.history if step.message]
    assert failed
    assert "too wide" in failed[0].message
    assert np.isnan(failed[0].objective)
    assert search.best.value > search.history[0].objective
    assert f"{len(failed)} of its {len(search.history)} evaluations failed, most often with: 'too wide'" in search.problem
    assert search.best.theta[1] > 0.95  # it goes as far as possible
    assert "narrower bounds" in search.problem


def test_failures_on_the_way_to_a_maximum_are_no_problem(objective):
    top = maximise(objective, [objective.theta]).best
    search = maximise(fragile(objective, lambda theta: theta[1] > top.theta[1] + 0.05), [objective.theta])
    assert any(step.message for step in search.history)
    assert search.best.value == pytest.approx(top.value, abs=1e-3)
    assert search.problem == ""


class Broken(Engine):
    def fit(self, *args, **kwargs):
        raise np.linalg.LinAlgError("nothing works")


def test_evaluations_that_always_fail_are_raised(objective):
    broken = replace(objective, engine=Broken())
    with pytest.raises(np.linalg.LinAlgError, match=r"^nothing works$"):
        maximise(broken, [objective.theta])
    with pytest.raises(np.linalg.LinAlgError, match=r"nothing works \(.* 2 restarts failed as well"):
        maximise(broken, [objective.theta] * 3)


def test_restarts_stand_in_for_a_start_that_fails(objective):
    bad, good = np.array([0.0, 3.0]), np.zeros(2)
    search = maximise(fragile(objective, lambda theta: np.array_equal(theta, bad)), [bad, bad, good])
    assert [step.message for step in search.history[:3]] == ["too wide", "too wide", ""]
    assert search.best.value == pytest.approx(maximise(objective, [good]).best.value, abs=1e-3)
    assert search.problem == ""


def test_the_iteration_limit_is_reported(objective):
    search = maximise(objective, [objective.theta], max_iter=2)
    assert search.n_iter == 2
    assert "limit of 2 iterations" in search.problem
    assert "Raise max_iter" in search.problem
    assert maximise(objective, [objective.theta]).problem == ""


@dataclass(frozen=True)
class Liar:
    """An objective with a wrong gradient: its values decrease in all directions."""

    slope: float
    bounds = np.array([[-5.0, 5.0]])
    offers_single = False
    shifts = np.array([False])
    tail = 1.0

    def units_at(self, theta):
        return np.ones(1)

    def evaluate(self, theta, start=None, tol=None):
        value = -float(np.abs(theta).sum())
        fit = SimpleNamespace(log_evidence=value, n_iter=1, converged=True, scalar_sites=None)
        return Evaluation(theta.copy(), value, np.array([self.slope]), fit, None, None, None, None)


def test_a_line_search_that_fails_is_reported_unless_the_slope_is_tiny():
    steep, level = (maximise(Liar(slope), [np.zeros(1)]) for slope in (1.0, 0.01))
    assert "ABNORMAL" in steep.message
    assert "slope is still 1" in steep.problem
    assert "n_restarts" in steep.problem
    assert "ABNORMAL" in level.message
    assert level.problem == ""


@dataclass(frozen=True)
class Valley:
    """A concave objective whose maximum is 0 at 1, with given curvatures and units of its parameters."""

    curvature: tuple[float, ...]
    units: tuple[float, ...]
    offers_single = False
    tail = 1.0

    @property
    def bounds(self):
        return np.tile([-50.0, 50.0], (len(self.curvature), 1))

    @property
    def shifts(self):
        return np.array(self.units) > 1

    def units_at(self, theta):
        return np.array(self.units)

    def evaluate(self, theta, start=None, tol=None):
        away, c = theta - 1, np.array(self.curvature)
        value = -0.5 * float(c @ away**2)
        fit = SimpleNamespace(log_evidence=value, n_iter=1, converged=True, scalar_sites=None)
        return Evaluation(theta.copy(), value, -c * away, fit, None, None, None, None)


def test_a_run_ends_with_a_newton_step_that_leaves_little():
    search = maximise(Valley((3.0, 1.0, 0.5, 0.3), (1.0,) * 4), [np.array([-1.0, 3.0, -2.0, 0.0])])
    assert -search.best.value < 1e-3
    assert "Newton step" in search.message
    values = np.array([step.objective for step in search.history])
    assert np.sum(values > -1e-3) <= 2  # no evaluations are spent on negligible gains


def test_what_is_left_along_a_flat_shift_is_seen():
    """Its slope is small from the start, so that the search does not learn its curvature."""
    start = np.array([-1.0, 3.0, -2.0, -4.0])  # 0.0375 nats along the shift, at a slope of 0.015
    assert -maximise(Valley((3.0, 1.0, 0.5, 0.003), (1.0, 1.0, 1.0, 10.0)), [start]).best.value < 1e-3


@pytest.mark.parametrize("seed", [3, 9, 16])
def test_little_evidence_is_left_along_the_bias(seed):
    """The evidence is flat there, so gains are small before the maximum. Compared with a search of hundredfold precision."""
    rng = np.random.default_rng(seed)
    n, D = int(rng.integers(60, 151)), int(rng.integers(1, 6))
    X = rng.normal(size=(n, D))
    f = np.sin(X @ rng.normal(size=D) * rng.uniform(0.5, 2)) * rng.uniform(0.5, 4) + X[:, 0]
    y = np.where(f - np.quantile(f, rng.uniform(0.1, 0.9)) + rng.normal(size=n) * rng.uniform(0.1, 1) > 0, 1.0, -1.0)
    kernel, likelihood = RBF(typical_distance(X, rng), 4.0), Logit(learn_bias=True)
    priors = resolve_priors("weak", [*kernel.names, *likelihood.names], spread=X.std(0))
    objective = Objective(X, y, kernel, likelihood, Laplace(), priors)
    best = maximise(objective, [objective.theta]).best

    def negative(theta):
        at = objective.evaluate(theta, best.fit, tol=1e-8)
        return -at.value, -at.gradient

    top = minimize(negative, best.theta, jac=True, bounds=objective.bounds, options={"ftol": 1e-13, "gtol": 1e-5})
    assert -top.fun - best.value < 1e-3


def test_history_tells_all_evaluations(objective):
    search = maximise(objective, [objective.theta])
    assert_allclose(search.history[0].theta, objective.theta)
    assert max(step.objective for step in search.history) == search.best.value
    assert all(step.sweeps >= 1 for step in search.history)


def test_starts_lie_in_the_range_of_the_data():
    rng = np.random.default_rng(1)
    X = 1e6 * rng.normal(size=(50, 3))
    distance = typical_distance(X, rng)
    assert_allclose(distance, np.median([np.linalg.norm(a - b) for i, a in enumerate(X) for b in X[:i]]))
    kernel = RBF(lengthscale=np.full(3, distance))
    objective = Objective(X, np.ones(50), kernel, Probit(), EP(), resolve_priors(None, kernel.names))
    draws = np.array([random_start(objective, distance, X.std(0), rng) for _ in range(200)])
    low, high = np.log(np.array(lengthscale_span(X)) / distance)
    relative = draws[:, :3] - np.log(X.std(0) * np.sqrt(6))
    assert np.all((relative >= low - 1e-9) & (relative <= high + 1e-9))
    assert np.all((draws[:, 3] >= np.log(0.3)) & (draws[:, 3] <= np.log(100)))
    assert np.std(draws[:, 0]) > 0.3


@pytest.mark.parametrize("X", [np.zeros((5, 2)), np.ones((1, 1)), np.full((4, 1), 1e300)])
def test_typical_distance_of_equal_rows_is_one(X):
    assert typical_distance(X, np.random.default_rng(0)) == 1.0


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_typical_distance_has_no_overflow(unit):
    assert_allclose(typical_distance(unit * np.array([[0.0], [3.0]]), np.random.default_rng(0)), 3 * unit)


@pytest.mark.parametrize("unit", [1e-200, 1.0, 1e200])
def test_column_spread_is_the_standard_deviation(unit):
    X = np.column_stack([np.random.default_rng(0).normal(size=(20, 2)), np.zeros(20)])
    assert_allclose(column_spread(unit * X), unit * X.std(0), rtol=1e-12)


def test_a_word_before_memory_runs_out():
    warn_if_too_large(100)
    with pytest.raises(MemoryError, match=r"10000000 rows needs about .* GiB"):
        warn_if_too_large(10_000_000)
