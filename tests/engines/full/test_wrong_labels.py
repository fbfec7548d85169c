"""Engines and samplers with label noise: evidence and posterior by brute force, limits, wrong labels."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass import GPClassifier
from gpclass.engines.full.ep import require_cavities
from gpclass.engines.full.independent_ep import _Matching
from gpclass.engines.full.quadrature_ep import quadrature_moments
from gpclass.gaussian import FullPosterior, Sites, StackedPosterior
from gpclass.inference import EP, KL, TAP, Laplace, NestedEP, QuadratureEP
from gpclass.kernels import RBF
from gpclass.likelihoods import MultinomialProbit, Probit
from gpclass.numerics import NotPositiveDefinite, hermite_nodes
from gpclass.sampling import HMC, EllipticalSlice, Gibbs, importance_sampling
from gpclass.sparse import ScalableEP

QIEP = QuadratureEP(coupled=False)


def exact_binary(K, y, likelihood, nodes=40):
    """Log evidence and posterior mean of a few data by product quadrature."""
    x, log_w = hermite_nodes(nodes, len(y))
    f = x @ np.linalg.cholesky(K).T
    w = np.exp(log_w + likelihood.log_prob_value(y, f).sum(1))
    return np.log(w.sum()), w @ f / w.sum()


def exact_several(K, y, likelihood, nodes=10):
    """The same for three classes: only the two contrasts of the latent values of each datum count."""
    n = len(y)
    x, log_w = hermite_nodes(nodes, 2 * n)
    basis = np.linalg.qr(np.column_stack([np.ones(3), np.eye(3)[:, :2]]))[0][:, 1:]
    f = np.einsum("ij,qjk,ck->qic", np.linalg.cholesky(K), x.reshape(-1, n, 2), basis)
    w = np.exp(log_w) * np.prod(likelihood.class_probabilities(f)[:, np.arange(n), y], axis=1)
    return np.log(w.sum()), np.einsum("q,qic->ic", w, f) / w.sum()


@pytest.mark.parametrize("epsilon", [0.02, 0.3])
@pytest.mark.parametrize(("variance", "error"), [(1.0, 0.003), (4.0, 0.05)])  # of EP, measured; of quadrature 1e-9 and 1e-5
def test_two_classes_against_product_quadrature(variance, error, epsilon):
    """One of the labels contradicts its neighbours."""
    X, y = np.array([[0.0], [0.3], [0.6]]), np.array([1.0, -1.0, 1.0])
    K, likelihood = RBF(1.0, variance)(X), Probit(0.2, epsilon=epsilon)
    log_z, mean = exact_binary(K, y, likelihood)
    for engine in (EP(), EP(schedule="sequential"), TAP()):
        fit = engine.fit(K, y, likelihood)
        assert fit.converged
        assert abs(fit.log_evidence - log_z) < error
        assert np.abs(fit.mean - mean).max() < error
    assert log_z - 2 * error < KL().fit(K, y, likelihood).log_evidence < log_z  # a bound
    # data that are independent a priori are so a posteriori, and each integral is exact
    alone = np.diag([variance, 0.5, 2.0])
    assert_allclose(EP().fit(alone, y, likelihood).log_evidence, exact_binary(alone, y, likelihood)[0], atol=1e-4)


@pytest.mark.parametrize("epsilon", [0.02, 0.3])
@pytest.mark.parametrize("y", [[0, 0], [0, 1]])
def test_several_classes_against_product_quadrature(y, epsilon):
    y, likelihood = np.array(y), MultinomialProbit(3, (0.1, 0.0, -0.2), epsilon=epsilon)
    K = np.array([[1.0, 0.75], [0.75, 1.0]])
    log_z, mean = exact_several(K, y, likelihood)  # to 2e-6, against 14 nodes
    fit = QIEP.fit(K, y, likelihood)
    assert fit.converged
    assert abs(fit.log_evidence - log_z) < 0.016  # of independence between the classes, measured; 0.006 with ε = 0.3
    assert np.abs(fit.mean - fit.mean.mean(1, keepdims=True) - mean).max() < 0.004
    # the same without correlation between the data is exact
    one = [exact_several(np.array([[v]]), y[i : i + 1], likelihood, nodes=40)[0] for i, v in enumerate((4.0, 2.0))]
    assert_allclose(QIEP.fit(np.diag([4.0, 2.0]), y, likelihood).log_evidence, sum(one), atol=1e-7)


def flipped_problem(C, n=24, seed=3, variance=9.0):
    """Points of C sectors, three of them with another label."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 2))
    y = (np.arctan2(X[:, 1], X[:, 0]) // (2 * np.pi / C)).astype(int) % C
    y[:3] = (y[:3] + 1) % C
    return RBF(1.5, variance)(X), y


@pytest.mark.parametrize("C", [2, 3])
def test_limits_of_epsilon(C):
    K, y = flipped_problem(C)
    if C == 2:
        engine, make, y = EP(tol=1e-10), lambda **more: Probit(0.1, **more), 2.0 * y - 1
    else:
        engine, make = QuadratureEP(coupled=False, tol=1e-10), lambda **more: MultinomialProbit(3, **more)
    noise_free = engine.fit(K, y, make()).log_evidence
    assert_allclose(engine.fit(K, y, make(epsilon=1e-11)).log_evidence, noise_free, atol=1e-8)
    assert_allclose(engine.fit(K, y, make(epsilon=1 - 1e-12)).log_evidence, -len(y) * np.log(C), atol=1e-9)


def test_wrong_labels_against_samplers():
    """Importance sampling of the evidence, and three samplers of the mean: exact up to their errors, and EP is near."""
    K, y = flipped_problem(2)
    y, likelihood = 2.0 * y - 1, Probit(epsilon=0.2)
    fit = EP().fit(K, y, likelihood)
    assert np.any(fit.sites.tau < 0)  # of wrong labels
    truth = importance_sampling(K, y, likelihood, n_samples=40_000, random_state=0)
    assert abs(fit.log_evidence - truth.log_evidence) < 0.15 + 3 * truth.standard_error
    short = {"n_draws": 1500, "n_warmup": 300, "n_chains": 4, "random_state": 0}
    means = [sampler(**short).fit(K, y, likelihood).mean for sampler in (HMC, EllipticalSlice, Gibbs)]
    sd = np.sqrt(fit.var)
    # 6000 correlated draws: at least 200 effective ones, so that the largest of 24 differences is below 3.5 √(2/200)
    assert np.abs((means[0] - means[1]) / sd).max() < 0.35
    assert np.abs((means[0] - means[2]) / sd).max() < 0.35
    assert np.abs((means[0] - fit.mean) / sd).max() < 0.5


@pytest.mark.slow
def test_wrong_labels_of_several_classes_against_samplers():
    K, y = flipped_problem(3, variance=2.0)  # Gibbs needs many draws for wider priors
    likelihood = MultinomialProbit(3, epsilon=0.3)
    fit = QIEP.fit(K, y, likelihood)
    hmc = HMC(n_draws=500, n_warmup=200, n_chains=4, random_state=0).fit(K, y, likelihood)
    gibbs = Gibbs(n_draws=1000, n_warmup=100, n_chains=4, random_state=0).fit(K, y, likelihood)
    sampled, drawn, matched = (m - m.mean(1, keepdims=True) for m in (hmc.mean, gibbs.mean, fit.mean))
    sd = np.sqrt(fit.var)
    assert np.abs((sampled - drawn) / sd).max() < 0.35  # see above
    assert np.abs((sampled - matched) / sd).max() < 0.35
    plain = NestedEP().fit(K, y, MultinomialProbit(3))  # follows wrong labels more closely
    rows = np.arange(3)
    assert np.all(fit.mean[rows, y[:3]] < plain.mean[rows, y[:3]])


def test_all_rows_as_inducing_inputs_are_the_dense_engine():
    K, y = flipped_problem(3)
    likelihood = MultinomialProbit(3, epsilon=0.3)
    engine = ScalableEP(tol=1e-8, jitter=1e-10)
    assert engine.evidence_is_comparable(likelihood)
    dense = QIEP.fit(K, y, likelihood).log_evidence
    assert_allclose(engine.fit(K, K, np.diag(K), y, likelihood).log_evidence, dense, atol=1e-3)  # tolerances and jitter


@pytest.mark.parametrize("C", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_estimator_learns_epsilon(C):
    """A fifth of the labels of well separated classes is random; the learned ε is close to that."""
    rng = np.random.default_rng(0)
    y = np.arange(90) % C
    X = 3 * np.array([[0, 0], [2, 0], [0, 2]])[y] + rng.normal(size=(90, 2))
    wrong = np.where(rng.random(90) < 0.2, rng.integers(C, size=90), y)
    likelihood = Probit(epsilon=0.05) if C == 2 else MultinomialProbit(C, epsilon=0.05)
    noisy = GPClassifier(likelihood=likelihood, random_state=0).fit(X, wrong)
    assert isinstance(noisy.inference_, EP if C == 2 else QuadratureEP)
    assert 0.05 < noisy.likelihood_.epsilon < 0.45
    plain = GPClassifier(likelihood=likelihood.clean, inference=noisy.inference_, random_state=0).fit(X, wrong)
    assert noisy.log_evidence_ > plain.log_evidence_
    kept = GPClassifier(likelihood=replace(likelihood, learn_epsilon=False), random_state=0).fit(X, wrong)
    assert kept.likelihood_.epsilon == 0.05


def test_laplace_gradient_in_epsilon():
    """The only engine whose gradient needs derivatives of slope and curvature in ε."""
    K, y = flipped_problem(2)
    h, y, engine, likelihood = 1e-5, 2.0 * y - 1, Laplace(tol=1e-11), Probit(0.1, learn_bias=True, epsilon=0.2)
    gradient = engine.fit(K, y, likelihood).likelihood_gradient()
    for k, e in enumerate(h * np.eye(2)):
        up, down = (engine.fit(K, y, likelihood.with_theta(likelihood.theta + s * e)).log_evidence for s in (1, -1))
        assert_allclose(gradient[k], (up - down) / (2 * h), rtol=1e-6, atol=1e-7)


def test_a_datum_without_a_proper_cavity_keeps_its_sites():
    """The negative site of one datum needs the positive site of another: without it the cavity is improper."""
    K, y, likelihood = 4 * np.array([[1.0, 0.9], [0.9, 1.0]]), np.array([0, 1]), MultinomialProbit(3, epsilon=0.1)
    data = _Matching(partial(quadrature_moments, y, likelihood))
    tau = np.array([[2.0, -0.3], [0.1, 0.1], [0.1, 0.1]])  # ordered by class
    parts = [FullPosterior(K, Sites(t, np.array([0.5, -0.2]))) for t in tau]
    q = StackedPosterior(K, parts, data.coupling)
    var = q.table(q.cavity()[1])
    assert var[0, 0] < 0 < var[1].min()
    wanted, now = data.rule(q).sites, q.sites
    for new, old in ((wanted.tau, now.tau), (wanted.nu, now.nu)):
        assert_allclose(q.table(new)[0], q.table(old)[0], atol=1e-12)
        assert np.all(np.abs(q.table(new)[1] - q.table(old)[1]) > 1e-3)
    with pytest.raises(NotPositiveDefinite, match=r"QuadratureEP ended with .* no proper cavity.*raise its label noise"):
        require_cavities(QIEP, q, likelihood)
