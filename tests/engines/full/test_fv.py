"""FV: equation (15), and the bound as corrected in errata item 4, both with K inverted."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.inference import FV
from gpclass.likelihoods import Gaussian, Heaviside, Logit, Probit
from gpclass.testing.integrals import tilted_truth

from .truth import ERRATA_K, ERRATA_Y, TWO_POINTS, arcsine, data, errors, grid_truth, refitted_loo

LIKELIHOODS = [Probit(), Logit(), Probit(0.5), Heaviside(0.0), Heaviside(0.1), Gaussian(0.3)]


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
def test_fixed_point_and_bound(likelihood):
    K, y = data(10, seed=1, nugget=0.1)
    fit = FV(ridge=0.0).fit(K, y, likelihood)
    inverse = np.linalg.inv(K)
    alpha = inverse @ fit.mean
    var = 1 / np.diagonal(inverse)
    mu = fit.mean - var * alpha  # [NR] (15)
    log_mass, d1, d2 = likelihood.tilted_moments(y, mu, var)
    assert_allclose(fit.mean, mu + var * d1, atol=1e-7)  # 10 × tol
    assert_allclose(fit.var, var + var**2 * d2, rtol=1e-7)
    assert_allclose(fit.alpha, alpha, atol=1e-6)
    bound = log_mass.sum() - 0.5 * alpha @ (K - np.diag(var)) @ alpha
    bound += -0.5 * np.linalg.slogdet(K)[1] + 0.5 * np.sum(np.log(var))
    assert_allclose(fit.log_evidence, bound, atol=1e-8)


@pytest.mark.parametrize("likelihood", [Probit(), Logit()], ids=repr)
def test_bound_is_that_of_its_factors(likelihood):
    """E_q[log p(y | f)] + E_q[log prior] + entropy, each factor's by quadrature."""
    K, y = TWO_POINTS[2]
    fit = FV(ridge=0.0).fit(K, y, likelihood)
    mu, var = fit.posterior.conditional()
    log_mass, mean, spread = tilted_truth(lambda f: likelihood.log_prob(y[:, None], f)[0], mu, var)
    # entropy + E[log p(y|f)] of a factor N(f|μ,σ²) p(y|f) / Z is log Z - E[log N(f|μ,σ²)]
    rest = 0.5 * np.log(2 * np.pi * var) + 0.5 * (spread + (mean - mu) ** 2) / var
    inverse = np.linalg.inv(K)
    prior = -0.5 * mean @ inverse @ mean - 0.5 * np.diagonal(inverse) @ spread - 0.5 * np.linalg.slogdet(2 * np.pi * K)[1]
    assert_allclose(fit.log_evidence, np.sum(log_mass + rest) + prior, atol=1e-8)


def test_numbers_of_the_errata():
    # errata item 4: exact -1.641, corrected -1.680 (as printed -0.692, above the truth)
    assert_allclose(FV().fit(ERRATA_K, ERRATA_Y, Probit()).log_evidence, -1.680, atol=6e-4)


@pytest.mark.parametrize("likelihood", [Probit(), Logit(), Heaviside(0.0), Heaviside(0.05), Heaviside(0.2)], ids=repr)
def test_is_a_bound(likelihood):
    for K, y in TWO_POINTS:
        assert FV().fit(K, y, likelihood).log_evidence < grid_truth(K, y, likelihood)[0]


def test_ridge_is_small():
    for K, y in TWO_POINTS:
        assert_allclose(FV().fit(K, y, Probit()).log_evidence, FV(ridge=0.0).fit(K, y, Probit()).log_evidence, atol=1e-5)


@pytest.mark.parametrize(("likelihood", "log_z", "mean", "var"), [
    (Probit(), 0.46, 0.25, 0.64), (Logit(), 0.55, 0.16, 0.69),
    (Heaviside(0.0), 0.37, 0.40, 0.61), (Heaviside(0.2), 0.66, 0.21, 0.82),
])  # fmt: skip
def test_measured_accuracy(likelihood, log_z, mean, var):
    """Two points, σ_f² = 4: 0.459, 0.248, 63 %; 0.550, 0.158, 68 %; 0.368, 0.394, 61 %; 0.654, 0.207, 81 %."""
    assert np.all(errors(FV(), likelihood) <= (log_z, mean, var))


def test_weak_correlation_costs_little():
    for K, y in TWO_POINTS[4:]:  # correlation 0.1
        assert_allclose(FV().fit(K, y, Probit()).log_evidence, arcsine(K, y), atol=1.4e-3)  # measured: 1.3e-3


def test_leave_one_out_against_refits():
    """Other data respond to first order: as accurate as EP. The tilted conditional would be wrong by 0.35 or more."""
    for n, seed in ((12, 5), (30, 1)):
        K, y = data(n, seed=seed, variance=4.0)
        for likelihood, tol in ((Probit(), 0.05), (Logit(), 0.05)):  # measured: 0.011, 0.008; 0.037, 0.020
            assert_allclose(FV().fit(K, y, likelihood).loo(), refitted_loo(FV(), K, y, likelihood), atol=tol)


@pytest.mark.parametrize(("n", "seed", "epsilon"), [(30, 7, 0.05), (30, 16, 0.05), (40, 0, 0.001)])
def test_negative_curvatures_are_no_obstacle(n, seed, epsilon):
    """Newton steps with the true, partly negative curvatures would give an improper posterior here."""
    K, y = data(n, seed=seed, variance=4.0)
    fit = FV().fit(K, y, Heaviside(epsilon))
    assert fit.converged
    mean, var = fit.posterior.conditional()
    _, d1, _ = Heaviside(epsilon).tilted_moments(y, mean, var)
    assert_allclose(fit.mean, mean + var * d1, atol=1e-7)


def test_has_no_sites():
    fit = FV().fit(ERRATA_K, ERRATA_Y, Probit())
    with pytest.raises(AttributeError, match="posterior of FV is not made of scalar sites"):
        fit.sites  # noqa: B018
