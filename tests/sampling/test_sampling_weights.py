"""Samplers with weighted observations, several of which may share a latent value."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp

from gpclass.engines.observations import Observed
from gpclass.gaussian import Prior
from gpclass.inference import EP
from gpclass.kernels import RBF
from gpclass.learning import Objective
from gpclass.learning.priors import Normal
from gpclass.likelihoods import Logit, MultinomialProbit, Probit, Softmax
from gpclass.sampling import (
    HMC,
    EllipticalSlice,
    Gibbs,
    ScaledMetropolis,
    annealed_importance,
    audit,
    importance_sampling,
    orthant_evidence,
)
from gpclass.sampling.guides import AverageGuide, RegressionGuide
from gpclass.sampling.shared_noise import smooth_target
from gpclass.sampling.target import Target

rng = np.random.default_rng(8)
X = rng.normal(size=(5, 2))
KERNEL = RBF(1.0, 3.0)
K = KERNEL(X)
PLACE = np.array([0, 0, 1, 2, 3, 3, 4])
COUNTS = np.array([2, 1, 1, 3, 1, 1, 2])
PARTS = np.array([0.3, 1.5, 1.0, 2.2, 0.6, 1.0, 0.8])
SIGNS = np.array([1.0, -1.0, 1.0, -1.0, -1.0, 1.0, 1.0])
LABELS = np.array([0, 2, 1, 0, 1, 2, 2])
COPIES = np.repeat(np.arange(7), COUNTS)
ROWS = PLACE[COPIES]  # the place of each copy
PROBLEMS = [(Probit(bias=0.3), SIGNS), (Logit(), SIGNS), (Softmax(3), LABELS), (MultinomialProbit(3), LABELS)]
several = pytest.mark.parametrize(("likelihood", "y"), PROBLEMS, ids=lambda x: type(x).__name__)


@several
def test_whole_weights_are_copies(likelihood, y):
    """Log likelihood, slopes and curvatures of the same latent values, up to rounding."""
    weighted = Target.of(K, Observed(y, COUNTS, PLACE), likelihood)
    copied = Target.of(K[np.ix_(ROWS, ROWS)], y[COPIES], likelihood)
    F = rng.normal(size=(likelihood.n_latents, 5, 3))
    assert weighted.n == 5
    assert_allclose(weighted.log_likelihood(F), copied.log_likelihood(F[:, ROWS]), rtol=1e-12)
    (value, slope), (other, by_copy) = weighted.slope(F), copied.slope(F[:, ROWS])
    assert_allclose(value, other, rtol=1e-12)
    first = np.searchsorted(ROWS, np.arange(5))
    assert_allclose(slope, np.add.reduceat(by_copy, first, axis=1), rtol=0, atol=1e-12)
    curvature = np.add.reduceat(copied.curvature(F[:, ROWS]), first, axis=1)
    assert_allclose(weighted.curvature(F), curvature, rtol=0, atol=1e-12)
    assert type(smooth_target(K, Observed(y, COUNTS, PLACE), likelihood)) is Target


@several
def test_slopes_with_fractional_weights(likelihood, y):
    """Central differences with step 1e-5; multinomial probit's integral has an error of 2e-7."""
    target = Target.of(K, Observed(y, PARTS, PLACE), likelihood)
    (F, D), step = rng.normal(size=(2, likelihood.n_latents, 5, 1)), 1e-5
    up, down = (target.log_likelihood(F + s * step * D) for s in (1, -1))
    assert_allclose(np.sum(target.slope(F)[1] * D), (up - down)[0] / (2 * step), rtol=1e-5, atol=1e-5)


def grid_evidence(K, y, weight, place, likelihood):
    """Log evidence of two latent values, by the trapezoid rule."""
    x = np.linspace(-8, 8, 161)
    z = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1).reshape(-1, 2)
    f = z @ np.linalg.cholesky(K).T
    log_prior = -0.5 * np.sum(z**2, axis=1)
    log_p = weight @ likelihood.log_prob_value(y[:, None], f[:, place].T)
    return float(logsumexp(log_p + log_prior) - logsumexp(log_prior))


def test_evidence_of_weighted_observations():
    K, place, y = np.array([[3.0, 1.2], [1.2, 2.0]]), np.array([0, 0, 1]), np.array([1.0, -1.0, 1.0])
    weight = np.array([1.7, 0.4, 2.5])
    observed, truth = Observed(y, weight, place), grid_evidence(K, y, weight, place, Logit())
    fit = EP().fit(K, observed, Logit())
    found = [importance_sampling(K, observed, Logit(), random_state=0, n_samples=4000)]
    found += [importance_sampling(K, observed, Logit(), start=fit, random_state=0, n_samples=4000)]
    found += [annealed_importance(K, observed, Logit(), s, n_temperatures=100, random_state=0) for s in (None, fit)]
    for one in found:
        assert abs(one.log_evidence - truth) < 5 * one.standard_error + 1e-3
    assert abs(fit.log_evidence - truth) < 0.02  # the error of EP


