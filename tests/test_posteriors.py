"""Pickles contain what predictions need, and everything works after unpickling as before."""

import copy
import pickle
import re
import threading
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_moons
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gpclass
from gpclass import GPClassifier, GPRegressor, posteriors
from gpclass.assess import suspicious_labels
from gpclass.engines.fit import Fit
from gpclass.inference import EP
from gpclass.kernels import RBF
from gpclass.likelihoods import Probit
from gpclass.posteriors import PACKED
from gpclass.sparse import IVM, SVGP, ScalableEP

MOONS, HALVES = make_moons(60, noise=0.25, random_state=0)
IRIS, KINDS = load_iris(return_X_y=True)
IRIS, KINDS = IRIS[::4], KINDS[::4]
NEW = np.random.default_rng(0).normal(0.5, 1.0, (7, 2))
NEW_IRIS = IRIS[:7] + 0.1

BINARY = ("laplace", "ep", "tap", "tap-naive", "kl", "vb", "fv", "lr", "ivm", "scalable-ep", "gfitc", "svgp")
SEVERAL = (
    "laplace", "nested-ep", "independent-ep", "quadrature-ep", "mean-field-probit", "variational-mnl", "sparse-mnl", "ivm",
    "scalable-ep", "stochastic-ep",
)  # fmt: skip


def fitted(engine, several=False, **settings):
    X, y = (IRIS, KINDS) if several else (MOONS, HALVES)
    kernel = RBF(2.0, 4.0) if several else RBF(0.6, 4.0)
    return GPClassifier(kernel, inference=engine, optimizer=None, random_state=0, **settings).fit(X, y)


def unpickled(model):
    return pickle.loads(pickle.dumps(model))


def answers(model, X):
    """All results of a model, by name; errors count as results."""
    asked = {
        "probabilities": lambda: model.predict_proba(X),
        "log probabilities": lambda: model.predict_log_proba(X),
        "spread": lambda: model.predict_proba_std(X),
        "latent": lambda: np.concatenate([part.ravel() for part in model.latent(X)]),
        "labels": lambda: model.predict(X),
        "bounds": lambda: np.array(model.predictive_bounds(X)),
        "loo": model.loo,
        "evidence": lambda: model.log_evidence(),
        "gradient": lambda: model.log_evidence(eval_gradient=True)[1],
        "moved": lambda: model.log_evidence(model.kernel_.theta + 0.1 if not len(model.likelihood_.theta) else None),
        "Jensen": model.jensen_bound,
        "mean": lambda: model.posterior_.mean,
        "variance": lambda: model.posterior_.var,
        "iterations": lambda: [model.posterior_.n_iter, model.posterior_.converged],
        "suspicious": lambda: suspicious_labels(model).to_numpy(float),
    }
    found = {}
    for name, ask in asked.items():
        try:
            found[name] = np.asarray(ask())
        except (AttributeError, ValueError, TypeError) as error:
            found[name] = f"{type(error).__name__}: {error}"
    return found


def assert_same(model, twin, X, rtol=1e-12):
    before, after = answers(model, X), answers(twin, X)
    for name, expected in before.items():
        if isinstance(expected, str):
            assert after[name] == expected, name
        else:
            unit = max(1.0, np.abs(expected).max(initial=0)) if expected.dtype.kind == "f" else 1
            assert_allclose(after[name], expected, rtol=rtol, atol=rtol * unit, err_msg=name)
    assert not isinstance(before["probabilities"], str)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("engine", "several"), [*((name, False) for name in BINARY), *((name, True) for name in SEVERAL)]
)
def test_everything_is_the_same_after_unpickling(engine, several):
    model, X = fitted(engine, several), NEW_IRIS if several else NEW
    twin = unpickled(model)
    assert_same(model, twin, X)
    if model.inference_.design != "active rows":  # its sequential updates round differently
        assert_array_equal(unpickled(model).predict_proba(X), model.predict_proba(X))  # to the last bit


@pytest.mark.parametrize("settings", [{"kernel": "auto"}, {"hyper": "integrate"}, {"kernel": "rbf-ard"}])
def test_averages_and_learned_kernels_are_the_same(settings):
    model = GPClassifier(random_state=0, max_iter=3, **settings).fit(MOONS, HALVES)
    assert_same(model, unpickled(model), NEW)
    assert len(unpickled(model).members_) == len(model.members_)
    assert len(unpickled(model).loo()) == 60


def test_weighted_and_soft_rows_are_the_same():
    weight = np.random.default_rng(1).uniform(0.5, 3.0, 60)
    X = np.concatenate([MOONS[:30], MOONS[:30]])
    for y in (HALVES, np.column_stack([weight / 4, 1 - weight / 4])):
        model = GPClassifier(RBF(0.6, 4.0), optimizer=None).fit(X, y, sample_weight=weight)
        assert_array_equal(unpickled(model).loo(), model.loo())
        assert_array_equal(unpickled(model).predict_proba(NEW), model.predict_proba(NEW))


