"""Rows in batches."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.engines.active.update import pruned
from gpclass.gaussian import ActivePosterior, ActiveSites, MatrixColumns, Sites
from gpclass.kernels import RBF
from gpclass.likelihoods import Gaussian, MultinomialProbit, Probit
from gpclass.sparse import IVM

rng = np.random.default_rng(0)
X = rng.normal(size=(120, 2))
y = np.where(X[:, 0] + X[:, 1] ** 2 > 0.8, 1.0, -1.0)
k = RBF(1.0, 4.0)
K = k(X)


def stream(engine, y, likelihood, batches, K=K):
    """Fit the first batch and update with the others. Return the fit and the numbers of its `rows`."""
    first, *others = batches
    fit = engine.fit(K[np.ix_(first, first)], y[first], likelihood)
    rows = first[fit.rows]
    for batch in others:
        everything = np.concatenate([rows, batch])
        fit = engine.update(K[np.ix_(everything, everything)], y[everything], likelihood, fit)
        rows = everything[fit.rows]
    return fit, rows


def test_with_gaussian_noise_and_room_for_all_it_is_exact_regression():
    """Sites of Gaussian noise do not depend on the order of updates."""
    targets = np.sin(X[:, 0])
    fit, rows = stream(IVM(active=200), targets, Gaussian(0.1), np.split(np.arange(120), 4))
    assert sorted(rows) == list(range(120))
    inverse = np.linalg.inv(K + 0.1 * np.eye(120))
    mean, var = fit.predict(K[rows], np.diagonal(K))
    assert_allclose(mean, K @ inverse @ targets, atol=1e-9)
    assert_allclose(var, np.diagonal(K - K @ inverse @ K), atol=1e-9)


def test_one_batch_after_the_other_is_assumed_density_filtering():
    """If all rows are active, each site is matched to the posterior of the rows before it, as in an explicit loop."""
    first, second = np.arange(30), np.arange(30, 45)
    fit, rows = stream(IVM(active=100), y, Probit(), [first, second])
    before = IVM(active=100).fit(K[:30, :30], y[:30], Probit())
    assert np.array_equal(rows[:30], before.active)
    assert_allclose(fit.sites.tau[:30], before.sites.tau)  # old sites are unchanged
    tau, nu = np.zeros(120), np.zeros(120)
    tau[rows[:30]], nu[rows[:30]] = before.sites.tau, before.sites.nu
    for i, t, v in zip(rows[30:], fit.sites.tau[30:], fit.sites.nu[30:], strict=True):
        V = np.linalg.solve(np.eye(120) + K * tau, K)
        mean = V @ nu
        _, d1, d2 = Probit().tilted_moments(y[i], mean[i], V[i, i])
        assert t == pytest.approx(-d2 / (1 + V[i, i] * d2), rel=1e-7)
        assert v == pytest.approx((d1 - d2 * mean[i]) / (1 + V[i, i] * d2), rel=1e-6, abs=1e-9)
        tau[i], nu[i] = t, v


def test_the_set_keeps_its_size_and_learns():
    engine = IVM(active=25)
    fit, rows = stream(engine, y, Probit(), np.split(np.arange(120), 6))
    assert len(fit.active) == 25
    assert max(rows) >= 100  # the last batch has an effect
    Xt = rng.normal(size=(500, 2))
    truth = np.where(Xt[:, 0] + Xt[:, 1] ** 2 > 0.8, 1.0, -1.0)

    def error(fit, rows):
        return np.mean(np.sign(fit.predict(k(X[rows], Xt), k.diag(Xt))[0]) != truth)

    first = engine.fit(K[:20, :20], y[:20], Probit())
    assert error(fit, rows) < 0.1
    assert error(fit, rows) < error(first, first.rows)


def test_the_site_that_is_missed_least_goes_first():
    sites = Sites(np.array([1.0, 1e-5, 2.0, 0.5]), np.array([1.0, 0.0, 2.0, 1.0]))
    at = ActiveSites(np.array([3, 50, 7, 90]), np.zeros(4, int), sites)
    left = pruned([MatrixColumns(K)], at, 3, [4])
    assert left.rows.tolist() == [3, 7, 90]
    q = ActivePosterior([MatrixColumns(K)], left)

    def divergence(kept):
        """KL(q ‖ q without the sites that are not kept), from the definition, over all active rows."""
        rows, tau, nu = q.active[0], q.at.sites.tau, q.at.sites.nu
        V = [np.linalg.inv(np.linalg.inv(K[np.ix_(rows, rows)]) + np.diag(t)) for t in (tau, np.where(kept, tau, 0))]
        m = [V[0] @ nu, V[1] @ np.where(kept, nu, 0)]
        gap = m[1] - m[0]
        return 0.5 * (np.trace(np.linalg.solve(V[1], V[0])) - 3 + gap @ np.linalg.solve(V[1], gap)
                      + np.linalg.slogdet(V[1])[1] - np.linalg.slogdet(V[0])[1])  # fmt: skip

    losses = [divergence(np.arange(3) != i) for i in range(3)]
    two = pruned([MatrixColumns(K)], left, 2, [4])
    gone = (set(left.rows) - set(two.rows)).pop()
    assert left.rows.tolist().index(gone) == int(np.argmin(losses))


def test_several_classes():
    labels = np.digitize(X[:, 0], [-0.5, 0.5])
    fit, rows = stream(IVM(active=40), labels, MultinomialProbit(3), np.split(np.arange(120), 4))
    assert len(fit.at) == 40
    p = fit.log_class_probabilities(K[rows], np.diagonal(K))
    assert np.mean(np.argmax(p, axis=1) == labels) > 0.85
    caps, _ = stream(IVM(active=(5, 20, 10)), labels, MultinomialProbit(3), np.split(np.arange(120), 4))
    assert [len(a) for a in caps.active] == [5, 20, 10]


def test_rows_that_do_not_fit_are_refused():
    fit = IVM(active=10).fit(K[:30, :30], y[:30], Probit())
    with pytest.raises(ValueError, match="begin with the 10 rows"):
        IVM(active=10).update(K[:5, :5], y[:5], Probit(), fit)
