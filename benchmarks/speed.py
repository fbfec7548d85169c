"""What one evaluation of the evidence and its gradient costs: `make bench`.

An evaluation is what a search for hyperparameters repeats: K = k(X), a cold fit, the evidence gradient in K, and the
kernel's pullback of it. Its unit is one Cholesky factorisation (LAPACK's dpotrf) of the same size, timed beside it: that
makes the numbers comparable between machines. Times are of the processor, best of several, interleaved. Then the same
against scikit-learn. `--store` writes the numbers to results/pieces_speed.jsonl, which the pages of engines quote.
"""

from __future__ import annotations

import argparse
import sys
import time
import tracemalloc
import warnings
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg.lapack import dpotrf
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF as SklearnRBF
from sklearn.gaussian_process.kernels import ConstantKernel
from sklearn.metrics import pairwise_distances
from threadpoolctl import threadpool_limits

from gpclass.inference import EP, FV, KL, TAP, VB, LabelRegression, Laplace, TAPNaive
from gpclass.likelihoods import Logit, Probit
from papers.pieces import Pieces, file_of
from scoreboard.results import shown
from small_problems import KERNEL, evaluate, two_classes

ENGINES = [Laplace(), EP(), KL(), VB(), TAP(), TAPNaive(), FV(), LabelRegression()]
LIKELIHOODS = [Logit(), Probit()]
GOALS = {"Laplace": 11, "EP": 35, "KL": 50, "VB": 40}  # at n = 2000; a fifth more at n = 1000
MEMORY_GOAL = 8  # n × n arrays
EVALUATION_GOAL, FIT_GOAL = 2.2, 4.0  # times faster than scikit-learn


@dataclass
class Case:
    engine: object
    likelihood: object
    seconds: dict[int, float] = field(default_factory=dict)  # best, by n
    units: dict[int, float] = field(default_factory=dict)  # the same in Cholesky factorisations
    sweeps: dict[int, int] = field(default_factory=dict)
    memory: dict[int, float] = field(default_factory=dict)  # peak in n × n arrays
    converged: bool = True

    @property
    def name(self) -> str:
        return type(self.engine).__name__

    def measure(self, X, y) -> None:
        n = len(y)
        began = time.process_time()
        fit, _ = evaluate(X, y, self.engine, self.likelihood)
        spent = time.process_time() - began
        self.seconds[n] = min(self.seconds.get(n, np.inf), spent)
        self.sweeps[n] = fit.n_iter
        self.converged &= fit.converged

    def measure_memory(self, X, y) -> None:
        tracemalloc.start()
        try:
            evaluate(X, y, self.engine, self.likelihood)
            self.memory[len(y)] = tracemalloc.get_traced_memory()[1] / (8 * len(y) ** 2)
        finally:
            tracemalloc.stop()


def cholesky_seconds(A: np.ndarray) -> float:
    copy = np.array(A, order="F")
    began = time.process_time()
    dpotrf(copy, lower=1, clean=0, overwrite_a=1)
    return time.process_time() - began


def measure(sizes, repeats: int) -> tuple[list[Case], dict[int, float]]:
    cases = [Case(engine, likelihood) for engine in ENGINES for likelihood in LIKELIHOODS]
    unit = {}
    for n in sizes:
        X, y = two_classes(n)
        A = KERNEL(X) + np.eye(n)
        cholesky_seconds(A)
        unit[n] = np.inf
        for _ in range(repeats):
            for case in cases:
                unit[n] = min(unit[n], cholesky_seconds(A), cholesky_seconds(A))
                case.measure(X, y)
        for case in cases:
            case.units[n] = case.seconds[n] / unit[n]
            case.measure_memory(X, y)
    return cases, unit


def store(cases: list[Case], pieces: Pieces) -> None:
    """Write all numbers, for pages that quote them."""
    for case in cases:
        name = f"{case.name}/{type(case.likelihood).__name__}"
        for n, spent in case.seconds.items():
            values = {"factorisations": case.units[n], "sweeps": case.sweeps[n], "arrays": case.memory[n]}
            pieces.store(f"{name}/{n}", {**values, "fit_seconds": spent}, spent)


def goal_text(case: Case, n: int) -> str:
    """Units at n beside the goal there, if there is one."""
    goal = GOALS.get(case.name, np.inf) * {2000: 1.0, 1000: 1.2}.get(n, np.inf)
    if not np.isfinite(goal):
        return f"{case.units[n]:>8.1f}{'':<15}"
    return f"{case.units[n]:>8.1f} {f'(≤ {goal:.0f}{_verdict(case.units[n] <= goal)})':<14}"


def _verdict(met: bool) -> str:
    return "" if met else ", MISSED"


