"""Columns in other units give the same predictions; kernel objects are used as they are; kernels as parameters."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.gaussian_process import kernels as sk
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gpclass
from gpclass import GPClassifier, GPRegressor
from gpclass.assess import evidence_surface, nlpd
from gpclass.expressions import DEFAULT_KERNEL, MOST_COLUMNS, default_kernel, parse_kernel
from gpclass.kernels import RBF, Linear, Matern52, Periodic, Standardized, White
from gpclass.numerics.columns import column_units, compressed, typical_distance
from gpclass.sparse import IVM, SVGP, ScalableEP, SparseVariationalMNL
from gpclass.units import COMPRESSED_FROM, UnitsWarning, default_start, start_kernel

SAME = 1e-6  # both searches take the same steps up to rounding, which their last iterations magnify
FACTOR, SHIFT = np.array([3e-4, 7e5, 0.9]), np.array([2.0, -30.0, 1e3])


def problem(n=60, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    score = X[:, 0] + np.sin(2 * X[:, 1]) + 0.3 * rng.normal(size=n)
    return X, np.digitize(score, np.quantile(score, np.arange(1, classes) / classes))


def other(X):
    return FACTOR * (X + SHIFT)


def agree(make, X, y, tol=SAME):
    """Fit in both units; return the probabilities."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the runs are short
        one, two = make().fit(X, y), make().fit(other(X), y)
    test, _ = problem(30, seed=9)
    p = one.predict_proba(test)
    assert_allclose(two.predict_proba(other(test)), p, atol=tol)
    assert p.max() > 0.75  # the models have learned something
    return p


