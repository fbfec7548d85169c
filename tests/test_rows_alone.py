"""A row has the same prediction alone and in any batch, bit by bit; fast paths of predictions against slow ones."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_classification

from gpclass import GPClassifier
from gpclass.gaussian.coupled_system import CoupledSystem
from gpclass.kernels import RBF, Constant, Matern32, PerClass, Periodic
from gpclass.kernels.cross import CrossCovariances, covariances_with
from gpclass.numerics import Factor, RightFactor, strips_times_lower, whole_strips

COLUMNS = 5


def fitted(classes, n=90, kernel=None, **settings):
    X, y = make_classification(
        n + 60, COLUMNS, n_informative=5, n_redundant=0, n_classes=classes, n_clusters_per_class=1, random_state=0
    )
    kernel = Matern32(2.0, 20.0) if kernel is None else kernel
    return GPClassifier(kernel, optimizer=None, random_state=0, **settings).fit(X[:n], y[:n]), X[n:]


CASES = {
    "two classes": (2, {}),
    "three classes": (3, {}),
    "six classes": (6, {}),
    "a sum of kernels": (2, {"kernel": RBF(1.5, 3.0) + Constant(2.0)}),
    "softmax": (3, {"likelihood": "softmax", "inference": "laplace"}),
    "without calibration": (6, {"calibrate": None}),
    "more rows": (3, {"n": 301}),
}


@pytest.mark.parametrize("name", CASES)
def test_a_row_is_predicted_alone_as_in_any_batch(name):
    classes, settings = CASES[name]
    model, X = fitted(classes, **settings)
    p = model.predict_proba(X)
    assert_array_equal(p, np.concatenate([model.predict_proba(X[i : i + 1]) for i in range(len(X))]))
    assert_array_equal(p[3:10], model.predict_proba(X[3:10]))
    assert_array_equal(np.tile(p, (40, 1)), model.predict_proba(np.tile(X, (40, 1))))  # more than one batch


@pytest.mark.parametrize("C", [2, 3, 7])
def test_predictions_of_all_classes_by_one_product_agree_with_those_class_by_class(C):
    rng = np.random.default_rng(C)
    Z, X = rng.normal(size=(60, 2)), rng.normal(size=(33, 2))
    kernel = RBF(0.7, 30.0)
    system = CoupledSystem(kernel(Z), np.exp(rng.uniform(-8, 1, (60, C))))
    Ks, kd = kernel(Z, X), kernel.diag(X)
    slow = system._predict_by_class(np.broadcast_to(Ks, (C, *Ks.shape)), np.broadcast_to(kd, (C, len(kd))))
    fast = system.predict_cov(Ks, kd)
    assert_allclose(fast, slow, rtol=0, atol=1e-11 * kd[0])  # eps times the root of the condition of P
    assert "inverse" not in vars(system)  # freed
    again = CoupledSystem(system.K[0], system.pi)
    for made, expected in zip(system.inverse, again.inverse, strict=True):  # and recomputed when needed
        assert_array_equal(made, expected)


def test_variances_at_training_rows_of_strong_sites_stay_positive():
    K = RBF(1.0, 100.0)(np.linspace(0, 1, 30)[:, None])
    system = CoupledSystem(K, np.full((30, 3), 50.0))
    cov = system.predict_cov(K, np.diagonal(K))
    assert np.linalg.eigvalsh(cov).min() > 0


@pytest.mark.parametrize(("n", "q"), [(5, 301), (90, 90), (127, 316), (301, 602), (434, 3), (431, 136), (695, 96)])
def test_products_of_blas_round_a_row_alike_in_any_batch(n, q):
    """Shapes at which OpenBLAS uses another method depending on the number of rows, on some processors."""
    rng = np.random.default_rng(n)
    rows, A = rng.normal(size=(1030, n)), rng.normal(size=(n, q))
    right, factor = RightFactor([A, rng.normal(size=(n, 5))]), Factor(A @ A.T + n * np.eye(n))
    factor.diag_inverse()  # the factor is inverted from this number of rows on

    def products(some):
        strips = whole_strips(some)
        products = right.times_strips(strips), strips_times_lower(strips, factor.inverse_root())
        factor.whiten_strips(strips)
        return np.hstack([*products, strips])[: len(some)]

    all_rows = products(rows)
    for start, stop in ((0, 1), (3, 4), (7, 40), (100, 131), (1029, 1030)):
        assert_array_equal(products(rows[start:stop].copy()), all_rows[start:stop])


@pytest.mark.parametrize("m", [1, 2, 3, 4, 5, 9])
def test_whole_strips_append_the_last_row(m):
    rows = np.random.default_rng(0).normal(size=(m, 7))
    strips = whole_strips(rows)
    assert len(strips) % 8 == 0
    assert_array_equal(strips[:m], rows)
    assert_array_equal(strips[m:], np.tile(rows[-1], (len(strips) - m, 1)))


@pytest.mark.parametrize("widths", [[3], [1, 480, 481], [1000]])
@pytest.mark.parametrize("n", [1, 256, 257, 600])
def test_products_with_matrices_side_by_side(widths, n):
    rng = np.random.default_rng(n)
    rows, matrices = rng.normal(size=(16, n)), [rng.normal(size=(n, q)) for q in widths]
    got = RightFactor(iter(matrices)).times_strips(whole_strips(rows))
    assert got.flags.c_contiguous
    assert_allclose(got, rows @ np.hstack(matrices), rtol=0, atol=1e-12)  # sums of 600 numbers of size one


@pytest.mark.parametrize(
    "kernel",
    [RBF(1.3, 2.0), Matern32([1.0, 2.0, 3.0], 2.0), RBF(2.0) * Matern32(1.0) + 3, Periodic(), PerClass(RBF(), RBF(2.0))],
)
def test_covariances_with_given_inputs(kernel):
    rng = np.random.default_rng(0)
    Z, X = 100 + rng.normal(size=(20, 3)), 100 + rng.normal(size=(7, 3))
    assert_allclose(CrossCovariances(kernel, Z)(X), covariances_with(kernel, Z, X), rtol=1e-11)


def test_quick_validation_leaves_doubtful_inputs_to_the_full_one():
    model, X = fitted(2)
    p = model.predict_proba(X)
    bad = X.copy()
    bad[3, 2] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.predict_proba(bad)
    bad[3, 2] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        model.predict_proba(bad)
    with pytest.raises(ValueError, match="features"):
        model.predict_proba(X[:, :4])
    with pytest.raises(ValueError, match="2D array"):
        model.predict_proba(X[0])
    with pytest.raises(ValueError, match="minimum of 1"):
        model.predict_proba(X[:0])
    with pytest.raises(ValueError, match="could not convert"):
        model.predict_proba(np.full((2, COLUMNS), "a", object))
    assert_array_equal(model.predict_proba(X.tolist()), p)
    assert_array_equal(model.predict_proba(np.asfortranarray(X)), p)
    assert_allclose(model.predict_proba(X.astype(np.float32)), p, atol=1e-4)


def test_members_are_made_once_and_anew_after_another_fit():
    model, X = fitted(2)
    first = model.members_[0]
    assert model.members_[0] is first
    model.fit(X, np.arange(len(X)) % 2)
    assert model.members_[0] is not first
    assert model.members_[0].posterior is model.posterior_
