"""GPClassifier with engines on active rows: against full engines, stored attributes, errors."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification

from gpclass import GPClassifier
from gpclass.inference import EP, VariationalMNL
from gpclass.kernels import RBF, ClassCovariance, Correlated
from gpclass.likelihoods import Softmax
from gpclass.registry import registered
from gpclass.sampling import audit
from gpclass.sparse import IVM, SparseVariationalMNL

X2, y2 = make_classification(120, 3, n_informative=3, n_redundant=0, class_sep=1.5, random_state=0)
X3, y3 = load_iris(return_X_y=True)
X3, y3 = X3[::3], y3[::3]
HELD = {"kernel": RBF(1.5, 4.0), "optimizer": None}


def test_all_rows_active_and_swept_is_ep():
    full = GPClassifier(**HELD, inference=EP()).fit(X2, y2)
    ivm = GPClassifier(**HELD, inference=IVM(active=120, sweeps=100, tol=1e-9)).fit(X2, y2)
    assert_allclose(ivm.predict_proba(X2), full.predict_proba(X2), atol=1e-7)
    assert sorted(ivm.active_indices_) == list(range(120))


def test_predictions_need_the_active_rows_only():
    ivm = GPClassifier(inference=IVM(active=30)).fit(X2, y2)
    assert ivm.inputs_.shape == (30, 3)
    assert_allclose(ivm.inputs_, X2[ivm.active_indices_])
    assert ivm.score(X2, y2) > 0.8
    assert ivm.loo().shape == (120, 2)
    again = pickle.loads(pickle.dumps(ivm))
    assert_allclose(again.predict_proba(X2), ivm.predict_proba(X2), rtol=1e-12)  # covariances are recomputed
    assert_allclose(clone(ivm).fit(X2, y2).predict_proba(X2), ivm.predict_proba(X2), rtol=1e-10)


def test_several_classes():
    ivm = GPClassifier(**HELD, inference=IVM(active=45)).fit(X3, y3)
    assert ivm.score(X3, y3) > 0.9


def test_variational_logit_full_and_sparse():
    full = GPClassifier(inference="variational-mnl", calibrate=None).fit(X3, y3)
    assert isinstance(full.likelihood_, Softmax)
    lower, upper = full.predictive_bounds(X3)
    p = full.predict_proba(X3)
    assert np.all(lower <= p + 1e-3)  # the quadrature of p is accurate to 1e-3
    assert np.all(p <= upper + 1e-3)
    whole = GPClassifier(**HELD, inference=VariationalMNL()).fit(X3, y3)
    sparse = GPClassifier(**HELD, inference=SparseVariationalMNL(inducing=60)).fit(X3, y3)
    assert sparse.log_evidence_ < whole.log_evidence_ + 1e-6
    assert sparse.log_evidence_ > whole.log_evidence_ - 1.0
    assert len(sparse.inputs_) == len(sparse.active_indices_)
    assert GPClassifier(inference=SparseVariationalMNL(inducing=15, selection="k-means")).fit(X3, y3).score(X3, y3) > 0.9


def test_correlated_classes():
    kernel = Correlated(RBF(2.0, 4.0).fix("variance"), ClassCovariance(3, "free"))
    clf = GPClassifier(kernel=kernel, inference="variational-mnl").fit(X3, y3)
    plain = GPClassifier(kernel=RBF(2.0, 4.0).fix("variance"), inference="variational-mnl").fit(X3, y3)
    assert clf.log_evidence_ > plain.log_evidence_
    assert np.any(clf.kernel_.classes.matrix - np.diag(np.diag(clf.kernel_.classes.matrix)) != 0)
    for name, engine in registered("engine").items():
        if engine.latents != "one" and not engine.correlated:
            with pytest.raises(TypeError, match=r"does not support correlated classes .* use VariationalMNL or Sparse"):
                GPClassifier(kernel=kernel, inference=name).fit(X3, y3)


def test_what_cannot_be_asked():
    ivm = GPClassifier(**HELD, inference=IVM(active=20)).fit(X2, y2)
    assert ivm.log_evidence() == ivm.log_evidence_
    with pytest.raises(AttributeError, match="needs the training rows"):
        ivm.log_evidence(ivm.kernel_.theta)
    with pytest.raises(TypeError, match="does not keep its training rows, so audit needs rows with labels"):
        audit(ivm)
    with pytest.raises(AttributeError, match="gives no bounds"):
        ivm.predictive_bounds(X2)
