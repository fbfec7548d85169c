"""What figures of models show, read back from matplotlib's objects; whether they are pretty is for people to judge."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris, make_moons
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpclass import GPClassifier
from gpclass.assess import (
    plot_decision_map,
    plot_inducing,
    plot_learning_curve,
    plot_marginal,
    plot_marginals,
    plot_relevance,
    plot_score_against_time,
)
from gpclass.assess.plots import relevances
from gpclass.assess.plots.common import plain
from gpclass.assess.plots.decision import plane_of
from gpclass.inference import EP, Laplace
from gpclass.kernels import RBF, Linear, Matern32
from gpclass.learning import Step
from gpclass.likelihoods import Logit, Softmax
from gpclass.sampling import EllipticalSlice

plt = pytest.importorskip("matplotlib.pyplot")
IRIS = load_iris()


@pytest.fixture(autouse=True)
def _headless():
    plt.switch_backend("Agg")
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(60, noise=0.2, random_state=0)
    return GPClassifier(kernel=RBF(0.7, 9.0), optimizer=None).fit(X, np.array(["no", "$es"])[y]), X, y


@pytest.fixture(scope="module")
def iris():
    model = make_pipeline(StandardScaler(), GPClassifier(kernel=RBF([2.0, 4.0, 1.0, 0.5], 9.0), optimizer=None))
    return model.fit(IRIS.data[::3], IRIS.target_names[IRIS.target[::3]])


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def points(ax, marker):
    return next(line for line in ax.lines if line.get_marker() == marker and line.get_linestyle() == "None").get_xydata()


# decision maps ----------------------------------------------------------------------------------------------------------


def test_map_of_two_inputs(moons):
    clf, X, y = moons
    ax = plot_decision_map(clf, grid=21)
    assert legend(ax) == [r"\$es", "no"]
    assert_allclose(points(ax, "s"), X[y == 0])  # "no" is the second in order
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x0", "x1")
    image = ax.images[0]
    left, right, bottom, top = image.get_extent()
    corner = clf.predict_proba([[left, bottom], [right, top]])
    shades = np.asarray(image.get_array())
    for shade, p in zip((shades[0, 0], shades[-1, -1]), corner, strict=True):
        assert_allclose(shade[3], 0.55 * (2 * p.max() - 1), atol=1e-9)  # opaque as it is sure
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
    assert plot_decision_map(iris, IRIS.data, grid=5, ax=ax) is ax  # rows without labels


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


# marginals --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def marginals():
    X, y = make_moons(12, noise=0.2, random_state=0)
    K, signs = RBF(0.7, 20.0)(X), 2.0 * y - 1
    draws = EllipticalSlice(n_draws=100, n_warmup=50, random_state=0).fit(K, signs, Logit())
    return draws, {"EP": EP().fit(K, signs, Logit()), "LA": Laplace().fit(K, signs, Logit())}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("quantity", ["mean", "std", "probability"])
def test_marginals_against_draws(marginals, quantity):
    draws, fits = marginals
    ax = plot_marginals(draws, fits, quantity)
    assert legend(ax) == ["EP", "LA"]
    found = points(ax, "o")
    f = draws.pooled
    fit = fits["EP"]
    wanted = {
        "mean": (f.mean(0), fit.mean),
        "std": (f.std(0), np.sqrt(fit.var)),
        "probability": ((1 / (1 + np.exp(-f))).mean(0), Logit().predictive(fit.mean, fit.var)),
    }[quantity]
    assert_allclose(found, np.column_stack(wanted))
    assert "sampled" in ax.get_xlabel()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_marginal_of_one_point(marginals):
    draws, fits = marginals
    ax = plot_marginal(draws, fits, 3, bins=20)
    x, density = ax.lines[0].get_xydata().T
    step = x[1] - x[0]
    assert_allclose(density.sum() * step, 1, atol=0.01)  # three standard deviations hold 0.997
    assert_allclose((x * density).sum() * step, fits["EP"].mean[3], atol=0.02 * np.abs(fits["EP"].mean[3]) + 0.01)
    area = sum(bar.get_width() * bar.get_height() for bar in ax.patches)
    assert_allclose(area, 1)
    with pytest.raises(ValueError, match="point must be below 12 and latent below 1"):
        plot_marginal(draws, fits, 12)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_marginals_of_several_classes():
    K, y = RBF(1.0, 4.0)(IRIS.data[::15]), IRIS.target[::15]
    draws = EllipticalSlice(n_draws=40, n_warmup=20, random_state=0).fit(K, y, Softmax(3))
    fit = Laplace().fit(K, y, Softmax(3))
    assert len(points(plot_marginals(draws, {"LA": fit}, "std"), "o")) == 30
    assert len(points(plot_marginals(draws, {"LA": fit}, "probability"), "o")) == 30
    assert "class 2" in plot_marginal(draws, {"LA": fit}, 0, latent=2).get_xlabel()


def test_marginal_errors(marginals):
    draws, fits = marginals
    with pytest.raises(ValueError, match="quantity must be one of"):
        plot_marginals(draws, fits, "median")
    with pytest.raises(ValueError, match="fits is empty"):
        plot_marginals(draws, {})
    short = EP().fit(np.eye(3), np.ones(3), Logit())
    with pytest.raises(ValueError, match=r"EP has .* but the draws have"):
        plot_marginals(draws, {"EP": short})


# learning ---------------------------------------------------------------------------------------------------------------


def steps(values, runs=None):
    runs = np.zeros(len(values), int) if runs is None else runs
    return [Step(int(r), i, np.zeros(1), v, v, 1) for i, (v, r) in enumerate(zip(values, runs, strict=True))]


def test_learning_curve_of_restarts_and_failures():
    ax = plot_learning_curve(steps([-9.0, -5.0, np.nan, -4.0, -6.0, -3.0], [0, 0, 0, 0, 1, 1]))
    assert legend(ax) == ["first run", "restart 1", "best so far", "failed"]
    assert_array_equal(ax.lines[0].get_xdata(), [1, 2, 3, 4])
    best = next(line for line in ax.lines if line.get_label() == "best so far")
    assert_array_equal(best.get_ydata(), [-9, -5, -5, -4, -4, -3])
    failed = next(line for line in ax.lines if line.get_label() == "failed")
    assert_array_equal(failed.get_xdata(), [3])
    low, high = ax.get_ylim()
    assert low < -9 < -3 < high


def test_learning_curve_of_a_model():
    X, y = make_moons(40, noise=0.2, random_state=0)
    clf = GPClassifier().fit(X, y)
    ax = plot_learning_curve(clf)
    first = [step.objective for step in clf.history_ if step.run == 0]
    assert_array_equal(ax.lines[0].get_ydata(), first)
    assert "log prior" in ax.get_ylabel()


def test_learning_curve_of_passes():
    passes = [SimpleNamespace(epoch=i, log_evidence=-10.0 / (i + 1), seconds=0.5 * i, validation=np.nan) for i in range(4)]
    ax = plot_learning_curve(passes, against="seconds")
    assert_array_equal(ax.lines[0].get_xdata(), [0, 0.5, 1, 1.5])
    assert plot_learning_curve(passes).get_xlabel() == "pass"


def test_learning_curve_errors(moons):
    with pytest.raises(ValueError, match="history is empty"):
        plot_learning_curve(moons[0])
    with pytest.raises(ValueError, match="holds no times"):
        plot_learning_curve(steps([-1.0]), against="seconds")
    with pytest.raises(ValueError, match="no evaluation"):
        plot_learning_curve(steps([np.nan]))
    with pytest.raises(ValueError, match="against must be"):
        plot_learning_curve(steps([-1.0]), against="days")


def test_scores_against_time():
    ax = plot_score_against_time({"EP": ([1, 2], [0.5, 0.4]), "VI": ([1], [0.6])})
    assert legend(ax) == ["EP", "VI"]
    assert ax.get_xscale() == "log"
    assert_array_equal(ax.lines[0].get_xydata(), [[1, 0.5], [2, 0.4]])
    with pytest.raises(ValueError, match="EP: needs as many seconds as scores"):
        plot_score_against_time({"EP": ([1, 2], [0.5])})
    with pytest.raises(ValueError, match="curves is empty"):
        plot_score_against_time({})


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


def test_names_are_no_mathematics():
    assert plain("a $x$ b") == r"a \$x\$ b"
    assert plain("two\nlines\x00") == "two lines\ufffd"
    assert len(plain("x" * 100)) == 40
    fig, ax = plt.subplots()
    ax.set_title(plain(r"$\frac{$"))
    fig.canvas.draw()  # mathematics of this kind would raise


def test_without_matplotlib_the_error_says_how_to_get_it(moons, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install gpclass\[plot\]"):
        plot_decision_map(moons[0])
