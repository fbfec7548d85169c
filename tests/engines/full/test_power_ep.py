"""Power EP: its definition by brute force, its derivatives, and its limits, EP and KL."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass import GPClassifier
from gpclass.engines.fit import jensen_bound
from gpclass.engines.observations import Observed, data_of
from gpclass.gaussian import other_classes
from gpclass.inference import EP, KL, NestedEP
from gpclass.likelihoods import Gaussian, Heaviside, Logit, MultinomialProbit, Probit
from gpclass.persist import load, save

from .truth import data

SMOOTH = [Probit(0.3), Logit(-0.5), Probit(epsilon=0.1)]
POWERS = [0.7, 0.2]


def by_sum(log_factor, mean, var):
    """log mass, mean and variance of N(mean, var) × exp(log_factor), by the trapezoid rule: smooth factors, error 1e-13."""
    f = mean + np.sqrt(var) * np.linspace(-12, 12, 4001)
    log_w = log_factor(f) - 0.5 * (f - mean) ** 2 / var - 0.5 * np.log(2 * np.pi * var) + np.log(f[1] - f[0])
    w = np.exp(log_w - log_w.max())
    centre = w @ f / w.sum()
    return log_w.max() + np.log(w.sum()), centre, w @ (f - centre) ** 2 / w.sum()


def power_ep(K, sites, power, log_factors):
    """Energy of power EP from its definition, with dense inverses, and the moments of the tilted distributions."""
    V = np.linalg.inv(np.linalg.inv(K) + np.diag(sites.tau))
    mean, var = V @ sites.nu, np.diagonal(V)
    energy = 0.5 * sites.nu @ mean - 0.5 * np.linalg.slogdet(np.eye(len(K)) + K * sites.tau)[1]
    moments = []
    for i, log_factor in enumerate(log_factors):
        precision = 1 / var[i] - power * sites.tau[i]
        cavity = (mean[i] / var[i] - power * sites.nu[i]) / precision, 1 / precision
        tilted, *found = by_sum(lambda f, g=log_factor: power * g(f), *cavity)
        site = by_sum(lambda f, i=i: power * (sites.nu[i] * f - 0.5 * sites.tau[i] * f**2), *cavity)[0]
        energy += (tilted - site) / power
        moments.append(found)
    return energy, np.array(moments).T, (mean, var)


def factors(y, likelihood):
    return [lambda f, t=t: likelihood.log_prob(np.full_like(f, t), f)[0] for t in y]


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("likelihood", SMOOTH, ids=repr)
@pytest.mark.parametrize("schedule", ["parallel", "sequential"])
def test_fixed_point_and_evidence_are_those_of_the_definition(likelihood, power, schedule):
    K, y = data(8, seed=1, variance=4.0, nugget=0.1)
    fit = EP(power=power, schedule=schedule).fit(K, y, likelihood)
    energy, tilted, marginals = power_ep(K, fit.sites, power, factors(y, likelihood))
    assert_allclose(fit.log_evidence, energy, atol=1e-8)  # quadrature and inverses, divided by the power
    assert_allclose(tilted, marginals, atol=1e-6)  # 100 × tol
    assert_allclose((fit.mean, fit.var), marginals, atol=1e-9)


@pytest.mark.parametrize("power", POWERS)
def test_nested_power_ep_is_power_ep_of_the_contrasts(power):
    """Explicit prior of g_ij = f_i^y - f_i^j + u_i, with probit factors."""
    K, _ = data(4, seed=2, variance=2.0, nugget=0.1)
    y, bias = np.array([0, 2, 1, 2]), (0.2, -0.3, 0.1)
    fit = NestedEP(power=power).fit(K, y, MultinomialProbit(3, bias=bias))
    prior, shifts = contrasts(K, y, 3, np.array(bias))
    energy, tilted, marginals = power_ep(prior, fit.posterior.sites, power, factors(np.ones(8), Probit(0.0)))
    assert not np.allclose(energy, fit.log_evidence)  # without biases
    logs = [lambda f, b=b: Probit(b).log_prob(np.ones_like(f), f)[0] for b in shifts]
    energy, tilted, marginals = power_ep(prior, fit.posterior.sites, power, logs)
    assert_allclose(fit.log_evidence, energy, atol=1e-8)
    assert_allclose(tilted, marginals, atol=1e-6)


def contrasts(K, y, C, bias):
    """Prior covariance (n (C - 1), n (C - 1)) and shifts of the contrasts."""
    n = len(y)
    B = np.zeros((n * (C - 1), n * C))
    datum = np.repeat(np.arange(n), C - 1)
    B[np.arange(len(B)), y[datum] * n + datum] = 1
    B[np.arange(len(B)), other_classes(y, C).ravel() * n + datum] = -1
    return B @ np.kron(np.eye(C), K) @ B.T + (datum[:, None] == datum), B @ np.repeat(bias, n)


@pytest.mark.parametrize("likelihood", [Probit(0.3, learn_bias=True), Heaviside(0.1), Gaussian(0.4)], ids=repr)
@pytest.mark.parametrize("power", POWERS)
def test_derivatives_against_central_differences(likelihood, power):
    K, y = data(7, seed=3, variance=3.0, nugget=0.3)
    engine, D = EP(power=power, tol=1e-11), np.random.default_rng(0).normal(size=K.shape)
    D, h = (D + D.T) / np.linalg.norm(D + D.T, 2), 1e-3
    fit = engine.fit(K, y, likelihood)

    def slope(evidence):  # error h⁴ f⁽⁵⁾/30 + tol/h
        return (8 * (evidence(h) - evidence(-h)) - (evidence(2 * h) - evidence(-2 * h))) / (12 * h)

    in_K = slope(lambda t: engine.fit(K + t * D, y, likelihood, fit).log_evidence)
    assert_allclose(np.sum(fit.evidence_gradient() * D), in_K, rtol=1e-6, atol=1e-7)
    if len(likelihood.theta):
        in_theta = slope(lambda t: engine.fit(K, y, likelihood.with_theta(likelihood.theta + t), fit).log_evidence)
        assert_allclose(fit.likelihood_gradient(), [in_theta], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("likelihood", SMOOTH, ids=repr)
def test_small_powers_tend_to_kl(likelihood):
    K, y = data(12, seed=4, variance=4.0, nugget=0.1)
    kl = KL(tol=1e-10).fit(K, y, likelihood)
    gaps = []
    for power in (1e-2, 1e-3):
        fit = EP(power=power).fit(K, y, likelihood)
        gaps.append(np.abs([fit.log_evidence - kl.log_evidence, *(fit.mean - kl.mean), *(fit.var - kl.var)]))
    assert gaps[1].max() < 1e-3 * 0.2  # of the order of the power; measured: 1e-4
    large = gaps[0] > 1e-6
    assert_allclose((gaps[0] / gaps[1])[large], 10, rtol=0.1)  # of first order in the power


def test_small_powers_of_nested_ep_tend_to_the_best_jensen_bound():
    """KL on contrasts: their prior is Gaussian, and their factors are probit."""
    K, _ = data(5, seed=5, variance=2.0, nugget=0.1)
    y, likelihood = np.array([0, 1, 2, 1, 0]), MultinomialProbit(3)
    prior, _ = contrasts(K, y, 3, np.zeros(3))
    kl = KL(tol=1e-10).fit(prior, np.ones(10), Probit())
    fit = NestedEP(power=1e-3).fit(K, y, likelihood)
    assert_allclose(fit.log_evidence, kl.log_evidence, atol=1e-2)  # order of power × n; EP is 0.2 away
    assert_allclose(fit.posterior.mean, kl.mean, atol=1e-3)
    assert abs(NestedEP().fit(K, y, likelihood).log_evidence - kl.log_evidence) > 0.05


@pytest.mark.parametrize("power", [1.0, 0.5, 0.01])
def test_regression_is_exact_for_any_power(power):
    K, y = data(9, seed=6)
    fit = EP(power=power).fit(K, 1.7 * y, Gaussian(0.3))
    exact = EP().fit(K, 1.7 * y, Gaussian(0.3))
    assert_allclose(fit.log_evidence, exact.log_evidence, atol=1e-11)
    assert_allclose(fit.mean, exact.mean, atol=1e-10)
    assert_allclose(fit.loo(), exact.loo(), atol=1e-10)


def test_the_default_is_ep_to_the_last_bit():
    K, y = data(9, seed=7)
    fit = EP().fit(K, y, Probit())
    assert np.array_equal(EP(power=1.0).fit(K, y, Probit()).mean, fit.mean)
    assert data_of(EP(), y, Probit()).plain
    assert type(fit.posterior).__name__ == "FullPosterior"


def test_leave_one_out_removes_the_whole_datum():
    K, y = data(9, seed=8, variance=4.0)
    fit = EP(power=0.4).fit(K, y, Probit())
    mean, var = fit.cavity()
    precision = 1 / fit.var - fit.sites.tau
    assert_allclose(var, 1 / precision, rtol=1e-9)
    assert_allclose(mean, (fit.mean / fit.var - fit.sites.nu) / precision, rtol=1e-9)
    assert_allclose(fit.loo(), EP().fit(K, y, Probit()).loo(), atol=0.05)  # the two approximations are similar


def test_weights_are_repeated_rows():
    K, y = data(5, seed=9, nugget=0.1)
    twice = np.array([0, 0, 1, 2, 3, 3, 3, 4])
    weighted = EP(power=0.4).fit(K, Observed(y, np.bincount(twice).astype(float)), Probit())
    repeated = EP(power=0.4).fit(K[np.ix_(twice, twice)], y[twice], Probit())
    assert_allclose(weighted.log_evidence, repeated.log_evidence, atol=1e-8)
    assert_allclose(weighted.mean[twice], repeated.mean, atol=1e-7)
    assert_allclose(weighted.loo()[twice], repeated.loo(), atol=1e-7)


def test_the_jensen_bound_counts_each_datum_once():
    K, y = data(6, seed=10)
    fit = EP(power=0.25).fit(K, y, Logit())
    assert_allclose(fit.jensen_bound(), jensen_bound(KL().fit(K, y, Logit(), fit.sites).posterior, fit.targets), atol=1e-2)
    assert fit.jensen_bound() < KL().fit(K, y, Logit()).log_evidence


@pytest.mark.parametrize("inference", [EP(power=0.5), NestedEP(power=0.5)])
def test_a_classifier_learns_predicts_and_is_saved(inference, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    y = np.digitize(X[:, 0], [0.0] if isinstance(inference, EP) else [-0.5, 0.5])
    clf = GPClassifier(inference=inference, random_state=0).fit(X, y)
    assert clf.score(X, y) > 0.9
    save(clf, tmp_path / "model.gpclass")
    again = load(tmp_path / "model.gpclass")
    assert again.inference_ == inference
    assert_allclose(again.predict_proba(X), clf.predict_proba(X), atol=1e-12)
    assert_allclose(again.posterior_.loo(), clf.posterior_.loo(), atol=1e-9)


@pytest.mark.parametrize("engine", [EP, NestedEP])
@pytest.mark.parametrize("power", [0.0, 1.5, -1.0, np.nan])
def test_powers_out_of_range_are_named(engine, power):
    with pytest.raises(ValueError, match=r"power must be in \(0, 1\], 1 is ordinary EP, but is"):
        engine(power=power)
