"""Weighted rows of sparse variational MNL: whole weights equal repeated rows, in the fit and in the choice of variables."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from gpclass.engines.mnl.inducing_set import InducingSet, RowCovariance
from gpclass.engines.mnl.selection import group_scores, scores
from gpclass.engines.observations import Observed
from gpclass.gaussian import InducingCovariance
from gpclass.kernels import RBF
from gpclass.likelihoods import Softmax
from gpclass.numerics.separable import combined
from gpclass.sparse import SparseVariationalMNL

rng = np.random.default_rng(6)
X, NEW = rng.normal(size=(10, 2)), rng.normal(size=(4, 2))
KERNEL = RBF(1.2, variance=3.0)
LABELS = np.argmax(X @ rng.normal(size=(2, 3)) + 0.7 * rng.normal(size=(10, 3)), axis=1)
COUNTS = np.array([1, 3, 1, 2, 4, 1, 1, 2, 1, 2])
PARTS = np.array([0.3, 2.5, 1.0, 0.05, 0.7, 1.0, 0.5, 1.5, 0.2, 3.0])
REPEATED = np.repeat(np.arange(10), COUNTS)
FIRST = np.searchsorted(REPEATED, np.arange(10))
PAIRS = InducingSet.empty().with_pairs([0, 0, 3, 4, 4, 7], [0, 2, 1, 0, 1, 2])
ENGINE, LIKELIHOOD = SparseVariationalMNL(tol=1e-10), Softmax(3, bias=(0.0, 0.3, -0.2), learn_bias=True)
BETWEEN = np.array([[1.0, 0.3, 0.0], [0.3, 1.2, 0.1], [0.0, 0.1, 0.8]])


def covariances(rows, between=None):
    Z = X[PAIRS.rows]
    parts = (combined(part, between) for part in (KERNEL(Z), KERNEL(X[rows], Z), KERNEL.diag(X[rows])))
    return InducingCovariance(*parts, PAIRS.inputs, PAIRS.classes)


def predicted(fit, between=None):
    Z = X[PAIRS.rows]
    return fit.log_class_probabilities(combined(KERNEL(Z, NEW), between), combined(KERNEL.diag(NEW), between))


@pytest.mark.parametrize("between", [None, BETWEEN], ids=["independent", "correlated"])
def test_whole_weights_are_repeated_rows(between):
    """The tolerance is that of convergence, 1e-10, times the size of the evidence and of its derivatives."""
    weighted = ENGINE.fit(covariances(np.arange(10), between), Observed(LABELS, COUNTS), LIKELIHOOD)
    repeated = ENGINE.fit(covariances(REPEATED, between), LABELS[REPEATED], LIKELIHOOD)
    assert_allclose(weighted.log_evidence, repeated.log_evidence, rtol=0, atol=1e-9)
    assert_allclose(predicted(weighted, between), predicted(repeated, between), rtol=0, atol=1e-7)
    assert_allclose(weighted.loo(), repeated.loo()[FIRST], rtol=0, atol=1e-7)
    assert_allclose(weighted.likelihood_gradient(), repeated.likelihood_gradient(), rtol=0, atol=1e-7)
    assert_allclose(weighted.jensen_bound(), repeated.jensen_bound(), rtol=0, atol=1e-7)
    if between is None:
        one, other = weighted.evidence_gradient(), repeated.evidence_gradient()
        assert_allclose(one.uu, other.uu, rtol=0, atol=1e-7)
        assert_allclose(one.fu, np.add.reduceat(other.fu, FIRST), rtol=0, atol=1e-7)
        assert_allclose(one.diag, np.add.reduceat(other.diag, FIRST), rtol=0, atol=1e-7)
    warm = ENGINE.fit(covariances(np.arange(10), between), Observed(LABELS, COUNTS), LIKELIHOOD, start=weighted)
    assert warm.n_iter <= 2


def test_tiny_weights_are_removed_rows():
    kept = np.array([0, 1, 3, 4, 5, 7])
    weight = np.where(np.isin(np.arange(10), kept), 1.0, 1e-10)
    fit = ENGINE.fit(covariances(np.arange(10)), Observed(LABELS, weight), LIKELIHOOD)
    fewer = ENGINE.fit(covariances(kept), LABELS[kept], LIKELIHOOD)
    assert_allclose(fit.log_evidence, fewer.log_evidence, rtol=0, atol=1e-7)
    assert_allclose(predicted(fit), predicted(fewer), rtol=0, atol=1e-7)


def test_gradients_with_fractional_weights():
    """Central differences with step 1e-5; the bound is stationary, so its error is that of rounding, 1e-9 of its size."""
    K, observed, step = covariances(np.arange(10)), Observed(LABELS, PARTS), 1e-5
    fit, theta = ENGINE.fit(K, observed, LIKELIHOOD), LIKELIHOOD.theta
    G, rng = fit.evidence_gradient(), np.random.default_rng(0)
    uu, fu, diag = (rng.normal(size=np.shape(part)) for part in (K.uu, K.fu, K.diag))
    uu, diag = uu @ uu.T, np.abs(diag) + 4.0  # residual variances stay positive

    def at(t, theta):
        there = replace(K, uu=K.uu + t * uu, fu=K.fu + t * fu, diag=K.diag + 0.5 + t * diag)
        return ENGINE.fit(there, observed, LIKELIHOOD.with_theta(theta)).log_evidence

    fit = ENGINE.fit(replace(K, diag=K.diag + 0.5), observed, LIKELIHOOD)
    G = fit.evidence_gradient()
    slope = float(np.sum(G.uu * uu) + np.sum(G.fu * fu) + np.sum(G.diag * diag))
    assert_allclose(slope, (at(step, theta) - at(-step, theta)) / (2 * step), rtol=1e-5)
    for i, wanted in enumerate(fit.likelihood_gradient()):
        e = step * np.eye(len(theta))[i]
        assert_allclose(wanted, (at(0, theta + e) - at(0, theta - e)) / (2 * step), rtol=1e-5, atol=1e-6)


def test_scores_of_weighted_rows():
    """A candidate at a repeated row has the same score as at the weighted row."""
    likelihood, whole = Softmax(3), [RowCovariance.of(KERNEL(X[rows]), 3) for rows in (np.arange(10), REPEATED)]
    fits = [
        ENGINE.fit(covariances(rows), y, likelihood)
        for rows, y in ((np.arange(10), Observed(LABELS, COUNTS)), (REPEATED, LABELS[REPEATED]))
    ]
    rows, classes = np.repeat(np.arange(10), 3), np.tile(np.arange(3), 10)
    one, other = (scores(fit, K, at, classes) for fit, K, at in zip(fits, whole, (rows, FIRST[rows]), strict=True))
    assert_allclose(one, other, rtol=1e-6, atol=1e-9)
    plain = ENGINE.fit(covariances(np.arange(10)), LABELS, likelihood)
    ones = replace(plain, y=Observed(LABELS, np.ones(10)))
    a, b = (group_scores(fit, whole[0], rows, classes, 3, np.random.default_rng(0)) for fit in (plain, ones))
    assert_array_equal(a, b)


def test_engine_chooses_rows():
    """The fit with a chosen set equals the fit with the same set given."""
    observed, K = Observed(LABELS, PARTS), KERNEL(X)
    fit = SparseVariationalMNL(inducing=8, batch=4, tol=1e-10).fit(K, observed, Softmax(3))
    given = ENGINE.fit(RowCovariance.of(K, 3).inducing(fit.chosen), observed, Softmax(3))
    assert_allclose(fit.log_evidence, given.log_evidence, rtol=0, atol=1e-8)
