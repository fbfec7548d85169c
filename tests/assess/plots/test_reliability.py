"""What reliability diagrams show, read back from matplotlib's objects."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import binomtest

from gpclass.assess.metrics import expected_calibration_error
from gpclass.assess.plots import plot_reliability, wilson

plt = pytest.importorskip("matplotlib.pyplot")


def test_reliability_of_two_classes_by_hand():
    p = np.array([0.05, 0.15, 0.15, 0.95, 1.0])
    y = np.array(["no", "no", "yes", "yes", "yes"])
    ax = plot_reliability(y, p)
    series = next(line for line in ax.lines if line.get_marker() == "o")
    assert_allclose(series.get_xydata(), [[0.05, 0], [0.15, 0.5], [0.975, 1]])
    assert ax.get_legend().get_texts()[0].get_text() == f"ECE {expected_calibration_error(y, p):.3f}"
    assert_allclose(plot_reliability(y, np.column_stack([1 - p, p])).lines[-1].get_xydata(), series.get_xydata())
    ax.figure.canvas.draw()


def test_reliability_of_many_classes_and_series():
    rng = np.random.default_rng(0)
    y, P = rng.integers(3, size=50), rng.dirichlet(np.ones(3), 50)
    ax = plot_reliability(y, {"a": P, "b": P**2 / (P**2).sum(1, keepdims=True)}, n_bins=1, ax=plt.subplots()[1])
    top = P.max(axis=1)
    point = next(line for line in ax.lines if line.get_marker() == "o").get_xydata()
    assert_allclose(point, [[top.mean(), np.mean(P.argmax(1) == y)]])
    assert ax.get_xlabel() == "probability of the top class"
    assert [t.get_text()[:6] for t in ax.get_legend().get_texts()] == ["a, ECE", "b, ECE"]


def test_interval_is_wilsons():
    for hits, n in [(0, 5), (3, 10), (40, 40)]:
        wanted = binomtest(hits, n).proportion_ci(0.95, method="wilson")
        assert_allclose(wilson(hits / n, n), wanted, atol=1e-5)  # 1.96 for 1.959964


def test_reliability_errors():
    with pytest.raises(ValueError, match="n_bins must be at least 1"):
        plot_reliability([0, 1], [0.2, 0.3], n_bins=0)
    with pytest.raises(ValueError, match="empty dict"):
        plot_reliability([0, 1], {})
    with pytest.raises(ValueError, match="y has 3 labels but p has 2 rows"):
        plot_reliability([0, 1, 1], [0.2, 0.3])
