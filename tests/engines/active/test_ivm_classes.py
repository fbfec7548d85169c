"""The informative vector machine with several classes: independent latent functions, an active set for each."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from gpclass.gaussian import MatrixColumns, MatrixGradient
from gpclass.inference import QuadratureEP
from gpclass.kernels import RBF
from gpclass.likelihoods import Logit, MultinomialProbit, OneAgainstRest, Probit, RobustMax, Softmax
from gpclass.sparse import IVM, log_evidence

n, C = 45, 3


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    y = np.argmax(np.stack([X[:, 0], X[:, 1], -X.sum(1)], axis=1) + 0.2 * rng.normal(size=(n, C)), axis=1)
    K = RBF(1.0, 3.0)(X)
    return K, y, X


def slow_ivm(Ks, y, likelihood, total):
    """Pairs of row and class chosen by the score of 4.2, with dense covariances and (7) as printed."""
    h, A = np.zeros((n, C)), [K.copy() for K in Ks]
    pairs, sites, taken = [], [], np.zeros((n, C), bool)
    for _ in range(total):
        a = np.stack([np.diagonal(V) for V in A], axis=1)
        _, d1, d2 = likelihood.tilted_moments(y, h, a)
        new_h, new_a = h + a * d1, a + a**2 * d2
        m = np.maximum(a / new_a, 1)
        delta = -0.5 * (np.log(m) + 1 / m + (new_h - h) ** 2 / a - 1)
        delta[taken | (m <= 1 + 1e-10)] = np.inf
        i, c = np.unravel_index(np.argmin(np.round(delta, 9)), delta.shape)
        pi = max(1 / new_a[i, c] - 1 / a[i, c], 0.0)  # (7)
        b = (new_h[i, c] - h[i, c]) / a[i, c] + pi * new_h[i, c]
        column = A[c][:, i].copy()
        h[:, c] += (b - pi * h[i, c]) / (1 + pi * column[i]) * column
        A[c] -= pi / (1 + pi * column[i]) * np.outer(column, column)
        taken[i, c] = True
        pairs.append((int(i), int(c)))
        sites.append((pi, b))
    return pairs, np.array(sites), h, np.stack([np.diagonal(V) for V in A], axis=1)


@pytest.mark.parametrize("likelihood", [MultinomialProbit(C), RobustMax(C, epsilon=0.02), OneAgainstRest(C)], ids=repr)
@pytest.mark.parametrize("shared", [True, False])
def test_against_the_algorithm_written_out(problem, likelihood, shared):
    K, y, _ = problem
    Ks = [K] * C if shared else [K, 2 * K, 0.5 * K]
    fit = IVM(active=20, drift=0.0).fit(K if shared else np.stack(Ks), y, likelihood)
    pairs, sites, h, a = slow_ivm(Ks, y, likelihood, 20)
    assert list(zip(fit.at.rows, fit.at.latents, strict=True)) == pairs
    assert_allclose(fit.sites.tau, sites[:, 0], rtol=1e-6)
    assert_allclose(fit.sites.nu, sites[:, 1], rtol=1e-6, atol=1e-8)
    assert_allclose(fit.mean, h, atol=1e-8)
    assert_allclose(fit.var, a, atol=1e-8)
    assert [len(rows) for rows in fit.active] == np.bincount([c for _, c in pairs], minlength=C).tolist()
    assert set(fit.rows) == {i for i, _ in pairs}


def test_stale_scores_change_little(problem):
    K, y, _ = problem
    lazy, fresh = (IVM(active=40, drift=drift).fit(K, y, MultinomialProbit(C)) for drift in (1e-3, 0.0))
    same = np.mean(lazy.at.rows[:20] == fresh.at.rows[:20])
    assert same > 0.8
    assert lazy.log_evidence == pytest.approx(fresh.log_evidence, abs=1.0)


def test_all_pairs_active_and_swept_is_class_independent_ep(problem):
    """Quadrature EP with independent classes has the same sites and moments, found by another loop."""
    K, y, _ = problem
    likelihood = MultinomialProbit(C, bias=(0.2, 0.0, -0.3))
    fit = IVM(active=n * C, sweeps=500, tol=1e-7).fit(K, y, likelihood)
    ep = QuadratureEP(coupled=False, tol=1e-9).fit(K, y, likelihood)
    assert fit.converged
    assert len(fit.at) == n * C
    assert fit.log_evidence == pytest.approx(ep.log_evidence, abs=1e-5)
    assert_allclose(fit.mean, ep.mean, atol=1e-5)  # 100 × tol
    assert_allclose(fit.var, ep.var, atol=1e-5)
    assert_allclose(fit.loo(), ep.loo(), atol=1e-3)  # computed by another integral there
    Ks, kd = K[:, :7], np.diagonal(K)[:7]
    got, want = fit.log_class_probabilities(Ks[fit.rows], kd), ep.log_class_probabilities(Ks, kd)
    assert_allclose(got, want, atol=1e-5)


def test_second_visits_that_do_not_converge_are_reported(problem):
    """With sites for only one class of a row, few sites and large functions do not converge."""
    K, y, _ = problem
    with pytest.warns(ConvergenceWarning, match="use sweeps=0"):
        fit = IVM(active=25, sweeps=3).fit(50 * K, y, MultinomialProbit(C))
    assert not fit.converged
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        IVM(active=25).fit(50 * K, y, MultinomialProbit(C))


@pytest.mark.parametrize(
    "likelihood", [MultinomialProbit(C, learn_bias=True), OneAgainstRest(C, learn_bias=True, binary=Logit())], ids=repr
)
@pytest.mark.parametrize("rows", [None, np.arange(0, n, 3)], ids=["all rows", "some rows"])
def test_gradient_with_sites_held(problem, likelihood, rows):
    K, y, _ = problem
    likelihood = likelihood.with_theta(likelihood.theta + 0.2)
    fit = IVM(active=25).fit(K, y, likelihood)
    assert min(len(a) for a in fit.active) > 0

    def value(Ks, likelihood=likelihood):
        return log_evidence([MatrixColumns(k) for k in Ks], fit.at, y, likelihood, rows).value

    sinks = [MatrixGradient(n) for _ in range(C)]
    held = log_evidence([MatrixColumns(K)] * C, fit.at, y, likelihood, rows, sinks)
    if rows is None:
        assert held.value == pytest.approx(fit.log_evidence, abs=1e-9)
    rng = np.random.default_rng(1)
    h = 1e-6  # error h² times third derivatives, eps/h times a value of order 100
    for c in range(C):
        direction = rng.normal(size=(n, 5))
        direction = direction @ direction.T
        up, down = (value([K + s * h * direction * (a == c) for a in range(C)]) for s in (1, -1))
        assert np.sum(sinks[c].total * direction) == pytest.approx((up - down) / (2 * h), rel=1e-6, abs=1e-6)
    h = 1e-5
    for k, e in enumerate(np.eye(len(likelihood.theta))):
        up, down = (value([K] * C, likelihood.with_theta(likelihood.theta + s * h * e)) for s in (1, -1))
        assert held.in_theta[k] == pytest.approx((up - down) / (2 * h), rel=1e-5, abs=1e-6)
    # and in the sites themselves
    for name in ("tau", "nu"):
        move = rng.uniform(0.5, 1.0, size=len(fit.at))

        def at(s, name=name, move=move):
            from dataclasses import replace

            sites = replace(fit.sites, **{name: getattr(fit.sites, name) + s * h * move})
            return log_evidence([MatrixColumns(K)] * C, fit.at.with_sites(sites), y, likelihood, rows).value

        got = getattr(held.in_sites, name) @ move
        assert got == pytest.approx((at(1) - at(-1)) / (2 * h), rel=1e-5, abs=1e-6)


def test_one_against_rest_is_binary_machines_side_by_side(problem):
    K, y, _ = problem
    fit = IVM(active=(12, 9, 15)).fit(K, y, OneAgainstRest(C))
    for c, d in enumerate((12, 9, 15)):
        alone = IVM(active=d).fit(K, np.where(y == c, 1.0, -1.0), Probit())
        assert fit.active[c].tolist() == alone.active.tolist()
        assert_allclose(fit.mean[:, c], alone.mean, atol=2e-3)  # outdated scores affect only the choice
        assert_allclose(fit.var[:, c], alone.var, atol=2e-3)


def test_sizes_for_each_class(problem):
    K, y, _ = problem
    fit = IVM(active=(3, 10, 5)).fit(K, y, MultinomialProbit(C))
    assert [len(a) for a in fit.active] == [3, 10, 5]
    with pytest.raises(ValueError, match="3 sizes"):
        IVM(active=(3, 10, 5)).fit(K, np.where(y > 0, 1.0, -1.0), Probit())


def test_class_probabilities(problem):
    K, y, X = problem
    k = RBF(1.0, 3.0)
    Xt = np.random.default_rng(5).normal(size=(200, 2))
    truth = np.argmax(np.stack([Xt[:, 0], Xt[:, 1], -Xt.sum(1)], axis=1), axis=1)
    for likelihood in (MultinomialProbit(C), Softmax(C), OneAgainstRest(C)):
        fit = IVM(active=60).fit(K, y, likelihood)
        p = np.exp(fit.log_class_probabilities(k(X[fit.rows], Xt), k.diag(Xt)))
        assert np.mean(np.argmax(p, axis=1) == truth) > 0.85
        mean, _ = fit.predict(k(X[fit.rows], Xt), k.diag(Xt))
        per_class = fit.predict(np.stack([k(X[fit.rows], Xt)] * C), np.stack([k.diag(Xt)] * C))
        assert_allclose(per_class[0], mean)


def test_memory_bound(problem):
    rng = np.random.default_rng(6)
    X = rng.normal(size=(800, 2))
    y = np.argmax(np.stack([X[:, 0], X[:, 1], -X.sum(1)], axis=1), axis=1)
    K = RBF(1.0, 3.0)(X)
    likelihood = OneAgainstRest(C)
    bounded = IVM(active=120, memory=1.2, block=20).fit(K, y, likelihood)
    assert len(bounded.candidates) < 800
    again = IVM(active=120).fit(K, y, likelihood, start=bounded)
    assert bounded.log_evidence == pytest.approx(again.log_evidence, abs=1e-8)


def test_bad_input(problem):
    K, y, _ = problem
    with pytest.raises(ValueError, match="2 covariances, but 3"):
        IVM().fit([MatrixColumns(K)] * 2, y, MultinomialProbit(C))
    with pytest.raises(ValueError, match="labels must be integers"):
        IVM().fit(K, y + 0.5, MultinomialProbit(C))
    with pytest.raises(AttributeError, match="no Jensen bound"):
        IVM(active=5).fit(K, y, MultinomialProbit(C)).jensen_bound()
