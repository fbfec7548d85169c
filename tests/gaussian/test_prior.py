"""Whitened priors: roots that square to K, predictions equal to textbook conditioning."""

import numpy as np
import pytest

from gpclass.gaussian import Prior
from gpclass.kernels import RBF

X = np.random.default_rng(0).normal(size=(12, 2))
K = RBF(1.0, 2.0)(X)
MAKERS = [Prior.of, Prior.cholesky]


@pytest.mark.parametrize("make", MAKERS)
def test_root_squares_to_the_covariance(make):
    for given in (K, np.stack([K, 3 * K])):
        root = make(given).root
        assert np.matmul(root, np.swapaxes(root, 1, 2)) == pytest.approx(given.reshape(-1, 12, 12), abs=1e-8)


@pytest.mark.parametrize("make", MAKERS)
def test_whitening_undoes_colouring(make):
    prior = make(K + 0.1 * np.eye(12))
    Z = np.random.default_rng(1).normal(size=(3, prior.rank, 5))
    assert prior.whiten(prior.colour(Z)) == pytest.approx(Z, abs=1e-9)


@pytest.mark.parametrize("make", MAKERS)
def test_conditional_is_the_textbook_one(make):
    A = K + 0.1 * np.eye(12)
    new = np.random.default_rng(2).normal(size=(4, 2))
    Ks, kd = RBF(1.0, 2.0)(X, new), np.full(4, 2.0)
    prior = make(A)
    f = np.random.default_rng(3).normal(size=(1, 12, 1))
    P, var = prior.conditional(Ks, kd)
    mean = (np.swapaxes(P, 1, 2) @ prior.whiten(f))[0, :, 0]
    assert mean == pytest.approx(Ks.T @ np.linalg.solve(A, f[0, :, 0]), abs=1e-8)
    assert var[0] == pytest.approx(kd - np.sum(Ks * np.linalg.solve(A, Ks), axis=0), abs=1e-8)


def test_null_directions_are_left_out():
    prior = Prior.of(np.full((5, 5), 2.0))
    assert prior.rank == 1
    assert Prior.of(np.zeros((3, 3))).rank == 0
    mixed = Prior.of(np.stack([np.full((5, 5), 2.0), np.eye(5)]))
    assert mixed.rank == 5
    assert np.all(np.isfinite(mixed.whiten(np.ones((2, 5, 1)))))


@pytest.mark.parametrize("make", MAKERS)
def test_indefinite_matrices_are_refused(make):
    with pytest.raises(np.linalg.LinAlgError):
        make(K - 0.5 * np.eye(12))
