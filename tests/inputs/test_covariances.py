"""Estimators on covariance matrices, objects and sparse matrices, against the same kernel on arrays."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from gpclass import GPClassifier, GPRegressor
from gpclass.assess import far_rows, trained_on
from gpclass.inputs.covariances import GivenMatrix
from gpclass.kernels import RBF, Constant, FunctionKernel, Linear, PerClass, Precomputed, Tanimoto, White
from gpclass.persist import load, save

rng = np.random.default_rng(3)
X = rng.normal(size=(70, 3))
y = (X[:, 0] + X[:, 1] ** 2 > 0.5).astype(int)
THREE = np.digitize(X[:, 0] + X[:, 1], [-0.7, 0.7])
KERNEL = RBF(1.3).fix("lengthscale")
K = KERNEL(X)
TRAIN, TEST = slice(0, 50), slice(50, 70)
BITS = (rng.random((70, 12)) < 0.3).astype(float)
BIT_LABELS = (BITS[:, :6].sum(1) > BITS[:, 6:].sum(1)).astype(int)


def squared_exponential(a, b):
    return np.exp(-0.5 * np.sum((a - b) ** 2) / 1.3**2)


# matrices -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inference", ["ep", "laplace", "ivm"])
@pytest.mark.parametrize("optimizer", [None, "lbfgs"])
def test_a_matrix_is_its_kernel(inference, optimizer):
    settings = {"inference": inference, "optimizer": optimizer}
    kernel = KERNEL if optimizer is None else KERNEL.with_settings(variance=4.0)  # the start of kernels given as text
    on_rows = GPClassifier(kernel, **settings).fit(X[TRAIN], y[TRAIN])
    given = GPClassifier("precomputed", **settings).fit(K[TRAIN, TRAIN], y[TRAIN])
    # the same up to rounding during the search: 1e-6, the tolerance of the engine there
    tolerance = 1e-10 if optimizer is None else 1e-5
    assert_allclose(given.predict_proba(K[TEST, TRAIN]), on_rows.predict_proba(X[TEST]), atol=tolerance)
    assert_allclose(given.kernel_.variance, on_rows.kernel_.variance, rtol=10 * tolerance)
    assert_allclose(given.log_evidence_, on_rows.log_evidence_, atol=tolerance)


def test_a_matrix_for_several_classes():
    on_rows = GPClassifier(KERNEL, optimizer=None).fit(X[TRAIN], THREE[TRAIN])
    given = GPClassifier(Precomputed(), optimizer=None).fit(K[TRAIN, TRAIN], THREE[TRAIN])
    assert_allclose(given.predict_proba(K[TEST, TRAIN]), on_rows.predict_proba(X[TEST]), atol=1e-10)


def test_a_matrix_for_regression():
    on_rows = GPRegressor(KERNEL).fit(X[TRAIN], X[TRAIN, 0])
    given = GPRegressor("precomputed").fit(K[TRAIN, TRAIN], X[TRAIN, 0])
    for theirs, ours in zip(on_rows.predict(X[TEST], True), given.predict(K[TEST, TRAIN], True), strict=True):
        assert_allclose(ours, theirs, atol=1e-5)  # of the search, as above


@pytest.mark.parametrize("kernel", ["precomputed + white", "precomputed + constant"])
def test_terms_that_need_no_inputs_can_be_added(kernel):
    clf = GPClassifier(kernel).fit(K[TRAIN, TRAIN], y[TRAIN])
    assert clf.score(K[TEST, TRAIN], y[TEST]) > 0.7
    assert len(clf.kernel_.leaves) == 2


def test_cross_validation_takes_rows_and_columns():
    given = cross_val_score(GPClassifier("precomputed", optimizer=None), K, y, cv=4, scoring="neg_log_loss")
    on_rows = cross_val_score(GPClassifier(KERNEL, optimizer=None), X, y, cv=4, scoring="neg_log_loss")
    assert_allclose(given, on_rows, atol=1e-10)


@pytest.mark.filterwarnings("ignore:The log evidence is")  # of the tiny variance
def test_the_factor_in_a_grid_search():
    search = GridSearchCV(GPClassifier(Precomputed(), optimizer=None), {"kernel__variance": [1e-4, 4.0]}, cv=3).fit(K, y)
    assert search.best_params_ == {"kernel__variance": 4.0}


class ToCovariances(TransformerMixin, BaseEstimator):
    """Return covariances with the rows of `fit`."""

    def fit(self, X, y=None):
        self.rows_ = np.asarray(X)
        return self

    def transform(self, X):
        return KERNEL(X, self.rows_)


def test_a_pipeline_computes_the_matrix():
    pipeline = make_pipeline(ToCovariances(), GPClassifier("precomputed", optimizer=None))
    scores = cross_val_score(pipeline, X, y, cv=4, scoring="neg_log_loss")
    on_rows = cross_val_score(GPClassifier(KERNEL, optimizer=None), X, y, cv=4, scoring="neg_log_loss")
    assert_allclose(scores, on_rows, atol=1e-10)


def test_variances_of_test_rows():
    linear = Linear() + Constant()
    own = linear(X)
    on_rows = GPClassifier(linear, optimizer=None).fit(X[TRAIN], y[TRAIN])
    given = GPClassifier("precomputed", optimizer=None).fit(own[TRAIN, TRAIN], y[TRAIN])
    with pytest.raises(ValueError, match=r"prior variances .* not known.*last column"):
        given.predict(own[TEST, TRAIN])
    rows = np.column_stack([own[TEST, TRAIN], np.diag(own)[TEST]])
    assert_allclose(given.predict_proba(rows), on_rows.predict_proba(X[TEST]), atol=1e-10)
    with pytest.raises(ValueError, match=r"these 20 rows .*X of shape \(20, 51\)"):
        given.predict(own[TEST, TRAIN])
    with pytest.raises(ValueError, match="X has 52 features, but GPClassifier is expecting 50"):
        given.predict(np.column_stack([rows, rows[:, 0]]))
    with pytest.raises(ValueError, match="Expected 2D array"):
        given.predict(rows[0])
    with pytest.raises(ValueError, match="NaN"):
        given.predict(np.where(rows == rows[0, 0], np.nan, rows))
    rows[0, -1] = -1.0
    with pytest.raises(ValueError, match="some are negative"):
        given.predict(rows)


def test_the_scale_of_a_matrix_is_learned():
    """The bounds of the variance suit matrices of any scale."""
    unit = GPClassifier("precomputed", priors=None).fit(K[TRAIN, TRAIN], y[TRAIN])
    large = GPClassifier("precomputed", priors=None).fit(1e8 * K[TRAIN, TRAIN], y[TRAIN])
    assert_allclose(1e8 * large.kernel_.variance, unit.kernel_.variance, rtol=1e-3)  # the optimum is flat


INDEFINITE = rng.uniform(-0.9, 0.9, (50, 50))
INDEFINITE = (INDEFINITE + INDEFINITE.T) / 2
np.fill_diagonal(INDEFINITE, 1.0)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (K[TRAIN], "square matrix"),
        (np.triu(K[TRAIN, TRAIN]), "not symmetric"),
        (-K[TRAIN, TRAIN], "variance"),
        (np.abs(X[TRAIN, :1] - X[TRAIN, 0]), "matrix of distances"),
        (np.where(np.eye(50) > 0, np.nan, K[TRAIN, TRAIN]), "NaN"),
        (INDEFINITE, "eigenvalues are between -"),
    ],
)
def test_what_is_no_covariance_matrix(matrix, message):
    with pytest.raises(ValueError, match=message):
        GPClassifier("precomputed").fit(matrix if len(matrix) < 60 else matrix[:50], y[TRAIN])


@pytest.mark.parametrize("inference", ["scalable-ep", "svgp", "gfitc", "sparse-mnl"])
def test_inducing_inputs_are_refused(inference):
    with pytest.raises(TypeError, match="inducing inputs"):
        GPClassifier("precomputed", inference=inference).fit(K[TRAIN, TRAIN], y[TRAIN])


def test_training_rows_of_a_matrix_are_recognised():
    clf = GPClassifier("precomputed", optimizer=None).fit(K[TRAIN, TRAIN], y[TRAIN])
    assert trained_on(clf, K[:, TRAIN]).tolist() == [True] * 50 + [False] * 20
    assert far_rows(clf, K[:, TRAIN]).shape == (70,)


def test_more_rows_need_a_new_matrix():
    clf = GPClassifier("precomputed", inference="ivm").fit(K[TRAIN, TRAIN], y[TRAIN])
    with pytest.raises(ValueError, match="call fit with all rows"):
        clf.partial_fit(K[TEST, TRAIN], y[TEST])


def test_numbers_after_a_matrix():
    clf = GPClassifier("precomputed", optimizer=None).fit(K[TRAIN, TRAIN], y[TRAIN])
    clf.set_params(kernel=KERNEL).fit(X[TRAIN], y[TRAIN])
    assert clf.covariances_ is None
    assert clf.predict(X[TEST]).shape == (20,)


# objects --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", [None, "lbfgs"])
def test_a_function_of_rows_is_its_kernel(optimizer):
    on_rows = GPClassifier(KERNEL + White(0.1), optimizer=optimizer).fit(X[TRAIN], y[TRAIN])
    clf = GPClassifier(FunctionKernel(squared_exponential) + White(0.1), optimizer=optimizer).fit(X[TRAIN], y[TRAIN])
    assert_allclose(clf.predict_proba(X[TEST]), on_rows.predict_proba(X[TEST]), atol=1e-10 if optimizer is None else 1e-4)


def test_text_is_classified_and_cross_validated():
    words = ["".join(rng.choice(list("abcd" if label else "cdef"), 8)) for label in y]

    def overlap(a, b):
        return len(set(a) & set(b)) / np.sqrt(len(set(a)) * len(set(b)))

    kernel = FunctionKernel(overlap)
    assert np.mean(cross_val_score(GPClassifier(kernel), words, y, cv=3)) > 0.9
    clf = GPClassifier(kernel).fit(words, y)
    assert not hasattr(clf, "n_features_in_")
    assert clf.predict_proba(["abab", "efef"]).argmax(1).tolist() == [1, 0]
    targets = np.array([word.count("a") for word in words], float)
    assert GPRegressor(kernel).fit(words, targets).predict(words).shape == (70,)


def test_one_function_for_several_classes():
    kernel = PerClass(*[FunctionKernel(squared_exponential, v) for v in (1.0, 2.0, 1.0)])
    on_rows = PerClass(*[RBF(1.3, v) for v in (1.0, 2.0, 1.0)])
    clf = GPClassifier(kernel, optimizer=None).fit(X[TRAIN], THREE[TRAIN])
    other = GPClassifier(on_rows, optimizer=None).fit(X[TRAIN], THREE[TRAIN])
    assert_allclose(clf.predict_proba(X[TEST]), other.predict_proba(X[TEST]), atol=1e-10)


def test_functions_cannot_be_saved(tmp_path):
    clf = GPClassifier(FunctionKernel(squared_exponential)).fit(X[TRAIN], y[TRAIN])
    with pytest.raises(TypeError, match="the function squared_exponential, but a model file contains only data"):
        save(clf, tmp_path / "model")


def test_one_function_per_estimator():
    kernel = FunctionKernel(squared_exponential) + FunctionKernel(lambda a, b: 1.0)
    with pytest.raises(TypeError, match="add up the functions"):
        GPClassifier(kernel).fit(X[TRAIN], y[TRAIN])
    with pytest.raises(ValueError, match="inconsistent numbers"):
        GPClassifier(FunctionKernel(squared_exponential)).fit(X[TRAIN], y)


# sparse matrices ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [sp.csr_matrix, sp.csc_array])
@pytest.mark.parametrize("kernel", [Linear(), Tanimoto(2.0), Linear() + Constant(0.5)], ids=repr)
def test_sparse_rows_are_dense_rows(kernel, make):
    dense = GPClassifier(kernel).fit(BITS[TRAIN], BIT_LABELS[TRAIN])
    sparse = GPClassifier(kernel).fit(make(BITS[TRAIN]), BIT_LABELS[TRAIN])
    expected = dense.predict_proba(BITS[TEST])
    assert_allclose(sparse.predict_proba(make(BITS[TEST])), expected, atol=1e-4)  # error of the search in a flat direction
    assert_allclose(sparse.predict_proba(BITS[TEST]), sparse.predict_proba(make(BITS[TEST])), atol=1e-12)
    assert sparse.n_features_in_ == 12


@pytest.mark.parametrize("kernel", ["linear", "tanimoto"])
def test_sparse_rows_with_kernels_as_text(kernel):
    clf = GPClassifier(kernel).fit(sp.csr_array(BITS[TRAIN]), BIT_LABELS[TRAIN])
    assert clf.score(sp.csr_array(BITS[TEST]), BIT_LABELS[TEST]) > 0.8
    assert GPRegressor(kernel).fit(sp.csr_array(BITS), BIT_LABELS * 1.0).predict(BITS).shape == (70,)


@pytest.mark.parametrize("kernel", [None, "rbf", "linear + tanimoto", RBF(), "auto"])
def test_other_kernels_need_dense_rows(kernel):
    with pytest.raises(TypeError, match=r"sparse matrix.*toarray.*TruncatedSVD"):
        GPClassifier(kernel).fit(sp.csr_array(BITS[TRAIN]), BIT_LABELS[TRAIN])


@pytest.mark.parametrize(
    ("kernel", "sparse", "pairwise"),
    [
        ("linear", True, False),
        (Tanimoto() + Constant(), True, False),
        ("rbf", False, False),
        (None, False, False),
        ("precomputed", False, True),
        ("no such kernel", False, False),  # `fit` raises the error
    ],
)
def test_tags_of_inputs(kernel, sparse, pairwise):
    tags = GPClassifier(kernel).__sklearn_tags__().input_tags
    assert (tags.sparse, tags.pairwise) == (sparse, pairwise)


def test_objects_and_targets_are_checked():
    with pytest.raises(ValueError, match="X has no objects"):
        GPClassifier(FunctionKernel(squared_exponential)).fit([], [])
    with pytest.raises(ValueError, match="Input y contains NaN"):
        GPRegressor(FunctionKernel(squared_exponential)).fit(X[:3], [1.0, np.nan, 2.0])


def test_objects_after_a_frame():
    """The columns of the earlier fit are forgotten."""
    clf = GPClassifier(RBF(), optimizer=None).fit(pd.DataFrame(X[TRAIN], columns=["a", "b", "c"]), y[TRAIN])
    assert clf.feature_names_in_.tolist() == ["a", "b", "c"]
    clf.set_params(kernel=FunctionKernel(squared_exponential)).fit(X[TRAIN], y[TRAIN])
    assert not hasattr(clf, "feature_names_in_")
    assert not hasattr(clf, "n_features_in_")


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_rounding_of_a_matrix_is_relative_to_its_entries(scale):
    """A covariance matrix may differ from its transpose by 1e-8 of its largest entry, and so may its variances."""
    own = scale * np.array([[1.0, 0.5], [0.5, 1.0]])
    lower = scale * np.array([[0.0, 0.0], [1.0, 0.0]])
    GivenMatrix.training(own + 1e-10 * lower)
    with pytest.raises(ValueError, match=r"not symmetric: X\[0, 1\] is"):
        GivenMatrix.training(own + 1e-6 * lower)
    corner = scale * np.array([[1.0, 0.0], [0.0, 0.0]])
    assert GivenMatrix.training(own + 1e-10 * corner)[0].variance == pytest.approx(scale)
    assert GivenMatrix.training(own + 1e-6 * corner)[0].variance is None
    full = scale * np.ones((2, 2))
    GivenMatrix.training(full - 1e-10 * corner)
    with pytest.raises(ValueError, match="Is it a matrix of distances"):
        GivenMatrix.training(full - 1e-6 * corner)


def test_sparse_rows_need_a_fixed_lengthscale():
    with pytest.raises(TypeError, match="one fixed lengthscale"):
        GPClassifier(Linear(ard=True)).fit(sp.csr_array(BITS[TRAIN]), BIT_LABELS[TRAIN])
    with pytest.raises(TypeError, match="one fixed lengthscale"):
        GPClassifier(Linear(np.full(12, 2.0))).fit(sp.csr_array(BITS[TRAIN]), BIT_LABELS[TRAIN])
    clf = GPClassifier("linear").fit(BITS[TRAIN], BIT_LABELS[TRAIN])
    with pytest.raises(TypeError, match="fitted to an array"):
        clf.predict(sp.csr_array(BITS))


@pytest.mark.parametrize(
    ("kernel", "rows", "labels"),
    [
        ("precomputed", K, y),
        ("tanimoto", sp.csr_array(BITS), BIT_LABELS),
        (Tanimoto(), BITS, BIT_LABELS),
        ("categorical", BITS, BIT_LABELS),
    ],
)
def test_models_are_saved(kernel, rows, labels, tmp_path):
    clf = GPClassifier(kernel).fit(rows, labels)
    save(clf, tmp_path / "model")
    assert_allclose(load(tmp_path / "model").predict_proba(rows), clf.predict_proba(rows), atol=1e-9)


def test_indices_of_sparse_rows_are_checked():
    clf = GPClassifier("tanimoto", optimizer=None).fit(sp.csr_array(BITS), BIT_LABELS)
    clf.covariances_ = replace(clf.covariances_, indices=clf.covariances_.indices + 100)
    with pytest.raises(ValueError, match="indices"):
        clf.predict(BITS)


# text -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["tanimoto", "tanimoto + rbf-ard", "categorical-ard * rbf"])
def test_bits_and_codes_are_not_standardised(kernel):
    clf = GPClassifier(kernel).fit(BITS[TRAIN], BIT_LABELS[TRAIN])
    assert clf.score(BITS[TEST], BIT_LABELS[TEST]) > 0.7
    first = clf.kernel_ if kernel == "tanimoto" else clf.kernel_.members[0]
    assert not first.own_units


def test_terms_of_different_inputs_are_refused():
    with pytest.raises(ValueError, match="need the same inputs"):
        GPClassifier("precomputed + rbf").fit(K[TRAIN, TRAIN], y[TRAIN])
