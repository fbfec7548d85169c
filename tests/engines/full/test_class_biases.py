"""Class biases and the robust likelihood through every engine of several classes."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass import GPClassifier
from gpclass.inference import EP, IndependentEP, Laplace, MeanFieldProbit, NestedEP, QuadratureEP, VariationalMNL
from gpclass.kernels import RBF
from gpclass.likelihoods import MultinomialProbit, Probit, RobustMax, Softmax
from gpclass.sampling import Gibbs, orthant_evidence

QIEP = QuadratureEP(coupled=False)
CASES = [
    (NestedEP(), MultinomialProbit),
    (IndependentEP(), MultinomialProbit),
    (QIEP, MultinomialProbit),
    (QuadratureEP(nodes=16), MultinomialProbit),
    (MeanFieldProbit(), MultinomialProbit),
    (Laplace(), Softmax),
    (QIEP, RobustMax),
]
ids = [f"{type(e).__name__}{'' if getattr(e, 'coupled', True) else '-independent'}-{c.__name__}" for e, c in CASES]
BIAS = (0.3, 1.0, -0.8)


def problem(n=14, C=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.argmax(X @ rng.normal(size=(2, C)) + 0.3 * rng.normal(size=(n, C)) + np.arange(C), axis=1)
    return X, RBF(1.0, 2.0)(X) + 0.01 * np.eye(n), y


@pytest.mark.parametrize(("engine", "cls"), CASES, ids=ids)
def test_gradient(engine, cls):
    _, K, y = problem()
    tight = replace(engine, tol=1e-10)
    extra = {"epsilon": 0.05, "learn_epsilon": True} if cls is RobustMax else {}
    likelihood, h = cls(3, bias=BIAS, learn_bias=True, **extra), 1e-4
    got = tight.fit(K, y, likelihood).likelihood_gradient()
    assert got.shape == likelihood.theta.shape
    for k, e in enumerate(h * np.eye(len(got))):
        up, down = (tight.fit(K, y, likelihood.with_theta(likelihood.theta + s * e)).log_evidence for s in (1, -1))
        # coupled quadrature EP is only approximately stationary: see its evidence_gradient
        close = {"rel": 0.03, "abs": 0.01} if getattr(engine, "coupled", False) else {"rel": 1e-5, "abs": 1e-6}
        assert got[k] == pytest.approx((up - down) / (2 * h), **close)


@pytest.mark.parametrize(("engine", "cls"), CASES, ids=ids)
def test_what_all_classes_share_decides_nothing(engine, cls):
    _, K, y = problem()
    a = engine.fit(K, y, cls(3, bias=BIAS))
    b = engine.fit(K, y, cls(3, bias=tuple(np.array(BIAS) + 7)))
    assert a.log_evidence == pytest.approx(b.log_evidence, abs=1e-8)
    Ks, kd = K[:, :3], np.full(3, K[0, 0])
    assert_allclose(a.log_class_probabilities(Ks, kd), b.log_class_probabilities(Ks, kd), atol=1e-7)
    plain = engine.fit(K, y, cls(3))
    assert abs(plain.log_evidence - a.log_evidence) > 0.05


def test_evidence_with_biases_is_near_the_exact_one():
    _, K, y = problem()
    likelihood = MultinomialProbit(3, bias=BIAS)
    exact = orthant_evidence(K, y, likelihood).log_evidence
    assert NestedEP().fit(K, y, likelihood).log_evidence == pytest.approx(exact, abs=0.08)  # 0.06 without biases too
    assert QuadratureEP(nodes=16).fit(K, y, likelihood).log_evidence == pytest.approx(exact, abs=0.06)
    assert MeanFieldProbit().fit(K, y, likelihood).log_evidence < exact


def test_two_classes_with_bias_are_binary_ep():
    _, K, y = problem(C=2)
    # f_1 - f_0 has twice the variance and noise of variance two: halved they are binary probit
    several = NestedEP(tol=1e-10).fit(K, y, MultinomialProbit(2, bias=(0.0, 0.7)))
    binary = EP(tol=1e-10).fit(K, 2.0 * y - 1, Probit(bias=0.7 / np.sqrt(2)))
    assert several.log_evidence == pytest.approx(binary.log_evidence, abs=1e-8)
    Ks, kd = K[:, :4], np.full(4, K[0, 0])
    assert_allclose(several.log_class_probabilities(Ks, kd), binary.log_class_probabilities(Ks, kd), atol=1e-7)


def test_gibbs_with_biases_agrees_with_nested_ep():
    _, K, y = problem()
    likelihood = MultinomialProbit(3, bias=BIAS)
    draws = Gibbs(n_draws=2000, random_state=0).fit(K, y, likelihood)
    fit = NestedEP().fit(K, y, likelihood)
    Ks, kd = K[:, :5], np.full(5, K[0, 0])
    gap = np.exp(draws.log_class_probabilities(Ks, kd)) - np.exp(fit.log_class_probabilities(Ks, kd))
    assert np.abs(gap).max() < 0.03  # EP's own error is 0.01 here, the rest is the error of the draws


def test_robust_max_against_draws_from_the_prior():
    """Evidence and posterior means of three data, by importance sampling from the prior."""
    K = np.array([[2.0, 1.2, 0.1], [1.2, 2.0, 0.4], [0.1, 0.4, 2.0]])
    y, likelihood = np.array([0, 1, 2]), RobustMax(3, epsilon=0.1)
    rng = np.random.default_rng(0)
    f = np.einsum("ij,sjc->sic", np.linalg.cholesky(K), rng.normal(size=(400_000, 3, 3)))
    weight = np.exp(likelihood.log_prob_value(y[None], f).sum(1))
    fit = QIEP.fit(K, y, likelihood)
    # ignoring the dependence between classes costs 0.03 per datum here
    assert fit.log_evidence == pytest.approx(np.log(weight.mean()), abs=0.1)
    mean = np.einsum("s,sic->ic", weight, f) / weight.sum()
    assert np.abs(fit.mean - mean).max() < 0.15


def test_a_robust_posterior_ignores_one_wrong_label():
    x = np.linspace(0, 3, 31)[:, None]
    y = np.minimum(x[:, 0].astype(int), 2)
    y[5] = 2
    K = RBF(1.0, 4.0)(x)
    robust = QIEP.fit(K, y, RobustMax(3, epsilon=0.05))
    assert robust.converged
    assert robust.mean[5].argmax() == 0
    assert np.any(robust.sites.tau < 0)  # as stated


def test_estimator_learns_biases_and_noise():
    X, _, y = problem(n=30, seed=3)
    plain = GPClassifier(random_state=0).fit(X, y)
    biased = GPClassifier(likelihood=MultinomialProbit(3, learn_bias=True), random_state=0).fit(X, y)
    assert biased.log_evidence_ > plain.log_evidence_ - 1e-3
    assert np.any(biased.likelihood_.offset != 0)
    robust = GPClassifier(likelihood=RobustMax(3, learn_epsilon=True), random_state=0).fit(X, y)
    assert robust.likelihood_.epsilon != RobustMax(3).epsilon
    assert not robust.inference_.coupled
    assert robust.score(X, y) > 0.8
    assert isinstance(GPClassifier(likelihood="softmax", optimizer=None).fit(X, y).inference_, VariationalMNL)
    with pytest.raises(TypeError, match="NestedEP needs contrast_factor, which RobustMax does not offer"):
        GPClassifier(likelihood="robust-max", inference="nested-ep").fit(X, y)
