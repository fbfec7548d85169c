"""VB: the best quadratic bounds, where they touch, and how far below the truth they are."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from truth import data, errors, refitted_loo

from gpclass.engines.full.vb import bound_evidence
from gpclass.engines.observations import data_of
from gpclass.gaussian import FullPosterior, Sites
from gpclass.inference import VB, Laplace
from gpclass.likelihoods import Logit, Probit

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
