"""A failed fit does not change the estimator, and a successful fit removes everything of an earlier one."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from gpclass import GPClassifier, GPRegressor
from gpclass.inference import EP
from gpclass.sparse import IVM, ScalableEP

rng = np.random.default_rng(3)
X = rng.standard_normal((24, 2))
TARGETS = X[:, 0] + 0.3 * rng.standard_normal(24)
LABELS = np.where(TARGETS > 0, "yes", "no")
OTHERS = np.where(TARGETS > 0, "a", "b")  # sorted in the other order
G = rng.standard_normal((8, 2))


@dataclass(frozen=True)
class Stopped(EP):
    """EP that is interrupted as by Ctrl-C."""

    def fit(self, K, y, likelihood, start=None):
        raise KeyboardInterrupt


@pytest.mark.parametrize("change", [{"inference": Stopped()}, {"likelihood": "poisson"}], ids=["interrupted", "refused"])
def test_a_failed_fit_does_not_join_new_labels_to_the_old_posterior(change):
    model = GPClassifier("rbf").fit(X, LABELS)
    p, before = model.predict_proba(G), dict(vars(model))
    with pytest.raises((KeyboardInterrupt, ValueError)):
        model.set_params(**change).fit(pd.DataFrame({"u": X[:, 0], "v": np.where(X[:, 1] > 0, "a", "b")}), OTHERS)
    assert model.classes_.tolist() == ["no", "yes"]
    assert {name for name in vars(model) if name.endswith("_")} == {name for name in before if name.endswith("_")}
    assert_array_equal(model.predict_proba(G), p)


def test_a_failed_first_fit_leaves_an_unfitted_classifier():
    model = GPClassifier("rbf", inference=Stopped())
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, LABELS)
    assert not [name for name in vars(model) if name.endswith("_")]


def test_a_failed_fit_does_not_join_the_new_scale_of_targets_to_the_old_posterior():
    model = GPRegressor("rbf").fit(X, TARGETS)
    mean = model.predict(G)
    with pytest.raises(KeyboardInterrupt):
        model.set_params(inference=Stopped()).fit(X, 1000 + 50 * TARGETS)
    assert_array_equal(model.predict(G), mean)


def test_rows_of_a_stream_are_not_encoded_as_those_of_an_earlier_data_frame():
    frame = pd.DataFrame({"u": X[:, 0], "v": np.where(X[:, 1] > 0, "a", "b")})
    engine = ScalableEP(n_inducing=5, batch_size=12, epochs=1)
    model, fresh = (GPClassifier("rbf", inference=engine, random_state=0) for _ in range(2))
    model.fit(frame, LABELS)
    stream = [(X[:12], LABELS[:12]), (X[12:], LABELS[12:])]
    assert_array_equal(model.fit(stream).predict_proba(G), fresh.fit(stream).predict_proba(G))
    assert vars(model).keys() == vars(fresh).keys()


@pytest.mark.parametrize(("model", "y"), [(GPClassifier, LABELS), (GPRegressor, TARGETS)])
def test_rows_of_weight_zero_are_counted_in_the_numbers_of_further_rows(model, y):
    weight = np.arange(12) % 3.0
    more = model("rbf", inference=IVM(active=10), optimizer=None).fit(X[:12], y[:12])
    more.partial_fit(X[12:], y[12:], sample_weight=weight)
    assert more.n_samples_seen_ == 24
    assert np.any(more.active_indices_ >= 12)
    assert_array_equal(more.inputs_, X[more.active_indices_])
