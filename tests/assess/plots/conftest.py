"""Figures are drawn without a display and closed after each test."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_moons
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpclass import GPClassifier
from gpclass.kernels import RBF


@pytest.fixture(autouse=True)
def _headless():
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    yield
    plt.close("all")


@pytest.fixture(scope="package")
def moons():
    X, y = make_moons(60, noise=0.2, random_state=0)
    return GPClassifier(kernel=RBF(0.7, 9.0), optimizer=None).fit(X, np.array(["no", "$es"])[y]), X, y


@pytest.fixture(scope="package")
def iris():
    data = load_iris()
    model = make_pipeline(StandardScaler(), GPClassifier(kernel=RBF([2.0, 4.0, 1.0, 0.5], 9.0), optimizer=None))
    return model.fit(data.data[::3], data.target_names[data.target[::3]])
