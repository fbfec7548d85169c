"""Covariances of given inputs with new ones."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.kernels import RBF, Linear, Matern52, PerClass
from gpclass.kernels.cross import covariances_with

rng = np.random.default_rng(0)
X, Z = rng.normal(size=(6, 2)), rng.normal(size=(4, 2))
K = PerClass(RBF([1.0, 2.0], 2.0), Matern52(0.7), RBF(1.0) + Linear())


def test_covariances_with_inputs_of_each_class():
    own = rng.normal(size=(3, 4, 2))
    assert_allclose(covariances_with(K, own, X), [k(z, X) for k, z in zip(K.kernels, own, strict=True)], rtol=1e-14)
    assert_allclose(covariances_with(RBF(), own, X), [RBF()(z, X) for z in own], rtol=1e-14)
    assert_allclose(covariances_with(K, Z, X), K(Z, X), rtol=1e-14)
    assert_allclose(covariances_with(RBF(), Z, X), RBF()(Z, X), rtol=1e-14)
    with pytest.raises(ValueError, match="for 2 classes, but Z has inputs for 3"):
        covariances_with(PerClass(RBF(), RBF()), own, X)
