"""Inducing variables coupled by the sites of the data, against explicit matrices of all C M variables."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.gaussian import LowRankMatrices
from gpclass.gaussian.coupled import precisions
from gpclass.gaussian.low_rank_contrasts import ContrastLowRankPrior, class_sites, coupled_cavity
from gpclass.gaussian.low_rank_matrices import GradientSum
from gpclass.kernels import RBF

JITTER = 1e-6
C, N, M = 3, 8, 4


def matrices(groups, seed=0):
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(N, 2)), rng.normal(size=(groups, M, 2))
    kernels = [RBF(1.0 + 0.3 * g, 2.0) for g in range(groups)]
    K = LowRankMatrices(
        np.stack([k(z) for k, z in zip(kernels, Z, strict=True)]),
        np.stack([k(X, z) for k, z in zip(kernels, Z, strict=True)]),
        np.stack([k.diag(X) for k in kernels]),
    )
    return K.checked(N, C)


def some_sites(seed=1):
    rng = np.random.default_rng(seed)
    nu = rng.normal(size=(N, C))
    return rng.random((N, C)) * 2 + 0.1, nu - nu.mean(1, keepdims=True)


def dense(K):
    """Covariance (C M, C M) of u and W (N, C, C M), g_i = W_i u, with K_uu⁻¹ written out."""
    groups = [g if len(K.K_uu) > 1 else 0 for g in range(C)]
    prior, W = np.zeros((C * M, C * M)), np.zeros((N, C, C * M))
    for c, g in enumerate(groups):
        own = slice(c * M, (c + 1) * M)
        prior[own, own] = K.K_uu[g] + JITTER * np.diag(np.diag(K.K_uu[g]))
        W[:, c, own] = K.K_fu[g] @ np.linalg.inv(prior[own, own])
    return prior, W


@pytest.mark.parametrize("groups", [1, C])
def test_posterior_is_that_of_explicit_matrices(groups):
    K, (pi, nu) = matrices(groups), some_sites()
    prior = ContrastLowRankPrior(K.K_uu, C, JITTER)
    rows = prior.rows(K.K_fu, K.k_diag)
    q = prior.posterior(*prior.site_sums(rows.phi, pi, nu))
    K_u, W = dense(K)
    P = np.einsum("ica,icd,idb->ab", W, precisions(pi), W)
    h = np.einsum("ica,ic->a", W, nu)
    V = np.linalg.inv(np.linalg.inv(K_u) + P)
    at, (mean, cov) = q.marginals(rows), q.predict(rows)
    # explicit inverses of K_uu lose its condition times eps, 1e-11 here
    assert_allclose(at.mean, np.einsum("ica,a->ic", W, V @ h), atol=1e-9)
    assert_allclose(at.cov, np.einsum("ica,ab,idb->icd", W, V, W), atol=1e-9)
    assert_allclose(mean, at.mean)
    assert_allclose(cov, at.cov + rows.residual[:, :, None] * np.eye(C), atol=1e-12)
    partition = 0.5 * h @ V @ h + 0.5 * np.linalg.slogdet(V)[1] - 0.5 * np.linalg.slogdet(K_u)[1]
    assert_allclose(q.log_partition, partition, atol=1e-9)
    back, pull = prior.coloured(q.S, q.pull)
    assert_allclose(back[0], P, rtol=1e-7, atol=1e-8)
    assert_allclose(pull[0], h, rtol=1e-7, atol=1e-8)
    there, pull = prior.whitened(back, pull)
    assert_allclose(there, q.S, atol=1e-9)
    assert_allclose(pull, q.pull, atol=1e-9)


@pytest.mark.parametrize("groups", [1, C])
def test_derivatives_in_the_prior_matrices_are_central_differences(groups):
    """Of log ∫ N(u) exp(sites on g): d/dw of a site's expected log, factors -Π of the covariances of v with g."""
    K, (pi, nu) = matrices(groups), some_sites()

    def value(K):
        prior = ContrastLowRankPrior(K.K_uu, C, JITTER)
        rows = prior.rows(K.K_fu, K.k_diag)
        q = prior.posterior(*prior.site_sums(rows.phi, pi, nu))
        return q, rows, q.log_partition

    q, rows, _ = value(K)
    total, at = GradientSum(q.prior), q.marginals(rows)
    slope = nu - np.einsum("icd,id->ic", precisions(pi), at.mean)
    fu, _ = total.add(at, slope, -precisions(pi), np.zeros((N, C)))
    uu = total.uu(q)
    rng, h = np.random.default_rng(2), 1e-6
    for name, found, symmetric in (("K_uu", uu, True), ("K_fu", fu, False)):
        step = rng.normal(size=found.shape)
        step = step + np.swapaxes(step, 1, 2) if symmetric else step
        ends = [value(LowRankMatrices(**{**vars(K), name: getattr(K, name) + s * h * step}))[2] for s in (1, -1)]
        assert_allclose(np.sum(found * step), (ends[0] - ends[1]) / (2 * h), rtol=1e-5)


