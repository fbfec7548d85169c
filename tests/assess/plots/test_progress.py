"""What learning curves show, read back from matplotlib's objects."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import make_moons

from gpclass import GPClassifier
from gpclass.assess import (
    plot_learning_curve,
    plot_score_against_time,
)
from gpclass.learning import Pass, Step

from .read_back import legend

plt = pytest.importorskip("matplotlib.pyplot")


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
    passes = [Pass(epoch=i, log_evidence=-10.0 / (i + 1), seconds=0.5 * i, validation=np.nan) for i in range(4)]
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
