"""Processes of the command line: the first line appears soon, and Ctrl-C saves a model."""

import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import gpclass
from gpclass.cli import app
from gpclass.learning import Objective

OFTEN = (  # a log file would have too few lines for these tests, which wait for one
    # a shell starts background processes, and with them these tests, with SIGINT ignored, which children inherit
    "import signal, sys\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "from gpclass.progress import display\nfrom gpclass.cli import console, main\n"
    "display.TICK, display.LASTING, display.SELDOM, console.QUIET = 0.05, 0.0, 0.1, 0.0\nmain()"
)
POSIX = pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is a signal there")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Rows that take many seconds with many restarts, or many passes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(250, 6))
    y = np.where(np.sin(2 * X[:, 0]) + X[:, 1] + rng.logistic(size=250) > 0, "up", "down")
    path = tmp_path_factory.mktemp("interrupted") / "table.csv"
    pd.DataFrame(X, columns=list("abcdef")).assign(y=y).to_csv(path, index=False)
    return path


def started(*words):
    command = [sys.executable, "-c", OFTEN, *map(str, words)]
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "400"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, bufsize=1)


def wait_for(process, pattern):
    for line in process.stderr:
        if re.search(pattern, line):
            return
    raise AssertionError(f"no line with {pattern!r}")


def ended(process):
    out, err = process.communicate(timeout=120)
    assert "Traceback" not in err, err
    return out, err.strip().splitlines()


def test_reading_is_shown_before_the_imports():
    """A line appears before pandas and scikit-learn are imported, which may take seconds."""
    code = (
        "import sys\nfrom gpclass.progress import Listener, listening\nfrom gpclass.cli import app\n"
        "class Told(Listener):\n    def changed(self):\n"
        "        print(*self.path, {'numpy', 'pandas', 'sklearn'} & set(sys.modules))\n"
        "with listening(Told()):\n    app(['fit', 'absent.csv', '-t', 'y'], standalone_mode=False)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[0] == "reading absent.csv set()"
    assert "absent.csv" in done.stderr


def test_the_first_line_comes_soon(table, tmp_path):
    command = [sys.executable, "-m", "gpclass", "fit", table, "-t", "y", "-k", "rbf-ard", "--restarts", "300"]
    command += ["-o", tmp_path / "m"]
    began = time.monotonic()
    process = subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True, bufsize=1)
    first = process.stderr.readline()
    seconds = time.monotonic() - began
    process.kill()
    process.communicate()
    assert re.match(r"0:0\d  (reading|fit)", first), first
    assert seconds < 8  # 1 to 2 s on an idle machine


@POSIX
def test_ctrl_c_writes_the_model_of_what_was_learned(table, tmp_path):
    process = started("fit", table, "-t", "y", "-e", "ep", "-k", "rbf-ard", "--restarts", "300", "-o", tmp_path / "m")
    wait_for(process, "search 2 of 301 for hyperparameters: iteration")
    process.send_signal(signal.SIGINT)
    out, lines = ended(process)
    assert process.returncode == 130
    assert "leave-one-out  error" in out
    told = rf"interrupted after \d+ (evaluations?|of 301 searches): the model of .* is in {tmp_path / 'm'}"
    assert re.fullmatch(told, lines[-1])
    assert gpclass.load(tmp_path / "m").score(pd.read_csv(table), pd.read_csv(table)["y"]) > 0.6


def test_ctrl_c_before_anything_was_learned_writes_nothing(table, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(Objective, "evaluate", interrupted)
    result = CliRunner().invoke(app, ["fit", str(table), "-t", "y", "-e", "ep", "-o", str(tmp_path / "m")])
    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1] == "gpclass: interrupted; no model was written"
    assert not (tmp_path / "m").exists()


@pytest.mark.slow  # one process each; tests/learning/test_checkpoint.py interrupts runs within the test process
@POSIX
@pytest.mark.parametrize("more", [[], ["--checkpoint"]])
def test_ctrl_c_in_a_run_on_minibatches(table, tmp_path, more):
    words = [*more, *([tmp_path / "run.npz"] if more else [])]
    frame = pd.concat([pd.read_csv(table)] * 20)  # 5000 rows are trained on minibatches
    frame["a"] += np.random.default_rng(0).normal(scale=0.01, size=len(frame))
    frame.to_csv(tmp_path / "many.csv", index=False)
    process = started("fit", tmp_path / "many.csv", "-t", "y", "-e", "svgp", "-k", "rbf", "-o", tmp_path / "m", *words)
    wait_for(process, r"[1-9]\.\d of \d+ passes")
    process.send_signal(signal.SIGINT)
    out, lines = ended(process)
    assert process.returncode == 130
    if more:
        assert lines[-1] == f"gpclass: interrupted; the run is saved in {words[1]}, and the same command continues it"
        assert not (tmp_path / "m").exists()
        return
    told = r"interrupted after \d+\.\d passes over the rows: .*; add --checkpoint FILE to be able to continue"
    assert re.fullmatch(told, lines[-1])
    assert re.search(r"held-out +error .* on 500 rows", out)
    assert gpclass.load(tmp_path / "m")[-1].calibration_.held_out
