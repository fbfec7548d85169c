"""What bars of relevance show, read back from matplotlib's objects."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris

from gpclass.assess import (
    plot_relevance,
)
from gpclass.assess.plots import relevances
from gpclass.kernels import RBF, Linear, Matern32

plt = pytest.importorskip("matplotlib.pyplot")
IRIS = load_iris()


# relevance --------------------------------------------------------------------------------------------------------------


def test_relevances_of_parts_of_a_kernel():
    kernel = RBF([1.0, 4.0]) + Matern32([2.0, 0.5]) * RBF(3.0) + Linear()
    assert_allclose(relevances(kernel)["RBF"], [1, 0.25])
    assert_allclose(relevances(kernel)["Matern32"], [0.5, 2])
    assert list(relevances(RBF([1.0, 2.0]) + RBF([3.0, 4.0]))) == ["RBF 1", "RBF 2"]
    assert relevances(RBF(2.0)) == {}


def test_bars_of_relevance(iris):
    ax = plot_relevance(iris, IRIS.feature_names)
    assert_allclose([bar.get_width() for bar in ax.patches], [2.0, 1.0, 0.5, 0.25])
    assert [t.get_text() for t in ax.get_yticklabels()][:2] == ["petal width (cm)", "petal length (cm)"]
    low, high = ax.get_ylim()
    assert low > high  # the most relevant on top
    many = plot_relevance(RBF(np.arange(1.0, 41.0)))
    assert len(many.patches) == 30
    assert "10 more below" in many.get_xlabel()


def test_relevance_errors(iris):
    with pytest.raises(ValueError, match="has a lengthscale for each input"):
        plot_relevance(RBF(2.0))
    with pytest.raises(ValueError, match="4 lengthscales but 2 names"):
        plot_relevance(iris, ["a", "b"])
    with pytest.raises(ValueError, match="part must be one of"):
        plot_relevance(iris, part="Linear")
