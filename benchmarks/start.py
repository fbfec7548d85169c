"""What it costs to start: imports, a first fit, and help texts of the command line.

Processor seconds of fresh processes with one BLAS thread, the best of several, interleaved. Imports are counted beyond
`import sklearn.base, scipy.linalg`, which every scikit-learn estimator needs, in the same process; commands beyond
`python -c pass`. Byte code is cached, as after an installation.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from dataclasses import dataclass

BASE = "import sklearn.base, scipy.linalg"
FIT = """
import numpy as np
from gpclass import GPClassifier
X = np.random.default_rng(0).normal(size=(60, 2))
GPClassifier().fit(X, X[:, 0] > 0).predict_proba(X)
"""
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Case:
    name: str
    code: str  # that is timed
    before: str = "pass"  # what runs before it, in the same process
    goal: float | None = None  # processor seconds


def command(words: str, goal: float | None = None) -> Case:
    """The command line as its entry point starts it."""
    code = f"import sys; sys.argv = {['gpclass', *words.split()]}\nfrom gpclass.cli import main\nmain()"
    return Case(f"gpclass {words}", code, goal=goal)


CASES = [
    Case(BASE, BASE),
    Case("import gpclass", "import gpclass", BASE, 0.4),
    Case("from gpclass import GPClassifier", "from gpclass import GPClassifier", BASE, 0.4),
    Case("from gpclass import load, suggest", "from gpclass import load, suggest", BASE),
    Case("GPClassifier and a first fit, 60 rows", FIT, BASE),
    command("--version", 0.3),
    command("--help", 0.3),
    command("fit --help"),
]


def seconds(case: Case) -> float:
    """Processor seconds of one run in a fresh process. They are taken at exit, since commands end with SystemExit."""
    code = (
        f"import atexit, sys, time\n{case.before}\nbegan = time.process_time()\n"
        f"atexit.register(lambda: print(time.process_time() - began, file=sys.stderr))\n{case.code}"
    )
    environment = {**os.environ, **dict.fromkeys(THREADS, "1")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    return float(done.stderr.split()[-1])


def goal_text(case: Case, best: float) -> str:
    if case.goal is None:
        return f"{best:6.3f}"
    return f"{best:6.3f} (≤ {case.goal}{'' if best <= case.goal else ', MISSED'})"


def main(repeats: int) -> None:
    times: dict[str, list[float]] = {case.name: [] for case in CASES}
    for _ in range(1 + repeats):  # the first run writes byte code and is not counted
        for case in CASES:
            times[case.name].append(seconds(case))
    for case in CASES:
        print(f"{case.name:40} {goal_text(case, min(times[case.name][1:]))}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    main(parser.parse_args().repeats)
