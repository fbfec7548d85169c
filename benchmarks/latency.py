"""Time of a prediction of one row, as a web service makes it, and of blocks of rows; loading and size of the model file.

    python benchmarks/latency.py            # prints the tables of benchmarks/results/latency.md

The second table compares the processor time of 10,000 rows with that of scikit-learn's GaussianProcessClassifier, which has
the same training rows and the same RBF kernel. The two take turns, and the best of three rounds counts.

Set OPENBLAS_NUM_THREADS=1: products of one row are too small to divide among threads.
"""

from __future__ import annotations

import argparse
import platform
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import make_classification
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process import kernels as sk

import gpclass
from gpclass import GPClassifier
from gpclass.kernels import RBF
from gpclass.sparse import SVGP

COLUMNS = 10
BLOCK = 10_000


@dataclass(frozen=True)
class Case:
    """A model to measure."""

    name: str
    rows: int
    classes: int
    settings: dict


CASES = (
    Case("2 classes, 300 rows", 300, 2, {}),
    Case("2 classes, 1000 rows", 1000, 2, {}),
    Case('2 classes, 300 rows, kernel="auto"', 300, 2, {"kernel": "auto"}),
    Case("3 classes, 300 rows", 300, 3, {}),
    Case("10 classes, 300 rows", 300, 10, {}),
    Case("2 classes, 100 inducing points", 5000, 2, {"inference": SVGP(n_inducing=100, epochs=2)}),
    Case("3 classes, 100 inducing points", 5000, 3, {"inference": SVGP(n_inducing=100, epochs=2)}),
)


@dataclass(frozen=True)
class Latency:
    """Milliseconds of predictions of one row, rows a second in a block, milliseconds of loading, bytes of the file."""

    p50: float
    p99: float
    per_second: float
    loading: float
    size: int


def measure(case: Case, calls: int = 1000, block: int = BLOCK) -> Latency:
    """Fit a model and time its predictions after loading it from a file."""
    X, y = make_classification(
        case.rows + block, COLUMNS, n_informative=6, n_redundant=0, n_classes=case.classes, random_state=0
    )
    model = GPClassifier(max_iter=20, random_state=0, **case.settings).fit(X[: case.rows], y[: case.rows])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.gpclass"
        gpclass.save(model, file)
        size = file.stat().st_size
        began = time.perf_counter()
        model = gpclass.load(file)
        loading = time.perf_counter() - began
    new = X[case.rows :]
    model.predict_proba(new[:1])  # the first call also imports
    times = np.array([timed(model, new[[i % len(new)]]) for i in range(calls)])
    p50, p99 = 1000 * np.quantile(times, (0.5, 0.99))
    return Latency(float(p50), float(p99), len(new) / timed(model, new), 1000 * loading, size)


def timed(model: GPClassifier, rows: np.ndarray) -> float:
    """Return the seconds of one call of `predict_proba`."""
    began = time.perf_counter()
    model.predict_proba(rows)
    return time.perf_counter() - began


def against_sklearn(classes: int, rows: int = 1000, block: int = BLOCK, rounds: int = 3) -> tuple[float, float]:
    """Return the processor seconds of a block of rows with gpclass and with scikit-learn, hyperparameters held."""
    X, y = make_classification(rows + block, COLUMNS, n_informative=6, n_redundant=0, n_classes=classes, random_state=0)
    ours = GPClassifier(RBF(3.0, 10.0), optimizer=None).fit(X[:rows], y[:rows])
    theirs = GaussianProcessClassifier(sk.ConstantKernel(10.0) * sk.RBF(3.0), optimizer=None).fit(X[:rows], y[:rows])
    best = [np.inf, np.inf]
    for _ in range(rounds):
        for i, model in enumerate((ours, theirs)):
            began = time.process_time()
            model.predict_proba(X[rows:])
            best[i] = min(best[i], time.process_time() - began)
    return best[0], best[1]


def comparison(classes: Iterable[int], rows: int = 1000, block: int = BLOCK) -> str:
    """Return the comparison with scikit-learn as a Markdown table."""
    lines = [f"| {rows:,} training rows, a block of {block:,} rows | gpclass | scikit-learn | ratio |"]
    lines.append("|---|---:|---:|---:|")
    for C in classes:
        ours, theirs = against_sklearn(C, rows, block)
        lines.append(f"| {C} classes | {ours:.2f} s | {theirs:.2f} s | {theirs / ours:.1f} |")
    return "\n".join(lines)


def table(cases: Iterable[Case], calls: int = 1000, block: int = BLOCK) -> str:
    """Return the measurements as a Markdown table."""
    lines = ["| model, 10 columns | one row, p50 | p99 | rows a second, in blocks | load | file |"]
    lines.append("|---|---:|---:|---:|---:|---:|")
    for case in cases:
        found = measure(case, calls, block)
        rate = f"{found.per_second:,.0f}" if found.per_second < 1000 else f"{round(found.per_second, -3):,.0f}"
        lines.append(
            f"| {case.name} | {found.p50:.2f} ms | {found.p99:.2f} ms | {rate} "
            f"| {found.loading:.0f} ms | {found.size / 1000:.0f} kB |"
        )
    return "\n".join(lines)


def main(arguments=None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--calls", type=int, default=1000, help="predictions of one row (default: 1000)")
    args = parser.parse_args(arguments)
    print(f"Python {platform.python_version()}, NumPy {np.__version__}, {platform.machine()}, one thread\n")
    print(table(CASES, args.calls))
    print("\n" + comparison((2, 3, 10)))


if __name__ == "__main__":
    main()
