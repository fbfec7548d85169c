"""Ctrl-C keeps the learned hyperparameters, if the caller asks for it."""

import numpy as np
import pytest

from gpclass import GPClassifier
from gpclass.inference import EP
from gpclass.kernels import RBF, Linear
from gpclass.learning import Objective, Trainer, maximise
from gpclass.likelihoods import Probit
from gpclass.progress import keeping_best, listening
from gpclass.sparse import IVM, ScalableEP
from tests.problems import two_classes

from .recorder import Recorder

# Ctrl-C -----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def objective():
    X, y = two_classes(60, noise=0.8)
    kernel = RBF(0.3) + Linear()
    return Objective(X, np.where(y == "up", 1.0, -1.0), kernel, Probit(), EP(), [])


def interrupting(monkeypatch, *numbers):
    """Ctrl-C in the evaluations with these numbers, which begin with 1."""
    evaluate, count = Objective.evaluate, iter(range(1, 10**6))

    def sometimes(*arguments, **settings):
        if next(count) in numbers:
            raise KeyboardInterrupt
        return evaluate(*arguments, **settings)

    monkeypatch.setattr(Objective, "evaluate", sometimes)


def test_without_a_wish_ctrl_c_ends_a_fit(objective, monkeypatch):
    interrupting(monkeypatch, 4)
    with pytest.raises(KeyboardInterrupt):
        maximise(objective, [objective.theta])


def test_a_search_keeps_its_best_point(objective, monkeypatch):
    whole = maximise(objective, [objective.theta])
    interrupting(monkeypatch, 6)
    with keeping_best() as interruption:
        search = maximise(objective, [objective.theta, objective.theta + 0.1])
    assert interruption.happened
    assert interruption.after == "5 evaluations"
    assert len(search.history) == 5
    assert search.best.value == max(step.objective for step in search.history) < whole.best.value
    assert search.message == "the search was interrupted"


def test_there_is_nothing_to_keep_before_the_first_evaluation(objective, monkeypatch):
    interrupting(monkeypatch, 1)
    with keeping_best() as interruption, pytest.raises(KeyboardInterrupt):
        maximise(objective, [objective.theta])
    assert not interruption.happened


def test_a_second_ctrl_c_ends_the_fit(monkeypatch):
    interrupting(monkeypatch, 3, 4)
    X, y = two_classes(330, noise=0.8)  # the search on fewer rows is interrupted, then the first evaluation of all rows
    with keeping_best() as interruption, pytest.raises(KeyboardInterrupt):
        GPClassifier("rbf", inference="ep").fit(X, y)
    assert interruption.happened


def test_the_next_search_with_the_same_process_is_whole(objective, monkeypatch):
    interrupting(monkeypatch, 3)
    with keeping_best():
        maximise(objective, [objective.theta])
    assert maximise(objective, [objective.theta]).message != "the search was interrupted"


@pytest.mark.parametrize("inference", ["ep", IVM(active=20), ScalableEP(n_inducing=8)])
def test_a_fit_is_finished_with_what_was_learned(inference, monkeypatch):
    X, y = two_classes(60, noise=0.8)
    clf = GPClassifier("rbf", inference=inference)
    if isinstance(inference, IVM):
        fit, count = IVM.fit, iter(range(100))
        monkeypatch.setattr(IVM, "fit", lambda *a, **s: _unless(next(count) == 4, fit, a, s))
    else:
        interrupting(monkeypatch, 4)
    with keeping_best() as interruption:
        clf.fit(X, y)
    assert interruption.happened
    assert clf.calibration_.n_rows == len(X)
    assert clf.score(X, y) > 0.6


def _unless(interrupt, function, arguments, settings):
    if interrupt:
        raise KeyboardInterrupt
    return function(*arguments, **settings)


def test_kernels_that_were_not_tried_are_left_out(monkeypatch):
    X, y = two_classes(30, noise=0.8)
    recorder, evaluate = Recorder(), Objective.evaluate

    def before_the_second(*arguments, **settings):
        return _unless(recorder.path[0].startswith("kernel 2"), evaluate, arguments, settings)

    monkeypatch.setattr(Objective, "evaluate", before_the_second)
    with keeping_best() as interruption, listening(recorder):
        clf = GPClassifier("auto", inference="ep").fit(X, y)
    assert interruption.after == "1 of 3 kernels"
    assert len(clf.members_) == 1


def test_training_on_minibatches_keeps_its_state(monkeypatch):
    X, y = two_classes(100, noise=0.8)
    engine = ScalableEP(n_inducing=8, search="minibatches", epochs=50, batch_size=20)
    step, count = Trainer.step, iter(range(1000))
    monkeypatch.setattr(Trainer, "step", lambda *a, **s: _unless(next(count) == 16, step, a, s))
    with keeping_best() as interruption:
        clf = GPClassifier("rbf", inference=engine, random_state=0).fit(X, y)
    assert interruption.after == "3.2 passes over the rows"
    assert clf.score(X, y) > 0.6
    count = iter(range(1000))
    with pytest.raises(KeyboardInterrupt):
        GPClassifier("rbf", inference=engine, random_state=0).fit(X, y)
