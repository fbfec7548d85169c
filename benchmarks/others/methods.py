"""The methods by name: each makes an estimator with `fit` and `predict_proba`, of library defaults unless it says otherwise.

Trees get the columns as they are, the others standardised by the training rows. Every random number comes from SEED.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process import kernels as sk
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

SEED = 0
OURS, BEFORE = "gpclass", "gpclass before"
CALIBRATED = ", calibrated"
Maker = Callable[[int, int], BaseEstimator]  # of the numbers of columns and classes


def scaled(model) -> BaseEstimator:
    return make_pipeline(StandardScaler(), model)


def logistic(d: int, C: int):
    """The penalty is chosen by the log loss of five folds."""
    return scaled(LogisticRegressionCV(scoring="neg_log_loss", max_iter=1000, l1_ratios=(0,), use_legacy_attributes=False))


def forest(d: int, C: int):
    return RandomForestClassifier(random_state=SEED)


def histogram(d: int, C: int):
    return HistGradientBoostingClassifier(random_state=SEED)


def catboost(d: int, C: int, most: float = 1000):
    """1000 rounds, the default; with several classes 200 where columns × classes are more than `most`: a fit takes minutes.

    CatBoost sets its rate by the rounds, and loses little: on nine smaller tables 200 rounds had 0.455, 1000 0.444.
    """
    from catboost import CatBoostClassifier

    rounds = {"iterations": 200} if C > 2 and d * C > most else {}
    return CatBoostClassifier(thread_count=1, verbose=0, random_seed=SEED, allow_writing_files=False, **rounds)


def xgboost(d: int, C: int):
    from xgboost import XGBClassifier

    return XGBClassifier(n_jobs=1, random_state=SEED)


def lightgbm(d: int, C: int):
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_jobs=1, random_state=SEED, verbose=-1)


class TunedSVC(ClassifierMixin, BaseEstimator):
    """SVC with C and gamma by five folds, then libsvm's own probabilities, which couple pairs of classes.

    CalibratedClassifierCV, which scikit-learn recommends in its place, treats each class against the rest.
    """

    def fit(self, X, y):
        grid = {"C": [1, 10, 100], "gamma": list(np.array([0.1, 1, 10]) / X.shape[1])}
        best = GridSearchCV(SVC(), grid).fit(X, y).best_params_
        self.model_ = SVC(**best, probability=True, random_state=SEED).fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X):
        return self.model_.predict_proba(X)


def svc(d: int, C: int):
    return scaled(TunedSVC())


def mlp(d: int, C: int):
    """As many as 1000 rounds, where the default is 200 and a warning."""
    return scaled(MLPClassifier(max_iter=1000, random_state=SEED))


def neighbours(d: int, C: int):
    return scaled(KNeighborsClassifier())


def sklearn_gp(d: int, C: int):
    """The default kernel is not learned; this one is, from a lengthscale that suits standardised columns."""
    return scaled(GaussianProcessClassifier(sk.ConstantKernel(1.0) * sk.RBF(np.sqrt(d)), random_state=SEED))


def calibrated(make: Maker, d: int, C: int):
    return CalibratedClassifierCV(make(d, C), method="sigmoid", cv=5)


def ours(d: int, C: int):
    from gpclass import GPClassifier

    return scaled(GPClassifier(random_state=SEED))


class Before(ClassifierMixin, BaseEstimator):
    """The default of gpclass at 8478114 (now with a scan of starts): one RBF, without calibration."""

    def fit(self, X, y):
        from gpclass import GPClassifier
        from gpclass.kernels import RBF
        from gpclass.learning import typical_distance

        start = typical_distance(X, np.random.default_rng(SEED))
        self.model_ = GPClassifier(RBF(lengthscale=start, variance=4.0), calibrate=None, random_state=SEED).fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X):
        return self.model_.predict_proba(X)


def before(d: int, C: int):
    return scaled(Before())


def variant(expression: str) -> Maker:
    """A classifier of gpclass from the command line, such as `GPClassifier(kernel="auto")`."""
    import gpclass
    from gpclass import kernels

    known = {**vars(kernels), "gpclass": gpclass, "GPClassifier": gpclass.GPClassifier, "np": np}

    def make(d: int, C: int):
        return scaled(eval(expression, {**known, "d": d, "C": C}))

    return make


METHODS: dict[str, Maker] = {
    "logistic regression": logistic,
    "random forest": forest,
    "HistGradientBoosting": histogram,
    "XGBoost": xgboost,
    "LightGBM": lightgbm,
    "CatBoost": catboost,
    "SVC": svc,
    "MLP": mlp,
    "k nearest neighbours": neighbours,
    "scikit-learn's GP": sklearn_gp,
}
UNCALIBRATED = (
    "random forest",
    "HistGradientBoosting",
    "XGBoost",
    "LightGBM",
    "CatBoost",
    "MLP",
    "k nearest neighbours",
)
METHODS |= {name + CALIBRATED: partial(calibrated, METHODS[name]) for name in UNCALIBRATED}
METHODS["CatBoost" + CALIBRATED] = partial(calibrated, partial(catboost, most=0))  # each fit is five
METHODS |= {OURS: ours, BEFORE: before}
