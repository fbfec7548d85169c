"""Covariances between classes: the paper's formulas, derivatives, and no redundant parameters."""

import pickle

import numpy as np
import pytest

from gpclass.kernels import RBF, ClassCovariance, Correlated, Linear
from gpclass.kernels.class_covariance import FORMS
from gpclass.numerics.classes import contrast_basis
from gpclass.numerics.separable import Separable

COUNTS = {  # of free parameters for C = 4. The paper's C-1 for M3 misses one, its C(C+1)/2 - 2 for M4 has flat directions
    "identity": 0,
    "diagonal": 3,
    "sum-to-zero-diagonal": 4,
    "sum-to-zero": 6,
    "free": 6,
}


def moved(form, C=4, seed=0):
    start = ClassCovariance(C, form)
    return start.with_theta(start.theta + 0.7 * np.random.default_rng(seed).normal(size=len(start.theta)))


def slopes(function, theta, h=1e-5):
    steps = h * np.eye(len(theta))
    return np.array([(function(theta + e) - function(theta - e)) / (2 * h) for e in steps])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("C", [2, 3, 5])
def test_positive_definite_with_trace_C(form, C):
    for seed in range(5):
        Kc = moved(form, C, seed).matrix
        assert np.trace(Kc) == pytest.approx(C)
        assert np.linalg.eigvalsh(Kc).min() > 0
        assert Kc == pytest.approx(Kc.T, abs=1e-15)


@pytest.mark.parametrize("form", FORMS)
def test_gradient(form):
    classes = moved(form)
    G = np.random.default_rng(1).normal(size=(4, 4))
    numeric = slopes(lambda t: np.sum(G * classes.with_theta(t).matrix), classes.theta)
    assert classes.pullback(G) == pytest.approx(numeric, abs=1e-8)


@pytest.mark.parametrize("form", FORMS)
def test_every_parameter_matters(form):
    """The Jacobian has full rank, also for covariances of differences, the only ones that matter to softmax."""
    classes = moved(form)
    assert len(classes.theta) == len(classes.names) == len(classes.bounds) == COUNTS[form]
    if not COUNTS[form]:
        return
    H = contrast_basis(4)
    for seen in (lambda K: K, lambda K: H.T @ K @ H):
        jacobian = slopes(lambda t, seen=seen: seen(classes.with_theta(t).matrix).ravel(), classes.theta)
        assert np.linalg.svd(jacobian, compute_uv=False).min() > 1e-3


