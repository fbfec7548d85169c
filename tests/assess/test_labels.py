"""Labels that were changed on purpose are found first."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpclass import GPClassifier
from gpclass.assess import suspicious_labels
from gpclass.kernels import RBF


def with_errors(y, seed, part=0.05):
    """Return y with this share of its labels changed to another class, and the numbers of these rows."""
    rng, n_classes = np.random.default_rng(seed), len(np.unique(y))
    rows = rng.choice(len(y), round(part * len(y)), replace=False)
    wrong = y.copy()
    wrong[rows] = (y[rows] + rng.integers(1, n_classes, len(rows))) % n_classes
    return wrong, rows


@pytest.mark.quick_cases("load_iris-0", "load_wine-1", "load_breast_cancer-2")
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer])
def test_planted_errors_are_found(load, seed):
    X, y = load(return_X_y=True)
    wrong, rows = with_errors(y, seed)
    model = make_pipeline(StandardScaler(), GPClassifier()).fit(X, wrong)
    top = suspicious_labels(model).head(len(y) // 10)
    found = np.isin(rows, top.index)
    assert found.mean() >= 0.8  # a lower bound: the measured figure is 1.0 in nearly all cases
    planted = np.isin(top.index, rows)
    assert np.mean(top.suggested[planted] == y[top.index[planted]]) >= 0.8  # and the right label is suggested


def test_errors_are_found_by_folds():
    X, y = load_iris(return_X_y=True)
    wrong, rows = with_errors(y, 0)
    clf = GPClassifier(kernel=RBF(1.5, 9.0), optimizer=None, inference="scalable-ep").fit(X, wrong)
    with pytest.raises(ValueError, match="ScalableEP has no leave-one-out probabilities: pass X and y"):
        suspicious_labels(clf)
    checked = suspicious_labels(clf, X, wrong)
    assert np.isin(rows, checked.index[:15]).mean() >= 0.8
    assert_array_equal(checked.index, suspicious_labels(clf, X, wrong).index)


def test_what_comes_back_belongs_together():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])
    clf = GPClassifier(kernel=RBF(1.5, 9.0), optimizer=None).fit(X, names[y])
    checked, p = suspicious_labels(clf), clf.loo()
    assert_array_equal(np.sort(checked.index), np.arange(150))
    assert_array_equal(checked.label, names[y][checked.index])
    assert_allclose(checked.probability, p[checked.index, y[checked.index]])
    assert np.all(np.diff(checked.probability) >= 0)
    assert np.all(checked.suggested != checked.label)
    other = np.searchsorted(names, checked.suggested.to_numpy(str))
    assert_allclose(checked.suggested_probability, p[checked.index, other])
    assert list(checked.columns) == ["label", "probability", "suggested", "suggested_probability"]
    assert checked.index.name == "row"


def test_labels_of_another_table_are_refused():
    X, y = load_iris(return_X_y=True)
    clf = GPClassifier(kernel=RBF(1.5, 9.0), optimizer=None).fit(X, y)
    with pytest.raises(ValueError, match="not what the model was fitted to"):
        suspicious_labels(clf, X, y[::-1])