def report(cases: list[Case], unit: dict[int, float]) -> None:
    sizes = list(unit)
    first, last = sizes[0], sizes[-1]
    print("One Cholesky factorisation: " + ", ".join(f"n = {n}: {1000 * unit[n]:.1f} ms" for n in sizes))
    print("\nOne evaluation of evidence and gradient, in Cholesky factorisations (goal)")
    header = f"{'':<26}" + "".join(f"{f'n = {n}':>11}{'':<12}" for n in sizes)
    print(header + f"{'seconds':>9}{'sweeps':>8}{'arrays':>8}{'exponent':>10}")
    for case in cases:
        exponent = np.log(case.seconds[last] / case.seconds[first]) / np.log(last / first)
        print(
            f"{f'{case.name}, {type(case.likelihood).__name__}':<26}"
            + "".join(goal_text(case, n) for n in sizes)
            + f"{case.seconds[last]:>9.2f}{case.sweeps[last]:>8d}{case.memory[last]:>8.1f}{exponent:>10.2f}"
            + ("" if case.converged else "  NOT CONVERGED")
        )
    worst = max(case.memory[n] for case in cases for n in sizes[-2:])
    print(
        f"seconds, sweeps and peak memory in n × n arrays at n = {last}; exponent of growth from {first} to {last}\n"
        f"largest peak at n ≥ {sizes[-2]}: {worst:.1f} arrays (≤ {MEMORY_GOAL}{_verdict(worst <= MEMORY_GOAL)})"
    )


def against_sklearn(n: int, repeats: int) -> float:
    """One evaluation of Laplace's evidence and gradient with the logistic likelihood."""
    X, y = two_classes(n)
    kernel = ConstantKernel(KERNEL.variance) * SklearnRBF(KERNEL.lengthscale)
    theirs = GaussianProcessClassifier(kernel, optimizer=None).fit(X, y)
    ours_s = theirs_s = np.inf
    for _ in range(repeats):
        began = time.process_time()
        value, gradient = theirs.log_marginal_likelihood(kernel.theta, eval_gradient=True)
        between = time.process_time()
        fit, ours = evaluate(X, y, Laplace(), Logit())
        ended = time.process_time()
        theirs_s, ours_s = min(theirs_s, between - began), min(ours_s, ended - between)
    ratio = theirs_s / ours_s
    apart, slope_apart = abs(value - fit.log_evidence), np.max(np.abs(gradient[::-1] - ours))  # theirs: variance first
    print(
        f"\nscikit-learn {theirs_s:.3f} s, Laplace with Logit {ours_s:.3f} s at n = {n}: {ratio:.1f} × faster "
        f"(≥ {EVALUATION_GOAL}{_verdict(ratio >= EVALUATION_GOAL)})\n"
        f"log evidence {fit.log_evidence:.6f}, apart by {apart:.1e} (≤ 1e-6{_verdict(apart <= 1e-6)}); "
        f"gradient {ours.round(6)}, apart by {slope_apart:.1e} (≤ 1e-6{_verdict(slope_apart <= 1e-6)})"
    )
    return ratio


def whole_fits(repeats: int) -> None:
    """A fit with its search for hyperparameters: breast cancer, 400 × 30."""
    try:
        from gpclass import GPClassifier
    except ImportError:
        print("\nno GPClassifier in gpclass yet: whole fits are not compared")
        return
    data = load_breast_cancer()
    order = np.random.default_rng(0).permutation(len(data.target))[:400]
    X, y = data.data[order], data.target[order]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    distances = pairwise_distances(X)
    start = 1.0 * SklearnRBF(np.median(distances[np.triu_indices(len(X), 1)]))
    seconds = {"theirs": np.inf, "ours": np.inf}
    fitted = {}
    for _ in range(repeats):
        for name, model in (
            ("theirs", GaussianProcessClassifier(start)),
            ("ours", GPClassifier(likelihood="logit", inference="laplace")),
        ):
            began = time.process_time()
            fitted[name] = model.fit(X, y)
            seconds[name] = min(seconds[name], time.process_time() - began)
    ratio = seconds["theirs"] / seconds["ours"]
    print(
        f"\nwhole fit, breast cancer 400 × 30: scikit-learn {seconds['theirs']:.2f} s, GPClassifier "
        f"{seconds['ours']:.2f} s: {ratio:.1f} × faster (≥ {FIT_GOAL:g}{_verdict(ratio >= FIT_GOAL)})\n"
        f"log evidence {fitted['theirs'].log_marginal_likelihood_value_:.4f} at {fitted['theirs'].kernel_}, and "
        f"{fitted['ours'].log_evidence_:.4f} at {fitted['ours'].kernel_} (ours has weak priors on these)"
    )


def main(arguments=None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=1, help="BLAS threads (default 1)")
    parser.add_argument("--quick", action="store_true", help="n = 200 and 500 only")
    parser.add_argument("--repeats", type=int, default=3, help="how often each time is taken; the best counts (default 3)")
    parser.add_argument("--store", action="store_true", help="store the numbers, and leave out whole fits")
    args = parser.parse_args(arguments)
    sizes = (200, 500) if args.quick else (500, 1000, 2000)
    command = shown("python benchmarks/speed.py", sys.argv[1:] if arguments is None else arguments)
    pieces = Pieces(file_of("speed"), command=command)
    with threadpool_limits(args.threads), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the table says it
        cases, unit = measure(sizes, args.repeats)
        report(cases, unit)
        ratio = against_sklearn(sizes[1], args.repeats)
        if args.store:
            store(cases, pieces)
            pieces.store(f"sklearn/{sizes[1]}", {"times": ratio}, 0.0)
            return
        whole_fits(args.repeats)
        import learned  # the scoreboard imports this file as a part of a package, without the folder on its path

        learned.report([EP(), TAP()], several=False)


if __name__ == "__main__":
    main()
