"""Sums and products: arithmetic, names, and single terms, which equal the sum with the other terms switched off."""

import numpy as np
import pytest

from gpclass.kernels import (
    RBF,
    ClassCovariance,
    Constant,
    Correlated,
    Linear,
    Matern32,
    Matern52,
    PerClass,
    Product,
    Sum,
    White,
)

X = np.random.default_rng(0).normal(size=(6, 2))
SUMS = {
    "two": (RBF(1.5, 2.0) + Linear(variance=3.0), 2),
    "three, nested": (RBF() + (Matern32() + White(0.5)), 3),
    "one column each": (RBF([1.0, 2.0]) + Linear([1.0, 2.0]), 2),  # Linear's lengthscales switch it off
    "product of a sum": ((RBF() + Constant(2.0)) * Linear(), 2),
    "sum with a product of a sum": ((RBF() + Constant(2.0)) * Linear() + White(), 4),
    "scaled": (2.0 * RBF() + 3.0 * Linear(), 2),
    "per class": (PerClass(RBF() + Linear(), Matern32(), RBF(2.0) + Linear() + White()), 3),
    "correlated": (Correlated(RBF() + Linear(), ClassCovariance(3, "free")), 2),
}


def inputs(value):
    return getattr(value, "inputs", value)


@pytest.mark.parametrize("name", SUMS)
def test_a_part_is_the_whole_with_the_rest_switched_off(name):
    whole, count = SUMS[name]
    parts = whole.parts()
    assert len(parts) == count
    for part in parts:
        assert part.kernel.theta == pytest.approx(part.theta[part.own], abs=1e-14)
        assert np.all(part.theta >= whole.bounds[:, 0])
        assert np.all(part.theta <= whole.bounds[:, 1])
        # default bounds leave 1e-5 of a variance, here of 3 at most, times |x|² below 10
        assert inputs(whole.with_theta(part.theta)(X)) == pytest.approx(inputs(part.kernel(X)), abs=1e-3)
        moved = part.theta.copy()
        moved[part.own] += 0.3  # the positions of the part's own parameters
        assert inputs(whole.with_theta(moved)(X)) == pytest.approx(
            inputs(part.kernel.with_theta(part.kernel.theta + 0.3)(X)), abs=2e-3
        )


@pytest.mark.parametrize("kernel", [RBF(), 2.0 * RBF(), RBF() * Linear(), PerClass(RBF(), Linear())], ids=repr)
def test_kernels_without_sums_have_no_parts(kernel):
    assert kernel.parts() == []


def test_a_fixed_variance_cannot_be_switched_off():
    whole = RBF() + Linear() + White(0.5).fix("variance")
    parts = whole.parts()
    assert [part.kernel for part in parts[:2]] == [RBF() + White(0.5).fix("variance"), Linear() + White(0.5).fix("variance")]
    assert parts[2].kernel == White(0.5).fix("variance")
    assert (RBF().fix("variance") + White().fix("variance")).parts() == []
    assert [part.kernel for part in (RBF().fix("variance") + Linear()).parts()] == [RBF().fix("variance")]


def test_fix_in_composites():
    k = RBF() + RBF() * White()
    assert k.fix("rbf2.variance").names == ["rbf1.lengthscale", "rbf1.variance", "rbf2.lengthscale", "white.variance"]
    assert k.fix("variance").names == ["rbf1.lengthscale", "rbf2.lengthscale"]
    assert k.fix("variance").free("white.variance").names == ["rbf1.lengthscale", "rbf2.lengthscale", "white.variance"]
    for unknown in ("alpha", "rbf.variance", "white.lengthscale"):
        with pytest.raises(ValueError, match=r"rbf1\.lengthscale"):
            k.fix(unknown)


def test_arithmetic():
    assert RBF() + Matern52() + White() == Sum(RBF(), Matern52(), White())
    assert RBF() * (Matern52() * White()) == Product(RBF(), Matern52(), White())
    assert 2 * RBF() == Product(Constant(2), RBF())
    assert np.float64(2) * RBF() == Product(Constant(2), RBF())
    assert RBF() + 0.5 == Sum(RBF(), Constant(0.5))
    assert sum([RBF(), White()]) == RBF() + White()
    with pytest.raises(ValueError, match="variance must be a positive"):
        -1 * RBF()
    with pytest.raises(TypeError):
        RBF() + "White"
    with pytest.raises(TypeError, match="takes kernels"):
        Sum(RBF(), 1.0)


def test_leaves():
    kernel = 2.0 * (RBF() + Linear()) * White()
    assert kernel.leaves == (Constant(2.0), RBF(), Linear(), White())
