"""Every kernel against its formula written out in loops, and through the public kit of checks."""

import inspect
from math import asin, exp, pi, sin, sqrt

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gpclass.kernels as kernels
from gpclass.kernels import (
    RBF,
    Constant,
    Kernel,
    Linear,
    Matern32,
    Matern52,
    NeuralNetwork,
    Periodic,
    Polynomial,
    Product,
    RationalQuadratic,
    Standardized,
    Sum,
    White,
)
from gpclass.testing.kernels import check_kernel

rng = np.random.default_rng(1)
X, Z = rng.normal(size=(7, 2)), rng.normal(size=(4, 2))
ELL = (0.7, 1.9)


def r2(x, z, ell=(1.3, 1.3)):
    return sum((a - b) ** 2 / l**2 for a, b, l in zip(x, z, ell, strict=True))


def dot(x, z, ell=(1.3, 1.3)):
    return sum(a * b / l**2 for a, b, l in zip(x, z, ell, strict=True))


def arcsine(x, z, l=1.3):
    S, a, b = ((1 + dot(u, v, (1, 1))) / l**2 for u, v in ((x, z), (x, x), (z, z)))
    return asin(S / sqrt((1 + a) * (1 + b)))


REFERENCE = {
    RBF(1.3, 2.5): lambda x, z: 2.5 * exp(-r2(x, z) / 2),
    RBF(ELL): lambda x, z: exp(-r2(x, z, ELL) / 2),
    Matern32(1.3, 2.5): lambda x, z: 2.5 * (1 + sqrt(3 * r2(x, z))) * exp(-sqrt(3 * r2(x, z))),
    Matern32(ELL): lambda x, z: (1 + sqrt(3 * r2(x, z, ELL))) * exp(-sqrt(3 * r2(x, z, ELL))),
    Matern52(1.3, 2.5): lambda x, z: 2.5 * (1 + sqrt(5 * r2(x, z)) + 5 * r2(x, z) / 3) * exp(-sqrt(5 * r2(x, z))),
    Matern52(ELL): lambda x, z: (1 + sqrt(5 * r2(x, z, ELL)) + 5 * r2(x, z, ELL) / 3) * exp(-sqrt(5 * r2(x, z, ELL))),
    RationalQuadratic(1.3, 2.5, 0.8): lambda x, z: 2.5 * (1 + r2(x, z) / 1.6) ** -0.8,
    RationalQuadratic(ELL, 2.5, 30.0): lambda x, z: 2.5 * (1 + r2(x, z, ELL) / 60) ** -30,
    Periodic(1.3, 2.2, 2.5): lambda x, z: (
        2.5 * exp(-2 * sum(sin(pi * (a - b) / 2.2) ** 2 for a, b in zip(x, z, strict=True)) / 1.3**2)
    ),
    Periodic(ELL, 0.9): lambda x, z: exp(
        -2 * sum(sin(pi * (a - b) / 0.9) ** 2 / l**2 for a, b, l in zip(x, z, ELL, strict=True))
    ),
    Linear(1.3, 2.5): lambda x, z: 2.5 * dot(x, z),
    Linear(ELL): lambda x, z: dot(x, z, ELL),
    Polynomial(1, 1.3, 2.5): lambda x, z: 2.5 * (1 + dot(x, z)),
    Polynomial(2, 1.3, 2.5): lambda x, z: 2.5 * (1 + dot(x, z)) ** 2,
    Polynomial(3, ELL): lambda x, z: (1 + dot(x, z, ELL)) ** 3,
    NeuralNetwork(1.3, 2.5): lambda x, z: 2.5 * arcsine(x, z),
    Constant(2.5): lambda x, z: 2.5,
    White(2.5): lambda x, z: 2.5 if x is z else 0.0,
    Standardized(RBF(ELL, 2.5), (0.5, -1.0), (3.0, 0.5)): lambda x, z: 2.5 * exp(-r2(x, z, (2.1, 0.95)) / 2),
    Standardized(Linear(ELL), (0.0, 0.0), (3.0, 0.5)): lambda x, z: dot(x, z, (2.1, 0.95)),
    RBF(1.3) + White(0.1): lambda x, z: exp(-r2(x, z) / 2) + (0.1 if x is z else 0.0),
    2.0 * RBF(1.3) * Linear(ELL) + 0.5: lambda x, z: 2 * exp(-r2(x, z) / 2) * dot(x, z, ELL) + 0.5,
}
COMPOSITES = [
    RBF(0.8) + RBF(2.0, 3.0),
    (RBF(ELL) + Constant(0.3)) * (Linear() + White(0.2)),
    Matern32() * Periodic(1.5, 2.0) * Polynomial(2) * RationalQuadratic(alpha=2.0),
    RBF(ELL).fix("lengthscale[1]") + Linear().free("lengthscale"),
]


@pytest.mark.parametrize("kernel", REFERENCE, ids=repr)
def test_formula(kernel):
    formula = REFERENCE[kernel]
    atol = 1e-13  # rounding of a few operations on numbers up to 10
    rows, others = list(X), list(Z)  # white noise compares rows by identity
    assert_allclose(kernel(X), [[formula(x, z) for z in rows] for x in rows], atol=atol, rtol=1e-13)
    assert_allclose(kernel(X, Z), [[formula(x, z) for z in others] for x in rows], atol=atol, rtol=1e-13)
    assert_allclose(kernel.diag(X), [formula(x, x) for x in rows], atol=atol, rtol=1e-13)


@pytest.mark.parametrize("kernel", [*REFERENCE, *COMPOSITES], ids=repr)
def test_kit(kernel):
    check_kernel(kernel)


@pytest.mark.parametrize("kernel", [RBF(), Matern32(), RationalQuadratic(), Periodic([2.0]), NeuralNetwork()], ids=repr)
def test_kit_with_duplicates_and_one_column(kernel):
    check_kernel(kernel, np.array([[0.0], [0.0], [1.0], [2.5]]), np.array([[1.0], [0.3]]))


def test_every_public_kernel_is_covered():
    members = {
        c for c in vars(kernels).values() if inspect.isclass(c) and issubclass(c, Kernel) and not inspect.isabstract(c)
    }
    used = {type(k) for top in [*REFERENCE, *COMPOSITES] for k in [top, *getattr(top, "members", ())]}
    elsewhere = {kernels.Tanimoto, kernels.Categorical, kernels.Precomputed, kernels.FunctionKernel}  # test_other_inputs.py
    assert used == members - elsewhere - {kernels.Correlated, kernels.PerClass}  # their values are not of rows of numbers
    assert {Sum, Product} <= members
    assert {c.__name__ for c in members} <= set(kernels.__all__)


class Broken(RBF):
    """A kernel with a slope that is wrong by a factor of two."""

    def _expand(self, s):
        h, slope, rest = super()._expand(s)
        return h, 2 * slope, rest


def test_kit_notices_a_wrong_derivative():
    with pytest.raises(AssertionError, match=r"pullback\(X, G\) in theta against central differences"):
        check_kernel(Broken())
