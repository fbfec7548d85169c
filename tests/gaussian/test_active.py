"""Sites on an active set against dense matrices, inclusion by inclusion, and derivatives against central differences."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.gaussian import (
    ActivePosterior,
    ActiveSites,
    EvidenceGradient,
    FullPosterior,
    MatrixColumns,
    Sites,
    Stubs,
)
from gpclass.gaussian.active import STUBS_PER_PIECE, block
from gpclass.kernels import RBF

n = 60
rng = np.random.default_rng(0)
X = rng.normal(size=(n, 2))
K = RBF(1.0, 2.0)(X)
ORDER = rng.permutation(n)[: 2 * STUBS_PER_PIECE + 3]  # more than two pieces, the last not full
TAU = rng.uniform(0.05, 3.0, size=len(ORDER))
NU = rng.normal(size=len(ORDER))


def dense(K, rows, tau, nu):
    """Mean and covariance of all rows by definition, with sites of zero precision at other rows."""
    T, b = np.zeros(len(K)), np.zeros(len(K))
    np.add.at(T, rows, tau)
    np.add.at(b, rows, nu)
    V = np.linalg.solve(np.eye(len(K)) + K * T, K)
    return V @ b, V


def grown(covariance, order=ORDER):
    """Stubs after inclusions of the sites above, each given by slope and curvature of its log mass."""
    stubs = Stubs(covariance)
    for i, tau, nu in zip(order, TAU, NU, strict=False):
        at = int(np.flatnonzero(stubs.rows == i)[0])
        mean, var = stubs.mean[at], stubs.var[at]
        stubs.include(at, (nu - tau * mean) / (1 + tau * var), -tau / (1 + tau * var))
    return stubs


@pytest.mark.parametrize("d", [1, 5, len(ORDER)])
def test_inclusions_keep_all_marginals(d):
    stubs = grown(MatrixColumns(K), ORDER[:d])
    mean, V = dense(K, ORDER[:d], TAU[:d], NU[:d])
    assert_allclose(stubs.mean, mean, atol=1e-12)  # rounding of d subtractions of numbers of order one
    assert_allclose(stubs.var, np.diagonal(V), atol=1e-12)
    M = np.concatenate([piece[:used] for piece, used in stubs._filled()])
    assert_allclose(K - M.T @ M, V, atol=1e-12)  # (4)
    L = np.linalg.cholesky(np.eye(d) + np.sqrt(np.outer(TAU[:d], TAU[:d])) * K[np.ix_(ORDER[:d], ORDER[:d])])
    assert_allclose(M, np.linalg.solve(L, np.sqrt(TAU[:d])[:, None] * K[ORDER[:d]]), atol=1e-12)


def test_forgotten_candidates_change_nothing_for_the_others():
    some = np.sort(np.concatenate([ORDER[20:], rng.permutation(n)[:10]]))
    some = np.unique(some)
    stubs = Stubs(MatrixColumns(K))
    for step, (i, tau, nu) in enumerate(zip(ORDER, TAU, NU, strict=True)):
        if step == 20:
            stubs.keep(some)
        at = int(np.flatnonzero(stubs.rows == i)[0])
        mean, var = stubs.mean[at], stubs.var[at]
        stubs.include(at, (nu - tau * mean) / (1 + tau * var), -tau / (1 + tau * var))
    mean, V = dense(K, ORDER, TAU, NU)
    assert np.array_equal(stubs.rows, some)
    assert_allclose(stubs.mean, mean[some], atol=1e-12)
    assert_allclose(stubs.var, np.diagonal(V)[some], atol=1e-12)
    assert sum(piece.size for piece in stubs._pieces) == 3 * STUBS_PER_PIECE * len(some)


def test_a_row_twice_in_the_data_leaves_no_negative_variance():
    twice = np.vstack([X[:5]] * 2)
    stubs = Stubs(MatrixColumns(RBF(1.0, 1e4)(twice)))
    for i in range(5):
        stubs.include(i, 1.0, -0.999999 / stubs.var[i])
    assert np.all(stubs.var > 0)


def test_posterior_predicts_from_active_rows_only():
    at = ActiveSites(ORDER, np.zeros(len(ORDER), int), Sites(TAU, NU))
    q = ActivePosterior([MatrixColumns(K)], at)
    mean, V = dense(K, ORDER, TAU, NU)
    assert np.array_equal(q.rows, ORDER)
    got, var = q.predict(K[ORDER], np.diagonal(K))
    assert_allclose(got[:, 0], mean, atol=1e-11)
    assert_allclose(var[:, 0], np.diagonal(V), atol=1e-11)


def test_divergence_from_the_prior_is_that_of_all_rows():
    prior = K + 0.1 * np.eye(n)  # so that it can be inverted
    q = ActivePosterior([MatrixColumns(prior)], ActiveSites(ORDER, np.zeros(len(ORDER), int), Sites(TAU, NU)))
    mean, V = dense(prior, ORDER, TAU, NU)
    ratio = np.linalg.solve(prior, V)
    truth = 0.5 * (np.trace(ratio) + mean @ np.linalg.solve(prior, mean) - n - np.linalg.slogdet(ratio)[1])
    assert q.divergence == pytest.approx(truth, rel=1e-10)


def test_several_functions_with_active_sets_of_their_own():
    rows, latents = np.array([4, 9, 4, 30, 2]), np.array([0, 2, 2, 0, 2])
    at = ActiveSites(rows, latents, Sites(TAU[:5], NU[:5]))
    covariances = [MatrixColumns(s * K) for s in (1.0, 2.0, 0.5)]
    q = ActivePosterior(covariances, at)
    assert q.rows.tolist() == [4, 9, 30, 2]
    assert [a.tolist() for a in q.active] == [[4, 30], [], [9, 4, 2]]
    Ks = np.stack([s * K[q.rows] for s in (1.0, 2.0, 0.5)])
    kd = np.stack([s * np.diagonal(K) for s in (1.0, 2.0, 0.5)])
    mean, var = q.predict(Ks, kd)
    for c, s in enumerate((1.0, 2.0, 0.5)):
        mine = latents == c
        truth, V = dense(s * K, rows[mine], TAU[:5][mine], NU[:5][mine])
        assert_allclose(mean[:, c], truth, atol=1e-12)
        assert_allclose(var[:, c], np.diagonal(V), atol=1e-12)
    again = pickle.loads(pickle.dumps(q))
    assert_allclose(again.predict(Ks, kd)[0], mean)


@pytest.mark.parametrize("silent", [False, True])
def test_derivatives_with_sites_held(silent):
    rows, tau, nu = ORDER[:8], TAU[:8].copy(), NU[:8]
    if silent:  # a site with a location and zero precision
        tau[3] = 0.0
    others = np.setdiff1d(np.arange(n), rows)
    slope, growth = rng.normal(size=(2, n))

    def value(K):
        q = FullPosterior(np.ascontiguousarray(K[np.ix_(rows, rows)]), Sites(tau, nu))
        mean, var = q.predict(K[rows], np.diagonal(K))
        return q.log_partition + slope @ mean + growth @ var

    q = FullPosterior(K[np.ix_(rows, rows)], Sites(tau, nu))
    gradient = EvidenceGradient(q, slope[rows], growth[rows])
    seen = block(q, MatrixColumns(K), rows, others, np.diagonal(K)[others])
    G, g = gradient.add(seen, slope[others], growth[others])
    total = np.zeros((n, n))
    total[np.ix_(rows, rows)] += gradient.gram
    total[np.ix_(rows, others)] += G
    total[others, others] += g
    direction = rng.normal(size=(n, n))
    direction += direction.T
    h = 1e-6  # error h² times third derivatives, and eps/h times a value of order ten
    numeric = (value(K + h * direction) - value(K - h * direction)) / (2 * h)
    assert np.sum(total * direction) == pytest.approx(numeric, rel=1e-7)


def test_rows_without_sites_have_the_marginals_of_predictions():
    rng = np.random.default_rng(2)
    K = RBF(1.0, 3.0)(rng.normal(size=(12, 2)))
    active, rest = np.arange(5), np.arange(5, 12)
    for tau in (rng.uniform(0.1, 2.0, 5), np.zeros(5)):
        q = FullPosterior(K[:5, :5], Sites(tau, tau * rng.normal(size=5)))
        seen = block(q, MatrixColumns(K), active, rest, np.diagonal(K)[rest])
        mean, var = q.predict(K[:5, 5:], np.diagonal(K)[rest])
        assert_allclose(seen.mean, mean, rtol=1e-12, atol=1e-14)
        assert_allclose(seen.var, var, rtol=1e-12)
