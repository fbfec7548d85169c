"""IVM with weights: a row of weight w is one row with the likelihood p^w."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.engines.active.scores import exact_moments, rough_moments, row_targets
from gpclass.engines.observations import Observed
from gpclass.gaussian import MatrixColumns, MatrixGradient
from gpclass.inference import EP
from gpclass.kernels import RBF
from gpclass.learning.active_set import update_active
from gpclass.likelihoods import Heaviside, Logit, MultinomialProbit, OneAgainstRest, Probit, RobustMax
from gpclass.sparse import IVM, log_evidence

rng = np.random.default_rng(4)
X = rng.normal(size=(12, 2))
KERNEL = RBF(1.2, variance=3.0)
K = KERNEL(X)
SIGNS = np.sign(X[:, 0] + 0.8 * rng.normal(size=12))
LABELS = np.argmax(X @ rng.normal(size=(2, 3)) + 0.7 * rng.normal(size=(12, 3)), axis=1)
PARTS = rng.choice([0.3, 0.8, 1.0, 2.5, 4.0], 12)
ONE = [Probit(learn_bias=True, bias=0.2), Logit(), Heaviside(0.2)]
SEVERAL = [RobustMax(3, epsilon=0.1), OneAgainstRest(3), MultinomialProbit(3)]


def targets(likelihood):
    return SIGNS if likelihood.n_latents == 1 else LABELS


@pytest.mark.parametrize("likelihood", [*ONE[:2], *SEVERAL], ids=repr)
def test_weights_of_one_change_nothing(likelihood):
    y, engine = targets(likelihood), IVM(active=10, drift=0.0)
    plain, weighted = (engine.fit(K, given, likelihood) for given in (y, Observed(y, np.ones(12))))
    assert_allclose(weighted.log_evidence, plain.log_evidence, rtol=0, atol=1e-12)
    assert_allclose(weighted.mean, plain.mean, rtol=0, atol=1e-12)
    assert_allclose(weighted.loo(), plain.loo(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("likelihood", [Probit(bias=0.2), Logit()], ids=repr)
def test_ep_on_all_rows_with_weights_below_one(likelihood):
    """For weights up to one, IVM with all rows and EP use the same powers; the sites of both converge to 1e-9."""
    observed = Observed(SIGNS, np.minimum(PARTS, 1.0))
    sparse = IVM(active=12, sweeps=300, tol=1e-9, threshold=0.0).fit(K, observed, likelihood)
    full = EP(tol=1e-10).fit(K, observed, likelihood)
    assert_allclose(sparse.log_evidence, full.log_evidence, rtol=0, atol=1e-7)
    assert_allclose(sparse.mean, full.mean, rtol=0, atol=1e-6)
    assert_allclose(sparse.loo(), full.loo(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("likelihood", [*ONE, *SEVERAL[:2]], ids=repr)
def test_tiny_weights_are_removed_rows(likelihood):
    y, kept = targets(likelihood), np.array([0, 1, 3, 4, 6, 7, 8, 11])
    weight = np.where(np.isin(np.arange(12), kept), 1.0, 1e-12)
    engine = IVM(active=20, drift=0.0)
    fit, fewer = engine.fit(K, Observed(y, weight), likelihood), engine.fit(K[np.ix_(kept, kept)], y[kept], likelihood)
    assert_allclose(fit.log_evidence, fewer.log_evidence, rtol=0, atol=1e-8)
    assert_allclose(fit.mean[kept], fewer.mean, rtol=0, atol=1e-8)


@pytest.mark.parametrize("likelihood", [*ONE, RobustMax(3, epsilon=0.1), OneAgainstRest(3, learn_bias=True)], ids=repr)
def test_gradients_with_weights(likelihood):
    """Central differences of the evidence with fixed sites, with step 1e-5: rounding is 1e-10 of its size."""
    observed, C, step = Observed(targets(likelihood), PARTS), likelihood.n_latents, 1e-5
    fit = IVM(active=8).fit(K, observed, likelihood)
    sinks = [MatrixGradient(12) for _ in range(C)]
    held = log_evidence([MatrixColumns(K)] * C, fit.at, observed, likelihood, None, sinks)
    assert_allclose(held.value, fit.log_evidence, rtol=0, atol=1e-9)
    direction = np.random.default_rng(0).normal(size=(12, 12))
    direction = direction @ direction.T

    def at(t, theta):
        there = likelihood.with_theta(theta)
        return log_evidence([MatrixColumns(K + t * direction)] * C, fit.at, observed, there).value

    theta = likelihood.theta
    slope = sum(float(np.sum(sink.total * direction)) for sink in sinks)
    assert_allclose(slope, (at(step, theta) - at(-step, theta)) / (2 * step), rtol=1e-6, atol=1e-6)
    for i, wanted in enumerate(held.in_theta):
        e = step * np.eye(len(theta))[i]
        assert_allclose(wanted, (at(0, theta + e) - at(0, theta - e)) / (2 * step), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("likelihood", [MultinomialProbit(3), RobustMax(3), OneAgainstRest(3)], ids=repr)
def test_rough_scores_of_weighted_rows(likelihood):
    """Screening needs only the order of magnitude."""
    y = row_targets(Observed(LABELS, PARTS))
    mean, var = rng.normal(size=(12, 3)), rng.uniform(0.5, 3.0, (12, 3))
    rough, exact = (moments(likelihood, y, mean, var) for moments in (rough_moments, exact_moments))
    for a, b in zip(rough, exact, strict=True):
        assert np.corrcoef(a.ravel(), b.ravel())[0, 1] > 0.9


def test_further_rows_with_weights():
    """Rows added later and the active rows of the earlier fit keep their weights."""
    engine, likelihood = IVM(active=20), Probit()
    first = engine.fit(K[:8, :8], Observed(SIGNS[:8], PARTS[:8]), likelihood)
    fit, inputs = update_active(engine, KERNEL, likelihood, first, X[first.rows], X[8:], Observed(SIGNS[8:], PARTS[8:]))
    assert_allclose(np.sort(fit.y.weight), np.sort(PARTS))
    assert len(inputs) == len(fit.rows)
    later, _ = update_active(engine, KERNEL, likelihood, first, X[first.rows], X[8:], SIGNS[8:])
    assert_allclose(later.y.weight[-4:], 1.0)


def test_jensen_bound():
    observed = Observed(SIGNS, PARTS)
    fit = IVM(active=12, sweeps=300, threshold=0.0).fit(K, observed, Logit())
    expected = Logit().expected_log_prob(SIGNS, fit.mean, fit.var)[0]
    assert_allclose(fit.jensen_bound(), PARTS @ expected - fit.posterior.divergence)
    assert fit.jensen_bound() <= fit.log_evidence + 1e-6
