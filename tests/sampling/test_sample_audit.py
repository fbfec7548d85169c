"""Audits on a sample: good if all rows are inducing inputs, bad if there are three."""

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpclass import GPClassifier
from gpclass.inference import EP, NestedEP
from gpclass.kernels import RBF
from gpclass.sampling import HMC, audit
from gpclass.sampling.sample_audit import _stratified_sample
from gpclass.sparse import GFITC, IVM, SVGP, CoupledScalableEP, ScalableEP, SparseVariationalMNL, StochasticEP


def rows(n, C=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    f = np.stack([np.sin(2 * X[:, 0]), X[:, 1], -X[:, 0]], axis=1)[:, :C]
    return X, np.array(["a", "b", "c"])[(2 * f + rng.gumbel(size=(n, C))).argmax(axis=1)]


def held(engine, X, y, **settings):
    return GPClassifier(RBF(0.7, 4.0), inference=engine, optimizer=None, random_state=0, **settings).fit(X, y)


@pytest.mark.parametrize("engine", [ScalableEP, GFITC])
def test_with_all_rows_as_inducing_inputs_the_engine_is_ep(engine):
    X, y = rows(120)
    found = audit(held(engine(n_inducing=120, learn_inputs=False), X, y), data=(X, y))
    assert found.probability_error_max < 1e-4  # the jitter of K_uu, about 1e-6
    assert "can be trusted" in found.verdict
    assert "EP on all rows of the sample" in found.verdict


@pytest.mark.parametrize("engine", [StochasticEP, SVGP])
def test_other_rules_differ_from_ep_by_their_own_error_only(engine):
    X, y = rows(120)
    found = audit(held(engine(n_inducing=120, learn_inputs=False), X, y), data=(X, y))
    assert 1e-5 < found.probability_error_max < 0.03
    assert "can be trusted" in found.verdict


@pytest.mark.parametrize("engine", [ScalableEP, StochasticEP, SVGP, GFITC])
def test_three_inducing_inputs_are_not_enough(engine):
    X, y = rows(120)
    found = audit(held(engine(n_inducing=3, learn_inputs=False), X, y), data=(X, y))
    assert found.n_inputs == 3
    assert found.probability_error_most > 0.2
    assert "do not trust class probabilities" in found.verdict


def test_the_figures_are_those_of_separate_fits():
    """Separate fits of both engines to the same rows with the same hyperparameters, by the public interface."""
    X, y = rows(90)
    new = rows(40, seed=1)[0]
    clf = held(ScalableEP(n_inducing=5, learn_inputs=False), X, y, calibrate=None)
    found = audit(clf, new, data=(X, y))
    exact = held(EP(), X, y, calibrate=None).predict_proba(new)
    gap = np.abs(clf.predict_proba(new) - exact)  # the model has the same rows, all of which are in the sample
    assert found.probability_error_max == pytest.approx(gap.max(), abs=1e-6)
    assert found.probability_error_mean == pytest.approx(gap.mean(), abs=1e-6)
    assert found.compared_at == "at 40 rows of X"
    assert found.scores == {}


def test_samples_have_more_rows_than_there_are_inducing_points(monkeypatch):
    monkeypatch.setattr("gpclass.sampling.sample_audit.ENGINE_ROWS", 40)
    X, y = rows(200)
    clf = held(ScalableEP(n_inducing=60, learn_inputs=False), X, y)
    found = audit(clf, data=(X, y))
    assert (found.n_inputs, found.n_points) == (60, 120)
    assert not found.too_few
    monkeypatch.setattr("gpclass.sampling.sample_audit.MOST_ROWS", 50)
    assert audit(clf, data=(X, y)).n_points == 50


@pytest.mark.parametrize(
    ("engine", "C"), [(ScalableEP, 2), (GFITC, 2), (SVGP, 3), (StochasticEP, 2), (CoupledScalableEP, 3)]
)
def test_tables_with_fewer_rows_than_inducing_points_are_said_to_be_too_small(engine, C):
    X, y = rows(200, C)
    clf = held(engine(n_inducing=60, learn_inputs=False), X, y)
    few, many = audit(clf, data=rows(30, C, seed=1)), audit(clf, data=(X, y))
    assert (few.n_inputs, few.n_points) == (60, 30)
    assert "may be larger, as the engine has 60 inputs for a sample of 30 rows" in few.verdict
    assert "may be larger" not in many.verdict
    assert few.probability_error_mean < 0.05


def test_scores_tell_what_many_rows_bring(monkeypatch):
    monkeypatch.setattr("gpclass.sampling.sample_audit.ENGINE_ROWS", 60)
    X, y = rows(600)
    clf = held(ScalableEP(n_inducing=30, learn_inputs=False), X, y)
    new = rows(500, seed=1)
    found = audit(clf, data=new)
    assert not found.seen
    assert found.n_trained == 600
    assert (found.n_points, found.n_compared) == (60, 440)
    assert found.scores["model"].nlpd < found.scores["reference"].nlpd - 0.02
    assert "not used for training" in repr(found)
    of_training_rows = audit(clf, data=(X, y))
    assert of_training_rows.seen
    assert "too good, because these rows are among them" in repr(of_training_rows)


@pytest.mark.parametrize(
    ("engine", "C", "reference"),
    [
        (IVM(active=30), 2, "EP"),
        (IVM(active=500), 3, "NestedEP"),  # more than the sample has
        (IVM(active=(20, 30, 40)), 3, "NestedEP"),
        (ScalableEP(n_inducing=20, per_class=True), 3, "NestedEP"),
        (SparseVariationalMNL(inducing=20), 3, "HMC"),
        (SparseVariationalMNL(inducing=120), 3, "HMC"),  # more than the latent values of the sample
    ],
)
def test_every_design_is_compared(engine, C, reference, monkeypatch):
    monkeypatch.setattr("gpclass.sampling.sample_audit.SAMPLER_ROWS", 30)
    X, y = rows(100, C)
    found = audit(held(engine, X, y), data=(X, y))
    assert found.reference == f"{reference} on all rows of the sample"
    assert 0 < found.probability_error_mean <= found.probability_error_most <= found.probability_error_max < 1
    assert (found.r_hat is not None) == (reference == "HMC")


def test_a_likelihood_without_another_engine_is_compared_with_all_rows_as_inducing_inputs():
    X, y = rows(60, 3)
    clf = held(ScalableEP(n_inducing=60, learn_inputs=False), X, y, likelihood="robust-max")
    found = audit(clf, data=(X, y))
    assert found.reference == "ScalableEP with all rows of the sample as inducing inputs"
    assert found.probability_error_max < 1e-6


def test_a_sampler_may_be_the_reference():
    X, y = rows(40)
    clf = held(ScalableEP(n_inducing=40, learn_inputs=False), X, y)
    found = audit(clf, data=(X, y), sampler=HMC(n_draws=300, n_warmup=200, random_state=0))
    assert found.reference.startswith("HMC")
    assert found.probability_error_max < 0.02 + 4 * found.probability_noise


def test_pipelines_and_frames():
    X, y = rows(80)
    frame = pd.DataFrame(X, columns=["u", "v"])
    model = make_pipeline(StandardScaler(), GPClassifier("rbf", inference=IVM(active=20))).fit(frame, y)
    assert len(audit(model, data=(frame, y)).to_frame()) == 3


def test_samples_keep_the_proportions_of_the_classes():
    place = np.repeat([0, 1, 2], [8000, 1500, 500])
    some = _stratified_sample(place, 200, np.random.default_rng(0))
    assert len(set(some)) == 200
    assert np.all(np.abs(np.bincount(place[some]) - [160, 30, 10]) <= 1)


def test_complaints():
    X, y = rows(60)
    clf = held(IVM(active=10), X, y)
    with pytest.raises(TypeError, match=r"pass data=\(X, y\)"):
        audit(clf)
    with pytest.raises(ValueError, match="60 rows but 59 labels"):
        audit(clf, data=(X, y[:-1]))
    with pytest.raises(ValueError, match="unknown"):
        audit(clf, data=(X, np.full(60, "unknown")))
    with pytest.raises(TypeError, match="NestedEP"):
        audit(clf, data=(X, y), sampler=NestedEP())