def test_pickles_of_weighted_fits_grow_with_the_rows_only():
    """The covariance matrix alone would be 8 n² bytes."""
    n = 300
    X = np.random.default_rng(0).normal(size=(n, 2))
    model = GPClassifier(RBF(), optimizer=None).fit(X, (X[:, 0] > 0).astype(int), sample_weight=np.tile([1.0, 2.5], n // 2))
    assert len(pickle.dumps(model)) < n**2
    assert_same(model, unpickled(model), X[:20])


def test_frames_matrices_and_pipelines_are_the_same():
    frame = pd.DataFrame({"a": MOONS[:, 0], "kind": np.where(MOONS[:, 1] > 0, "up", "down")})
    model = GPClassifier(optimizer=None).fit(frame, HALVES)
    assert_array_equal(unpickled(model).predict_proba(frame), model.predict_proba(frame))
    K = RBF(0.6, 4.0)(MOONS)
    model = GPClassifier("precomputed", optimizer=None).fit(K, HALVES)
    assert_array_equal(unpickled(model).predict_proba(K[:5]), model.predict_proba(K[:5]))
    model = make_pipeline(StandardScaler(), GPClassifier(optimizer=None)).fit(MOONS, HALVES)
    assert_array_equal(unpickled(model).predict_proba(NEW), model.predict_proba(NEW))


def test_regressors_are_the_same():
    for engine in ("exact", "ivm"):
        model = GPRegressor(RBF(0.6, 4.0), inference=engine, optimizer=None).fit(MOONS, MOONS[:, 0] ** 2)
        twin = unpickled(model)
        assert PACKED in vars(twin)
        expected = np.array(model.predict(NEW, return_std=True))
        assert_allclose(np.array(twin.predict(NEW, return_std=True)), expected, rtol=1e-12, atol=1e-12)
        assert twin.posterior_.log_evidence == model.posterior_.log_evidence


def test_training_continues_after_unpickling():
    for engine in (IVM(active=15), SVGP(n_inducing=5, epochs=1), ScalableEP(n_inducing=5, epochs=1)):
        model = GPClassifier(RBF(0.6, 4.0), inference=engine, optimizer=None, random_state=0).fit(MOONS[:40], HALVES[:40])
        twin = unpickled(model)
        for one in (model, twin):
            one.partial_fit(MOONS[40:], HALVES[40:])
        assert_allclose(twin.predict_proba(NEW), model.predict_proba(NEW), rtol=1e-10)
        again = unpickled(twin).fit(MOONS[:40], HALVES[:40])
        assert PACKED not in vars(again)


def test_a_sampler_keeps_its_chains():
    sampler = gpclass.sampling.HMC(n_draws=20, n_warmup=20, random_state=0)
    model = GPClassifier(RBF(0.6, 4.0), inference=sampler, optimizer=None).fit(MOONS[:20], HALVES[:20])
    twin = unpickled(model)
    assert_array_equal(twin.predict_proba(NEW), model.predict_proba(NEW))
    assert twin.posterior_.walk is not None


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("engine", ["laplace", "nested-ep", "independent-ep", "variational-mnl"])
def test_pickles_are_smaller_than_those_of_scikit_learn(engine):
    X, y = load_digits(return_X_y=True)
    X, y = X[:100], y[:100]
    theirs = len(pickle.dumps(GaussianProcessClassifier(optimizer=None).fit(X, y)))
    ours = len(pickle.dumps(GPClassifier(inference=engine, optimizer=None).fit(X, y)))
    assert ours < theirs
    assert ours < 12 * X.nbytes  # it grows with the number of rows, not with its square


def test_a_stack_is_smaller_than_one_classifier_of_scikit_learn():
    theirs = len(pickle.dumps(GaussianProcessClassifier(optimizer=None).fit(IRIS, KINDS)))
    assert len(pickle.dumps(GPClassifier(kernel="auto", max_iter=2).fit(IRIS, KINDS))) < theirs


def test_the_posterior_is_rebuilt_once_and_when_it_is_used(monkeypatch):
    calls = []
    rebuild = posteriors.set_posterior
    monkeypatch.setattr(posteriors, "set_posterior", lambda *given: (calls.append(1), rebuild(*given)))
    twin = unpickled(fitted("ep"))
    assert twin.classes_.tolist() == [0, 1]
    assert len(pickle.dumps(unpickled(twin))) == len(pickle.dumps(twin))
    assert not calls
    threads = [threading.Thread(target=twin.predict_proba, args=(NEW,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    twin.loo()
    assert len(calls) == 1
    assert PACKED not in vars(twin)


def test_copies_share_or_copy_the_posterior_without_rebuilding(monkeypatch):
    model = fitted("nested-ep", several=True)
    packed = unpickled(model)
    monkeypatch.setattr(posteriors, "posterior_state", None)  # nothing is compressed
    assert copy.copy(model).posterior_ is model.posterior_
    twin = copy.deepcopy(model)
    assert twin.posterior_ is not model.posterior_
    assert PACKED not in vars(twin)
    assert_array_equal(twin.predict_proba(NEW_IRIS), model.predict_proba(NEW_IRIS))
    assert copy.copy(packed).posterior_ is packed.posterior_
    assert_array_equal(copy.deepcopy(packed).predict_proba(NEW_IRIS), model.predict_proba(NEW_IRIS))
    assert not hasattr(clone(model), "posterior_")
    with pytest.raises(AttributeError, match="'GPClassifier' object has no attribute 'posterior_'"):
        _ = clone(model).posterior_
    with pytest.raises(AttributeError, match="not fitted yet"):  # the errors of properties are kept
        _ = clone(model).members_
    with pytest.raises(AttributeError) as error:
        _ = model.partial_fit
    assert "partial_fit needs an engine that supports it" in str(error.value.__cause__)


def test_joblib_stores_and_recognises_models(tmp_path):
    model = fitted("ep")
    joblib.dump(model, tmp_path / "model.joblib")
    assert_array_equal(joblib.load(tmp_path / "model.joblib").predict_proba(NEW), model.predict_proba(NEW))
    assert joblib.hash(model) == joblib.hash(unpickled(model)) == joblib.hash(copy.deepcopy(model))
    assert joblib.hash(model) != joblib.hash(fitted("laplace"))
    memory = joblib.Memory(tmp_path, verbose=0)
    assert_array_equal(memory.cache(proba)(unpickled(model)), proba(model))


def proba(model):
    return model.predict_proba(NEW)


def test_saving_an_unpickled_model(tmp_path):
    model = fitted("ep")
    gpclass.save(unpickled(model), tmp_path / "model")
    assert_allclose(gpclass.load(tmp_path / "model").predict_proba(NEW), model.predict_proba(NEW), rtol=1e-12)
    assert_array_equal(unpickled(gpclass.load(tmp_path / "model")).predict_proba(NEW), model.predict_proba(NEW))


class Own(EP):
    """An engine of another package, whose posterior cannot be rebuilt."""

    restorable = False

    def fit(self, K, y, likelihood=None, start=None):
        found = super().fit(K, y, likelihood or Probit(), start)
        return Fit(self, OwnPosterior(found.posterior), found.y, found.likelihood, found.status, found.log_evidence)


class OwnPosterior:
    def __init__(self, inner):
        self.inner, self.sites, self.latent = inner, inner.sites, inner.latent

    def predict(self, Ks, kd):
        return self.inner.predict(Ks, kd)


def test_posteriors_that_cannot_be_rebuilt_are_pickled_as_they_are():
    model = GPClassifier(RBF(0.6, 4.0), inference=Own(), optimizer=None, calibrate=None).fit(MOONS, HALVES)
    twin = unpickled(model)
    assert PACKED not in vars(twin)
    assert_array_equal(twin.predict_proba(NEW), model.predict_proba(NEW))
    with pytest.raises(TypeError, match=r"fits of Own cannot be rebuilt from their state \(Engine.restorable\)"):
        posteriors.posterior_state(model)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("engine", "several"), [("ep", False), ("nested-ep", True), ("ivm", True), ("scalable-ep", True)])
def test_skops_stores_models_of_trusted_types(engine, several):
    skops = pytest.importorskip("skops.io")
    model, X = fitted(engine, several), NEW_IRIS if several else NEW
    content = skops.dumps(model)
    assert set(skops.get_untrusted_types(data=content)) <= set(gpclass.persist.trusted_types())
    twin = skops.loads(content, trusted=gpclass.persist.trusted_types())
    assert_same(model, twin, X)


def test_skops_stores_stacks_frames_and_pipelines():
    skops = pytest.importorskip("skops.io")
    trusted = gpclass.persist.trusted_types()
    frame = pd.DataFrame({"a": MOONS[:, 0], "kind": np.where(MOONS[:, 1] > 0, "up", "down")})
    stack, text = GPClassifier(kernel="auto", max_iter=2), np.where(HALVES == 1, "yes", "no")
    models = [(stack.fit(MOONS, text), MOONS), (GPClassifier(max_iter=2).fit(frame, HALVES), frame)]
    models.append((make_pipeline(StandardScaler(), GPClassifier(max_iter=2)).fit(MOONS, HALVES), MOONS))
    for model, X in models:
        twin = skops.loads(skops.dumps(model), trusted=trusted)
        assert_array_equal(twin.predict_proba(X), model.predict_proba(X))
        assert_array_equal(twin.predict(X), model.predict(X))
    regressor = GPRegressor(max_iter=2).fit(MOONS, MOONS[:, 0])
    assert_array_equal(skops.loads(skops.dumps(regressor), trusted=trusted).predict(NEW), regressor.predict(NEW))


def test_trusted_types_are_classes_of_gpclass_that_exist():
    listed = [name for name in gpclass.persist.trusted_types() if name.startswith("gpclass.")]
    assert len(listed) > 60
    for name in listed:
        module, _, cls = name.rpartition(".")
        assert isinstance(vars(__import__(module, fromlist=[cls]))[cls], type)
    page = (Path(__file__).parents[1] / "docs" / "model_format.md").read_text(encoding="utf-8")
    section = page.split("## Pickle, skops and MLflow")[1].split("\n## ")[0]
    assert set(re.findall(r"^    (gpclass\.\S+)$", section, re.M)) == set(listed)  # the list in the documentation
