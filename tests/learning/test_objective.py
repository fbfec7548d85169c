"""Gradients of the whole chain θ → K → evidence, by central differences."""

from contextlib import nullcontext

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.inference import EP, FV, KL, TAP, VB, LabelRegression, Laplace, TAPNaive
from gpclass.kernels import RBF, Constant, Linear, Matern52, White
from gpclass.learning import Flat, Gamma, Objective, learn, objective, resolve_priors
from gpclass.likelihoods import Logit, Probit

ENGINES = [
    Laplace(tol=1e-11),
    EP(tol=1e-11),
    TAP(tol=1e-10),
    TAPNaive(tol=1e-11),
    KL(tol=1e-10),
    VB(tol=1e-10),
    FV(tol=1e-11),
    LabelRegression(),
]


@pytest.fixture
def data():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(25, 3))
    return X, np.where(X[:, 0] + 0.5 * rng.normal(size=25) > 0, 1.0, -1.0)


def numeric(objective, theta, h=1e-4):
    """Central differences: errors are h² (third derivatives are of order one) and tol/h."""
    return np.array(
        [(objective.fit(theta + h * e).fit.log_evidence - objective.fit(theta - h * e).fit.log_evidence) / (2 * h)
         for e in np.eye(len(theta))]
    )  # fmt: skip


@pytest.mark.parametrize("likelihood", [Probit(bias=0.2, learn_bias=True), Logit(learn_bias=True)], ids=repr)
@pytest.mark.parametrize("engine", ENGINES, ids=lambda e: type(e).__name__)
def test_gradient_in_all_hyperparameters(engine, likelihood, data):
    X, y = data
    kernel = RBF(lengthscale=[1.0, 2.0, 0.7], variance=2.0) + 0.5 * Linear() + White(0.1)
    objective = Objective(X, y, kernel, likelihood, engine, resolve_priors(None, [*kernel.names, "bias"]))
    theta = objective.theta
    found = objective.fit(theta)
    fit, kernel, K = found.fit, found.kernel, found.K
    gradient = np.concatenate([kernel.pullback(X, fit.evidence_gradient(), value=K), fit.likelihood_gradient()])
    assert_allclose(gradient, numeric(objective, theta), rtol=1e-4, atol=2e-6)


def test_value_and_gradient_include_the_prior(data):
    X, y = data
    kernel = Matern52(1.5, 3.0)
    with_prior, without = (Objective(X, y, kernel, Probit(), EP(), resolve_priors(p, kernel.names)) for p in ("weak", None))
    a, b = with_prior.evaluate(with_prior.theta), without.evaluate(without.theta)
    h = 1e-5
    prior = [with_prior.evaluate(with_prior.theta + s * h).value - without.evaluate(without.theta + s * h).value
             for s in (1, -1)]  # fmt: skip
    assert a.value != b.value
    assert_allclose(np.sum(a.gradient - b.gradient), (prior[0] - prior[1]) / (2 * h), rtol=1e-5)


def test_warm_start_changes_nothing_but_the_work(data):
    X, y = data
    objective = Objective(X, y, RBF(), Probit(), EP(), resolve_priors(None, RBF().names))
    far = objective.evaluate(np.array([2.0, 3.0]))
    cold, warm = objective.evaluate(np.array([0.1, 1.0])), objective.evaluate(np.array([0.1, 1.0]), far.fit)
    assert_allclose(warm.value, cold.value, atol=1e-9)  # the square of the loose tolerance, with a margin
    assert_allclose(warm.gradient, cold.gradient, atol=1e-4)


def test_a_value_that_is_not_finite_is_a_failure(data):
    X, y = data
    objective = Objective(X, y, Constant(), Probit(), EP(), [_Broken()])
    with pytest.raises(FloatingPointError, match="variance"):
        objective.evaluate(objective.theta)


def test_a_start_that_the_prior_rules_out_is_named(data):
    X, y = data
    objective = Objective(X, y, RBF(0.5, 2.0), Probit(), EP(), [Gamma(2.0, 1.0, of="log"), Flat()])
    with pytest.raises(FloatingPointError, match=r"no density at lengthscale = -0\.69.*Start the kernel"):
        objective.evaluate(objective.theta)
    assert np.isfinite(objective.evaluate(np.array([0.1, 0.7])).value)


@pytest.mark.parametrize("engine", ENGINES, ids=lambda e: type(e).__name__)
def test_finish_has_the_digits_of_the_engine(engine, data):
    X, y = data
    objective = Objective(X, y, RBF(), Probit(), engine, resolve_priors(None, RBF().names))
    rough = objective.evaluate(objective.theta, tol=1e-2)
    fit = objective.finish(rough)
    assert fit.engine == engine
    assert fit.converged
    assert_allclose(fit.log_evidence, objective.fit(objective.theta).fit.log_evidence, rtol=1e-9)


def test_finish_does_no_work_twice(data):
    X, y = data
    objective = Objective(X, y, RBF(), Probit(), EP(tol=1e-5), resolve_priors(None, RBF().names))
    evaluation = objective.evaluate(objective.theta, tol=1e-9)  # the engine's own tolerance, at least
    assert objective.finish(evaluation).posterior is evaluation.fit.posterior


class _Broken:
    def log_density(self, theta):
        return np.full_like(theta, np.nan), theta


def test_threads_are_limited_by_the_rows_of_each_evaluation(monkeypatch):
    """A search on many rows begins with a subset, for which threads would not be faster."""
    asked = []
    monkeypatch.setattr(objective, "threads_for", lambda rows: asked.append(rows) or nullcontext())
    X = np.random.default_rng(0).normal(size=(400, 2))
    whole = Objective(X, np.sign(X[:, 0] + 0.1), RBF(1.0, 4.0), Probit(), Laplace(), [])
    learn(whole, [whole.theta], max_iter=2)
    assert {133, 400} <= set(asked)
    asked.clear()
    found = whole.fit(whole.theta)
    whole.with_gradient(found)
    assert asked == [400, 400]
