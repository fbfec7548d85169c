"""Gaussian process classification: every serious approximation behind one scikit-learn estimator.

    from gpclass import GPClassifier
    clf = GPClassifier(inference="ep").fit(X, y)
    clf.predict_proba(Xt)

Below the estimator: kernels, likelihoods, inference (engines on a covariance matrix), learning, assess, datasets, testing.
"""

from ._version import __version__
from .estimator import GPClassifier
from .regressor import GPRegressor

__all__ = ["GPClassifier", "GPRegressor", "__version__"]
