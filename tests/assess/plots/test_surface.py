"""What the figures show, read back from matplotlib's objects; whether they are pretty is for people to judge."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import binomtest

from gpclass.assess.metrics import expected_calibration_error
from gpclass.assess.plots import contour_levels, plot_reliability, plot_surface, wilson
from gpclass.assess.surface import QUANTITIES, Surface

plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def _headless():
    plt.switch_backend("Agg")
    yield
    plt.close("all")


def hill(height=-40.0, at=(2.0, 1.0), q=6, p=5):
    a, b = np.linspace(-1, 5, p), np.linspace(-1, 4, q)
    distance = (a - at[0]) ** 2 + (b[:, None] - at[1]) ** 2
    value = height - 10 * distance
    return Surface(a, b, value, value - 1, np.ones((q, p), dtype=bool), 0.6 - 0.02 * distance, np.floor(20 + distance))


def stars(ax):
    return [tuple(line.get_xydata()[0]) for line in ax.lines if line.get_marker() == "*"]


def filled_levels(ax):
    return next(c for c in ax.collections if getattr(c, "filled", False)).levels


def test_panels_rows_are_quantities_and_columns_methods():
    surfaces = {"LA": hill(), "EP": hill(-30.0, (0.5, 3.0))}
    axes = plot_surface(surfaces, QUANTITIES)
    assert axes.shape == (4, 2)
    fig = axes[0, 0].figure
    panels = [ax for ax in fig.axes if ax.get_label() != "<colorbar>"]
    assert [ax.get_title() for ax in panels[:2]] == ["LA: -40.0", "EP: -30.0"]
    assert [ax.get_title() for ax in panels[-2:]] == ["LA: 20", "EP: 20"]
    for i in range(4):
        assert_array_equal(filled_levels(panels[2 * i]), filled_levels(panels[2 * i + 1]))
    assert_array_equal(filled_levels(panels[0]), filled_levels(panels[2]))  # evidence and Jensen bound
    assert stars(panels[0]) == stars(panels[6]) == [(2.0, 1.0)]
    assert stars(panels[1]) == [(0.5, 3.0)]
    assert panels[6].get_xlabel() == r"$\ln\,\ell$"
    assert panels[0].get_ylabel() == r"$\ln\,\sigma_f$"
    fig.canvas.draw()


def test_one_surface_in_given_axes_with_holes():
    value = hill().log_evidence.copy()
    value[0], converged = np.nan, np.isfinite(value)
    converged[0] = False
    fig, ax = plt.subplots()
    assert plot_surface(replace(hill(), log_evidence=value, converged=converged), ax=ax) is ax
    crosses = next(line for line in ax.lines if line.get_marker() == "x")
    assert_array_equal(crosses.get_ydata(), np.full(5, -1.0))
    fig.canvas.draw()


def test_given_figure():
    fig = plt.figure()
    assert plot_surface({"a": hill(), "b": hill()}, "errors", fig=fig)[0, 1].figure is fig


def test_levels_are_closest_near_the_best():
    assert_array_equal(contour_levels([-3000.0, -40.2, np.nan, -np.inf], "log_evidence")[-3:], [-45, -42, -41])
    assert_array_equal(contour_levels([7, 19], "errors"), [7.5, 8.5, 11.5, 16.5])
    assert_allclose(contour_levels([-2.0, 0.55], "information"), [0, 0.1, 0.2, 0.3, 0.4, 0.5])
    for quantity in QUANTITIES:  # even a flat surface, or one below guessing, has two
        assert len(contour_levels([-3.0, -3.0], quantity)) >= 2
        flat = replace(hill(), **{quantity: np.full((6, 5), -3.0)})
        plot_surface(flat, quantity).figure.canvas.draw()
    with pytest.raises(ValueError, match="nowhere finite"):
        contour_levels([np.nan], "log_evidence")


def test_surface_errors():
    with pytest.raises(ValueError, match="ax takes one surface"):
        plot_surface({"a": hill(), "b": hill()}, ax=plt.subplots()[1])
    with pytest.raises(ValueError, match="nothing to plot"):
        plot_surface({})
    with pytest.raises(ValueError, match="quantity must be one of"):
        plot_surface(hill(), "evidence")
    with pytest.raises(ValueError, match="X_test and y_test"):
        plot_surface(replace(hill(), errors=None), "errors")


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


@pytest.mark.parametrize("plot", [lambda: plot_surface(hill()), lambda: plot_reliability([0, 1], [0.2, 0.3])])
def test_without_matplotlib_the_error_says_how_to_get_it(plot, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install gpclass\[plot\]"):
        plot()
