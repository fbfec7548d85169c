"""Rows far from the training data."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris, make_moons
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpclass import GPClassifier
from gpclass.assess import far_rows, nearness
from gpclass.kernels import RBF, PerClass


@pytest.fixture(scope="module")
def moons():
    return make_moons(80, noise=0.25, random_state=0)


def test_nearness_is_the_largest_correlation(moons):
    X, y = moons
    model = make_pipeline(StandardScaler(), GPClassifier(kernel=RBF(0.5, 7.0), optimizer=None)).fit(X[:50], y[:50])
    Z, A = model[0].transform(X[50:]), model[0].transform(X[:50])
    squared = ((Z[:, None] - A) ** 2).sum(2).min(1)
    assert_allclose(nearness(model, X[50:]), np.exp(-0.5 * squared / 0.5**2))
    assert_allclose(nearness(model, X[:50]), 1)


def test_far_rows_are_far(moons):
    X, y = moons
    clf = GPClassifier(kernel=RBF(0.5, 7.0), optimizer=None).fit(X[:50], y[:50])
    assert far_rows(clf, X[50:]).mean() < 0.1
    assert far_rows(clf, X[50:] + 5).all()
    assert not far_rows(clf, X[:50]).any()
    # where the lengthscale is long, the model extrapolates
    assert not far_rows(GPClassifier(kernel=RBF(100.0, 7.0), optimizer=None).fit(X[:50], y[:50]), X[50:] + 5).any()


def test_nearness_with_a_kernel_for_each_class():
    X, y = load_iris(return_X_y=True)
    many = PerClass(RBF(1.0), RBF(2.0), RBF(3.0))
    found = [GPClassifier(kernel=k, inference="laplace", optimizer=None).fit(X[::3], y[::3]) for k in (many, RBF(3.0))]
    assert_allclose(nearness(found[0], X), nearness(found[1], X))  # a row that is near for one class is near
