"""Sites of any precision on coupled classes, against dense matrices of all latent values."""

import numpy as np
import pytest
from scipy.linalg import block_diag

from gpclass.gaussian import DenseCoupledPosterior, precision_root
from gpclass.gaussian.dense_coupled import class_factor
from gpclass.numerics import NotPositiveDefinite
from gpclass.numerics.classes import contrast_basis
from gpclass.numerics.separable import Separable

N, C = 7, 4
FORMS = ["shared", "per class", "separable", "singular"]


def spd(rng, size, rank=None):
    Z = rng.normal(size=(size, rank or size + 2))
    return Z @ Z.T / size


def make(form, weak=(), scale=1.0):
    """K, a posterior, and the dense K and W."""
    rng = np.random.default_rng(1)
    K = {
        "shared": spd(rng, N),
        "per class": np.stack([spd(rng, N) for _ in range(C)]),
        "separable": Separable(spd(rng, N), spd(rng, C)),
        "singular": Separable(spd(rng, N), spd(rng, C, 2)),
    }[form]
    root = contrast_basis(C) @ rng.normal(size=(N, C - 1, C - 1)) * scale
    for i, size in weak:
        root[i, :, 0] *= size
    alpha = rng.normal(size=(N, C))
    if isinstance(K, Separable):
        dense = np.kron(K.inputs, K.classes)
    else:
        dense = np.einsum("cij,cd->icjd", np.broadcast_to(K, (C, N, N)), np.eye(C)).reshape(N * C, N * C)
    return K, DenseCoupledPosterior(K, root, alpha), dense, block_diag(*(r @ r.T for r in root))


def posterior_covariance(dense, W):
    return dense - dense @ W @ np.linalg.solve(np.eye(len(dense)) + dense @ W, dense)


def blocks(V):
    return np.stack([V[i : i + C, i : i + C] for i in range(0, N * C, C)])


@pytest.mark.parametrize("form", FORMS)
def test_against_dense_matrices(form):
    K, q, D, W = make(form)
    V = posterior_covariance(D, W)
    assert q.mean.ravel() == pytest.approx(D @ q.alpha.ravel(), abs=1e-12)
    assert q.cov == pytest.approx(blocks(V), abs=1e-12)
    assert q.var == pytest.approx(np.diagonal(V).reshape(N, C), abs=1e-12)
    H = contrast_basis(C)
    assert q.contrast_cov == pytest.approx(H @ H.T @ blocks(V) @ H @ H.T, abs=1e-10)
    log_det = np.linalg.slogdet(np.eye(N * C) + D @ W)[1]
    assert q.log_det == pytest.approx(log_det, abs=1e-11)
    trace = N * C - np.trace(np.linalg.solve(np.eye(N * C) + D @ W, D @ W))  # tr (I + KW)⁻¹
    assert q.trace_ratio == pytest.approx(trace, abs=1e-11)
    quadratic = q.alpha.ravel() @ D @ q.alpha.ravel()
    assert q.divergence == pytest.approx(0.5 * (trace - N * C + quadratic + log_det), abs=1e-11)
    G = 0.5 * (np.outer(q.alpha, q.alpha) - W @ np.linalg.inv(np.eye(N * C) + D @ W)).reshape(N, C, N, C)
    g = q.gradient()
    if isinstance(K, Separable):
        assert g.inputs == pytest.approx(np.einsum("icjd,cd->ij", G, K.classes), abs=1e-11)
        assert g.classes == pytest.approx(np.einsum("icjd,ij->cd", G, K.inputs), abs=1e-11)
    else:
        assert g == pytest.approx(np.einsum("icjc->cij", G).sum(0) if K.ndim == 2 else np.einsum("icjc->cij", G), abs=1e-11)


@pytest.mark.parametrize("form", FORMS)
def test_sites_give_the_posterior_back(form):
    K, q, D, W = make(form)
    V = posterior_covariance(D, W)
    assert V @ q.sites.nu.ravel() == pytest.approx(q.mean.ravel(), abs=1e-9)
    twin = DenseCoupledPosterior.from_sites(K, q.sites)
    assert twin.mean == pytest.approx(q.mean, abs=1e-9)
    assert twin.alpha == pytest.approx(q.alpha, abs=1e-9)
    moved = q.shifted(*q.system.solve(np.ones((N, C)) * np.arange(C)))
    assert moved.mean.ravel() == pytest.approx(D @ moved.alpha.ravel(), abs=1e-10)
    mean, cov = q.cavity()
    for i in range(N):
        without = W.copy()
        without[i * C : i * C + C] = 0
        rest = q.sites.nu.copy()
        rest[i] = 0
        Vi = posterior_covariance(D, without)
        assert cov[i] == pytest.approx(Vi[i * C : i * C + C, i * C : i * C + C], abs=1e-9)
        assert mean[i] == pytest.approx((Vi @ rest.ravel())[i * C : i * C + C], abs=1e-8)


@pytest.mark.parametrize("size", [1e-3, 1e-6, 1e-12, 0.0])
def test_weak_sites(size):
    """(I - B⁻¹)/W would lose its digits here, and must not be used."""
    _, q, D, W = make("shared", weak=((0, size), (3, size)))
    H = contrast_basis(C)
    want = H @ H.T @ blocks(posterior_covariance(D, W)) @ H @ H.T
    # eps over W times prior variance, which is at least 1e-9 here
    assert q.contrast_cov == pytest.approx(want, abs=1e-6)
    bound = np.einsum("icd,icd->i", q.contrast_cov - want, q.precision)
    assert np.abs(bound).max() < 1e-11  # in the direction of the sites nothing is lost


def test_roots():
    rng = np.random.default_rng(2)
    R = contrast_basis(C) @ rng.normal(size=(N, C - 1, C - 1))
    W = R @ np.swapaxes(R, 1, 2)
    root = precision_root(W)
    assert root @ np.swapaxes(root, 1, 2) == pytest.approx(W, abs=1e-12)
    assert np.abs(root.sum(1)).max() < 1e-12
    for K in (spd(rng, C), spd(rng, C, 1)):
        assert class_factor(K) @ class_factor(K).T == pytest.approx(K, abs=1e-12)
    for bad in (np.eye(C) - 1, np.zeros((C, C))):
        with pytest.raises(NotPositiveDefinite, match="may be singular, but must be positive"):
            class_factor(bad)


def test_contrasts():
    for size in (2, 3, 8):
        H = contrast_basis(size)
        assert np.abs(H.T @ H - np.eye(size - 1)).max() < 1e-14
        assert np.abs(H.sum(0)).max() < 1e-14


def test_rounding_is_noticed():
    with pytest.raises(NotPositiveDefinite, match="scale the kernel's variance down"):
        DenseCoupledPosterior(np.full((N, N), 1e19), np.tile(contrast_basis(C), (N, 1, 1)), np.zeros((N, C)))
    assert make("shared")[1].rounding < 1e-12
