"""Sites that are extrapolated in θ, and searches that begin among fewer rows."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.gaussian import Sites
from gpclass.inference import EP, Laplace, MeanFieldProbit, NestedEP
from gpclass.kernels import RBF
from gpclass.learning import Objective, maximise, resolve_priors
from gpclass.learning import objective as rows_rule
from gpclass.learning.optimise import improved
from gpclass.learning.warm import WarmStart
from gpclass.likelihoods import Logit, MultinomialProbit, Probit


def fit_with(tau, nu):
    return SimpleNamespace(scalar_sites=Sites(tau, nu))


def problem(n=90, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    f = np.stack([np.sin(2 * X[:, 0]), X[:, 1], -X[:, 0]], axis=1)[:, :classes] + 0.3 * rng.normal(size=(n, classes))
    kernel = RBF(1.5, 4.0)
    priors = resolve_priors("weak", kernel.names)
    if classes == 2:
        return Objective(X, np.where(f[:, 0] > f[:, 1], 1.0, -1.0), kernel, Probit(), EP(), priors)
    return Objective(X, f.argmax(1), kernel, MultinomialProbit(classes), NestedEP(), priors)


def test_what_is_linear_in_theta_is_met():
    rng = np.random.default_rng(0)
    slopes, offset = rng.normal(size=(2, 2, 5)), rng.normal(size=(2, 5))

    def sites(theta):
        log_tau, centre = np.einsum("kpn,p->kn", slopes, theta) + offset
        return np.exp(log_tau), np.exp(log_tau) * centre

    warm = WarmStart()
    for theta in ([0.0, 0.0], [0.3, 0.1], [0.1, 0.2]):
        warm.remember(np.array(theta), fit_with(*sites(np.array(theta))))
    there = np.array([0.2, 0.25])
    start = warm.at(there).sites
    assert_allclose([start.tau, start.nu], sites(there), rtol=1e-12)  # rounding


def test_nothing_is_extrapolated_from_one_fit_or_from_sites_without_logarithm():
    warm = WarmStart()
    assert warm.at(np.zeros(1)) is None
    first, second = fit_with(np.ones(3), np.ones(3)), fit_with(np.array([1.0, 0.0, 2.0]), np.ones(3))
    warm.remember(np.zeros(1), first)
    assert warm.at(np.ones(1)) is first
    warm.remember(np.zeros(1), first)  # the same θ again gives no information about changes
    assert warm.at(np.ones(1)) is first
    warm.remember(np.ones(1), second)
    assert warm.at(np.zeros(1)) is second
    other = SimpleNamespace(scalar_sites=None)
    warm.remember(np.ones(1), other)
    assert warm.at(np.zeros(1)) is other


def test_a_long_step_is_not_taken_at_its_word():
    warm = WarmStart()
    warm.remember(np.zeros(1), fit_with(np.ones(2), np.zeros(2)))
    warm.remember(np.full(1, 0.1), fit_with(np.exp([0.3, 3.0]), np.zeros(2)))
    start = warm.at(np.full(1, 5.0)).sites
    assert_allclose(np.log(start.tau), [0.3 + 1.5 * 0.3, 3.0 + 2.0])  # shortened, and no log τ moves by more than two


@pytest.mark.parametrize("classes", [2, 3])
def test_extrapolated_sites_are_nearer_and_change_nothing(classes):
    objective = problem(classes=classes)
    thetas = [objective.theta + step for step in ([0.0, 0.0], [0.2, 0.3], [0.25, 0.5], [0.3, 0.6])]
    warm, last = WarmStart(), None
    for theta in thetas[:-1]:
        last = objective.evaluate(theta, last, 1e-6).fit
        warm.remember(theta, last)
    plain = objective.evaluate(thetas[-1], last, 1e-6)
    start = warm.at(thetas[-1])
    better = objective.evaluate(thetas[-1], start, 1e-6)
    off, off_before = (np.linalg.norm(np.log(s.tau / plain.fit.sites.tau)) for s in (start.sites, last.sites))
    assert off < 0.3 * off_before
    assert better.fit.n_iter <= plain.fit.n_iter
    assert_allclose(better.value, plain.value, atol=1e-9)  # second order in the tolerance
    assert_allclose(better.gradient, plain.gradient, atol=1e-4)


def test_engines_that_begin_with_alpha_get_it():
    """MeanFieldProbit's posterior consists of sites, but its search starts from α."""
    objective = replace(problem(classes=3), engine=MeanFieldProbit())
    search = maximise(objective, [objective.theta])
    assert len(search.history) > 3
    assert not any(step.message for step in search.history)


