"""VB: the best quadratic bounds, their points of contact, and their distance from the truth."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass import GPClassifier
from gpclass.engines.full.vb import bound_evidence
from gpclass.engines.observations import Observed, data_of
from gpclass.gaussian import FullPosterior, Sites
from gpclass.inference import KL, VB, Laplace
from gpclass.likelihoods import Gaussian, Heaviside, Logit, Probit

from .truth import data, errors, refitted_loo

LIKELIHOODS = [Probit(), Logit(), Probit(0.5), Logit(-0.5)]


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
def test_evidence_is_the_bound_integral(likelihood):
    """log ∫ N(f | 0, K) ∏ bound_i(f_i) df with explicit inverses: [NR] (13)."""
    K, y = data(10, seed=1, nugget=0.1)
    fit = VB().fit(K, y, likelihood)
    constant, nu, tau = likelihood.bound(y, likelihood.bound_point(y, fit.mean, fit.var))
    V = np.linalg.inv(np.linalg.inv(K) + np.diag(tau))
    log_z = constant.sum() + 0.5 * nu @ V @ nu - 0.5 * np.linalg.slogdet(np.eye(10) + K * tau)[1]
    assert_allclose(fit.log_evidence, log_z, atol=1e-9)  # stationary: second order in tol
    assert_allclose(fit.mean, V @ nu, atol=1e-5)  # 100 × tol
    assert_allclose(fit.var, np.diagonal(V), rtol=1e-5)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
def test_no_other_touching_points_give_a_higher_bound(likelihood):
    K, y = data(8, seed=2, nugget=0.1)
    fit, rng = VB().fit(K, y, likelihood), np.random.default_rng(0)
    best = likelihood.bound_point(y, fit.mean, fit.var)
    for size in (1e-2, 0.1, 1.0):
        for _ in range(20):
            constant, nu, tau = likelihood.bound(y, best + size * rng.normal(size=8))
            q = FullPosterior(K, Sites(tau, nu))
            assert constant.sum() + q.log_partition < fit.log_evidence + 1e-12


def test_logit_touches_at_the_second_moment():
    """ς² = m² + v at the optimum (errata D), seen in the site precisions 2λ(ς) = tanh(ς/2)/(2ς)."""
    K, y = data(12, seed=3)
    fit = VB().fit(K, y, Logit())
    touch = np.sqrt(fit.mean**2 + fit.var)
    assert_allclose(fit.W, np.tanh(touch / 2) / (2 * touch), atol=1e-6)
    assert_allclose(fit.sites.nu, y / 2, atol=1e-6)


@pytest.mark.parametrize("bias", [0.0, 0.5])
def test_probit_mean_is_the_laplace_mode(bias):
    """Errata D: only W differs, and is one."""
    K, y = data(20, seed=4, variance=5.0)
    vb, laplace = VB().fit(K, y, Probit(bias)), Laplace().fit(K, y, Probit(bias))
    assert_allclose(vb.mean, laplace.mean, atol=1e-6)  # 10 × VB's tol
    assert_allclose(vb.W, np.ones(20), atol=1e-12)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
def test_is_a_bound_for_any_gaussian(likelihood):
    K, y = data(8, seed=5, nugget=0.1)
    best, rng = VB().fit(K, y, likelihood).log_evidence, np.random.default_rng(0)
    for _ in range(20):
        q = FullPosterior(K, Sites(rng.gamma(1.0, size=8), rng.normal(size=8)))
        assert bound_evidence(q, data_of(VB(), y, likelihood)) < best


@pytest.mark.parametrize(("likelihood", "log_z", "mean", "var"), [(Probit(), 0.84, 0.47, 0.67), (Logit(), 0.12, 0.15, 0.19)])
def test_measured_accuracy(likelihood, log_z, mean, var):
    """Two points, σ_f² = 4: 0.836, 0.462, 67 % (probit) and 0.119, 0.143, 19 % (logit) were measured."""
    assert np.all(errors(VB(), likelihood) <= (log_z, mean, var))


def test_leave_one_out_against_refits():
    K, y = data(12, seed=5, variance=4.0)
    for likelihood, tol in ((Probit(), 0.15), (Logit(), 0.03)):  # measured: 0.146 and 0.025
        assert_allclose(VB().fit(K, y, likelihood).loo(), refitted_loo(VB(), K, y, likelihood), atol=tol)


# objective="jensen" -----------------------------------------------------------------------------------------------------

JENSEN = VB(objective="jensen", tol=1e-11)


def central(evidence, h=1e-3):
    """Fourth-order difference: error of order h⁴ f⁽⁵⁾/30 + tol/h."""
    return (8 * (evidence(h) - evidence(-h)) - (evidence(2 * h) - evidence(-2 * h))) / (12 * h)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
def test_the_jensen_objective_is_the_jensen_bound_of_the_same_posterior(likelihood):
    K, y = data(10, seed=1, nugget=0.1)
    usual, fit = VB(tol=1e-11).fit(K, y, likelihood), JENSEN.fit(K, y, likelihood)
    assert np.array_equal(fit.mean, usual.mean)
    assert np.array_equal(fit.var, usual.var)
    assert fit.log_evidence == usual.jensen_bound() > usual.log_evidence
    assert fit.log_evidence < KL().fit(K, y, likelihood).log_evidence


@pytest.mark.parametrize("likelihood", [Probit(0.5, learn_bias=True), Logit(-0.5, learn_bias=True), Gaussian(0.3)], ids=repr)
@pytest.mark.parametrize("variance", [0.5, 20.0])
def test_the_jensen_gradient_follows_the_fixed_point(likelihood, variance):
    """In K and in θ; the explicit part alone would be wrong by several percent or more."""
    K, y = data(9, seed=3, variance=variance, nugget=0.3)
    D = np.random.default_rng(0).normal(size=K.shape)
    D = (D + D.T) / np.linalg.norm(D + D.T, 2)
    fit = JENSEN.fit(K, y, likelihood)
    for direction in (K / np.linalg.norm(K, 2), D):
        slope = central(lambda t, d=direction: JENSEN.fit(K + t * d, y, likelihood, fit).log_evidence)
        assert_allclose(np.sum(fit.evidence_gradient() * direction), slope, rtol=1e-6, atol=1e-7)
    moved = central(lambda t: JENSEN.fit(K, y, likelihood.with_theta(likelihood.theta + t), fit).log_evidence)
    assert_allclose(fit.likelihood_gradient(), [moved], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("likelihood", [Probit(0.5, learn_bias=True), Logit(-0.5, learn_bias=True)], ids=repr)
def test_the_jensen_gradient_with_weights_and_shared_latent_values(likelihood):
    K, _ = data(5, seed=4, variance=3.0, nugget=0.3)
    signs, weight = np.array([1.0, -1, 1, 1, -1, 1, -1]), np.array([2.0, 0.5, 1, 3, 1, 0.2, 1])
    y = Observed(signs, weight, place=np.array([0, 0, 1, 2, 2, 3, 4]))
    fit, D = JENSEN.fit(K, y, likelihood), np.diag([1.0, -1, 0.5, 0, 0.3]) + 0.2
    slope = central(lambda t: JENSEN.fit(K + t * D, y, likelihood, fit).log_evidence)
    assert_allclose(np.sum(fit.evidence_gradient() * D), slope, rtol=1e-6)
    moved = central(lambda t: JENSEN.fit(K, y, likelihood.with_theta(likelihood.theta + t), fit).log_evidence)
    assert_allclose(fit.likelihood_gradient(), [moved], rtol=1e-6)


def test_learning_by_the_jensen_bound_ends_at_a_higher_one():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = np.sign(X[:, 0] + 0.5 * X[:, 1] ** 2 - 0.3 + 0.3 * rng.normal(size=40))
    usual, jensen = (
        GPClassifier("rbf", "logit", VB(objective=objective), priors=None).fit(X, y) for objective in ("bound", "jensen")
    )
    assert jensen.log_evidence_ > usual.posterior_.jensen_bound() + 0.05  # measured: 0.30 nats


def test_a_wrong_objective_is_named():
    with pytest.raises(ValueError, match="objective must be 'bound' or 'jensen', but is 'kl'"):
        VB(objective="kl")
    with pytest.raises(TypeError, match=r"VB needs bound, which Heaviside does not offer.*Logit, Probit"):
        JENSEN.fit(np.eye(2), np.array([1.0, -1.0]), Heaviside())
