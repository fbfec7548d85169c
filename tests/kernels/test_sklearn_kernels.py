"""Equivalents of scikit-learn's kernels: values, gradients, bounds and fixed parameters."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process import kernels as sk

from gpclass.kernels import RBF, Constant, Linear, Matern52, Periodic, Polynomial, White, as_kernel, from_sklearn

rng = np.random.default_rng(5)
X, Z = rng.normal(size=(8, 2)), rng.normal(size=(5, 2))
DOT = sk.DotProduct(1.5, sigma_0_bounds="fixed")
TWO_COLUMNS = [
    sk.RBF(0.7),
    sk.RBF([0.7, 1.9]),
    2.5 * sk.RBF([0.7, 1.9]),
    sk.Matern(0.7, nu=1.5),
    sk.Matern([0.7, 1.9], nu=2.5) * 2.5,
    sk.Matern(0.7, nu=np.inf),
    3.0 * sk.RationalQuadratic(0.7, 0.4),
    sk.ConstantKernel(2.0),
    sk.RBF(2.0) + sk.WhiteKernel(0.3),
    sk.DotProduct(1.5),
    DOT**2,
    2.0 * DOT**3,
    DOT**1,
    sk.DotProduct(0.0, sigma_0_bounds="fixed"),
    2.0 * sk.RBF(0.7) * sk.Matern(1.0, nu=2.5) + 0.5 * sk.DotProduct(1.5) + sk.WhiteKernel(0.1),
    sk.ConstantKernel(2.0) * (sk.ConstantKernel(3.0) * sk.RBF(0.7)),
    2.0 * sk.WhiteKernel(0.3),
]


def contracted(kernel, A, G):
    """<G, dK/dtheta> from scikit-learn's n x n x p array, by name."""
    _, slopes = kernel(A, eval_gradient=True)
    return np.einsum("ij,ijp->p", G, slopes)


@pytest.mark.parametrize("theirs", TWO_COLUMNS, ids=str)
def test_values(theirs):
    ours = from_sklearn(theirs)
    assert_allclose(ours(X), theirs(X), rtol=1e-12, atol=1e-13)  # rounding
    assert_allclose(ours(X, Z), theirs(X, Z), rtol=1e-12, atol=1e-13)
    assert_allclose(ours.diag(X), theirs.diag(X), rtol=1e-12)


@pytest.mark.parametrize("theirs", TWO_COLUMNS, ids=str)
def test_gradients(theirs):
    """Parameters correspond one to one; only the order differs, and σ₀² has half the slope in its log that σ₀ has."""
    ours, G = from_sklearn(theirs), rng.normal(size=(8, 8))
    expected = contracted(theirs, X, G)
    names = [h.name for h in theirs.hyperparameters if not h.fixed for _ in range(h.n_elements)]
    expected = [e / 2 if name.endswith("sigma_0") else e for e, name in zip(expected, names, strict=True)]
    assert_allclose(np.sort(ours.pullback(X, G)), np.sort(expected), rtol=1e-9, atol=1e-10)


def test_periodic_is_equal_for_one_column():
    theirs, G = 2.0 * sk.ExpSineSquared(0.7, 1.4), rng.normal(size=(8, 8))
    ours = from_sklearn(theirs)
    assert isinstance(ours, Periodic)
    assert_allclose(ours(X[:, :1]), theirs(X[:, :1]), rtol=1e-12)
    assert_allclose(np.sort(ours.pullback(X[:, :1], G)), np.sort(contracted(theirs, X[:, :1], G)), rtol=1e-9)
    with pytest.raises(ValueError, match="1 values but the inputs have 2 columns"):
        ours(X)


def test_one_variance_where_one_will_do():
    assert from_sklearn(sk.RBF(0.7)).names == ["lengthscale"]
    for theirs in (2.5 * sk.RBF(0.7), sk.RBF(0.7) * 2.5):
        ours = from_sklearn(theirs)
        assert isinstance(ours, RBF)
        assert ours.variance == 2.5
        assert ours.names == ["lengthscale", "variance"]


def test_bounds_and_fixed():
    ours = from_sklearn(sk.ConstantKernel(2.0, (0.1, 10)) * sk.RBF([1, 2], [(0.5, 5), (0.6, 6)]))
    assert_allclose(np.exp(ours.bounds), [(0.5, 5), (0.6, 6), (0.1, 10)])
    ours = from_sklearn(sk.ConstantKernel(2.0, "fixed") * sk.Matern(1.0, "fixed", nu=2.5) + sk.WhiteKernel(0.1, (0.01, 1)))
    assert ours == Matern52(1.0, 2.0).fix("lengthscale", "variance") + White(0.1, bounds={"variance": (0.01, 1)})
    ours = from_sklearn(sk.DotProduct(2.0, (0.1, 10)))
    assert_allclose(ours(X), (Constant(4.0) + Linear())(X))
    assert_allclose(np.exp(ours.bounds), [(0.01, 100)])


NO_TWIN = [
    sk.Matern(nu=0.5),
    sk.PairwiseKernel(),
    sk.RBF() ** 2,
    DOT**4,
    sk.DotProduct(1.0) ** 2,
    sk.CompoundKernel([sk.RBF(), sk.RBF()]),
    2.0 * sk.RBF() + sk.Matern(nu=0.5),
]


@pytest.mark.parametrize("theirs", NO_TWIN, ids=lambda k: type(k).__name__)
def test_no_equivalent(theirs):
    with pytest.raises(TypeError, match="equivalent"):
        from_sklearn(theirs)


def test_as_kernel():
    k = Polynomial()
    assert as_kernel(k) is k
    assert as_kernel(1.0 * sk.RBF()) == RBF(bounds={"lengthscale": (1e-5, 1e5), "variance": (1e-5, 1e5)})
    for other in (None, 1.0, "rbf", np.exp):
        with pytest.raises(TypeError, match="expected a kernel"):
            as_kernel(other)
