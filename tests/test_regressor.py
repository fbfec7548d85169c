"""GPRegressor."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal
from sklearn.utils.estimator_checks import parametrize_with_checks

from gpclass import GPRegressor
from gpclass.inference import Laplace
from gpclass.kernels import RBF, Matern52
from gpclass.sparse import IVM

rng = np.random.default_rng(0)
X = rng.uniform(-3, 3, size=(150, 1))
y = 40 + 7 * np.sin(2 * X[:, 0]) + 0.7 * rng.normal(size=150)


@pytest.mark.filterwarnings("ignore:all targets are equal")
@parametrize_with_checks([GPRegressor(), GPRegressor(inference=IVM(active=30, major=3, minor=3))])
def test_scikit_learn_manners(estimator, check):
    check(estimator)


def test_exact_is_textbook_regression():
    kernel = RBF(0.8, 1.5)
    model = GPRegressor(kernel, noise_variance=0.05, optimizer=None).fit(X, y)
    z = (y - y.mean()) / y.std()
    K = kernel(X)
    inverse = np.linalg.inv(K + 0.05 * np.eye(150))
    new = np.linspace(-4, 4, 9)[:, None]
    Ks = kernel(X, new)
    mean, std = model.predict(new, return_std=True)
    assert_allclose(mean, y.mean() + y.std() * Ks.T @ inverse @ z, rtol=1e-9)
    assert_allclose(std, y.std() * np.sqrt(1.5 - np.diagonal(Ks.T @ inverse @ Ks) + 0.05), rtol=1e-8)
    assert_allclose(model.latent(new)[1], std**2 - model.noise_variance_, rtol=1e-8)
    truth = multivariate_normal.logpdf(y, y.mean() * np.ones(150), y.var() * (K + 0.05 * np.eye(150)))
    assert model.log_evidence_ == pytest.approx(truth, abs=1e-7)


@pytest.mark.parametrize("inference", ["exact", "ivm", IVM(active=40), Laplace()], ids=str)
def test_learns_function_and_noise(inference):
    model = GPRegressor(inference=inference, random_state=0).fit(X, y)
    new = np.linspace(-2.5, 2.5, 50)[:, None]
    mean, std = model.predict(new, return_std=True)
    assert np.sqrt(np.mean((mean - 40 - 7 * np.sin(2 * new[:, 0])) ** 2)) < 0.5
    assert np.sqrt(model.noise_variance_) == pytest.approx(0.7, rel=0.25)  # of 150 rows; IVM uses fewer
    assert np.all(std > 0.5 * np.sqrt(model.noise_variance_))
    assert model.score(X, y) > 0.95
    again = pickle.loads(pickle.dumps(model))
    assert_allclose(again.predict(new), mean)


def test_active_rows_are_all_that_predictions_need():
    model = GPRegressor(inference=IVM(active=25)).fit(X, y)
    assert len(model.active_indices_) == 25
    assert_allclose(model.inputs_, X[model.active_indices_])
    assert not hasattr(GPRegressor().fit(X, y), "active_indices_")


def test_units_of_targets_do_not_matter():
    a, b = GPRegressor().fit(X, y), GPRegressor().fit(X, 1000 * y - 5)
    assert_allclose(b.predict(X), 1000 * a.predict(X) - 5, rtol=1e-5)
    assert b.noise_variance_ == pytest.approx(1e6 * a.noise_variance_, rel=1e-4)
    assert b.log_evidence_ == pytest.approx(a.log_evidence_ - 150 * np.log(1000), abs=1e-3)
    raw = GPRegressor(normalize_y=False, kernel=Matern52(1.0, 50.0)).fit(X, y - 40)
    assert raw.predict(X[:3]) == pytest.approx(a.predict(X[:3]) - 40, abs=0.5)


@pytest.mark.parametrize("inference", ["exact", "ivm"])
def test_equal_targets(inference):
    with pytest.warns(UserWarning, match="all targets are equal"):
        model = GPRegressor(inference=inference).fit(X, np.full(150, 3.0))
    mean, std = model.predict([[0.0], [50.0]], return_std=True)
    assert_allclose(mean, 3.0, atol=1e-12)
    assert np.all(np.isfinite(std))


def test_streams():
    order = rng.permutation(150)
    batches = np.split(order, 5)
    model = GPRegressor(inference=IVM(active=60), random_state=0).fit(X[batches[0]], y[batches[0]])
    for batch in batches[1:]:
        model.partial_fit(X[batch], y[batch])
    assert len(model.active_indices_) == 60
    assert max(model.active_indices_) >= 120
    assert_allclose(model.inputs_, X[order][model.active_indices_])
    new = np.linspace(-2.5, 2.5, 50)[:, None]
    assert np.sqrt(np.mean((model.predict(new) - 40 - 7 * np.sin(2 * new[:, 0])) ** 2)) < 1.0
    assert GPRegressor(inference="ivm").partial_fit(X[:50], y[:50]).predict(new).shape == (50,)
    with pytest.raises(AttributeError, match="partial_fit"):
        GPRegressor().partial_fit(X, y)


def test_bad_input():
    with pytest.raises(ValueError, match="not known"):
        GPRegressor(inference="best").fit(X, y)
    with pytest.raises(TypeError, match="engine object"):
        GPRegressor(inference=IVM).fit(X, y)
    with pytest.raises(ValueError, match="optimizer"):
        GPRegressor(optimizer="adam").fit(X, y)
    with pytest.raises(ValueError, match="n_restarts"):
        GPRegressor(n_restarts=-1).fit(X, y)
    with pytest.raises(ValueError, match="NaN"):
        GPRegressor().fit(X, np.where(y > 40, np.nan, y))
    with pytest.raises(ValueError, match="variance must be"):
        GPRegressor(noise_variance=0.0).fit(X, y)


def test_restarts_never_end_worse():
    alone = GPRegressor(random_state=1).fit(X[:40], y[:40])
    more = GPRegressor(random_state=1, n_restarts=2).fit(X[:40], y[:40])
    # a search maximises evidence times prior, and ends a little below the maximum; the evidence alone may be smaller
    best, best_alone = (max(step.objective for step in model.history_) for model in (more, alone))
    assert best >= best_alone
