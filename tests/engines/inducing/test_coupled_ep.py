"""Coupled scalable EP: against nested EP on all rows and on the FITC prior, central differences, and scalable EP."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass import GPClassifier, load, save
from gpclass.engines.inducing.step import State, take_step
from gpclass.engines.observations import Observed
from gpclass.gaussian import LowRankMatrices
from gpclass.inference import NestedEP
from gpclass.kernels import RBF, PerClass
from gpclass.learning.inducing import InducingInputs
from gpclass.learning.objective import Objective
from gpclass.likelihoods import MultinomialProbit, Probit, Softmax
from gpclass.sparse import CoupledScalableEP, ScalableEP

from .inducing_problems import KERNEL, C, matrices, of_rows, problem

TIGHT = CoupledScalableEP(jitter=1e-12, tol=1e-10)
BIASED = MultinomialProbit(C, bias=(0.3, 0.0, -0.4), learn_bias=True)


def fitc(K_uu, K_fu, k_diag):
    """The explicit prior (n, n) of low rank plus diagonal."""
    Q = K_fu @ np.linalg.solve(K_uu, K_fu.T)
    return 0.5 * (Q + Q.T) + np.diag(k_diag - np.diag(Q))


def assert_same_fit(fit, dense, atol):
    assert fit.converged
    assert_allclose(fit.log_evidence, dense.log_evidence, atol=atol)
    assert_allclose(fit.mean, dense.mean, atol=atol)
    assert_allclose(fit.cov, dense.cov, atol=atol)
    for mine, theirs in zip(fit.cavity(), dense.cavity(), strict=True):
        assert_allclose(mine, theirs, atol=10 * atol)
    assert_allclose(fit.loo(), dense.loo(), atol=atol)


@pytest.mark.parametrize("likelihood", [MultinomialProbit(C), BIASED])
def test_inducing_points_at_the_data_give_nested_ep(likelihood):
    X, y = problem(40, seed=3)
    K = KERNEL(X) + 1e-3 * np.eye(40)
    fit, dense = TIGHT.fit(K, K, np.diag(K), y, likelihood), NestedEP(tol=1e-10).fit(K, y, likelihood)
    # jitter leaves 1e-12 of the prior variance; the condition of K, 1e5, multiplies it
    assert_same_fit(fit, dense, 1e-6)
    new = np.random.default_rng(0).normal(size=(20, 2))
    cross = KERNEL(X, new), KERNEL.diag(new)
    assert_allclose(fit.log_class_probabilities(*cross), dense.log_class_probabilities(*cross), atol=1e-6)
    assert_allclose(fit.likelihood_gradient(), dense.likelihood_gradient(), atol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_fewer_inducing_points_give_nested_ep_on_the_fitc_prior(n_classes):
    X, y = problem(60, n_classes, seed=1)
    K_uu, K_fu, k_diag = matrices(KERNEL, X, X[:9] + 0.1)
    likelihood = MultinomialProbit(n_classes)
    fit = TIGHT.fit(K_uu, K_fu, k_diag, y, likelihood)
    assert_same_fit(fit, NestedEP(tol=1e-10).fit(fitc(K_uu, K_fu, k_diag), y, likelihood), 1e-6)


def test_each_class_with_its_own_kernel():
    X, y = problem(50, seed=2)
    kernels = [RBF(0.7, 2.0), RBF(1.0, 4.0), RBF(1.5, 1.0)]
    parts = [np.stack(part) for part in zip(*(matrices(k, X, X[:8]) for k in kernels), strict=True)]
    fit = TIGHT.fit(*parts, y, MultinomialProbit(C))
    dense = np.stack([fitc(*(part[c] for part in parts)) for c in range(C)])
    assert_same_fit(fit, NestedEP(tol=1e-10).fit(dense, y, MultinomialProbit(C)), 1e-6)


def test_weights_are_repeated_rows():
    X, y = problem(30)
    weight = np.array([1, 2, 3] * 10)
    engine, args = CoupledScalableEP(tol=1e-10), (KERNEL, X, X[:6])
    a = engine.fit(*matrices(*args), Observed(y, weight.astype(float)), MultinomialProbit(C))
    b = engine.fit(*matrices(KERNEL, np.repeat(X, weight, axis=0), X[:6]), np.repeat(y, weight), MultinomialProbit(C))
    assert_allclose(a.log_evidence, b.log_evidence, atol=1e-7)
    assert_allclose(a.posterior.mu, b.posterior.mu, atol=1e-7)


def test_weights_below_one_are_those_of_nested_ep():
    """A row of weight below one is one copy with a power of the likelihood."""
    X, y = problem(30)
    K_uu, K_fu, k_diag = matrices(KERNEL, X, X[:6])
    observed = Observed(y, np.tile([0.05, 0.5, 1.0], 10))
    fit = TIGHT.fit(K_uu, K_fu, k_diag, observed, MultinomialProbit(C))
    dense = NestedEP(tol=1e-10).fit(fitc(K_uu, K_fu, k_diag), observed, MultinomialProbit(C))
    assert fit.converged
    assert_allclose(fit.log_evidence, dense.log_evidence, atol=1e-6)
    assert_allclose(fit.mean, dense.mean, atol=1e-6)


@pytest.mark.parametrize("kernel", [KERNEL, PerClass(RBF(0.7, 2.0), RBF(1.0, 4.0), RBF(1.5, 1.0))])
def test_gradients_in_hyperparameters_and_inputs_are_central_differences(kernel):
    X, y = problem(40)
    Z = X[None, :5] + 0.2
    objective = Objective(X, y, kernel, BIASED, TIGHT, [], design=InducingInputs(Z, np.ones(2)))
    theta, h = objective.theta, 1e-5
    found = objective.evaluate(theta, tol=0.0).gradient
    rng = np.random.default_rng(5)
    for direction in (*np.eye(len(theta))[:: max(1, len(theta) // 6)], rng.normal(size=len(theta))):
        ends = [objective.evaluate(theta + s * h * direction, tol=0.0).value for s in (1, -1)]
        # tolerance 1e-10 of the sites over 2 h
        assert_allclose(found @ direction, (ends[0] - ends[1]) / (2 * h), rtol=1e-4, atol=1e-4)


def test_one_latent_function_is_scalable_ep():
    X, y = problem(40, 1)
    args = (*matrices(KERNEL, X, X[:8]), y, Probit())
    a, b = CoupledScalableEP().fit(*args), ScalableEP().fit(*args)
    assert a.log_evidence == b.log_evidence
    assert np.array_equal(a.posterior.mu, b.posterior.mu)


@pytest.mark.parametrize("size", [10, 60])
def test_minibatches_with_hyperparameters_held_settle_where_sweeps_do(size):
    n, likelihood = 120, MultinomialProbit(C)
    X, y = problem(n)
    Z, engine = X[:12], CoupledScalableEP(tol=1e-9)
    fit = engine.fit(*matrices(KERNEL, X, Z), y, likelihood)
    sites, state = engine.row_sites(n, likelihood), State.empty(C, len(Z), engine.structure(likelihood))
    for number in range(max(25, size)):  # large minibatches take half steps
        order = np.random.default_rng(number).permutation(n)
        for i in range(0, n, size):
            rows = order[i : i + size]
            K = LowRankMatrices(*matrices(KERNEL, X[rows], Z))
            done, part = take_step(engine, state, K, y[rows], of_rows(sites, rows), n, likelihood, size)
            state = done.state
            for name, new in part.sites.items():
                sites[name][rows] = new
    prior = fit.posterior.prior
    q = prior.posterior(*prior.whitened(state.P, state.h))
    for found, settled in zip(q.predict(fit.rows), fit.posterior.predict(fit.rows), strict=True):
        assert_allclose(found, settled, atol=1e-5)  # 2e-6 is left, measured


def test_coupling_brings_evidence_and_variances_closer_to_those_of_all_rows():
    X, y = problem(120, 4, seed=6)
    K = KERNEL(X)
    dense = NestedEP().fit(K, y, MultinomialProbit(4))
    args = (*matrices(KERNEL, X, X), y, MultinomialProbit(4))
    coupled, product = CoupledScalableEP().fit(*args), ScalableEP().fit(*args)
    assert abs(coupled.log_evidence - dense.log_evidence) < 1e-2  # jitter
    assert product.log_evidence < dense.log_evidence - 1
    assert np.mean(np.sqrt(product.var / dense.var)) < 0.97
    assert CoupledScalableEP().evidence_is_comparable(MultinomialProbit(4))


def test_other_likelihoods_for_several_classes_are_refused():
    X, y = problem(20)
    with pytest.raises(TypeError, match=r"CoupledScalableEP.*MultinomialProbit"):
        CoupledScalableEP().fit(*matrices(KERNEL, X, X[:5]), y, Softmax(C))


@pytest.mark.parametrize("search", ["settled", "minibatches"])
def test_as_an_estimator(search, tmp_path):
    X, y = problem(150, seed=7)
    engine = CoupledScalableEP(n_inducing=12, search=search, epochs=6, batch_size=50, learn_inputs=search != "settled")
    clf = GPClassifier(inference=engine, random_state=0).fit(X[:120], np.array(["a", "b", "c"])[y[:120]])
    assert clf.score(X[120:], np.array(["a", "b", "c"])[y[120:]]) > 0.6
    mean, cov = clf.latent(X[120:])
    assert mean.shape == (30, C)
    assert cov.shape == (30, C, C)
    assert np.any(np.abs(cov[:, 0, 1]) > 1e-3)
    save(clf, tmp_path / "model.npz")
    # the posterior is rebuilt; threads of BLAS may round differently
    assert_allclose(load(tmp_path / "model.npz").predict_proba(X), clf.predict_proba(X), rtol=0, atol=1e-12)


def test_a_checkpoint_goes_on_to_the_same_model(tmp_path):
    X, y = problem(90)
    engine = CoupledScalableEP(n_inducing=8, search="minibatches", epochs=4, batch_size=30)
    whole = GPClassifier(inference=engine, random_state=0, calibrate=None).fit(X, y)
    path = tmp_path / "run.npz"
    for epochs in (2, 4):
        part = replace(engine, epochs=epochs, decay=False, checkpoint=path)
        resumed = GPClassifier(inference=part, random_state=0, calibrate=None).fit(X, y)
    straight = GPClassifier(inference=replace(engine, decay=False), random_state=0, calibrate=None).fit(X, y)
    assert np.array_equal(resumed.predict_proba(X), straight.predict_proba(X))
    assert not np.array_equal(resumed.predict_proba(X), whole.predict_proba(X))


def test_rows_added_later():
    X, y = problem(200)
    engine = CoupledScalableEP(n_inducing=10, epochs=5, search="minibatches")
    clf = GPClassifier(inference=engine, random_state=0).fit(X[:100], y[:100])
    before = clf.predict_proba(X)
    clf.partial_fit(X[100:], y[100:])
    assert np.max(np.abs(clf.predict_proba(X) - before)) > 1e-3
