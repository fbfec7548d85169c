"""Gaussian process classification with a scikit-learn interface and many inference methods.

    from gpclass import GPClassifier
    clf = GPClassifier(inference="ep").fit(X, y)
    clf.predict_proba(Xt)

    gpclass.save(clf, "model.gpclass"); clf = gpclass.load("model.gpclass")

Subpackages: kernels, likelihoods, inference (engines that use all rows), learning, assess, datasets, testing and others.
"""

from typing import TYPE_CHECKING

from ._lazy import lazy_names
from ._version import __version__

__all__ = ["GPClassifier", "GPRegressor", "ModelFileError", "__version__", "load", "register", "save", "suggest"]

# Imported when first used: NumPy, SciPy and scikit-learn take a second to load, and `gpclass --help` needs none of them.
NAMES = {
    "GPClassifier": "estimator",
    "GPRegressor": "regressor",
    "ModelFileError": "persist",
    "load": "persist",
    "register": "choose",  # imports our own engines and likelihoods, so that they are registered first
    "save": "persist",
    "suggest": "assess",
}
PARTS = (
    "assess",
    "datasets",
    "distributed",
    "engines",
    "explore",
    "fitting",
    "gaussian",
    "inference",
    "inputs",
    "kernels",
    "learning",
    "likelihoods",
    "numerics",
    "persist",
    "progress",
    "sampling",
    "sparse",
    "tables",
    "testing",
)

if TYPE_CHECKING:
    from . import (  # noqa: F401
        assess,
        datasets,
        engines,
        explore,
        gaussian,
        inference,
        inputs,
        kernels,
        learning,
        likelihoods,
        numerics,
        persist,
        progress,
        sampling,
        sparse,
        tables,
        testing,
    )
    from .assess import suggest
    from .choose import register
    from .estimator import GPClassifier
    from .persist import ModelFileError, load, save
    from .regressor import GPRegressor
else:
    __getattr__, __dir__ = lazy_names(__name__, NAMES, PARTS)