SETTINGS = {
    "ep": ({}, 2),
    "nested ep": ({}, 3),
    "ard sum": ({"kernel": "rbf-ard + linear"}, 2),
    "shifted": ({"kernel": "polynomial + neural-network"}, 2),
    "restarts": ({"kernel": "rbf-ard", "n_restarts": 1}, 2),
    "ivm": ({"inference": IVM(active=20)}, 2),
    "scalable ep": ({"inference": ScalableEP(n_inducing=12, search="settled")}, 2),
    "scalable ep, minibatches": (
        {"inference": ScalableEP(n_inducing=12, search="minibatches", batch_size=20, epochs=30)},
        3,
    ),
    "svgp": ({"inference": SVGP(n_inducing=12, search="minibatches", batch_size=20, epochs=30)}, 2),
    "sparse mnl": ({"inference": SparseVariationalMNL(inducing=12, selection="k-means", move=True)}, 3),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_units_of_columns_do_not_matter(name):
    settings, classes = SETTINGS[name]
    agree(lambda: GPClassifier(**{"random_state": 0, "max_iter": 15} | settings), *problem(60, classes))


def test_units_of_a_stream_do_not_matter():
    X, y = problem(90)
    engine = ScalableEP(n_inducing=12, batch_size=30, epochs=10)
    models = []
    for inputs in (X, other(X)):
        pairs = [(inputs[i : i + 30], y[i : i + 30]) for i in range(0, 90, 30)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            models.append(GPClassifier(inference=engine, random_state=0).fit(pairs))
    test, _ = problem(30, seed=9)
    assert_allclose(models[1].predict_proba(other(test)), models[0].predict_proba(test), atol=SAME)
    assert_allclose(models[0].kernel_.centre, X.mean(0), atol=1e-12)


def test_units_of_a_regression_do_not_matter():
    X, _ = problem()
    # with noise: without, K is nearly singular, and searches magnify its rounding
    y = X[:, 0] + np.sin(X[:, 1]) + 0.1 * np.random.default_rng(1).normal(size=len(X))
    for kernel in (None, "rbf-ard + linear"):
        one, two = GPRegressor(kernel, max_iter=15).fit(X, y), GPRegressor(kernel, max_iter=15).fit(other(X), y)
        assert_allclose(two.predict(other(X[:9] + 0.1)), one.predict(X[:9] + 0.1), atol=SAME)
    assert GPRegressor(optimizer=None).fit(X, y).kernel_.kernel.variance == 1.0


def test_standardised_columns_are_what_they_were():
    X, y = problem()
    X = StandardScaler().fit_transform(X)
    distance = typical_distance(X, np.random.default_rng(0))
    before, now = GPClassifier(RBF(distance, 4.0)).fit(X, y), GPClassifier("rbf").fit(X, y)
    assert_allclose(now.predict_proba(X), before.predict_proba(X), atol=SAME)
    assert_allclose(now.log_evidence_, before.log_evidence_, atol=SAME)
    scaled = make_pipeline(StandardScaler(), GPClassifier("rbf")).fit(other(X), y)
    assert_allclose(scaled.predict_proba(other(X)), now.predict_proba(X), atol=SAME)


def test_raw_wine():
    X, y = load_wine(return_X_y=True)
    model = GPClassifier(optimizer=None).fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.95  # 0.78 with one lengthscale for raw columns


def test_an_outlier_and_a_constant_column_do_little_harm():
    X, y = problem()
    wild = np.column_stack([X, np.full(60, 0.1)])
    wild[5, 2] = 1e9  # the column that does not matter
    model = GPClassifier().fit(wild, y)
    test, labels = problem(200, seed=4)
    clean = GPClassifier().fit(X, y).score(test, labels)
    assert model.score(np.column_stack([test, np.full(200, 0.1)]), labels) > clean - 0.05
    assert model.kernel_.spread[3] == 1.0
    assert model.kernel_.spread[2] < 5


def test_far_values_do_not_dominate_distances():
    """A column of many zeros and a few large values, such as pixels, must not make its rows far from all others."""
    rng = np.random.default_rng(0)
    X, y = problem(150)
    rare = (rng.random(300) < 0.05) * rng.exponential(size=300)
    noise = np.column_stack([np.roll(rare, 37 * k) for k in range(1, 30)])
    fit, test = np.column_stack([X, noise[:150]]), np.column_stack([problem(150, seed=1)[0], noise[150:]])
    labels = problem(150, seed=1)[1]
    kernels = ("rbf", Standardized(RBF(4.0, 4.0), *column_units(fit)))
    with_tail, without = (nlpd(labels, GPClassifier(kernel).fit(fit, y).predict_proba(test)) for kernel in kernels)
    assert with_tail < without - 0.01


def test_periods_are_not_compressed():
    X, y = problem()
    assert GPClassifier("rbf", optimizer=None).fit(X, y).kernel_.tail == COMPRESSED_FROM
    assert GPClassifier("rbf * periodic", optimizer=None).fit(X, y).kernel_.tail == np.inf


def test_a_second_fit_with_warm_start_uses_the_units_of_its_data():
    X, y = problem()
    model = GPClassifier(warm_start=True).fit(X, y)
    p = model.predict_proba(X)
    model.fit(other(X), y)
    assert_allclose(model.predict_proba(other(X)), p, atol=1e-3)  # the second search starts from the first result
    assert_allclose(model.kernel_.spread, column_units(other(X)).spread)


def test_model_files(tmp_path):
    X, y = problem()
    for kernel in (None, "rbf-ard + white", RBF(ard=True)):
        model = GPClassifier(kernel, max_iter=3).fit(X, y)
        gpclass.save(model, tmp_path / "model")
        loaded = gpclass.load(tmp_path / "model")
        assert loaded.kernel_ == model.kernel_
        assert loaded.kernel == model.kernel
        assert_allclose(loaded.predict_proba(X), model.predict_proba(X), rtol=1e-12)


# -- text and objects -----------------------------------------------------------------------------------------------------


def test_text_is_the_parsed_kernel_in_units_of_the_spreads():
    X, y = problem()
    model = GPClassifier("matern52-ard + linear", optimizer=None).fit(other(X), y)
    centre, spread = column_units(other(X))
    distance = typical_distance(compressed((other(X) - centre) / spread, COMPRESSED_FROM), np.random.default_rng(0))
    assert model.kernel_ == Standardized(parse_kernel("matern52-ard + linear", 3, distance), centre, spread, COMPRESSED_FROM)
    assert model.kernel == "matern52-ard + linear"
    assert GPClassifier(optimizer=None).fit(X, y).kernel_ == GPClassifier(DEFAULT_KERNEL, optimizer=None).fit(X, y).kernel_


@pytest.mark.parametrize("n_columns", [1, MOST_COLUMNS, MOST_COLUMNS + 1])
def test_default_kernel_is_the_one_that_its_text_describes(n_columns):
    assert default_start(n_columns, 1.7, 4.0) == parse_kernel(default_kernel(n_columns), n_columns, 1.7, 4.0)


def test_mistakes_in_a_text():
    with pytest.raises(ValueError, match="did you mean 'matern52'"):
        GPClassifier("matern53").fit(*problem())
    with pytest.raises(ValueError, match="use a kernel object"):
        GPClassifier("rbf").set_params(kernel__lengthscale=2.0)


def test_ard_equals_a_vector():
    X, y = problem()
    short, long = GPClassifier(RBF(ard=True) + White(0.1)).fit(X, y), GPClassifier(RBF([1.0] * 3) + White(0.1)).fit(X, y)
    assert short.kernel_ == long.kernel_
    assert short.kernel == RBF(ard=True) + White(0.1)  # the parameter is unchanged


def test_evidence_surfaces_take_text():
    X, y = problem(30)
    grid = [0.0, 1.0]
    centre, spread = column_units(other(X))
    text = evidence_surface(other(X), y, "rbf", log_lengthscales=grid, log_scales=grid)
    rows = compressed((other(X) - centre) / spread, COMPRESSED_FROM)
    plain = evidence_surface(rows, y, RBF, log_lengthscales=grid, log_scales=grid)
    assert_allclose(text.log_evidence, plain.log_evidence, atol=1e-6)


@pytest.mark.parametrize(
    ("kernel", "factor", "message"),
    [
        (RBF(1.0), [1.0, 100.0, 1.0], "spreads differ by a factor of"),
        (RBF(100.0), [1.0, 1.0, 1.0], "so the kernel is flat"),
        (RBF(0.01), [1.0, 1.0, 1.0], "so rows are hardly related"),
        (RBF([1.0, 1.0, 1.0]), [1.0, 100.0, 1.0], "hardly related"),
        (RBF(ard=True) + White(), [1e-3, 1e-3, 1e-3], "flat"),
        (RBF(1.0) + Matern52(100.0), [1.0, 1.0, 1.0], "flat"),
        (sk.RBF(100.0), [1.0, 1.0, 1.0], "flat"),
        # fine
        (RBF(1.0), [1.0, 10.0, 1.0], None),
        (RBF(1.0), [1.0, 1.0, 0.0], None),  # a constant column has no units
        (RBF([1.0, 1e3, 1.0]), [1.0, 1.0, 1.0], None),  # a column that is left out
        (RBF([1.0, 100.0, 1e-3]), [1.0, 100.0, 1e-3], None),
        (Periodic(1.0, period=1e3), [1e3, 1e3, 1e3], None),  # its lengthscale has no units
        (Standardized(RBF(1e3), [0.0] * 3, [1.0] * 3), [1.0] * 3, None),  # as learned before
        (Standardized(RBF(1.0), [0.0] * 3, [1.0, 1e4, 1.0]), [1.0, 1e4, 1.0], None),
        ("rbf", [1.0, 1e4, 1.0], None),
        (None, [1.0, 1e4, 1.0], None),
        (White(), [1.0, 1e4, 1.0], None),
    ],
)
def test_warning_about_units(kernel, factor, message):
    X = problem()[0] * factor
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start_kernel(kernel, X, np.random.default_rng(0))
    texts = [str(w.message) for w in caught if w.category is UnitsWarning]
    if message is None:
        assert not texts
    else:
        assert len(texts) == 1
        assert message in texts[0]
        assert "kernel as text" in texts[0]


def test_the_warning_points_to_the_call_of_fit():
    X, y = problem()
    with pytest.warns(UnitsWarning, match="Scale the columns") as caught:
        GPClassifier(RBF(1.0), optimizer=None).fit(1e3 * X, y)
    assert caught[0].filename == __file__
    with pytest.warns(UnitsWarning) as caught:
        GPRegressor(RBF(1.0), optimizer=None).fit(1e3 * X, X[:, 0])
    assert caught[0].filename == __file__


# -- parameters of the estimator ---------------------------------------------------------------------------------


def test_nested_parameters_replace_the_kernel():
    kernel = RBF(1.0) + Linear()
    model = GPClassifier(kernel)
    assert model.get_params()["kernel__rbf__lengthscale"] == 1.0
    assert model.get_params(deep=False)["kernel"] is kernel
    model.set_params(kernel__rbf__lengthscale=3.0, max_iter=7)
    assert model.kernel == RBF(1.0).with_settings(lengthscale=3.0) + Linear()
    assert model.max_iter == 7
    assert kernel == RBF(1.0) + Linear()
    assert clone(model).kernel == model.kernel
    assert clone(GPClassifier(RBF(ard=True))).kernel == RBF(ard=True)
    assert model.set_params(kernel=RBF(2.0), kernel__variance=5.0).kernel.variance == 5.0
    with pytest.raises(ValueError, match="no setting 'lengthscal'; it has lengthscale"):
        model.set_params(kernel__lengthscal=1.0)
    with pytest.raises(ValueError, match="Invalid parameter 'kernels'"):
        model.set_params(kernels=1.0)
    theirs = GPRegressor(sk.RBF(1.0)).set_params(kernel__length_scale=2.0)
    assert theirs.kernel.length_scale == 2.0


def test_grid_searches():
    X, y = problem()
    grid = {"kernel__lengthscale": [1e-3, 2.0], "kernel__variance": [4.0]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnitsWarning)
        found = GridSearchCV(GPClassifier(RBF(), optimizer=None), grid, cv=3).fit(X, y)
    assert found.best_params_["kernel__lengthscale"] == 2.0
    assert found.best_estimator_.kernel.variance == 4.0
    steps = make_pipeline(StandardScaler(), GPClassifier(optimizer=None))
    texts = {"gpclassifier__kernel": ["white", "rbf-ard"]}
    assert GridSearchCV(steps, texts, cv=3).fit(X, y).best_params_ == {"gpclassifier__kernel": "rbf-ard"}
