"""Progress: what is told, what is shown of it and when, with a clock of our own; and Ctrl-C that keeps what was learned."""

import io
import re
import subprocess
import sys

import numpy as np
import pytest

from gpclass import GPClassifier
from gpclass.inference import EP
from gpclass.kernels import RBF, Linear
from gpclass.learning import Objective, Trainer, maximise
from gpclass.likelihoods import Probit
from gpclass.progress import Display, Listener, begin, counted, keeping_best, listening, phase, rest, say, shown, tell
from gpclass.sparse import IVM, ScalableEP


class Recorder(Listener):
    """Keeps all that it hears: paths of names, and figures."""

    def __init__(self):
        super().__init__()
        self.heard = []

    def changed(self):
        self.heard.append((self.path, self.phases[-1].text))

    @property
    def names(self):
        return list(dict.fromkeys(name for path, _ in self.heard for name in path))


def rows(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.where(np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * rng.logistic(size=n) > 0, "up", "down")


def heard(clf, X, y):
    recorder = Recorder()
    with listening(recorder):
        clf.fit(X, y)
    assert recorder.phases == []
    return recorder


# what is told -----------------------------------------------------------------------------------------------------------


def test_a_fit_names_its_phases_in_their_order():
    recorder = heard(GPClassifier("linear"), *rows())
    outermost = list(dict.fromkeys(path[0] for path, _ in recorder.heard))
    expected = ["preparing the rows", "scan over lengthscales", "search for hyperparameters", "posterior"]
    assert outermost == [*expected, "leave-one-out probabilities, for calibration"]
    assert ("search for hyperparameters", "first evaluation") in [path for path, _ in recorder.heard]


@pytest.mark.parametrize("inference", ["ep", "ivm", ScalableEP(n_inducing=10)])
def test_the_last_figure_of_a_search_is_that_of_the_result(inference):
    """With priors, whose density is part of the objective but not of the log evidence."""
    clf = GPClassifier("rbf", inference=inference)
    figures = [text for _, text in heard(clf, *rows()).heard if "log evidence" in text]
    told = float(re.search(r"log evidence (-?[\d.]+)", figures[-1])[1])
    assert told == pytest.approx(clf.log_evidence_, abs=0.02)  # two digits, and the looser tolerance of the search


def test_several_kernels_and_searches_are_counted():
    names = heard(GPClassifier("auto", n_restarts=1), *rows(30)).names
    for text in ("kernel 1 of 3, the default", "kernel 3 of 3, rbf + linear", "search 2 of 2 for hyperparameters"):
        assert text in names
    assert "term 1 of 2 of the kernel" in names
    assert "first on 110 of 330 rows" in heard(GPClassifier("rbf"), *rows(330)).names


def test_minibatches_tell_an_estimate_as_soon_as_there_is_one():
    engine = ScalableEP(n_inducing=8, search="minibatches", epochs=3, batch_size=20)
    figures = [text for path, text in heard(GPClassifier("rbf", inference=engine), *rows(100)).heard if "passes" in text]
    assert len(figures) == 15
    assert not any("nan" in text or "left" in text for text in figures)
    assert "log evidence" not in figures[4]  # sites of rows that were not seen before give no estimate
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


# what is shown ----------------------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def followed(seconds, stream, delay=0.7):
    """Yield the clock after each quarter of a second, with a display that has looked at the phases."""
    clock = Clock()
    display = Display(stream, delay=delay, clock=clock, ticking=False)
    with display, listening(display):
        for _ in range(int(4 * seconds)):
            yield clock
            clock.now += 0.25
            display.tick()


def test_a_log_file_gets_one_line_for_each_phase_and_then_one_every_half_minute():
    stream = io.StringIO()
    for clock in followed(200, stream):
        if clock.now == 0:
            begin("reading big.csv")
        if clock.now == 5:
            begin("fit")
        tell(f"at {clock.now:.2f}")
    lines = stream.getvalue().splitlines()
    assert lines[0] == "0:00  reading big.csv: at 0.50"
    assert lines[1] == "0:06  fit: at 5.75"
    assert [line[:6].strip() for line in lines[2:]] == ["0:36", "1:06", "1:36", "2:06", "2:36", "3:06"]


def test_phases_that_pass_quickly_do_not_fill_a_log_file():
    stream = io.StringIO()
    for clock in followed(29, stream):
        begin(f"phase {clock.now:.0f}" if clock.now % 1 == 0 else "pause")
    assert len(stream.getvalue().splitlines()) == 1


def test_what_ends_at_once_is_not_shown():
    stream = io.StringIO()
    for _ in followed(0.5, stream):
        begin("reading small.csv")
    assert stream.getvalue() == ""


def test_a_terminal_has_one_line_whose_time_moves():
    stream = Terminal()
    for clock in followed(70, stream):
        if clock.now == 0:
            begin("fit")
            tell("x" * 500)
        if clock.now == 65:
            say("warning: something")
    written = stream.getvalue()
    assert "\n" not in written.replace("warning: something\n", "")
    assert written.endswith("\r\x1b[K")  # nothing remains
    assert {"0:01", "0:30", "1:05"} <= set(re.findall(r"\x1b\[K(\d:\d\d)", written))
    assert max(map(len, written.split("\r\x1b[K"))) < 200  # a longer line would wrap, and could not be removed


@pytest.mark.parametrize("exact", [True, False])
def test_time_left_needs_a_known_number_of_steps(exact):
    stream, steps = io.StringIO(), None
    for clock in followed(120, stream):
        if clock.now == 0:
            entered = counted("draws", 300, exact=exact)
            steps = entered.__enter__()
        steps.advance(0.5)  # two steps in a second
    last = stream.getvalue().splitlines()[-1]  # after 90.75 s, 30 s after the last but one
    assert last.endswith("draws: 182 of 300, 0:59 left" if exact else "draws: 182 of at most 300")


def test_a_stream_that_nobody_reads_does_not_end_the_work():
    stream = io.StringIO()
    for clock in followed(5, stream):
        begin("fit")
        if clock.now == 2:
            stream.close()


def test_verbose_shows_and_a_listener_goes_before(capsys):
    with shown(1):
        tell("nothing yet")
        begin("fit")
    assert capsys.readouterr().err.splitlines() == ["0:00  fit", "0:00  done"]
    recorder = heard(GPClassifier("rbf", verbose=1), *rows(20))
    assert recorder.heard
    assert capsys.readouterr().err == ""


def test_the_time_moves_while_nothing_is_told():
    """With the thread that a display has in earnest."""
    code = (
        "import time\nfrom gpclass.progress import begin, display, shown\ndisplay.TICK, display.SELDOM = 0.02, 0.1\n"
        "with shown(1):\n    begin('evaluation')\n    end = time.monotonic() + 0.6\n    while time.monotonic() < end: pass\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.count("evaluation") >= 3


# Ctrl-C -----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def objective():
    X, y = rows()
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
    X, y = rows(330)  # the search on fewer rows is interrupted, then the first evaluation of all rows
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
    X, y = rows()
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
    X, y = rows(30)
    recorder, evaluate = Recorder(), Objective.evaluate

    def before_the_second(*arguments, **settings):
        return _unless(recorder.path[0].startswith("kernel 2"), evaluate, arguments, settings)

    monkeypatch.setattr(Objective, "evaluate", before_the_second)
    with keeping_best() as interruption, listening(recorder):
        clf = GPClassifier("auto", inference="ep").fit(X, y)
    assert interruption.after == "1 of 3 kernels"
    assert len(clf.members_) == 1


def test_training_on_minibatches_keeps_its_state(monkeypatch):
    X, y = rows(100)
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
