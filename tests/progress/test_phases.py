"""Phases of computations and the figures that listeners get."""

import re

import pytest

from gpclass import GPClassifier
from gpclass.progress import begin, counted, listening, phase, rest, say, tell
from gpclass.sparse import ScalableEP
from tests.problems import two_classes

from .recorder import Recorder, heard

# what is told -----------------------------------------------------------------------------------------------------------


def test_a_fit_names_its_phases_in_their_order():
    recorder = heard(GPClassifier("linear"), *two_classes(60, noise=0.8))
    outermost = list(dict.fromkeys(path[0] for path, _ in recorder.heard))
    expected = ["preparing the rows", "scan over lengthscales", "search for hyperparameters", "posterior"]
    assert outermost == [*expected, "leave-one-out probabilities, for calibration"]
    assert ("search for hyperparameters", "first evaluation") in [path for path, _ in recorder.heard]


@pytest.mark.parametrize("inference", ["ep", "ivm", ScalableEP(n_inducing=10)])
def test_the_last_figure_of_a_search_is_that_of_the_result(inference):
    """With priors, whose density is part of the objective but not of the log evidence."""
    clf = GPClassifier("rbf", inference=inference)
    figures = [text for _, text in heard(clf, *two_classes(60, noise=0.8)).heard if "log evidence" in text]
    told = float(re.search(r"log evidence (-?[\d.]+)", figures[-1])[1])
    assert told == pytest.approx(clf.log_evidence_, abs=0.02)  # two digits, and the looser tolerance of the search


def test_several_kernels_and_searches_are_counted():
    names = heard(GPClassifier("auto", n_restarts=1), *two_classes(30, noise=0.8)).names
    for text in ("kernel 1 of 3, the default", "kernel 3 of 3, rbf + linear", "search 2 of 2 for hyperparameters"):
        assert text in names
    assert "term 1 of 2 of the kernel" in names
    assert "first on 110 of 330 rows" in heard(GPClassifier("rbf"), *two_classes(330, noise=0.8)).names


def test_minibatches_tell_an_estimate_as_soon_as_there_is_one():
    engine = ScalableEP(n_inducing=8, search="minibatches", epochs=3, batch_size=20)
    recorder = heard(GPClassifier("rbf", inference=engine), *two_classes(100, noise=0.8))
    figures = [text for _, text in recorder.heard if "passes" in text]
    assert len(figures) == 15
    assert not any("nan" in text or "left" in text for text in figures)
    assert "log evidence" not in figures[4]  # sites of unseen rows give no estimate
    assert "log evidence (estimate from minibatches) -" in figures[5]
    assert figures[-1].startswith("3.0 of 3 passes, ")


def test_nobody_listens_by_default():
    with phase("nothing"), counted("steps", 3) as steps:
        steps.advance()
        tell("x")
        begin("y")
        rest()
    assert not say("z")


def test_the_same_name_twice_is_one_phase():
    recorder = Recorder()
    with listening(recorder), phase("search"), phase("search"):
        assert recorder.path == ("search",)
