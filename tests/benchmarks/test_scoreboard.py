"""The scoreboard: its format, its tables, calls of workers, and verdicts. The other libraries are not needed."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

ROOT = Path(__file__).parents[2]
sys.path += [str(ROOT), str(ROOT / "benchmarks")]  # the package of benchmarks, and the folder of the papers' scripts

from benchmarks.scoreboard import environments, limits, measure, report, results, tasks  # noqa: E402
from benchmarks.scoreboard.results import Result  # noqa: E402

OURS = Result(
    "fit", "wine", "gpclass", "default", 100, seconds=1.2, cpu_seconds=1.0, nlpd=0.2, error=0.1, calibration_error=0.05
)
PEER = replace(OURS, library="other", method="its own", cpu_seconds=3.0, nlpd=0.3)


# format -----------------------------------------------------------------------------------------------------------------


def test_measurements_survive_a_file(tmp_path):
    written = [
        replace(OURS, versions={"gpclass": "1"}, multiples={"dpotrf": 4.5}),
        replace(PEER, status="failed", message="é|"),
    ]
    file = tmp_path / "new" / "r.jsonl"
    results.append(file, written[:1])
    results.append(file, written[1:])
    assert results.read(file) == written
    assert len(file.read_text(encoding="utf-8").splitlines()) == 2
    assert "peak_mib" not in json.loads(file.read_text(encoding="utf-8").splitlines()[0])  # it was not measured


def test_a_line_that_is_none_tells_where_it_is(tmp_path):
    file = tmp_path / "r.jsonl"
    results.append(file, [OURS])
    with file.open("a") as more:
        more.write('{"kind": "fit", "colour": "red"}\n')
    with pytest.raises(ValueError, match=r"r\.jsonl, line 2 .*colour"):
        results.read(file)
    with pytest.raises(ValueError, match="status must be one of"):
        replace(OURS, status="fine")


def test_repetitions_come_to_their_median():
    repeated = [replace(OURS, repeat=i, cpu_seconds=t, nlpd=0.2) for i, t in enumerate((1.0, 5.0, 2.0))]
    peer = [PEER, replace(PEER, repeat=1, status="failed", message="late", cpu_seconds=None)]
    lost = [replace(PEER, method="none", status="timeout", message="too long", cpu_seconds=None)]
    ours, theirs, none = results.merge([*repeated, *peer, *lost])
    assert ours["cpu_seconds"] == 2.0
    assert ours.repeats == 3
    assert ours.spread == (5.0 - 1.0) / 2.0
    assert results.ratio(theirs, ours) == 1.5
    assert (theirs.status, theirs.repeats, theirs.message) == (
        "ok",
        1,
        "late",
    )  # results are shown, and failures are named
    assert (none.status, none["cpu_seconds"], results.ratio(none, ours)) == ("timeout", None, None)
    assert results.ratio(theirs, None) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0.0, "0"), (12345.6, "12346"), (0.0123456, "0.0123"), (-143.6, "-144"), (np.inf, "inf")],
)
def test_numbers_have_three_digits(value, text):
    assert results.number(value) == text


def test_tables_are_markdown():
    shown = results.table(["a", "b"], [["x|y", "1"]])
    assert shown == "| a | b |\n| --- | ---: |\n| x\\|y | 1 |\n"
    with pytest.raises(ValueError, match="every row needs the 2 cells"):
        results.table(["a", "b"], [["x"]])


def test_commands_are_shown_without_folders():
    words = ["--full", "--to", "/somewhere", "--tasks", "digits 1200", "--data=/elsewhere"]
    assert results.shown("python x", words) == "python x --full --tasks 'digits 1200'"


# report -----------------------------------------------------------------------------------------------------------------


def test_the_report_says_who_is_ahead_and_what_failed():
    quick = replace(PEER, library="quick", cpu_seconds=0.5, nlpd=0.15)
    broken = replace(PEER, library="broken", status="failed", message="ValueError: no", cpu_seconds=None, nlpd=None)
    evidence = [
        Result(
            "evidence",
            "n = 250",
            "gpclass",
            "EP, probit",
            250,
            cpu_seconds=0.02,
            log_evidence=-143.6,
            multiples={"dpotrf": 80},
        ),
        Result("evidence", "n = 250", "GPy", "EP, probit", 250, cpu_seconds=0.14, log_evidence=-143.6),
        Result("evidence", "n = 250", "gpclass", "KL, probit", 250, cpu_seconds=0.04),
        Result("evidence", "n = 250", "GPflow", "VGP", 250, cpu_seconds=0.4),
    ]
    growth = [Result("growth", "n", "gpclass", "EP", n, cpu_seconds=n**2.5) for n in (100, 200, 400)]
    linear = replace(OURS, method=tasks.LINEAR, cpu_seconds=1.5, nlpd=0.19)
    text = report.report([OURS, linear, PEER, quick, broken, *evidence, *growth], "the command")
    assert "`the command`" in text
    assert "| wine | 1.0 s, 0.200 | 1.5 ×, 0.190 | 3.0 ×, 0.300 | 0.50 ×, 0.150 | failed |" in text
    assert "| GPy, EP, probit | 0.140 (7.0 ×) |" in text
    assert "| GPflow, VGP | 0.400 (10 ×) |" in text  # next to the approximation of the same kind
    assert "| evidence, n = 250, EP, probit | 80 |" in text
    assert "| n: gpclass, EP | 2.50 | 100 … 400 |" in text
    behind = text.split("## Where gpclass is behind")[1].split("##")[0]
    assert "quick (its own) takes 0.50 × the time" in behind
    assert "quick (its own) has NLPD 0.150, gpclass 0.200" in behind
    assert "other" not in behind
    assert "- broken, its own, fit wine: failed: ValueError: no" in text


def test_exponents_are_fitted():
    assert_allclose(limits.exponent([(n, 3e-9 * n**2.7) for n in (100, 250, 900)]), 2.7, rtol=1e-12)


def test_growth_is_drawn_and_kept(tmp_path):
    pytest.importorskip("matplotlib")
    series = {"EP": [(100, 0.1), (200, 0.7)], "dpotrf": [(100, 0.01), (200, 0.08)]}
    growths = dict.fromkeys(("n", "n of inducing points", "M", "C"), series)
    limits.draw(growths, tmp_path / "growth.png")
    assert (tmp_path / "growth.png").stat().st_size > 5_000
    kept = list(limits.as_results(growths, {"date": "today"}))
    assert len(kept) == 16
    assert {(r.library, r.method) for r in kept} == {("gpclass", "EP"), ("bare", "dpotrf")}


def test_units_are_positive_and_times_are_multiples_of_them():
    unit = limits.Unit(60)
    unit.measure()
    found = unit.multiples(replace(OURS, n=60, cpu_seconds=10.0, predict_many_seconds=2.0))
    assert_allclose(found["dpotrf"] * unit.best["dpotrf"], 10.0)
    assert_allclose(found["gemm, 10,000 rows"] * unit.best["gemm"], 2.0)
    assert unit.best["dpotrf"] > 0


# tasks and workers ------------------------------------------------------------------------------------------------------


def test_splits_are_disjoint_and_standardised():
    arrays = tasks.split("wine", 106)
    assert (len(arrays["X"]), len(arrays["X_test"])) == (106, 72)
    assert_allclose(arrays["X"].mean(0), 0, atol=1e-12)
    assert_allclose(arrays["X"].std(0), 1, rtol=1e-12)
    assert set(arrays["y"]) == {0, 1, 2}
    rows = {row.tobytes() for row in arrays["X"]}
    assert not any(row.tobytes() in rows for row in arrays["X_test"])


def test_every_method_has_a_worker_and_a_counterpart():
    for library, kinds in tasks.METHODS.items():
        script = measure.WORKERS / measure.SCRIPTS.get(library, f"{library.lower()}_worker.py")
        text = script.read_text(encoding="utf-8")
        for kind, methods in kinds.items():
            for method in methods:
                assert f'"{method}"' in text, f"{script.name} does not know {method!r}"
                own = tasks.METHODS["gpclass"]["fit" if kind == "several" else kind]
                assert tasks.counterpart("fit" if kind == "several" else kind, method) in own
    assert set(tasks.METHODS) == {*environments.OWN, *environments.PEERS}
    assert all(any(method in some for some in tasks.METHODS[library].values()) for library, method in tasks.SLOW)


def test_peers_are_pinned_and_known_only_when_finished(tmp_path):
    for library in environments.PEERS:
        lines = (environments.REQUIREMENTS / f"{library.lower()}.txt").read_text(encoding="utf-8").splitlines()
        pins = [line for line in lines if not line.startswith(("#", "--"))]
        assert all("==" in pin for pin in pins)
        assert any(pin.lower().startswith(library.lower() + "==") for pin in pins)
        assert environments.interpreter(library, tmp_path) is None
        made = tmp_path / library.lower()
        made.mkdir()
        (made / "installed.txt").write_text("an earlier pin")
        assert environments.interpreter(library, tmp_path) is None
        (made / "installed.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        assert environments.interpreter(library, tmp_path) == made / "bin" / "python"
    assert environments.interpreter("scikit-learn") == Path(sys.executable)


def small(kind, name, classes=2):
    def make():
        rng = np.random.default_rng(0)
        X = rng.normal(size=(40, 2))
        y = np.digitize(X[:, 0], np.linspace(-0.5, 0.5, classes - 1))
        if kind == "evidence":
            return {"X": X, "y": 2.0 * y - 1}
        return {"X": X[:30], "y": y[:30], "X_test": X[30:], "y_test": y[30:]}

    return tasks.Task(kind, name, make, {"lengthscale": 1.0, "variance": 4.0} if kind == "evidence" else {})


def test_gpclass_and_scikit_learn_side_by_side():
    chosen = [small("evidence", "n = 40"), small("fit", "two"), small("fit", "three", classes=3)]
    told = []
    found = list(
        measure.run(chosen, ["gpclass", "scikit-learn"], measure.Plan(rounds=2, slow=60, limit=60, rows=100), told.append)
    )
    assert {r.status for r in found} == {"ok"}, [r.message for r in found]
    assert [t.split(":")[0] for t in told] == ["evidence n = 40", "fit two", "fit three"]
    # round by round, all libraries in each
    evidence = [r for r in found if r.kind == "evidence"]
    assert [r.repeat for r in evidence] == [0] * 5 + [1] * 5
    by_method = {(r.library, r.method): r for r in evidence}
    # the same model: both stop Newton's iteration at gains below about 1e-10
    ours, theirs = (by_method[library, "Laplace, logit"].log_evidence for library in ("gpclass", "scikit-learn"))
    assert_allclose(ours, theirs, atol=1e-6)
    for r in found:
        assert r.cpu_seconds > 0
        assert r.peak_mib > 20
        assert r.versions
        if r.kind == "fit":
            assert 0 <= r.error <= 0.6
            assert 0 < r.nlpd < 1.2
            assert (r.predict_one_seconds is not None) == (r.repeat == 0)
        assert bool(r.multiples) == (r.library == "gpclass")


def test_training_in_minibatches_is_judged_at_its_marks():
    task = small("curve", "made", classes=3)
    task = replace(task, settings={"marks": [0.05, 0.2], "inducing": 5, "batch": 10})
    found = list(measure.run([task], ["gpclass", "scikit-learn"], measure.Plan(limit=60), lambda line: None))
    assert {r.status for r in found} == {"ok"}, [r.message for r in found]
    assert [(r.task, r.method) for r in found] == [
        (f"made, {mark} s", method) for method in tasks.METHODS["gpclass"]["curve"] for mark in (0.05, 0.2)
    ]  # scikit-learn has no minibatches
    assert all(0 < r.nlpd < 2 and r.peak_mib > 20 for r in found)
    assert "| made, 0.05 s: gpclass, ScalableEP |" in report.report(found, "")


def test_methods_are_chosen_by_words_of_their_names():
    plan = measure.Plan(rounds=1, limit=60, rows=100, methods=("Laplace",))
    found = list(measure.run([small("fit", "two classes")], ["gpclass"], plan, lambda line: None))
    methods = {result.method for result in found}
    assert methods
    assert all("Laplace" in method for method in methods)
    assert methods < set(small("fit", "two classes").methods("gpclass", 2))


def test_data_that_are_not_here_are_named():
    def missing():
        raise FileNotFoundError("Data set 'glass' is not here")

    told = []
    [gap] = measure.run([tasks.Task("fit", "glass", missing)], ["gpclass"], measure.Plan(), told.append)
    assert (gap.kind, gap.task, gap.status) == ("missing", "fit glass", "skipped")
    assert told == ["left out: Data set 'glass' is not here"]


@pytest.fixture
def odd_worker(tmp_path):
    """A worker that raises, exits, never returns, or prints unexpected output."""
    script = tmp_path / "odd_worker.py"
    script.write_text(
        f"""