def test_sites_on_contrasts_become_sites_on_classes():
    """The Gaussian integral over e and u, with explicit matrices of (e, u)."""
    rng = np.random.default_rng(3)
    m = 5
    y = rng.integers(0, C, m)
    own = y[:, None] == np.arange(C)
    tau, nu = (np.where(own, 0.0, x) for x in (rng.random((m, C)) * 3, rng.normal(size=(m, C))))
    rest = rng.random((m, C))
    found = class_sites(own, tau, nu, rest)
    Pi = precisions(found.pi)
    for i in range(m):
        B = np.zeros((C, C + 1))  # contrasts x = A g + B (e, u)
        A = np.zeros((C, C))
        A[:, y[i]] += 1
        A -= np.eye(C)
        B[:, :C], B[:, C] = A, 1
        spread = np.diag([*rest[i], 1.0])
        T = np.diag(tau[i])
        for g in rng.normal(size=(3, C)):
            precision = np.linalg.inv(spread) + B.T @ T @ B
            pull = B.T @ (nu[i] - T @ A @ g)
            log_integral = (
                nu[i] @ A @ g - 0.5 * (A @ g) @ T @ (A @ g) + 0.5 * pull @ np.linalg.solve(precision, pull)
                - 0.5 * np.linalg.slogdet(precision @ spread)[1]
            )  # fmt: skip
            assert_allclose(found.constant[i] - 0.5 * g @ Pi[i] @ g + found.nu[i] @ g, log_integral, atol=1e-12)


def test_what_remains_without_a_site():
    K, (pi, nu) = matrices(1), some_sites()
    prior = ContrastLowRankPrior(K.K_uu, C, JITTER)
    rows = prior.rows(K.K_fu, K.k_diag)
    at = prior.posterior(*prior.site_sums(rows.phi, pi, nu)).marginals(rows)
    found = coupled_cavity(at.mean, at.cov, pi, nu, 1e-10)
    for i in range(N):
        kept = np.arange(N) != i
        q = prior.posterior(*prior.site_sums(rows.phi[:, kept], pi[kept], nu[kept]))
        alone = q.marginals(rows)
        assert_allclose(found.mean[i], alone.mean[i], atol=1e-10)
        assert_allclose(found.cov[i], alone.cov[i], atol=1e-10)
        whole = prior.posterior(*prior.site_sums(rows.phi, pi, nu))
        phi = np.kron(np.eye(C), rows.phi[0, i])
        with_g = whole.A_inv[0] @ phi.T
        assert_allclose(q.A_inv[0] @ phi.T, with_g @ found.gain[i], atol=1e-10)
        assert_allclose(q.mu[0] - whole.mu[0], with_g @ found.tilt[i], atol=1e-10)


def test_a_site_stronger_than_the_marginal_is_removed_in_part():
    """A cavity keeps at least the given fraction, whatever the site is."""
    pi = np.array([[5.0, 3.0, 4.0]])
    cov = np.diag([1.0, 2.0, 1.0])[None]
    found = coupled_cavity(np.zeros((1, C)), cov, pi, np.zeros((1, C)), 1e-2)
    ratio = np.linalg.eigvals(np.linalg.solve(found.cov[0], cov[0]))  # the remaining precision
    assert np.all(np.linalg.eigvalsh(found.cov[0]) > 0)
    assert_allclose(np.min(ratio.real), 1e-2, rtol=1e-6)