def test_importance_sampling_of_several_classes():
    observed = Observed(np.array([0, 1, 2, 1]), np.array([0.5, 2.0, 1.0, 1.5]), np.array([0, 0, 1, 1]))
    K = np.array([[3.0, 1.2], [1.2, 2.0]])
    one = importance_sampling(K, observed, Softmax(3), random_state=0, n_samples=4000)
    other = annealed_importance(K, observed, Softmax(3), n_temperatures=200, random_state=0)
    assert abs(one.log_evidence - other.log_evidence) < 5 * np.hypot(one.standard_error, other.standard_error)


def test_orthants_need_copies():
    for likelihood, y in (PROBLEMS[0], PROBLEMS[3]):
        weighted = orthant_evidence(K, Observed(y, COUNTS, PLACE), likelihood, n_samples=256)
        copied = orthant_evidence(K[np.ix_(ROWS, ROWS)], y[COPIES], likelihood, n_samples=256)
        assert weighted.log_evidence == copied.log_evidence
    with pytest.raises(TypeError, match="annealed_importance"):
        orthant_evidence(K, Observed(SIGNS, PARTS, PLACE), Probit())


@pytest.mark.parametrize("sampler", [HMC, EllipticalSlice, ScaledMetropolis, Gibbs])
def test_samplers_agree_with_ep(sampler):
    """Means within a fifth of a standard deviation: the error of EP is a few percent, that of the draws 1/√200."""
    observed = Observed(SIGNS, COUNTS, PLACE)
    fit = EP().fit(K, observed, Probit())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        thin = 20 if sampler is ScaledMetropolis else 1  # this sampler moves by small steps
        draws = sampler(n_draws=1500, n_warmup=300, thin=thin, random_state=0).fit(K, observed, Probit(), start=fit)
    assert draws.latent.shape == (4, 1500, 5)
    assert np.max(np.abs(draws.mean - fit.mean) / np.sqrt(fit.var)) < 0.2
    assert_allclose(np.sqrt(draws.var / fit.var), 1.0, atol=0.2)
    assert_allclose(np.exp(draws.loo()), np.exp(fit.loo()), atol=0.06)
    more = sampler(n_draws=10, random_state=0).fit(K, observed, Probit(), start=draws)
    assert more.n_draws == 1510
    with pytest.raises(ValueError, match="other labels"):
        sampler(n_draws=10).fit(K, Observed(SIGNS, COUNTS + 1.0, PLACE), Probit(), start=draws)


def test_leaving_out_a_weight_below_one_leaves_the_prior():
    draws = HMC(n_draws=1000, n_warmup=200, random_state=0).fit([[4.0]], Observed(np.array([1.0]), [0.5]), Probit())
    assert_allclose(draws.loo_class_probabilities(), 0.5, atol=0.04)


def test_gibbs_refuses_fractions():
    with pytest.raises(TypeError, match="use HMC"):
        Gibbs().fit(K, Observed(SIGNS, PARTS, PLACE), Probit())


def test_audit_of_a_weighted_fit():
    sampler = HMC(n_draws=800, n_warmup=200, random_state=0)
    for weight, method in ((COUNTS, "orthant probability"), (PARTS, "annealed from EP")):
        fit = EP().fit(K, Observed(SIGNS, weight, PLACE), Probit())
        report = audit(fit, sampler=sampler, n_temperatures=100)
        assert report.evidence_method == method
        assert abs(report.evidence_error) < 0.1 + 3 * report.sampled_error
        assert report.probability_error_max < 0.06


@several
def test_guides_of_whole_weights_are_those_of_copies(likelihood, y):
    """The jitter of the copies' covariance matrix is about 1e-8 of the variance."""
    weighted = Target.of(K, Observed(y, COUNTS, PLACE), likelihood, Prior.cholesky)
    copied = Target.of(K[np.ix_(ROWS, ROWS)], y[COPIES], likelihood, Prior.cholesky)
    first, theta = np.searchsorted(ROWS, np.arange(5)), np.zeros(2)
    make = (lambda target: RegressionGuide(2, target, 1)) if likelihood.n_latents == 1 else AverageGuide
    one, other = (make(target).sites(theta, target) for target in (weighted, copied))
    assert_allclose(one.tau, np.add.reduceat(other.tau, first, axis=-1), rtol=1e-4, atol=1e-8)
    assert_allclose(one.nu, np.add.reduceat(other.nu, first, axis=-1), rtol=1e-4, atol=1e-8)


def test_hyperparameters_with_weights():
    objective = Objective(X, Observed(SIGNS, PARTS, PLACE), KERNEL, Probit(), HMC(), [Normal(0.0, 0.5)] * 2)
    sampler = HMC(n_draws=30, n_warmup=60, n_chains=2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        draws = sampler.fit_hyper(objective)
        again = sampler.fit_hyper(objective, start=draws)
    assert draws.latent.shape == (2, 30, 5)
    assert again.n_draws == 60
    assert np.all(np.isfinite(draws.loo()))
    assert draws.loo().shape == (7,)