import os, sys
sys.path.insert(0, {str(measure.WORKERS)!r})
from common import serve

def raises(X, y, lengthscale, variance):
    raise ValueError("no such thing\\nthe last line")

def ends(X, y, lengthscale, variance):
    print("last words", file=sys.stderr, flush=True)
    os._exit(3)

def loops(X, y, lengthscale, variance):
    while True:
        pass

def prints(X, y, lengthscale, variance):
    print("noise")
    return lambda: -1.5

def nothing(X, y, lengthscale, variance):
    return lambda: float("nan")

serve(["numpy"], dict(raises=raises, ends=ends, loops=loops, prints=prints, nothing=nothing))
"""
    )
    worker = measure.Worker("odd", Path(sys.executable), script)
    yield worker
    worker.end()


def test_whatever_a_worker_does_is_reported(odd_worker, tmp_path):
    arrays = {"X": np.ones((3, 1)), "y": np.ones(3)}
    np.savez(tmp_path / "a.npz", **arrays)
    job = {"kind": "evidence", "data": str(tmp_path / "a.npz"), "lengthscale": 1.0, "variance": 1.0}

    def ask(method, limit=30.0):
        blank = Result("evidence", "t", "odd", method, 3)
        [result] = measure.ask(odd_worker, blank, {**job, "method": method}, arrays, measure.Plan(limit=limit), None)
        return result

    assert ask("prints").log_evidence == -1.5
    failed = ask("raises")
    assert (failed.status, failed.message) == ("failed", "ValueError: the last line")
    assert ask("nothing").message == "ArithmeticError: log evidence is nan"
    assert "has no method 'other'" in ask("other").message
    ended = ask("ends")
    assert (ended.status, ended.message) == ("failed", "the worker ended with code 3: last words")
    assert ask("prints").status == "ok"  # started anew
    late = ask("loops", limit=0.4)
    assert (late.status, late.message) == ("timeout", "no answer within 1 s")
    assert ask("prints").status == "ok"


def test_sizes_that_would_take_too_long_are_skipped():
    assert measure.too_late(None, 500, 40) == ""
    assert measure.too_late((250, 4.9), 500, 40) == ""
    assert measure.too_late((250, 5.1), 500, 40) == "some 41 s expected after 5.1 s at n = 250; the limit is 40 s"
    assert measure.too_late((250, np.inf), 500, 40) == "took longer than 40 s at n = 250"


def test_probabilities_are_judged_alike(tmp_path):
    file = tmp_path / "p.npy"
    np.save(file, np.array([[0.8, 0.2], [0.4, 0.6], [0.9, 0.1]], np.float32))
    found = measure.judged({"y_test": np.array([0, 1, 1])}, str(file))
    assert_allclose(found["nlpd"], -np.log([0.8, 0.6, 0.1]).mean(), rtol=1e-6)  # float32
    assert_allclose(found["error"], 1 / 3)


def test_losses_are_compared_row_by_row(tmp_path):
    file, standard = str(tmp_path / "p.npy"), measure.Standard({"y_test": np.array([0, 1, 1])})
    ours, theirs = np.array([[0.8, 0.2], [0.4, 0.6], [0.5, 0.5]]), np.array([[0.9, 0.1], [0.4, 0.6], [0.6, 0.4]])
    np.save(file, theirs)
    assert standard.compared(PEER, file).nlpd_gap is None  # nothing to compare with yet
    np.save(file, ours)
    own = standard.compared(OURS, file)
    assert (own.nlpd_gap, own.nlpd_gap_error) == (0.0, 0.0)
    np.save(file, theirs)
    peer = standard.compared(PEER, file)
    gaps = np.log([0.8 / 0.9, 1.0, 0.5 / 0.4])
    assert_allclose(peer.nlpd_gap, gaps.mean(), rtol=1e-12)
    assert_allclose(peer.nlpd_gap_error, gaps.std(ddof=1) / np.sqrt(3), rtol=1e-12)
    text = report.fit_table(results.merge([own, peer]), "wine")
    assert f"{gaps.mean():+.3f} ± {2 * peer.nlpd_gap_error:.3f}" in text


# before and after -------------------------------------------------------------------------------------------------------


def test_versions_are_compared_or_tell_why_not(monkeypatch):
    import progress

    monkeypatch.setitem(progress.TASKS, "quick", ("0000000", lambda: lambda: sum(range(1000))))
    monkeypatch.setitem(progress.TASKS, "broken", ("0000000", lambda: [][0]))
    assert 0 <= progress.measure("quick", repeats=2)["seconds"] < 1
    assert progress.measure("broken") == {"error": "IndexError: list index out of range"}
    assert progress.compared({"seconds": 3.0}, {"seconds": 1.5}) == ["3.00", "1.50", "2.0"]
    assert progress.compared({"error": "no"}, {"seconds": 1.5}) == ["no", "1.50", "–"]


@pytest.mark.parametrize("task", ["Gibbs, n = 200", "predict 1 row, iris"])
def test_tasks_of_before_and_after_run(task):
    import progress

    assert progress.measure(task, repeats=1)["seconds"] > 0
