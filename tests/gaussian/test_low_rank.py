"""Low-rank prior × sites against explicit inverses and determinants."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.gaussian import LowRankMatrices, LowRankPosterior, LowRankPrior
from gpclass.gaussian import low_rank as module
from gpclass.gaussian.low_rank_contrasts import ContrastLowRankPrior
from gpclass.kernels import RBF
from gpclass.numerics import NotPositiveDefinite, single_precision

JITTER = 1e-6


def problem(groups, C=2, n=9, M=4, seed=0):
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(n, 2)), rng.normal(size=(groups, M, 2))
    kernels = [RBF(1.0 + 0.3 * g, 2.0) for g in range(groups)]
    K = LowRankMatrices(
        np.stack([k(z) for k, z in zip(kernels, Z, strict=True)]),
        np.stack([k(X, z) for k, z in zip(kernels, Z, strict=True)]),
        np.stack([k.diag(X) for k in kernels]),
    )
    return K.checked(n, C), rng.random((n, C)) * 2, rng.normal(size=(n, C))


@pytest.mark.parametrize("groups", [1, 2])
def test_posterior_against_dense(groups):
    C = 2
    K, tau, nu = problem(groups)
    prior = LowRankPrior(K.K_uu, C, JITTER)
    rows = prior.rows(K.K_fu, K.k_diag)
    q = LowRankPosterior(prior, *prior.site_sums(rows.phi, tau, nu))
    at, (mean, var) = q.marginals(rows), q.predict(rows)
    partition, divergence = 0.0, 0.0
    for c in range(C):
        g = c if groups > 1 else 0
        Kuu = K.K_uu[g] + JITTER * np.diag(np.diag(K.K_uu[g]))
        W = K.K_fu[g] @ np.linalg.inv(Kuu)
        P, h = W.T @ np.diag(tau[:, c]) @ W, W.T @ nu[:, c]  # (B.12), (B.13)
        V = np.linalg.inv(np.linalg.inv(Kuu) + P)
        residual = K.k_diag[g] - np.einsum("ij,ij->i", W, K.K_fu[g])
        # explicit inverses of K_uu lose its condition times eps, 1e-11 here
        assert_allclose(at.mean[:, c], W @ V @ h, atol=1e-9)
        assert_allclose(at.var[:, c], np.einsum("ij,jk,ik->i", W, V, W), atol=1e-9)
        assert_allclose(mean[:, c], at.mean[:, c])
        assert_allclose(var[:, c], at.var[:, c] + residual, atol=1e-9)
        partition += 0.5 * h @ V @ h + 0.5 * np.linalg.slogdet(V)[1] - 0.5 * np.linalg.slogdet(Kuu)[1]
        ratio = np.linalg.solve(Kuu, V)
        m = V @ h
        divergence += 0.5 * (np.trace(ratio) + m @ np.linalg.solve(Kuu, m) - len(m) - np.linalg.slogdet(ratio)[1])
        there, back = prior.coloured(q.S, q.pull)
        assert_allclose(there[c], P, rtol=1e-7, atol=1e-8)
        assert_allclose(back[c], h, rtol=1e-7, atol=1e-8)
    assert_allclose(q.log_partition, partition, atol=1e-9)
    assert_allclose(q.divergence(), divergence, atol=1e-8)
    S, pull = prior.whitened(*prior.coloured(q.S, q.pull))
    assert_allclose(S, q.S, atol=1e-9)
    assert_allclose(pull, q.pull, atol=1e-9)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("n", [9, 1400])  # one block of rows, and several
def test_sums_of_sites_of_either_sign_against_explicit_sums(groups, n):
    K, tau, nu = problem(groups, n=n)
    tau = tau - 0.7
    tau[:, 1] = np.abs(tau[:, 1])  # all are positive here, so there are no gaps between rows
    tau[3] = 0.0
    P, h = LowRankPrior(K.K_uu, 2, JITTER).site_sums(K.K_fu, tau, nu)
    for c in range(2):
        rows = K.K_fu[c if groups > 1 else 0]
        assert_allclose(P[c], rows.T @ (tau[:, c, None] * rows), rtol=0, atol=1e-14 * n)
        assert_allclose(h[c], rows.T @ nu[:, c], rtol=0, atol=1e-14 * n)


@pytest.mark.parametrize("groups", [1, 2])
def test_marginals_for_derivatives_equal_those_by_triangles(groups):
    K, tau, nu = problem(groups)
    tau[0] = -0.1  # negative precisions that leave the posterior proper
    prior = LowRankPrior(K.K_uu, 2, JITTER)
    rows = prior.rows(K.K_fu, K.k_diag)
    q = LowRankPosterior(prior, *prior.site_sums(rows.phi, tau, nu))
    by_triangles, by_products = q.marginals(rows), q.marginals(rows, slopes=True)
    assert_allclose(by_triangles.mean, by_products.mean, rtol=1e-13)
    assert_allclose(by_triangles.var, by_products.var, rtol=1e-12)
    assert_allclose(q.A_inv, np.linalg.inv(np.eye(prior.M) + q.S), atol=1e-13)
    with pytest.raises(AssertionError, match="without `slopes`"):
        by_triangles.feature_slopes(prior, nu, tau)


def test_negative_sites_that_outweigh_the_prior_raise():
    K, tau, nu = problem(1)
    prior = LowRankPrior(K.K_uu, 2, JITTER)
    rows = prior.rows(K.K_fu, K.k_diag)
    with pytest.raises(NotPositiveDefinite, match="negative precision outweigh"):
        LowRankPosterior(prior, *prior.site_sums(rows.phi, -10 * tau, nu))


def test_equal_inducing_points_need_jitter():
    K = np.full((3, 3), 2.0)
    assert LowRankPrior(K, 1, 1e-6).M == 3
    with pytest.raises(NotPositiveDefinite, match="Raise jitter"):
        LowRankPrior(K, 1, 0.0)


def test_shapes_are_checked():
    with pytest.raises(ValueError, match="k_diag must be"):
        LowRankMatrices(np.eye(2), np.ones((5, 2)), np.ones(4)).checked(5, 1)
    with pytest.raises(ValueError, match="negative variances"):
        LowRankMatrices(np.eye(2), np.ones((5, 2)), -np.ones(5)).checked(5, 1)
    with pytest.raises(ValueError, match="axis of 3 latent functions"):
        LowRankMatrices(np.ones((2, 4, 4)), np.ones((5, 4)), np.ones(5)).checked(5, 3)


# single precision ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("structure", [LowRankPrior, ContrastLowRankPrior])
@pytest.mark.parametrize("groups", [1, 2])
def test_products_of_rows_in_single_precision_against_those_in_double(monkeypatch, structure, groups):
    """Features, sums of sites and variances are rounded relative to the sums of their terms' sizes."""
    monkeypatch.setattr(module, "SINGLE_ROWS", 400)  # several sums in float32 are added up
    eps, n = np.finfo(np.float32).eps, 1400
    K, tau, nu = problem(groups, n=n)
    prior = structure(K.K_uu, 2, JITTER)
    double = prior.rows(K.K_fu, K.k_diag)
    with single_precision():
        single = prior.rows(K.K_fu, K.k_diag)
    assert (double.phi.dtype, single.phi.dtype) == (np.float64, np.float32)
    assert_allclose(single.phi, double.phi, rtol=eps)
    assert_allclose(single.residual, double.residual)
    (S, pull), (rounded, pulled) = (prior.site_sums(rows.phi, tau, nu) for rows in (double, single))
    sizes, pushes = prior.site_sums(np.abs(double.phi), np.abs(tau), np.abs(nu))
    # a sum of 400 rounded terms in float32 has an error of some ten eps at most, as rounding errors are of either sign
    assert np.max(np.abs(rounded - S) / np.abs(sizes).max()) < 10 * eps
    assert np.max(np.abs(pulled - pull) / pushes.max()) < 10 * eps
    assert rounded.dtype == pulled.dtype == np.float64
    assert_allclose(rounded, np.swapaxes(rounded, 1, 2))
    q = prior.posterior(S, pull)
    at, coarse = q.marginals(double), q.marginals(single)
    size = np.sqrt(np.max(K.k_diag))  # of the terms of a mean, in units of the posterior's own standard deviations
    assert np.max(np.abs(coarse.mean - at.mean)) < 10 * eps * size * np.abs(q.mu).sum()
    assert np.max(np.abs(coarse.var - at.var)) < 10 * eps * size**2
    assert coarse.mean.dtype == coarse.var.dtype == np.float64
