"""What figures of evidence surfaces show, read back from matplotlib's objects."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from gpclass.assess.plots import contour_levels, plot_reliability, plot_surface
from gpclass.assess.surface import QUANTITIES, Surface

plt = pytest.importorskip("matplotlib.pyplot")


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
    for quantity in QUANTITIES:  # a flat surface, or one below guessing, has two as well
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


@pytest.mark.parametrize("plot", [lambda: plot_surface(hill()), lambda: plot_reliability([0, 1], [0.2, 0.3])])
def test_without_matplotlib_the_error_says_how_to_get_it(plot, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install gpclass\[plot\]"):
        plot()
