"""The example and the benchmarks, run at a small size so that they keep working."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

ROOT = Path(__file__).parents[2]


def script(path):
    """Import a script as a module that worker processes need not find."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up their module
    spec.loader.exec_module(module)
    return module


def test_compare_approximations(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    rows = script("examples/compare_approximations.py").main(["--rows", "60", "--out", str(tmp_path / "figures")])
    printed = capsys.readouterr().out
    assert (tmp_path / "figures" / "compare_approximations.png").stat().st_size > 10_000
    for name, row in rows.items():
        assert row.fit.converged, name
        assert f"\n{name} " in printed
        assert row.fit.jensen_bound() <= rows["KL"].fit.jensen_bound() + 1e-6  # KL maximises it
    assert_allclose(rows["TAP"].p, rows["EP"].p, atol=1e-6)
    table = printed.split("\n\n")[1].split("\n")
    assert len(table) == len(rows) + 1
    assert len({len(line) for line in table}) == 1  # aligned


def test_compare_approximations_without_matplotlib(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    script("examples/compare_approximations.py").main(["--rows", "30", "--out", str(tmp_path)])
    assert "no figure, because matplotlib is missing" in capsys.readouterr().out


def test_compare_approximations_says_what_rows_it_takes(capsys):
    with pytest.raises(SystemExit):
        script("examples/compare_approximations.py").main(["--rows", "5"])
    assert "--rows must be from 20 to 500" in capsys.readouterr().err


def test_speed(capsys):
    speed = script("benchmarks/speed.py")
    cases, unit = speed.measure((30, 60), 1)
    assert all(case.converged for case in cases)
    speed.report(cases, unit)
    speed.against_sklearn(40, 1)
    printed = capsys.readouterr().out
    assert all(f"{case.name}, {type(case.likelihood).__name__} " in printed for case in cases)
    assert "1e-6, MISSED" not in printed  # scikit-learn's evidence and gradient equal ours


def test_goals_are_judged():
    speed = script("benchmarks/speed.py")
    case = speed.Case(speed.EP(), speed.Probit(), units={500: 90.0, 1000: 42.1, 2000: 34.9})
    texts = [speed.goal_text(case, n) for n in (500, 1000, 2000)]
    assert [text.strip() for text in texts] == ["90.0", "42.1 (≤ 42, MISSED)", "34.9 (≤ 35)"]
    assert {len(text) for text in texts} == {23}  # columns stay aligned


def test_multiclass(capsys):
    multiclass = script("benchmarks/multiclass.py")
    multiclass.report([30], 1)
    multiclass.growth(1, n=30, more=4)
    printed = capsys.readouterr().out
    assert printed.count("NestedEP") == printed.count("Laplace") == 2


def test_sampling(capsys):
    sampling = script("benchmarks/sampling.py")
    sampling.annealing(1, n=30, runs=4, temperatures=10)
    sampling.slices(1, n=30, chains=2, draws=50)
    printed = capsys.readouterr().out
    assert printed.count("Probit") == printed.count("Logit") == 2


def test_trial_of_the_paper():
    paper = script("benchmarks/nickisch_rasmussen.py")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=60) > 0, "a", "b")
    trial = paper.run_trial("made", (X[:30], y[:30], X[30:], y[30:]), "logit", "rbf", 3)
    assert_array_equal(trial.failed, 0)
    assert np.all((trial.best > 0) & (trial.best < 1))
    assert np.all(trial.at_evidence <= trial.best)
    assert trial.best[list(paper.METHODS).index("EP")] > trial.best[list(paper.METHODS).index("LR")]


def test_paper_counts_and_conclusions(capsys):
    paper = script("benchmarks/nickisch_rasmussen.py")
    scores = np.array([[0.3, 0.6, 0.6, 0.5, 0.4, 0.1, 0.35], [0.5, 0.6, 0.6, 0.6, 0.6, -np.inf, 0.6]])
    assert_array_equal(paper.below(scores, np.mean), [1, 0, 0, 0, 1, 2, 1])  # means 0.407 and -142
    assert_array_equal(paper.below(scores, np.median), [2, 0, 0, 0, 0, 2, 1])
    assert paper.conclusions({name: np.array(row) for name, row in paper.PAPER.items()})
    assert not paper.conclusions({"mean": np.array([0, 1, 0, 0, 0, 0, 0]), "median": np.zeros(7, dtype=int)})
    assert "FAILS  EP and KL are below the mean least often" in capsys.readouterr().out


def test_paper_without_its_data(monkeypatch, tmp_path, capsys):
    paper = script("benchmarks/nickisch_rasmussen.py")
    monkeypatch.setenv("GPCLASS_DATA", "")
    assert paper.main(["--sets", "crabs", "--data", str(tmp_path)]) == 2
    assert "left out: Data set 'crabs'" in capsys.readouterr().err
