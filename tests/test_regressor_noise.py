"""GPRegressor with Laplace noise, and predictive densities and intervals with either noise."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import norm

from gpclass import GPRegressor
from gpclass.inference import Laplace
from gpclass.kernels import RBF
from gpclass.likelihoods import LaplaceNoise
from gpclass.persist import load, save
from gpclass.sparse import IVM

rng = np.random.default_rng(0)
X = rng.uniform(-3, 3, size=(120, 1))
TRUTH = 5 + 2 * np.sin(2 * X[:, 0])
CLEAN = TRUTH + 0.2 * rng.laplace(size=120)
OUTLIERS = np.arange(0, 120, 10)
NEW = np.linspace(-2.8, 2.8, 40)[:, None]
ENGINES = ["exact", IVM(active=60)]


def spoiled(size=15.0):
    y = CLEAN.copy()
    y[OUTLIERS] += size
    return y


def error(model):
    return np.sqrt(np.mean((model.predict(NEW) - 5 - 2 * np.sin(2 * NEW[:, 0])) ** 2))


@pytest.mark.parametrize("inference", ENGINES, ids=str)
def test_outliers_move_the_fit_less_than_with_gaussian_noise(inference):
    """Twelve of 120 rows are moved by 15: measured errors are 0.11 (all rows) and 0.21 against 1.8 and 2.4."""
    robust, usual = (GPRegressor("rbf", inference, noise=noise).fit(X, spoiled()) for noise in ("laplace", "gaussian"))
    assert error(robust) < 0.5
    assert error(usual) > 2 * error(robust)


@pytest.mark.parametrize("inference", ENGINES, ids=str)
def test_the_scale_of_the_noise_is_learned(inference):
    model = GPRegressor("rbf", inference, noise="laplace").fit(X, CLEAN)
    assert isinstance(model.likelihood_, LaplaceNoise)
    assert_allclose(np.sqrt(model.noise_variance_ / 2), 0.2, rtol=0.3)
    assert_allclose(model.noise_variance_, 2 * model.likelihood_.scale**2 * model.target_scale_**2)
    assert error(model) < 0.15


def test_at_the_learned_scale_the_evidence_is_highest():
    best = GPRegressor("rbf", noise="laplace", priors=None).fit(X, CLEAN)
    for factor in (0.8, 1.25):
        variance = factor * best.likelihood_.noise_variance
        other = GPRegressor(best.kernel_, noise="laplace", noise_variance=variance, optimizer=None).fit(X, CLEAN)
        assert other.log_evidence_ < best.log_evidence_ - 0.1


def test_laplace_noise_has_the_higher_evidence_for_such_data():
    evidence = {noise: GPRegressor("rbf", noise=noise).fit(X, CLEAN).log_evidence_ for noise in ("laplace", "gaussian")}
    assert evidence["laplace"] > evidence["gaussian"] + 1


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_densities_and_intervals_are_those_of_the_predictive_distribution(noise):
    model = GPRegressor(RBF(1.0, 1.0), noise=noise, noise_variance=0.05, optimizer=None).fit(X, CLEAN)
    row, (mean, std) = [[0.4]], model.predict([[0.4]], return_std=True)
    low, high = model.predict_interval(row, 0.9)
    assert low < mean < high

    def density(t):
        return float(np.exp(model.log_density(row, [t]))[0])

    inside, _ = quad(density, low[0], high[0], points=[mean[0]])
    assert_allclose(inside, 0.9, atol=1e-7)
    assert_allclose(high - mean, mean - low, rtol=1e-9)
    reach = 15 * std[0]
    moments = [quad(lambda t, k=k: (t - mean[0]) ** k * density(t), mean[0] - reach, mean[0] + reach, points=[mean[0]])[0]
               for k in range(3)]  # fmt: skip
    assert_allclose(moments, [1.0, 0.0, std[0] ** 2], atol=1e-6)
    if noise == "gaussian":
        assert_allclose(model.log_density(row, [7.0]), norm.logpdf(7.0, mean, std), rtol=1e-9)
        assert_allclose(high, norm.ppf(0.95, mean, std), rtol=1e-9)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_intervals_cover_what_they_say(noise):
    train, test = slice(0, 80), slice(80, None)
    model = GPRegressor("rbf", noise=noise).fit(X[train], CLEAN[train])
    low, high = model.predict_interval(X[test], 0.8)
    covered = np.mean((low < CLEAN[test]) & (CLEAN[test] < high))
    assert abs(covered - 0.8) < 0.2  # of 40 rows: three standard errors


@pytest.mark.parametrize("inference", ENGINES, ids=str)
def test_models_are_saved_and_pickled(inference, tmp_path):
    model = GPRegressor("rbf", inference, noise="laplace").fit(X, CLEAN)
    save(model, tmp_path / "model.gpclass")
    for again in (load(tmp_path / "model.gpclass"), pickle.loads(pickle.dumps(model))):
        assert again.likelihood_ == model.likelihood_
        assert_allclose(again.predict_interval(NEW), model.predict_interval(NEW), rtol=1e-9)


def test_weights_are_repeated_rows():
    settings = {"noise": "laplace", "noise_variance": 0.05, "optimizer": None, "normalize_y": False}
    twice = np.repeat(np.arange(30), 1 + np.arange(30) % 2)
    weighted = GPRegressor(RBF(1.0, 1.0), **settings).fit(X[:30], CLEAN[:30] - 5, sample_weight=1 + np.arange(30) % 2)
    repeated = GPRegressor(RBF(1.0, 1.0), **settings).fit(X[twice], CLEAN[twice] - 5)
    assert_allclose(weighted.predict(NEW), repeated.predict(NEW), atol=1e-6)
    assert_allclose(weighted.log_evidence_, repeated.log_evidence_, atol=1e-6)


def test_further_rows_update_the_active_set():
    model = GPRegressor("rbf", IVM(active=40), noise="laplace").fit(X[:60], CLEAN[:60])
    before = error(model)
    assert error(model.partial_fit(X[60:], CLEAN[60:])) < before + 0.05
    assert len(model.active_indices_) <= 40


def test_errors_name_what_would_serve():
    with pytest.raises(ValueError, match=r"noise='laplce' is not known. Did you mean 'laplace'\? Known names: gauss"):
        GPRegressor(noise="laplce").fit(X, CLEAN)
    with pytest.raises(TypeError, match=r"Laplace needs log_prob, which LaplaceNoise does not offer.*that do: Gaussian"):
        GPRegressor(inference=Laplace(), noise="laplace").fit(X, CLEAN)
    with pytest.raises(ValueError, match="coverage must be between 0 and 1, but is 95"):
        GPRegressor(optimizer=None).fit(X[:9], CLEAN[:9]).predict_interval(X, 95)
    with pytest.raises(ValueError, match="variance must be a positive number, but is -1"):
        GPRegressor(noise="laplace", noise_variance=-1).fit(X, CLEAN)
