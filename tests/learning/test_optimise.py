"""Restarts, failures, history, progress."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.inference import EP
from gpclass.kernels import RBF
from gpclass.learning import Objective, maximise, random_start, resolve_priors, typical_distance
from gpclass.learning.memory import warn_if_too_large
from gpclass.likelihoods import Probit


@pytest.fixture
def objective():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 2))
    y = np.where(np.sin(2 * X[:, 0]) + X[:, 1] + 0.4 * rng.normal(size=60) > 0, 1.0, -1.0)
    kernel = RBF()
    return Objective(X, y, kernel, Probit(), EP(), resolve_priors("weak", kernel.names))


def test_ends_where_a_fine_grid_has_its_maximum(objective):
    best = maximise(objective, [objective.theta]).best
    around = [best.theta + 0.05 * np.array(step) for step in ((1, 0), (-1, 0), (0, 1), (0, -1))]
    assert all(objective.evaluate(theta).value < best.value for theta in around)
    # SLOPE_TOL, or what is left when an iteration gains less than VALUE_TOL at a curvature of about ten
    assert np.max(np.abs(best.gradient)) < 0.02


def test_restarts_never_end_worse(objective):
    single = maximise(objective, [objective.theta]).best.value
    rng = np.random.default_rng(0)
    bad = [np.array([-11.0, -11.0]), np.array([11.0, 11.0]), random_start(objective, 2.0, np.ones(2), rng)]
    assert maximise(objective, [objective.theta, *bad]).best.value >= single


def test_failed_evaluations_step_back(objective):
    """A kernel that breaks down beyond some lengthscale does not end the search."""

    class Fragile(Objective):
        def fit(self, theta, start=None):
            if theta[1] > 1.0:
                raise np.linalg.LinAlgError("too wide")
            return super().fit(theta, start)

    fragile = Fragile(**{k: getattr(objective, k) for k in ("X", "y", "kernel", "likelihood", "engine", "priors")})
    search = maximise(fragile, [fragile.theta])
    failed = [step for step in search.history if step.message]
    assert failed
    assert "too wide" in failed[0].message
    assert np.isnan(failed[0].objective)
    assert search.best.value > search.history[0].objective


def test_a_first_evaluation_that_fails_is_raised(objective):
    class Broken:
        def fit(self, *args, **kwargs):
            raise np.linalg.LinAlgError("nothing works")

    with pytest.raises(np.linalg.LinAlgError, match="nothing works"):
        maximise(replace(objective, engine=Broken()), [objective.theta])


def test_history_tells_all_evaluations(objective, capsys):
    search = maximise(objective, [objective.theta], verbose=1)
    assert_allclose(search.history[0].theta, objective.theta)
    assert max(step.objective for step in search.history) == search.best.value
    assert all(step.sweeps >= 1 for step in search.history)
    lines = capsys.readouterr().err
    assert f"{search.best.value:.4f}" in lines
    assert "iteration" in lines


def test_starts_lie_in_the_range_of_the_data():
    rng = np.random.default_rng(1)
    X = 1e6 * rng.normal(size=(50, 3))
    distance = typical_distance(X, rng)
    assert_allclose(distance, np.median([np.linalg.norm(a - b) for i, a in enumerate(X) for b in X[:i]]))
    kernel = RBF(lengthscale=np.full(3, distance))
    objective = Objective(X, np.ones(50), kernel, Probit(), EP(), resolve_priors(None, kernel.names))
    draws = np.array([random_start(objective, distance, X.std(0), rng) for _ in range(200)])
    assert np.all(np.abs(draws[:, :3] - np.log(X.std(0) * np.sqrt(6))) <= np.log(5) + 1e-9)
    assert np.all((draws[:, 3] >= np.log(0.3)) & (draws[:, 3] <= np.log(100)))
    assert np.std(draws[:, 0]) > 0.3


@pytest.mark.parametrize("X", [np.zeros((5, 2)), np.ones((1, 1)), np.full((4, 1), 1e300)])
def test_typical_distance_of_equal_rows_is_one(X):
    assert typical_distance(X, np.random.default_rng(0)) == 1.0


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_typical_distance_has_no_overflow(unit):
    assert_allclose(typical_distance(unit * np.array([[0.0], [3.0]]), np.random.default_rng(0)), 3 * unit)


def test_a_word_before_memory_runs_out():
    warn_if_too_large(100)
    with pytest.raises(MemoryError, match=r"10000000 rows needs about .* GiB"):
        warn_if_too_large(10_000_000)
