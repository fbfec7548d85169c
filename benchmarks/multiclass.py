"""What one evaluation of the evidence and its gradient costs with several classes, in Cholesky factorisations: `make bench`.

As in `speed.py`: kernel, cold fit, gradient in K and pullback, one kernel shared by all classes, one BLAS thread, seconds of
the processor. `--store` writes the numbers to results/pieces_speed.jsonl, which the pages of engines quote.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
from scipy.linalg.lapack import dpotrf
from threadpoolctl import threadpool_limits

import learned
from gpclass.choose import default_likelihood
from gpclass.inference import IndependentEP, Laplace, NestedEP
from gpclass.registry import registered
from papers.pieces import Pieces, file_of
from scoreboard.results import shown
from small_problems import KERNEL, several_classes

# at n = 1000 and C = 3: factorisations per class, and how many classes count (the coupled ones have C + 1 factorisations)
GOALS = {"Laplace": (30, 1), "NestedEP": (90, 1), "IndependentEP": (60, 0)}
GROWTH = 1.15  # over linear, from C = 3 to 10 at n = 500


def engines():
    engines = (make() for make in registered("engine").values())
    return [e for e in engines if e.takes_several and e.design == "all rows"]


def seconds(engine, n, C, repeats):
    """Best of several, in seconds and in factorisations timed beside it; and the sweeps."""
    X, y = several_classes(n, C)
    likelihood = default_likelihood(engine, C) if C > 2 else type(default_likelihood(engine, 3))(2)
    A = KERNEL(X) + np.eye(n)
    best, unit, sweeps = np.inf, np.inf, 0
    for _ in range(repeats):
        began = time.process_time()
        K = KERNEL(X)
        fit = engine.fit(K, y, likelihood)
        KERNEL.pullback(X, fit.evidence_gradient(), value=K)
        best, sweeps = min(best, time.process_time() - began), fit.n_iter
        began = time.process_time()
        dpotrf(A, lower=1)
        unit = min(unit, time.process_time() - began)
    return best, best / unit, sweeps


def report(sizes, repeats, keep=lambda *_: None):
    print("One evaluation of evidence and gradient, C = 3, in Cholesky factorisations (goal)")
    for engine in engines():
        name, texts = type(engine).__name__, []
        for n in sizes:
            spent, units, sweeps = seconds(engine, n, 3, repeats)
            keep(f"several/{name}/{n}", {"factorisations": units, "sweeps": sweeps, "fit_seconds": spent}, spent)
            per_class, extra = GOALS.get(name, (0, 0))
            goal = per_class * (3 + extra)
            judged = n >= 1000 and goal
            missed = ", MISSED" if judged and units > goal else ""
            wanted = f" (≤ {goal}{missed})" if judged else ""
            texts.append(f"n = {n}: {units:6.0f}{wanted} {spent:6.2f} s {sweeps:3d} sweeps")
        print(f"{name:16s} " + "   ".join(texts))


def growth(repeats, keep=lambda *_: None, n=500, fewer=3, more=10):
    print(f"Growth with the number of classes, C = {fewer} to {more} at n = {n}, over growth like C + 1")
    for engine in (Laplace(), NestedEP()):
        few, many = (seconds(engine, n, C, repeats) for C in (fewer, more))
        ratio = many[0] / few[0] / ((more + 1) / (fewer + 1))
        values = {"growth": ratio, "growth_of_a_sweep": ratio * few[2] / many[2]}
        keep(f"several/{type(engine).__name__}/growth", values, few[0] + many[0])
        print(f"{type(engine).__name__:16s} {ratio:.2f} (≤ {GROWTH}{', MISSED' if ratio > GROWTH else ''})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[500, 1000])
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--store", action="store_true", help="store the numbers, and leave out cold fits to tables")
    args = parser.parse_args()
    with threadpool_limits(args.threads, "blas"):
        if args.store:
            pieces = Pieces(file_of("speed"), command=shown("python benchmarks/multiclass.py", sys.argv[1:]))
            report(args.sizes, args.repeats, pieces.store)
            growth(args.repeats, pieces.store)
            return
        report(args.sizes, args.repeats)
        growth(args.repeats)
        learned.report([NestedEP(), IndependentEP()], several=True)


if __name__ == "__main__":
    main()
