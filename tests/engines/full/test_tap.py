"""TAP and its naive variant: their equations hold, and they converge."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.engines.full.tap import solve
from gpclass.inference import EP, TAP, TAPNaive
from gpclass.kernels import RBF
from gpclass.likelihoods import Gaussian, Heaviside, Logit, Probit

from .truth import TWO_POINTS, data, errors, refitted_loo

LIKELIHOODS = [Probit(), Logit(), Probit(0.5), Heaviside(0.0), Heaviside(0.1)]


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
@pytest.mark.parametrize("variance", [0.1, 2.0, 50.0])
def test_tap_ends_where_ep_ends(likelihood, variance):
    K, y = data(15, seed=1, variance=variance, nugget=0.05)
    tap, ep = TAP().fit(K, y, likelihood), EP().fit(K, y, likelihood)
    assert_allclose(tap.log_evidence, ep.log_evidence, atol=1e-6)
    sd = np.sqrt(ep.var)
    assert_allclose(tap.mean / sd, ep.mean / sd, atol=1e-6)  # 100 × tol, in standard deviations
    assert_allclose(tap.var / ep.var, np.ones(15), atol=1e-6)
    assert_allclose(tap.evidence_gradient(), ep.evidence_gradient(), atol=1e-6 * np.abs(ep.evidence_gradient()).max())


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
def test_naive_equations(likelihood):
    """α_i = d log Z_i/dμ_i at μ = (K - Dg K) α, and W⁻¹ = 1/ν - s with s = K_ii: [NR] (11) as corrected."""
    K, y = data(12, seed=2, nugget=0.1)
    fit = TAPNaive().fit(K, y, likelihood)
    prior = np.diagonal(K)
    log_mass, d1, d2 = likelihood.tilted_moments(y, K @ fit.alpha - prior * fit.alpha, prior)
    assert_allclose(fit.alpha, d1, atol=1e-7)  # 10 × tol
    assert_allclose(1 / fit.W, -1 / d2 - prior, rtol=1e-6)
    evidence = log_mass.sum() - 0.5 * fit.alpha @ (K - np.diag(prior)) @ fit.alpha
    assert_allclose(fit.log_evidence, evidence, atol=1e-9)  # stationary in α


def test_naive_regression_keeps_the_posterior_but_not_the_evidence():
    K, y = data(8, seed=3)
    naive, exact = TAPNaive().fit(K, y, Gaussian(0.3)), EP().fit(K, y, Gaussian(0.3))
    assert_allclose(naive.mean, exact.mean, atol=1e-8)
    assert_allclose(naive.var, exact.var, atol=1e-8)
    assert abs(naive.log_evidence - exact.log_evidence) > 0.1


@pytest.mark.parametrize(("likelihood", "log_z", "mean", "var"), [
    (Probit(), 0.23, 0.12, 0.055), (Logit(), 0.08, 0.05, 0.036),
    (Heaviside(0.0), 0.6, 0.23, 0.23), (Heaviside(0.2), 0.065, 0.03, 0.09),
])  # fmt: skip
def test_measured_accuracy_of_the_naive_variant(likelihood, log_z, mean, var):
    """Two points, σ_f² = 4: 0.222, 0.110, 5.0 %; 0.076, 0.047, 3.5 %; 0.595, 0.221, 22 %; 0.060, 0.024, 8 %."""
    assert np.all(errors(TAPNaive(), likelihood) <= (log_z, mean, var))


def test_measured_accuracy_of_tap_is_that_of_ep():
    assert_allclose(errors(TAP(), Probit(), TWO_POINTS), errors(EP(), Probit(), TWO_POINTS), atol=1e-6)


def test_leave_one_out_against_refits():
    K, y = data(12, seed=5, variance=4.0)
    for engine, likelihood, tol in ((TAP(), Probit(), 0.02), (TAPNaive(), Probit(), 0.01), (TAPNaive(), Logit(), 0.005)):
        # measured: 0.0169, 0.0080, 0.0037
        assert_allclose(engine.fit(K, y, likelihood).loo(), refitted_loo(engine, K, y, likelihood), atol=tol)


def test_few_newton_steps_with_label_noise(monkeypatch):
    """Updates of the cavities are mixed, and means are computed roughly while the cavities still change."""
    steps = []

    def counted(*given):
        q, status = solve(*given)
        steps.append(status.n_iter)
        return q, status

    monkeypatch.setattr("gpclass.engines.full.tap.solve", counted)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(33, 2))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=33) > 0, 1.0, -1.0)
    K = RBF(1.0)(X)
    fit = TAP().fit(K, y, Heaviside())
    assert fit.converged
    assert len(steps) <= 80  # 159 without mixing, 40 measured
    assert_allclose(fit.log_evidence, EP().fit(K, y, Heaviside()).log_evidence, atol=1e-7)