def test_few_rows_have_all_classes_and_their_shares(monkeypatch):
    monkeypatch.setattr(rows_rule, "SUBSET_FROM", 200)
    monkeypatch.setattr(rows_rule, "LEAST_SUBSET_ROWS", 20)
    objective = problem(n=90, classes=3)
    fewer = objective.of_fewer_rows()
    assert len(fewer.y) == 30
    assert_allclose(np.bincount(fewer.y) / 30, np.bincount(objective.y) / 90, atol=2 / 30)
    assert fewer.of_fewer_rows() is None  # 90 numbers are few
    monkeypatch.setattr(rows_rule, "SUBSET_FROM", 300)
    assert objective.of_fewer_rows() is None


def test_negligible_sites_are_not_extrapolated():
    """The mean of a site of precision 1e-39 is arbitrary; a start must not use it for a site of precision 1."""
    warm = WarmStart()
    for theta, tau, nu in ((0.0, 1e-39, 1e-7), (1.0, 0.5, 0.2)):
        warm.remember(np.array([theta]), fit_with(np.array([tau, 0.4, 0.4]), np.array([nu, 0.1, -0.2 - 0.1 * theta])))
    start = warm.at(np.array([1.2])).sites
    assert_allclose(start.nu[0] / start.tau[0], 0.4, rtol=1e-12)  # as before
    assert_allclose(start.nu[2] / start.tau[2], -0.75 - 0.2 * 0.25, rtol=1e-12)  # the trend continues


@pytest.mark.parametrize("engine", [EP(), Laplace()])
def test_a_search_that_begins_among_fewer_rows_ends_at_the_same_maximum_sooner(engine, monkeypatch):
    monkeypatch.setattr(rows_rule, "SUBSET_FROM", 200)
    objective = replace(problem(n=240), engine=engine, likelihood=Logit() if isinstance(engine, Laplace) else Probit())
    plain = maximise(objective, [objective.theta])
    begun = maximise(objective, [objective.theta], fewer=objective.of_fewer_rows())
    assert_allclose(begun.best.value, plain.best.value, atol=3e-4)  # the tolerance of searches, see `VALUE_TOL`
    assert len(begun.history) < len(plain.history)


def test_curvature_of_fewer_rows_is_that_of_the_objective_there(monkeypatch):
    monkeypatch.setattr(rows_rule, "SUBSET_FROM", 200)
    objective = problem(n=240)
    fewer = objective.of_fewer_rows()
    theta, metric, _ = improved(objective, fewer, objective.theta, 100)
    step = 1e-3
    sides = [[fewer.evaluate(theta + s * e, tol=1e-9).gradient for s in (step, -step)] for e in np.eye(2)]
    curvature = np.array([(low - high) / (2 * step) for high, low in sides])
    assert_allclose(metric * np.sqrt(len(objective.y) / len(fewer.y)) @ curvature, np.eye(2), atol=0.5)  # BFGS: roughly


def test_a_search_beside_its_bounds_stays_within_them(monkeypatch):
    monkeypatch.setattr(rows_rule, "SUBSET_FROM", 200)
    objective = problem(n=240)
    free = maximise(objective, [objective.theta]).best.theta
    most = float(np.exp(free[1] - 0.3))
    kernel = RBF(1.5, most / 2, bounds={"variance": (most / 10, most)})
    objective = replace(objective, kernel=kernel)
    search = maximise(objective, [objective.theta], fewer=objective.of_fewer_rows())
    assert_allclose(search.best.theta[1], np.log(most), atol=1e-9)
    assert all(step.theta[1] <= np.log(most) + 1e-12 for step in search.history)
