"""StackedPosterior against C separate posteriors."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.gaussian import FullPosterior, Sites, StackedPosterior, log_partition_1d
from gpclass.kernels import RBF

n, C = 7, 3


@pytest.fixture(params=[True, False], ids=["shared", "per class"])
def problem(request):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    K = RBF(1.0, 2.0)(X)
    K = K if request.param else np.stack([K, 2 * K, 0.5 * K])
    sites = Sites(rng.uniform(0.1, 2, size=C * n), rng.normal(size=C * n))
    parts = [
        FullPosterior(K if request.param else K[c], Sites(sites.tau[c * n : (c + 1) * n], sites.nu[c * n : (c + 1) * n]))
        for c in range(C)
    ]
    return K, sites, StackedPosterior.without_sites(K, C).renewed(sites), parts


def test_is_its_parts(problem):
    K, sites, q, parts = problem
    assert_allclose(q.sites.tau, sites.tau)
    assert_allclose(q.mean, np.concatenate([p.mean for p in parts]), atol=1e-12)
    assert_allclose(q.latent.mean, np.stack([p.mean for p in parts], axis=1), atol=1e-12)
    assert_allclose(q.latent.var, np.stack([p.var for p in parts], axis=1), atol=1e-12)
    assert_allclose(np.diagonal(q.latent.cov, axis1=1, axis2=2), q.latent.var)
    assert q.log_partition == pytest.approx(sum(p.log_partition for p in parts))
    assert q.log_det == pytest.approx(sum(p.log_det for p in parts))
    priors = K if K.ndim == 3 else [K] * C
    covariances = [np.linalg.inv(np.linalg.inv(k) + np.diag(p.sites.tau)) for k, p in zip(priors, parts, strict=True)]
    wanted = sum(np.trace(V @ np.linalg.inv(k)) for V, k in zip(covariances, priors, strict=True))
    assert q.trace_ratio == pytest.approx(wanted, rel=1e-9)  # rounding × condition of K
    assert_allclose(q.flat(q.table(q.mean)), q.mean, rtol=0)
    mean, cov = q.latent.cavity()
    assert_allclose(mean[:, 1], parts[1].cavity()[0], atol=1e-12)
    assert_allclose(cov[:, 1, 1], parts[1].cavity()[1], atol=1e-12)
    G = q.gradient()
    assert G.shape == K.shape
    assert_allclose(
        G if K.ndim == 3 else [G],
        np.stack([p.gradient() for p in parts]) if K.ndim == 3 else [sum(p.gradient() for p in parts)],
    )


def test_shifted_and_renewed_keep_sites_and_moments_together(problem):
    _, sites, q, _ = problem
    nu = np.random.default_rng(1).normal(size=C * n)
    moved = q.shifted(*q.covariance_step(nu))
    assert_allclose(moved.sites.nu, sites.nu + nu, atol=1e-10)
    again = q.renewed(Sites(sites.tau, sites.nu + nu))
    assert_allclose(moved.mean, again.mean, atol=1e-10)
    known = q.renewed(again.sites, moments=(again.alpha, again.mean))
    assert_allclose(known.mean, again.mean)


def test_predictions(problem):
    _, _, q, parts = problem
    Ks, kd = np.random.default_rng(2).normal(size=(n, 4)) * 0.1, np.full(4, 2.0)
    mean, cov = q.predict(Ks, kd)
    assert mean.shape == (4, C)
    assert cov.shape == (4, C, C)
    for c, p in enumerate(parts):
        want, var = p.predict(Ks, kd)
        assert_allclose(mean[:, c], want)
        assert_allclose(cov[:, c, c], var)
    assert_allclose(cov[:, 0, 1], 0)
    per_class = q.predict(np.stack([Ks] * C), np.stack([kd] * C))
    assert_allclose(per_class[0], mean)


def test_a_coupled_step_solves_the_coupled_system(problem):
    K, sites, _, _ = problem
    pi = np.random.default_rng(3).uniform(0.2, 1, size=(n, C))
    q = StackedPosterior.without_sites(K, C, lambda _: pi).renewed(sites)
    nu = np.random.default_rng(1).normal(size=C * n)
    alpha, mean = (q.table(x) for x in q.covariance_step(nu))
    by_class = np.broadcast_to(K, (C, n, n))
    assert_allclose(mean, np.stack([by_class[c] @ alpha[:, c] for c in range(C)], axis=1), atol=1e-10)
    pulled = pi * (mean - (np.sum(pi * mean, axis=1) / pi.sum(1))[:, None])
    assert_allclose(alpha + pulled, q.table(nu), atol=1e-8)


def test_cavity_times_site_is_the_marginal(problem):
    _, sites, q, _ = problem
    mean, var = q.cavity()
    assert_allclose(q.var, var / (1 + var * sites.tau), rtol=1e-9)
    assert np.all(np.isfinite(log_partition_1d(mean, var, sites)))
