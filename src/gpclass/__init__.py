"""Gaussian process classification: every serious approximation behind one scikit-learn estimator.

    from gpclass import GPClassifier
    clf = GPClassifier(inference="ep").fit(X, y)
    clf.predict_proba(Xt)

    gpclass.save(clf, "model.gpclass"); clf = gpclass.load("model.gpclass")

Below the estimator: kernels, likelihoods, inference (engines on a covariance matrix), learning, assess, datasets, testing.
"""

from ._version import __version__
from .assess import suggest
from .estimator import GPClassifier
from .persist import ModelFileError, load, save
from .registry import register
from .regressor import GPRegressor

__all__ = ["GPClassifier", "GPRegressor", "ModelFileError", "__version__", "load", "register", "save", "suggest"]
