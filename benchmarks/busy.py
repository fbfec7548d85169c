"""Processor time of a default fit on a busy machine: threads of BLAS that wait for each other spin, and cost much there.

Each fit runs in a fresh process, with one BLAS thread and with as many as BLAS takes by itself, alone and beside processes
that keep all processors busy. Processor seconds are those of all threads. For 2000 rows, where threads save time, the wall
time is compared with one thread, and with threads that gpclass never limits (`numerics/threads.py`).

Goals: beside busy processes at most 1.5 times the processor time of one thread; for 2000 rows no wall time is lost.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

GOAL = 1.5  # processor seconds beside busy processes, in units of those with one thread beside them
LOST = 1.1  # wall seconds that count as no loss: measurements on a shared machine scatter by a tenth
MOST = 30  # processor seconds after which a process is ended
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
SPIN = "while True:\n    pass"
DIGITS = """
from sklearn.datasets import load_digits
X, y = load_digits(n_class=3, return_X_y=True)
X, y = X[:360] / 16, y[:360]
"""
ROWS = """
from sklearn.datasets import make_classification
X, y = make_classification(2000, 10, n_informative=6, flip_y=0.1, random_state=0)
"""
OURS = "from gpclass import GPClassifier\n"
THEIRS = "from sklearn.gaussian_process import GaussianProcessClassifier\nfrom sklearn.gaussian_process.kernels import RBF\n"
NO_LIMIT = "import gpclass.numerics.threads as threads\nthreads.THREADED_ROWS = 0\n"
FITS = {  # setup and the fit that is timed
    "nested EP, 360 rows, 3 classes": (DIGITS + OURS, "GPClassifier().fit(X, y)"),
    "Laplace, 360 rows, 3 classes": (DIGITS + OURS, 'GPClassifier(inference="laplace").fit(X, y)'),
    "scikit-learn, 360 rows, 3 classes": (DIGITS + THEIRS, "GaussianProcessClassifier(1.0 * RBF(2.0)).fit(X, y)"),
}
LARGE = {
    "EP, 2000 rows, 2 classes": (ROWS + OURS, 'GPClassifier("rbf", max_iter=3).fit(X, y)'),
    "Laplace, 2000 rows, 2 classes": (ROWS + OURS, 'GPClassifier("rbf", inference="laplace", max_iter=3).fit(X, y)'),
}


def measured(setup: str, fit: str, one_thread: bool) -> tuple[float, float]:
    """Processor and wall seconds of a fit in a fresh process; a small fit before it loads what is loaded once."""
    code = (
        f"import json, resource, time, warnings\nresource.setrlimit(resource.RLIMIT_CPU, ({MOST}, {MOST}))\n"
        f"warnings.simplefilter('ignore')\n{setup}\n"
        f"rows = X, y\nX, y = X[::20], y[::20]\n{fit}\n"
        f"X, y = rows\nbegan = time.process_time(), time.perf_counter()\n{fit}\n"
        "print(json.dumps([time.process_time() - began[0], time.perf_counter() - began[1]]))"
    )
    environment = {name: value for name, value in os.environ.items() if name not in THREADS}
    environment |= dict.fromkeys(THREADS, "1") if one_thread else {}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return math.inf, math.inf
    assert done.returncode == 0, done.stderr
    processor, wall = json.loads(done.stdout)
    return processor, wall


def shown(seconds: float) -> str:
    return f"{seconds:.2f}" if math.isfinite(seconds) else f"> {MOST}"


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Context in which other processes keep processors busy."""
    others = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(processes)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def loads(repeats: int, processes: int) -> list[str]:
    """Return a table of processor seconds, alone and beside busy processes."""
    lines = [
        f"| fit | alone, one thread | alone, default | beside {processes}, one thread | beside them, default | ratio |",
        "|---|---|---|---|---|---|",
    ]
    for name, (setup, fit) in FITS.items():
        times: dict[tuple[int, bool], list[float]] = {(n, one): [] for n in (0, processes) for one in (True, False)}
        for _ in range(repeats):
            for n, one in times:
                with busy(n):
                    times[n, one].append(measured(setup, fit, one)[0])
        found = {key: statistics.median(values) for key, values in times.items()}
        ratio = found[processes, False] / found[processes, True]
        verdict = "" if name.startswith("scikit") else f" (≤ {GOAL}{'' if ratio <= GOAL else ', MISSED'})"
        lines.append(f"| {name} | " + " | ".join(map(shown, found.values())) + f" | {ratio:.2f}{verdict} |")
        print(lines[-1], flush=True)
    return lines


def quiet(repeats: int) -> list[str]:
    """Return a table of wall seconds for many rows, with one thread, by default, and without our limits."""
    lines = ["| fit | one thread | default | limits off | default / best of the others |", "|---|---|---|---|---|"]
    for name, (setup, fit) in LARGE.items():
        walls: list[list[float]] = [[], [], []]
        for _ in range(repeats):
            for wall, (before, one) in zip(walls, ((setup, True), (setup, False), (setup + NO_LIMIT, False)), strict=True):
                wall.append(measured(before, fit, one)[1])
        found = [min(wall) for wall in walls]  # other work on the machine only adds to it
        ratio = found[1] / min(found[0], found[2])
        verdict = f"{ratio:.2f} (≤ {LOST}{'' if ratio <= LOST else ', MISSED'})"
        lines.append(f"| {name} | " + " | ".join(map(shown, found)) + f" | {verdict} |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--processes", type=int, default=2, help="busy processes")
    parser.add_argument("--large-repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "busy.md")
    given = parser.parse_args()
    load = os.getloadavg()[0]
    small, large = loads(given.repeats, given.processes), quiet(given.large_repeats)
    text = f"""# Fits on a busy machine

`python benchmarks/busy.py`: default fits in fresh processes, with one BLAS thread and with as many as BLAS takes by itself.
{os.cpu_count()} processors ({platform.machine()}), load {load:.1f} before the run: the machine is shared, so "alone" is not
quite alone.

Processor seconds of all threads, medians of {given.repeats}, alone and beside {given.processes} processes that only compute;
a fit is ended after {MOST}. The ratio is that of the last two columns:

{chr(10).join(small)}

Wall seconds for many rows, the best of {given.large_repeats}, alone. With at least 1000 rows gpclass does not limit threads:

{chr(10).join(large)}
"""
    given.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
