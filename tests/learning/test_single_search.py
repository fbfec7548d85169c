"""Searches that begin in single precision end at the same point as those in double precision."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from gpclass import GPClassifier
from gpclass.inference import EP, NestedEP
from gpclass.kernels import RBF
from gpclass.learning import Objective, maximise, resolve_priors
from gpclass.learning import objective as objectives
from gpclass.learning.objective import TooCoarse
from gpclass.likelihoods import MultinomialProbit, Probit
from gpclass.progress import keeping_best


def table(name):
    """Standardised columns, labels of the likelihood, and settings without an initial search on fewer rows."""
    load, rows = {
        "breast cancer": (load_breast_cancer, slice(0, 300)),
        "wine": (load_wine, slice(None)),
        "iris": (load_iris, slice(None)),
        "digits": (load_digits, slice(0, 160)),
    }[name]
    X, y = load(return_X_y=True)
    X, y = X[rows], y[rows]
    return (X - X.mean(0)) / np.where(X.std(0) > 0, X.std(0), 1.0), y


def objective_for(X, y, lengthscale, variance=4.0):
    C = len(set(y))
    kernel = RBF(lengthscale, variance)
    if C == 2:
        y, likelihood, engine = np.where(y == 1, 1.0, -1.0), Probit(), EP()
    else:
        likelihood, engine = MultinomialProbit(C), NestedEP()
    return Objective(X, y, kernel, likelihood, engine, resolve_priors("weak", kernel.names))


def searched(objective, monkeypatch, single, **settings):
    with monkeypatch.context() as patch:
        patch.setattr(objectives, "SINGLE_SIZE", 0 if single else 10**9)
        return maximise(objective, [objective.theta], **settings)


@pytest.mark.parametrize("name", ["breast cancer", "wine", "iris", "digits"])
def test_the_maximum_is_that_of_double_precision(name, monkeypatch):
    X, y = table(name)
    objective = objective_for(X, y, np.sqrt(X.shape[1]))
    double, mixed = (searched(objective, monkeypatch, single) for single in (False, True))
    assert mixed.best.value > double.best.value - 1e-3
    precisions = [step.precision for step in mixed.history]
    assert precisions.count("single") > 2
    assert precisions == sorted(precisions, reverse=True)  # single precision first
    assert precisions.count("double") <= 3  # the last step, and more steps if slopes remain
    assert {step.precision for step in double.history} == {"double"}
    assert not mixed.best.single
    assert not mixed.problem


def test_the_posterior_of_a_search_is_that_of_its_hyperparameters_in_double_precision(monkeypatch):
    objective = objective_for(*table("wine"), 3.0)
    search = searched(objective, monkeypatch, True)
    fit, exact = objective.finish(search.best), objective.fit(search.best.theta).fit
    # both are converged to 1e-8 standard deviations
    assert_allclose(fit.posterior.mean, exact.posterior.mean, atol=1e-7)
    assert_allclose(fit.posterior.var, exact.posterior.var, rtol=1e-7)
    assert_allclose(fit.log_evidence, exact.log_evidence, atol=1e-8)


def test_an_evaluation_in_single_precision_is_never_a_result():
    """An interrupted search may have no other evaluation: its posterior is then recomputed."""
    objective = objective_for(*table("wine"), 3.0)
    found = objective.evaluate_in_single(objective.theta, tol=1e-3)
    exact = objective.fit(objective.theta)
    assert found.single
    assert_allclose(found.value, exact.value, atol=1e-3)
    assert_allclose(found.gradient, objective.with_gradient(exact).gradient, rtol=0.01)  # corresponds to a tol of 1e-3
    assert_allclose(objective.finish(found).log_evidence, exact.fit.log_evidence, atol=1e-8)
    assert objective.finish(found).posterior.rounding < 1e-9


@pytest.mark.parametrize("name", ["breast cancer", "iris"])
def test_priors_too_large_for_single_precision_are_searched_in_double_precision(name, monkeypatch):
    X, y = table(name)
    objective = objective_for(X, y, 30.0, 1e6)
    objective = replace(objective, kernel=objective.kernel.fix("variance"), priors=objective.priors[:1])
    with pytest.raises(TooCoarse, match=r"float32 is too coarse at lengthscale = 3\.4"):
        objective.evaluate_in_single(objective.theta)
    double, mixed = (searched(objective, monkeypatch, single) for single in (False, True))
    assert_allclose(mixed.best.value, double.best.value, atol=1e-3)
    first, *others = mixed.history
    assert first.precision == "single"
    assert "float32 is too coarse" in first.message
    assert {step.precision for step in others} == {"double"}
    assert not mixed.problem


def test_a_search_goes_on_in_double_precision_where_single_becomes_too_coarse(monkeypatch):
    """Evaluations beyond a variance of 10 fail in single precision."""
    objective = objective_for(*table("breast cancer"), 5.0)

    class Limited(Objective):
        def evaluate_in_single(self, theta, start=None, tol=1e-6):
            if theta[1] > np.log(10):
                raise TooCoarse("too coarse for a test")
            return super().evaluate_in_single(theta, start, tol)

    limited = Limited(*(getattr(objective, name) for name in ("X", "y", "kernel", "likelihood", "engine", "priors")))
    double, mixed = searched(objective, monkeypatch, False), searched(limited, monkeypatch, True)
    assert double.best.theta[1] > np.log(10)
    assert_allclose(mixed.best.value, double.best.value, atol=1e-3)
    assert [step.message for step in mixed.history if step.message] == ["too coarse for a test"]
    assert mixed.history[-1].precision == "double"


def test_an_interrupted_search_in_single_precision_keeps_its_best_point(monkeypatch):
    X, y = table("breast cancer")
    calls = []
    evaluate = Objective.evaluate_in_single

    def interrupted(self, *arguments):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return evaluate(self, *arguments)

    monkeypatch.setattr(Objective, "evaluate_in_single", interrupted)
    monkeypatch.setattr(objectives, "SINGLE_SIZE", 0)
    monkeypatch.setattr(objectives, "SUBSET_FROM", 10**9)  # no search on fewer rows first
    with keeping_best():
        model = GPClassifier(RBF(5.0, 4.0)).fit(X, y)
    assert [step.precision for step in model.history_] == ["single", "single"]
    assert model.posterior_.posterior.rounding < 1e-9
    assert model.posterior_.converged
