"""Sites on contrasts of classes against dense algebra on all n (C - 1) contrasts."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import block_diag

from gpclass.gaussian import ContrastPosterior, ContrastPrior, FullPosterior, Sites
from gpclass.gaussian.contrast_systems import CoupledContrasts, DenseContrasts
from gpclass.kernels import RBF

CASES = [(2, True), (3, True), (4, False), (6, True)]


def problem(C, shared, n=7):
    rng = np.random.default_rng(0)
    K = RBF(1.0, 3.0)(rng.normal(size=(n, 2)))
    return K if shared else K * (1.0 + np.arange(C))[:, None, None], rng.integers(C, size=n), rng


def test_maps_are_adjoint():
    K, y, rng = problem(4, True)
    prior = ContrastPrior(K, y, 4)
    x, f = rng.normal(size=(7, 3)), rng.normal(size=(7, 4))
    assert_allclose(np.sum(prior.to_classes(x.ravel()) * f), np.sum(x * prior.to_contrasts(f)), rtol=1e-13)
    assert_allclose(prior.to_contrasts(f)[0, 0], f[0, y[0]] - f[0, prior.others[0, 0]])


@pytest.mark.parametrize(("C", "shared"), CASES)
def test_contrasts_against_dense(C, shared):
    K, y, rng = problem(C, shared)
    n = len(y)
    blocks = np.broadcast_to(K, (C, n, n))
    sites = Sites(rng.uniform(0.01, 1, n * (C - 1)), rng.normal(size=n * (C - 1)))
    q = ContrastPosterior(ContrastPrior(K, y, C), sites)
    to_contrasts, to_noise = np.zeros((n * (C - 1), n * C)), np.zeros((n * (C - 1), n))
    r = 0
    for i in range(n):
        for j in (c for c in range(C) if c != y[i]):
            to_contrasts[r, y[i] * n + i], to_contrasts[r, j * n + i], to_noise[r, i] = 1, -1, 1
            r += 1
    prior = to_contrasts @ block_diag(*blocks) @ to_contrasts.T + to_noise @ to_noise.T
    dense = FullPosterior(prior, sites)
    tight = {"rtol": 1e-9, "atol": 1e-10}
    for name in ("mean", "var", "alpha", "log_det", "log_partition", "prior_var"):
        assert_allclose(getattr(q, name), getattr(dense, name), **tight, err_msg=name)
    for got, want in zip(q.cavity(), dense.cavity(), strict=True):
        assert_allclose(got, want, **tight)
    step = rng.normal(size=n * (C - 1))
    for got, want in zip(q.covariance_step(step), dense.covariance_step(step), strict=True):
        assert_allclose(got, want, **tight)
    moved = q.shifted(*q.covariance_step(step))
    assert_allclose(moved.mean, ContrastPosterior(q.prior, moved.sites).mean, **tight)
    bare = ContrastPosterior.without_sites(K, y, C)
    assert_allclose(bare.var, np.diagonal(prior), **tight)
    assert_allclose(bare.covariance_step(step)[1], prior @ step, **tight)
    assert bare.log_det == 0


@pytest.mark.parametrize(("C", "shared"), CASES)
def test_latent_posterior_gives_the_moments_of_the_contrasts(C, shared):
    """Under weak sites a contrast is f_y - f_j plus the noise u, whose variance is one."""
    K, y, rng = problem(C, shared)
    sites = Sites(np.full(7 * (C - 1), 1e-7), 1e-7 * rng.normal(size=7 * (C - 1)))  # so weak that u keeps its prior
    q = ContrastPosterior(ContrastPrior(K, y, C), sites)
    var = q.latent.cov[np.arange(7)[:, None], y[:, None], y[:, None]] + np.take_along_axis(q.latent.var, q.prior.others, 1)
    assert_allclose(q.var, (var + 1).ravel(), rtol=1e-5)  # covariances between classes are of the order of the sites
    assert_allclose(q.mean, q.prior.to_contrasts(q.latent.mean).ravel(), atol=1e-5)


def test_state():
    K, y, rng = problem(3, True)
    q = ContrastPosterior(ContrastPrior(K, y, 3), Sites(rng.uniform(0.1, 1, 14), rng.normal(size=14)))
    again = ContrastPosterior.restored(K, y, 3, 1.0, q.state())
    assert_array_equal(again.mean, q.mean)
    assert_allclose(again.var, q.var, rtol=1e-14)
    assert_allclose(again.gradient(), q.gradient(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("C", "shared"), CASES)
@pytest.mark.parametrize("copies", [1.0, np.array([1.0, 2.0, 1.0, 0.5, 7.0, 1.0, 3.0])], ids=["one", "several"])
def test_both_forms_of_the_linear_algebra_agree(C, shared, copies):
    """The dense and the coupled form share no code: they factorise matrices of different sizes."""
    K, y, rng = problem(C, shared)
    sites = Sites(rng.uniform(0.01, 1, 7 * (C - 1)), rng.normal(size=7 * (C - 1)))
    prior = ContrastPrior(K, y, C, copies)
    dense, coupled = DenseContrasts(prior, sites.tau), CoupledContrasts(prior, sites.tau)
    tight = {"rtol": 1e-9, "atol": 1e-10}
    assert_allclose(dense.log_det, coupled.log_det, **tight)
    assert_allclose(dense.var, coupled.var, **tight)
    moments = dense.solve(sites.nu)
    assert_allclose(moments, coupled.solve(sites.nu), **tight)
    assert_allclose(dense.gradient(sites.nu, *moments), coupled.gradient(sites.nu, *moments), **tight)
