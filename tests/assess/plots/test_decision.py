"""What maps of decisions show, read back from matplotlib's objects."""

import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris, make_moons
from sklearn.decomposition import PCA

from gpclass import GPClassifier
from gpclass.assess import (
    plot_decision_map,
    plot_inducing,
)
from gpclass.assess.plots.common import plain
from gpclass.assess.plots.decision import plane_of
from gpclass.kernels import RBF

from .read_back import legend, points

plt = pytest.importorskip("matplotlib.pyplot")
IRIS = load_iris()


# decision maps ----------------------------------------------------------------------------------------------------------


def test_map_of_two_inputs(moons):
    clf, X, y = moons
    ax = plot_decision_map(clf, grid=21)
    assert legend(ax) == [r"\$es", "no"]
    assert_allclose(points(ax, "s"), X[y == 0])  # "no" is the second class
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x0", "x1")
    image = ax.images[0]
    left, right, bottom, top = image.get_extent()
    corner = clf.predict_proba([[left, bottom], [right, top]])
    shades = np.asarray(image.get_array())
    for shade, p in zip((shades[0, 0], shades[-1, -1]), corner, strict=True):
        assert_allclose(shade[3], 0.55 * (2 * p.max() - 1), atol=1e-9)  # the opacity grows with the confidence
    ax.figure.canvas.draw()


def test_border_of_the_map_is_where_probabilities_are_even(moons):
    clf, *_ = moons
    ax = plot_decision_map(clf, grid=60)
    half = next(c for c in ax.collections if len(c.levels) == 1)
    path = np.concatenate([p.vertices for p in half.get_paths()])
    # linear interpolation between grid points a sixtieth of the map apart
    assert_allclose(clf.predict_proba(path)[:, 1], 0.5, atol=0.02)


def test_map_of_many_inputs_is_a_section_through_the_mean(iris):
    ax = plot_decision_map(iris, grid=15)
    assert legend(ax) == ["setosa", "versicolor", "virginica"]
    assert "principal component 1" in ax.get_xlabel()
    assert "section through the mean" in ax.get_xlabel()
    rows = iris[0].transform(IRIS.data[::3])
    projected = PCA(2).fit_transform(rows)
    setosa = IRIS.target[::3] == 0
    assert_allclose(np.abs(points(ax, "o")), np.abs(projected[setosa]), atol=1e-10)
    assert f"{PCA(2).fit(rows).explained_variance_ratio_[0]:.0%}" in ax.get_xlabel()


def test_map_of_two_chosen_inputs(iris):
    ax = plot_decision_map(iris, IRIS.data, IRIS.target_names[IRIS.target], inputs=(2, 3), grid=9)
    assert ax.get_xlabel() == "x2\nother inputs at their mean"
    assert_allclose(points(ax, "o"), iris[0].transform(IRIS.data)[IRIS.target == 0][:, 2:])
    assert plot_decision_map(iris, IRIS.data, grid=5, ax=ax) is ax  # unlabelled rows


def test_planes():
    X = np.random.default_rng(0).normal(size=(20, 4))
    plane = plane_of(X, list("abcd"))
    assert_allclose(plane.directions @ plane.directions.T, np.eye(2), atol=1e-12)
    at = np.array([[1.0, -2.0]])
    assert_allclose(plane.coordinates(plane.points(at)), at)
    with pytest.raises(ValueError, match="needs at least two inputs"):
        plane_of(X[:, :1], ["a"])
    with pytest.raises(ValueError, match="two different columns below 4"):
        plane_of(X, list("abcd"), (1, 1))


def test_names_of_frames_are_on_the_map():
    pd = pytest.importorskip("pandas")
    X, y = make_moons(30, noise=0.2, random_state=0)
    frame = pd.DataFrame(X, columns=["width", "cost in $"])
    ax = plot_decision_map(GPClassifier(optimizer=None).fit(frame, y), grid=5)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("width", r"cost in \$")
    ax.figure.canvas.draw()


# inducing points --------------------------------------------------------------------------------------------------------


def test_inducing_points_and_their_way():
    X, y = make_moons(60, noise=0.2, random_state=0)
    clf = GPClassifier(kernel=RBF(0.7, 9.0), inference="scalable-ep", optimizer=None, random_state=0).fit(X, y)
    ends = np.reshape(clf.inputs_, (-1, 2))
    ax = plot_inducing(clf, X, y, start=ends + 0.3, grid=9)
    assert legend(ax) == ["0", "1", "start", "inducing point"]
    hollow = next(line for line in ax.lines if line.get_label() == "inducing point")
    assert_allclose(hollow.get_xydata(), ends)
    assert_allclose(points(ax, "+"), ends + 0.3)
    ways = [line.get_xydata() for line in ax.lines if len(line.get_xydata()) == 2 and line.get_linestyle() == "-"]
    assert_allclose(np.stack(ways)[:, 1], ends)
    with pytest.raises(ValueError, match="start has 1 points"):
        plot_inducing(clf, X, y, start=ends[:1])
    with pytest.raises(ValueError, match="does not keep the training rows"):
        plot_inducing(clf)


def test_active_rows():
    X, y = make_moons(60, noise=0.2, random_state=0)
    clf = GPClassifier(kernel=RBF(0.7, 9.0), inference="ivm", optimizer=None).fit(X, y)
    ax = plot_inducing(clf, X, y, grid=9)
    active = next(line for line in ax.lines if line.get_label() == "active row")
    assert_allclose(active.get_xydata(), X[clf.active_indices_])


def test_no_inducing_points(moons):
    with pytest.raises(ValueError, match="EP uses all training rows"):
        plot_inducing(moons[0])


def test_names_are_no_mathematics():
    assert plain("a $x$ b") == r"a \$x\$ b"
    assert plain("two\nlines\x00") == "two lines\ufffd"
    assert len(plain("x" * 100)) == 40
    fig, ax = plt.subplots()
    ax.set_title(plain(r"$\frac{$"))
    fig.canvas.draw()  # invalid mathtext would raise


def test_without_matplotlib_the_error_says_how_to_get_it(moons, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install gpclass\[plot\]"):
        plot_decision_map(moons[0])
