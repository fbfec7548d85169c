"""Engines compared on the same data."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris, make_moons
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpclass import GPClassifier
from gpclass.assess import compare_engines, evidence_surface
from gpclass.choose import default_engines
from gpclass.inference import NestedEP
from gpclass.kernels import RBF
from gpclass.likelihoods import MultinomialProbit


@pytest.fixture(scope="module")
def moons():
    return make_moons(80, noise=0.25, random_state=0)


def test_each_engine_has_the_figures_of_its_own_fit(moons):
    X, y = moons
    model = make_pipeline(StandardScaler(), GPClassifier(calibrate=None)).fit(X[:50], y[:50])
    rows = compare_engines(model, X[:50], y[:50], X[50:], y[50:], ["laplace", "ep", "no-such-engine"])
    named = {row.name: row for row in rows}
    assert set(named) == {"EP", "Laplace", "no-such-engine"}  # "ep" is the model's own
    assert [row.own for row in rows].count(True) == 1
    assert named["EP"].log_evidence == model[-1].log_evidence_
    assert_array_equal(named["EP"].probabilities, model.predict_proba(X[50:]))
    assert "not known" in named["no-such-engine"].note
    assert np.isnan(named["no-such-engine"].nlpd)
    assert rows[-1].name == "no-such-engine"  # failed engines come last
    alone = GPClassifier(model[-1].kernel_, inference="laplace", calibrate=None).fit(model[0].transform(X[:50]), y[:50])
    assert_allclose(named["Laplace"].log_evidence, alone.log_evidence_, rtol=1e-6)
    p = alone.predict_proba(model[0].transform(X[50:]))
    assert_allclose(named["Laplace"].nlpd, -np.mean(np.log(p[np.arange(30), y[50:]])), rtol=1e-6)
    assert_allclose(named["Laplace"].loo_nlpd, -np.mean(np.log(alone.loo()[np.arange(50), y[:50]])), rtol=1e-6)
    assert named["EP"].nlpd < named["Laplace"].nlpd  # the order of the papers and of the list
    assert all(row.seconds > 0 for row in rows[:2])


def test_default_engines_fit_the_size():
    assert "kl" in default_engines(100, 2)
    assert "kl" not in default_engines(1500, 2)
    assert "nested-ep" in default_engines(100, 3)
    assert "ep" not in default_engines(100_000, 2)


def test_surface_of_several_classes_is_that_of_single_fits():
    X, y = load_iris(return_X_y=True)
    X, y = X[::5], np.array(["a", "b", "c"])[y[::5]]
    surface = evidence_surface(X, y, log_lengthscales=[0.0, 1.0], log_scales=[0.5, 1.5], X_test=X, y_test=y)
    codes = np.searchsorted(["a", "b", "c"], y)
    for i, s in enumerate([0.5, 1.5]):
        for j, ell in enumerate([0.0, 1.0]):
            k = RBF(np.exp(ell), np.exp(2 * s))
            fit = NestedEP().fit(k(X), codes, MultinomialProbit(3))
            assert_allclose(surface.log_evidence[i, j], fit.log_evidence, atol=1e-4)  # starts differ
            p = MultinomialProbit(3).predictive(*fit.predict(k(X), k.diag(X)))
            assert surface.errors[i, j] == np.sum(p.argmax(1) != codes)
    assert np.isnan(surface.jensen_bound).all()
    with pytest.raises(ValueError, match="3 classes; it has 2"):
        evidence_surface(X[:12], y[:12], likelihood=MultinomialProbit(3))
