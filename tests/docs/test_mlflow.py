"""MLflow saves and loads fitted classifiers, as docs/howto/production.md says."""

import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import load_iris

from gpclass import GPClassifier
from gpclass.persist import trusted_types


@pytest.mark.parametrize("settings", [{"serialization_format": "pickle"}, {"serialization_format": "skops"}], ids=str)
def test_a_classifier_is_saved_and_loaded(settings, tmp_path):
    mlflow = pytest.importorskip("mlflow.sklearn", reason="needs MLflow: pip install mlflow")
    if settings["serialization_format"] == "skops":
        settings = {**settings, "skops_trusted_types": trusted_types()}
    X, y = load_iris(return_X_y=True)
    model = GPClassifier("rbf", optimizer=None).fit(X[::5], y[::5])
    mlflow.save_model(model, str(tmp_path / "model"), **settings)
    again = mlflow.load_model(str(tmp_path / "model"))
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))