def test_formula_of_the_diagonal_form():
    classes = moved("sum-to-zero-diagonal")
    M, one = np.diag(np.exp(classes.theta)), np.ones(4)
    raw = M - np.outer(M @ one, M @ one) / (one @ M @ one) + np.eye(4)  # (46)
    assert classes.matrix == pytest.approx(4 * raw / np.trace(raw), abs=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_sum_to_zero_form_reaches_every_matrix_of_the_formula(seed):
    """(46) with any M: without its part along 11ᵀ it has a Cholesky factor in the basis of differences."""
    Z = np.random.default_rng(seed).normal(size=(4, 4))
    M, one = Z @ Z.T, np.ones(4)
    raw = M - np.outer(M @ one, M @ one) / (one @ M @ one) + np.eye(4)
    H = contrast_basis(4)
    L = np.linalg.cholesky(H.T @ (raw - np.eye(4)) @ H)
    entries = L / np.diagonal(L)
    np.fill_diagonal(entries, 2 * np.log(np.diagonal(L)))
    classes = ClassCovariance(4, "sum-to-zero", tuple(entries[np.tril_indices(3)]))
    assert classes.matrix == pytest.approx(4 * raw / np.trace(raw), abs=1e-10)


@pytest.mark.parametrize("form", ["identity", "sum-to-zero-diagonal", "sum-to-zero", "free"])
def test_one_is_an_eigenvector(form):
    Kc = moved(form).matrix
    assert Kc @ np.ones(4) == pytest.approx(np.full(4, Kc[0].sum()), abs=1e-12)


def test_starts():
    for form in ("identity", "diagonal", "free"):
        assert ClassCovariance(3, form).matrix == pytest.approx(np.eye(3), abs=1e-12)
    for form in ("sum-to-zero-diagonal", "sum-to-zero"):
        assert ClassCovariance(3, form).matrix == pytest.approx((2 * np.eye(3) - 1 / 3) * 3 / 5, abs=1e-12)
    assert np.diagonal(moved("free").correlation) == pytest.approx(np.ones(4))


def test_as_a_kernel():
    rng = np.random.default_rng(2)
    X, Z = rng.normal(size=(5, 2)), rng.normal(size=(3, 2))
    kernel = Correlated(RBF([1.0, 2.0], 1.5) + Linear(0.3), moved("free", 3))
    inner = kernel.kernel
    for found, wanted in ((kernel(X), inner(X)), (kernel(X, Z), inner(X, Z)), (kernel.diag(X), inner.diag(X))):
        assert isinstance(found, Separable)
        assert np.array_equal(found.inputs, wanted)
        assert np.array_equal(found.classes, kernel.classes.matrix)
    assert kernel.names == [*inner.names, "classes.d[0]", "classes.u[1,0]", "classes.d[1]"]
    assert kernel.bounds.shape == (len(kernel.theta), 2)
    assert kernel.with_theta(kernel.theta) == kernel
    assert pickle.loads(pickle.dumps(kernel)) == kernel
    assert hash(kernel) == hash(kernel.with_theta(kernel.theta))
    assert "Correlated(" in repr(kernel)

    Gc = rng.normal(size=(3, 3))
    for args, shape in (((X,), (5, 5)), ((X, Z), (5, 3))):
        G = Separable(rng.normal(size=shape), Gc)

        def value(k, args=args, G=G):
            K = k(*args)
            return np.sum(G.inputs * K.inputs) + np.sum(G.classes * K.classes)

        dtheta, dX = kernel.pullback(*args, G, inputs=True, value=kernel(*args))
        assert dtheta == pytest.approx(slopes(lambda t, value=value: value(kernel.with_theta(t)), kernel.theta), abs=1e-7)
        assert dX == pytest.approx(inner.pullback(*args, G.inputs, inputs=True)[1])
        assert kernel.pullback(*args, G) == pytest.approx(dtheta)
    g = Separable(rng.normal(size=5), Gc)
    numeric = slopes(lambda t: np.sum(g.inputs * inner_diag(kernel, t, X)), kernel.theta)
    numeric[len(inner.theta) :] = kernel.classes.pullback(Gc)
    assert kernel.pullback_diag(X, g) == pytest.approx(numeric, abs=1e-7)


def inner_diag(kernel, theta, X):
    return kernel.with_theta(theta).diag(X).inputs


def test_fixing():
    kernel = Correlated(RBF(1.0, 2.0), moved("free", 3))
    assert kernel.fix("variance").names == ["lengthscale", *kernel.classes.names]
    assert kernel.fix("classes").names == ["lengthscale", "variance"]
    one = kernel.fix("classes.u[1,0]", "lengthscale")
    assert one.names == ["variance", "classes.d[0]", "classes.d[1]"]
    assert one.free("classes", "lengthscale") == kernel
    G = Separable(np.ones((4, 4)), np.arange(9.0).reshape(3, 3))
    X = np.random.default_rng(3).normal(size=(4, 1))
    assert one.pullback(X, G) == pytest.approx(kernel.pullback(X, G)[[1, 2, 4]])
    changed = one.with_theta(one.theta + 0.1)
    assert changed.classes.parameters[1] == kernel.classes.parameters[1]


def test_bad_input():
    with pytest.raises(ValueError, match="form must be one of"):
        ClassCovariance(3, "M4")
    with pytest.raises(ValueError, match="n_classes"):
        ClassCovariance(1)
    with pytest.raises(ValueError, match="has 3 parameters"):
        ClassCovariance(3, "free", (0.0,))
    kernel = Correlated(RBF(), ClassCovariance(3))
    for bad in ("no such parameter", "classes.d[9]"):
        with pytest.raises(ValueError, match="no parameter"):
            kernel.fix(bad)
    for bad in (np.zeros(2), np.full(5, 1e4)):
        with pytest.raises(ValueError, match="theta"):
            kernel.with_theta(bad)
    with pytest.raises(TypeError, match="put them inside"):
        (kernel + RBF())(np.zeros((2, 1)))
    with pytest.raises(TypeError, match="Separable"):
        kernel.pullback(np.zeros((2, 1)), np.eye(2))
    with pytest.raises(TypeError, match="kernel on the inputs"):
        Correlated(kernel, ClassCovariance(3))
    with pytest.raises(TypeError, match="ClassCovariance"):
        Correlated(RBF(), np.eye(3))
    with pytest.raises(AttributeError):
        kernel.classes = None
