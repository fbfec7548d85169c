"""Parameters: theta, names, bounds, fixing, validation and representation."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.kernels import (
    RBF,
    Constant,
    Linear,
    NeuralNetwork,
    Periodic,
    Polynomial,
    RationalQuadratic,
    White,
)

X = np.random.default_rng(3).normal(size=(5, 2))


def test_theta_and_names():
    assert_allclose(RBF(2.0, 3.0).theta, np.log([2, 3]))
    assert RBF(2.0, 3.0).names == ["lengthscale", "variance"]
    assert RBF([1, 2]).names == ["lengthscale[0]", "lengthscale[1]", "variance"]
    assert RationalQuadratic().names == ["lengthscale", "variance", "alpha"]
    assert Periodic().names == ["lengthscale", "period", "variance"]
    assert (RBF() + White()).names == ["rbf.lengthscale", "rbf.variance", "white.variance"]
    nested = RBF() + (Constant() * RBF([1, 2]) + White())
    assert nested.names == [
        "rbf1.lengthscale",
        "rbf1.variance",
        "constant.variance",
        "rbf2.lengthscale[0]",
        "rbf2.lengthscale[1]",
        "rbf2.variance",
        "white.variance",
    ]


def test_with_theta():
    k = RBF([1, 2]).with_theta(np.log([3, 4, 5]))
    assert_allclose(k.lengthscale, [3, 4])
    assert_allclose(k.variance, 5)
    third = RBF(1 / 3, 0.7)
    assert third.with_theta(third.theta) == third  # exactly
    for bad in ([0.0], [0.0, 0.0, 0.0], [[0.0, 0.0]], [0.0, 1e4], [0.0, -1e4], [0.0, np.nan]):
        with pytest.raises(ValueError, match="theta"):
            third.with_theta(bad)


def test_bounds():
    k = RBF(2.0, bounds={"variance": (1e-3, 1e3)})
    expected = [[2e-5, 2e5], [1e-3, 1e3]]
    assert_allclose(np.exp(k.bounds), expected)
    assert_allclose(np.exp(k.with_theta([3.0, 4.0]).bounds), expected)
    assert_allclose(np.exp(k.fix("lengthscale").bounds), expected[1:])
    assert_allclose(np.exp(RBF([1, 2], bounds={"lengthscale": [(1, 3), (2, 4)]}).bounds[:2]), [(1, 3), (2, 4)])
    assert (k + White()).bounds.shape == (3, 2)
    for bad in ((0, 1), (2, 1), 3.0, (1, np.inf), "fixed"):
        with pytest.raises(ValueError, match="bounds of variance"):
            RBF(bounds={"variance": bad})
    with pytest.raises(ValueError, match=r"\['lengthscale', 'variance'\]"):
        RBF(bounds={"lenghtscale": (1, 2)})


def test_fix_and_free():
    k = RBF([1, 2], 3.0)
    assert k.fix("lengthscale").names == ["variance"]
    assert k.fix("lengthscale[0]", "variance").names == ["lengthscale[1]"]
    assert k.fix("lengthscale").free("lengthscale") == k
    assert_allclose(k.fix("lengthscale").with_theta(np.log([7.0])).lengthscale, [1, 2])
    with pytest.raises(ValueError, match=r"\['lengthscale', 'variance'\]"):
        k.fix("sigma")
    with pytest.raises(ValueError, match="lengthscale"):
        k.fix("lengthscale[2]")


def test_fixed_parameters_leave_the_pullback():
    k, G = RBF([1, 2], 3.0) * Linear() + White(), np.random.default_rng(0).normal(size=(5, 5))
    full = dict(zip(k.names, k.pullback(X, G), strict=True))
    some = k.fix("rbf.lengthscale[1]", "white.variance")
    assert_allclose(some.pullback(X, G), [full[name] for name in some.names])
    assert_allclose(k.fix(*k.names).pullback(X, G), np.zeros(0))
    only_variance = RBF().fix("lengthscale")  # uses a shortcut
    assert_allclose(only_variance.pullback(X, G), RBF().pullback(X, G)[1:])


def test_linear_holds_what_is_redundant():
    assert Linear(2.0).names == ["variance"]
    assert Linear([1, 2]).names == ["lengthscale[0]", "lengthscale[1]"]
    assert Linear(2.0).free("lengthscale").names == ["lengthscale", "variance"]


@pytest.mark.parametrize("bad", [0, -1.0, np.nan, np.inf, None, "wide", [[1.0, 2.0]], [], [1.0, 0.0]], ids=repr)
def test_parameters_are_validated(bad):
    with pytest.raises(ValueError, match="lengthscale must be a positive finite number, or one per input column; got"):
        RBF(lengthscale=bad)
    with pytest.raises(ValueError, match="variance must be a positive finite number; got"):
        White(variance=bad)


def test_scalars_only_where_so_defined():
    for make in (lambda: NeuralNetwork([1, 2]), lambda: Periodic(period=[1, 2]), lambda: RBF(variance=[1, 2])):
        with pytest.raises(ValueError, match="must be a positive finite number; got"):
            make()
    for degree in (0, 4, 1.5, "2"):
        with pytest.raises(ValueError, match="degree must be 1, 2 or 3"):
            Polynomial(degree)


def test_repr():
    assert repr(RBF(1, 2.25) + White(0.1).fix("variance")) == "RBF(lengthscale=1, variance=2.25) + White(variance=0.1 fixed)"
    assert repr((RBF() + White()) * Polynomial(3)).startswith("(RBF(lengthscale=1, variance=1) + White(variance=1)) * Poly")
    assert repr(RBF(np.arange(1, 21) / 3)) == "RBF(lengthscale=[0.333, 0.667, 1, ..., 6.67], variance=1)"
    for k in (RBF([1, 2]) * Polynomial(3, 0.5) + 2, RationalQuadratic(alpha=0.1), Periodic(2, 3, 4)):
        assert eval(repr(k)) == k


def test_arrays_of_a_parameter_are_kept_but_cannot_be_changed_and_are_not_pickled():
    kernel = RBF([1.0, 2.0])
    assert kernel.lengthscale is kernel.lengthscale
    with pytest.raises(ValueError, match="read-only"):
        kernel.lengthscale[0] = 3.0
    kernel.theta[0] = 3.0  # a copy
    assert_allclose(kernel.theta, np.log([1.0, 2.0, 1.0]))
    again = pickle.loads(pickle.dumps(kernel))
    assert again == kernel
    assert len(pickle.dumps(again)) == len(pickle.dumps(RBF([1.0, 2.0])))
    with pytest.raises(ValueError, match="read-only"):
        again.lengthscale[0] = 3.0
