"""Coupled sites against dense algebra on all n C latent values."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.gaussian import CoupledPosterior, CoupledSystem
from gpclass.gaussian.dense_coupled import DenseSystem, precision_root
from gpclass.kernels import RBF

CASES = [(2, True), (3, True), (4, False), (6, True)]


def problem(C, shared, n=7, variance=3.0, seed=0):
    rng = np.random.default_rng(seed)
    X, new = rng.normal(size=(n, 2)), rng.normal(size=(3, 2))
    k = RBF(1.0, variance)
    K, Ks, kd = k(X), k(X, new), k.diag(new)
    scales = np.ones(C) if shared else 1.0 + np.arange(C)
    full = [s * K for s in scales], [s * Ks for s in scales], [s * kd for s in scales]
    given = (K, Ks, kd) if shared else tuple(np.stack(part) for part in full)
    return given, full, rng.integers(C, size=n), rng


def block_diagonal(blocks):
    n = len(blocks[0])
    out = np.zeros((n * len(blocks), n * len(blocks)))
    for c, block in enumerate(blocks):
        out[c * n : (c + 1) * n, c * n : (c + 1) * n] = block
    return out


def marginals(V, n, C):
    return np.stack([V[np.ix_(np.arange(C) * n + i, np.arange(C) * n + i)] for i in range(n)])


@pytest.mark.parametrize(("C", "shared"), CASES)
@pytest.mark.parametrize("spread", [0.0, 12.0])
def test_coupled_against_dense(C, shared, spread):
    """`spread` makes some π tiny, as softmax does."""
    (K, Ks, kd), (blocks, cross, _), _, rng = problem(C, shared)
    n = len(blocks[0])
    pi = np.exp(-spread * rng.random((n, C)))
    nu = rng.normal(size=(n, C))
    q = CoupledPosterior(K, pi, nu)
    prior = block_diagonal(blocks)
    Pi = np.zeros_like(prior)
    for i in range(n):
        at = np.arange(C) * n + i
        Pi[np.ix_(at, at)] = np.diag(pi[i]) - np.outer(pi[i], pi[i]) / pi[i].sum()
    V = np.linalg.solve(np.eye(n * C) + prior @ Pi, prior)
    mean = V @ nu.T.ravel()
    M = Pi @ np.linalg.inv(np.eye(n * C) + prior @ Pi)
    tight = {"rtol": 1e-7, "atol": 1e-8}  # π below 1e-10 of the prior's precision are raised to this value
    assert_allclose(q.mean.T.ravel(), mean, **tight)
    assert_allclose(prior @ q.alpha.T.ravel(), mean, **tight)
    assert_allclose(q.cov, marginals(V, n, C), **tight)
    assert_allclose(q.log_det, np.linalg.slogdet(np.eye(n * C) + prior @ Pi)[1], **tight)
    got_mean, got_cov = q.predict(Ks, kd)
    for t in range(3):
        row = np.zeros((C, n * C))
        for c in range(C):
            row[c, c * n : (c + 1) * n] = cross[c][:, t]
        prior_cov = np.diag(np.broadcast_to(kd, (C, 3))[:, t])
        assert_allclose(got_mean[t], row @ q.alpha.T.ravel(), **tight)
        assert_allclose(got_cov[t], prior_cov - row @ M @ row.T, **tight)
    a = q.alpha.T.ravel()
    G = 0.5 * (np.outer(a, a) - M)
    G = np.stack([G[c * n : (c + 1) * n, c * n : (c + 1) * n] for c in range(C)])
    assert_allclose(q.gradient(), G.sum(0) if shared else G, **tight)
    # without its own site each datum's latent values have the marginals of a fit to the others
    i = 2
    pi_without, nu_without = pi.copy(), nu.copy()
    pi_without[i], nu_without[i] = 1e-14, 0.0
    without = CoupledPosterior(K, pi_without, nu_without)
    cavity_mean, cavity_cov = q.cavity()
    assert_allclose(cavity_mean[i], without.mean[i], rtol=1e-6, atol=1e-6)
    assert_allclose(cavity_cov[i], without.cov[i], rtol=1e-6, atol=1e-6)


def test_weak_sites_leave_the_prior():
    (K, _, _), _, _, _ = problem(3, True)
    q = CoupledPosterior(K, np.full((7, 3), 1e-300), np.zeros((7, 3)))
    assert_allclose(q.cov, np.stack([np.eye(3) * 3.0] * 7), rtol=1e-8, atol=1e-9)  # sites are raised to 1e-10


@pytest.mark.parametrize("scale", [1.0, 1e6, 1e10])
def test_solve_under_priors_of_large_scale_and_low_rank(scale):
    """α + ΠKα = ν in extended precision; the residual due to rounding of K is eps × scale × n, not its square."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 2))
    K = scale * (1 + X @ X.T) ** 2
    pi = rng.dirichlet(np.ones(3), size=40)
    nu = np.eye(3)[rng.integers(3, size=40)] - pi
    alpha, mean = CoupledSystem(K, pi).solve(nu)
    exact = K.astype(np.longdouble) @ alpha
    left = nu - alpha - pi * (exact - np.sum(pi * exact, axis=1, keepdims=True))
    assert np.max(np.abs(left)) < 1e-8 + 40 * np.finfo(float).eps * K.max()
    assert np.sum(nu * mean) > 0  # νᵀVν > 0: an ascent direction


@pytest.mark.parametrize("scale", [1.0, 1e5, 1e9])
def test_predictions_under_priors_of_large_scale_and_low_rank(scale):
    """Variances of contrasts against dense algebra, up to the rounding error that the system states.

    The common part of all classes has the variance of the prior, and its rounding must not affect differences.
    """
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 2))
    K = scale * (1 + X @ X.T) ** 2
    Ks, kd = K[:40, 40:], np.diagonal(K)[40:]
    pi = rng.dirichlet(np.ones(3), size=40)
    system = CoupledSystem(np.ascontiguousarray(K[:40, :40]), pi)
    cov = system.predict_cov(np.broadcast_to(Ks, (3, 40, 20)), np.broadcast_to(kd, (3, 20)))
    W = pi[:, :, None] * (np.eye(3) - pi[:, None, :])
    dense = DenseSystem(K[:40, :40], precision_root(W)).covariances([Ks], kd[:, None, None] * np.eye(3))
    H = np.eye(3) - 1 / 3
    near, exact = (np.einsum("icc->ic", H @ S @ H) for S in (cov, dense))
    assert_allclose(near, exact, rtol=1e-7 + 10 * system.rounding)


def test_largest_move_is_in_standard_deviations_of_each_datum_alone():
    (K, _, _), _, _, rng = problem(3, False)
    pi, nu = np.exp(rng.normal(size=(7, 3))), rng.normal(size=(7, 3))
    squares = []
    for i in range(7):
        precision = np.diag(1 / K[:, i, i]) + np.diag(pi[i]) - np.outer(pi[i], pi[i]) / pi[i].sum()
        squares.append(nu[i] @ np.linalg.solve(precision, nu[i]))
    assert_allclose(CoupledSystem(K, pi).largest_move(nu), np.sqrt(max(squares)), rtol=1e-12)


def test_rounding_shows_where_a_wide_prior_has_low_rank():
    """With full rank the data determine all latent values; along a null space errors are eps × the prior variance."""
    pi, wide = np.full((7, 3), 1 / 3), 1e9
    full, one = CoupledSystem(wide * np.eye(7), pi).rounding, CoupledSystem(np.full((7, 7), wide), pi).rounding
    assert full < 1e-13 < np.finfo(float).eps * wide < one
