"""What all kernels share: checks of arguments, identity, and what a kernel declares about its structure."""

import copy
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from gpclass.kernels import (
    RBF,
    ClassCovariance,
    Constant,
    Correlated,
    Linear,
    Matern52,
    PerClass,
    Periodic,
    Polynomial,
    White,
)
from gpclass.kernels.base import Kernel, MatrixKernel, is_kernel
from gpclass.kernels.columns import KernelColumns
from gpclass.testing.kernels import check_kernel

X = np.random.default_rng(3).normal(size=(5, 2))


def test_inputs_are_validated():
    for k in (RBF(), Linear(), White(), RBF() + Constant()):
        with pytest.raises(ValueError, match=r"X\[:, None\]"):
            k(X[:, 0])
        with pytest.raises(ValueError, match="X has 2 columns but Z has 1"):
            k(X, X[:, :1])
        with pytest.raises(ValueError, match="NaN"):
            k(X * np.nan)
        with pytest.raises(ValueError, match="G has shape"):
            k.pullback(X, np.ones((4, 4)))
        with pytest.raises(ValueError, match="g has shape"):
            k.pullback_diag(X, np.ones(4))
        with pytest.raises(ValueError, match="numbers"):
            k([["a"]])
    for k in (RBF([1, 2, 3]), Linear([1, 2, 3]), Periodic([1, 2, 3])):
        with pytest.raises(ValueError, match="3 values but the inputs have 2 columns"):
            k(X)
    with pytest.raises(ValueError, match="G"):
        RBF().pullback(X)


def test_integer_inputs_and_keywords():
    ints = np.array([[0, 1], [2, 3]])
    G = np.ones((2, 2))
    assert_allclose(RBF()(ints), RBF()(ints.astype(float)))
    assert_allclose(RBF().pullback(X=ints, G=G), RBF().pullback(ints, G))
    assert_allclose(RBF().pullback(ints, Z=ints, G=G), RBF().pullback(ints, ints, G))


@pytest.mark.parametrize("k", [RBF([1, 2], 3.0).fix("variance"), Polynomial(3), 2 * RBF() + White(0.1)], ids=repr)
def test_copies(k):
    for twin in (pickle.loads(pickle.dumps(k)), copy.deepcopy(k), copy.copy(k), clone(k, safe=False)):
        assert twin == k
        assert hash(twin) == hash(k)
        assert_allclose(twin(X), k(X), rtol=0)


def test_equality_is_by_value():
    assert RBF(1) == RBF(1.0)
    assert RBF() != Matern52()
    assert RBF() != RBF().fix("variance")
    assert RBF() != RBF(bounds={"variance": (1, 2)})
    assert Polynomial(2) != Polynomial(3)
    assert RBF([1.0]) != RBF(1.0)
    assert len({RBF(), RBF(1.0), RBF() + White(), RBF() + White()}) == 2


def test_immutable():
    for k, name in ((RBF([1, 2]), "variance"), (RBF() + White(), "members"), (Polynomial(), "degree")):
        with pytest.raises(AttributeError, match="immutable"):
            setattr(k, name, 1)
    with pytest.raises(ValueError, match="read-only"):
        RBF([1, 2]).lengthscale[0] = 3


class Spread(MatrixKernel):
    """k(x, z) = scale² (x·z)², with only the methods that the contract requires."""

    def __init__(self, log_scale=0.0, fixed=False):
        self.__dict__.update(log_scale=float(log_scale), fixed=fixed)

    theta = property(lambda self: np.array([] if self.fixed else [self.log_scale]))
    names = property(lambda self: [] if self.fixed else ["scale"])
    bounds = property(lambda self: np.array([] if self.fixed else [[-5.0, 5.0]]).reshape(-1, 2))

    def with_theta(self, theta):
        theta = np.asarray(theta, float)
        if theta.shape != self.theta.shape or not np.all(np.abs(theta) < 100):
            raise ValueError(f"theta needs {len(self.theta)} logs; got {theta}")
        return Spread(*theta, fixed=False) if len(theta) else self

    def fix(self, *names):
        return self._marked(names, True)

    def free(self, *names):
        return self._marked(names, False)

    def _marked(self, names, fixed):
        if set(names) - {"scale"}:
            raise ValueError(f"no parameter {names}")
        return Spread(self.log_scale, fixed) if names else self

    def _matrix(self, X, Z):
        inner = np.einsum("id,jd->ij", X, X if Z is None else Z)
        return np.exp(2 * self.log_scale) * inner**2

    def _diagonal(self, X):
        return np.exp(2 * self.log_scale) * np.sum(X * X, axis=1) ** 2

    def _pullback(self, X, Z, G, inputs, value):
        other, variance = X if Z is None else Z, np.exp(2 * self.log_scale)
        M = 2 * variance * G * (X @ other.T)
        dtheta = np.full(len(self.theta), np.sum(2 * G * self._matrix(X, Z)))
        return dtheta, (M.T @ X + (M @ X if Z is None else 0)) if inputs else None

    def _pullback_diagonal(self, X, g):
        slope = 4 * np.exp(2 * self.log_scale) * g * np.sum(X * X, axis=1)
        return np.full(len(self.theta), 2 * g @ self._diagonal(X)), slope[:, None] * X

    def __hash__(self):
        return hash((self.log_scale, self.fixed))

    def __repr__(self):
        return f"Spread({self.log_scale})"


def test_the_contract_is_enough():
    """A kernel with only the methods that base.py requires works alone, in sums, per class and by columns."""
    kernel = Spread(0.3)
    check_kernel(kernel)
    check_kernel(kernel + RBF())
    check_kernel(kernel * RBF())
    assert kernel.leaves == kernel.class_kernels == (kernel,)
    assert kernel.separated == (kernel, None)
    assert kernel.lengthscale is None
    assert kernel.parts() == []
    assert kernel.off() is None
    assert_allclose(KernelColumns(kernel, X).columns(np.array([3, 1])), kernel(X)[:, [3, 1]], rtol=1e-14)
    assert_allclose(PerClass(kernel, RBF())(X)[0], kernel(X), rtol=0)


def test_what_kernels_declare():
    shared, between = RBF([1.0, 2.0]) + Linear(), ClassCovariance(3)
    own, correlated = PerClass(RBF(), Linear(), RBF()), Correlated(shared, between)
    assert own.class_kernels == (RBF(), Linear(), RBF())
    assert own.leaves == (RBF(), Linear(), RBF())
    assert own.separated == (own, None)
    assert correlated.class_kernels == (correlated,)
    assert correlated.separated[0] == shared
    assert np.array_equal(correlated.separated[1], between.matrix)
    assert correlated.leaves == shared.leaves
    assert [np.ndim(leaf.lengthscale) for leaf in shared.leaves] == [1, 0]
    assert Constant().lengthscale is White().lengthscale is None


def test_is_kernel():
    assert is_kernel(RBF())
    assert is_kernel(PerClass(RBF(), RBF()))
    assert not is_kernel(RBF)
    assert not is_kernel(np.exp)
    assert issubclass(RBF, Kernel)
