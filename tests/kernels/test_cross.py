"""Covariances with inducing inputs by whole matrix products: the kernel's own, and its own pullbacks."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.kernels import RBF, Linear, Matern32, Matern52, Periodic, RationalQuadratic
from gpclass.kernels.cross import covariance, pullback

KERNELS = [
    RBF(1.3, 2.0),
    RBF([0.7, 1.0, 2.0], 2.0),
    RBF(1.3, 2.0).fix("lengthscale"),
    Matern32(1.1),
    Matern52([0.7, 1.0, 2.0], 2.0),
    RationalQuadratic(1.2),
    Periodic(1.2),
    Linear(1.2),
    RBF(1.0) + 0.5 * Matern52(2.0),
]


@pytest.mark.parametrize("shift", [0.0, 1e4], ids=["near", "far"])
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_as_the_kernel_has_it(kernel, shift):
    rng = np.random.default_rng(0)
    X, Z = shift + rng.normal(size=(7, 3)), shift + rng.normal(size=(5, 3))
    for args in ((X, Z), (Z,)):
        value = covariance(kernel, *args)
        assert_allclose(value, kernel(*args), rtol=1e-10, atol=1e-10)
        G = rng.normal(size=value.shape)
        theta, inputs = pullback(kernel, args[0], args[1] if len(args) > 1 else None, G, value)
        theta_there, inputs_there = kernel.pullback(*args, G, inputs=True)
        scale = np.max(np.abs(inputs_there))
        assert_allclose(theta, theta_there, rtol=1e-8, atol=1e-8 * max(1.0, np.max(np.abs(theta_there), initial=0.0)))
        assert_allclose(inputs, inputs_there, atol=1e-8 * scale)
