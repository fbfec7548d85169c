"""The work that cannot be avoided, measured beside everything else; how cost grows with n, M and C, and a picture of it.

- dpotrf: one Cholesky factorisation of n × n: what any evaluation of a dense evidence needs at least once
- gemm: (n × n) times (n × 10,000): twice what variances of 10,000 new rows need
- memory: reading an n × n array once and writing it once
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from scipy.linalg.blas import dgemm
from scipy.linalg.lapack import dpotrf
from threadpoolctl import threadpool_limits

from gpclass.inference import EP, KL, Laplace, NestedEP
from gpclass.kernels import RBF
from gpclass.learning import Arrays, Training, begin_training
from gpclass.likelihoods import MultinomialProbit, Probit, Softmax
from gpclass.sparse import SVGP, ScalableEP, StochasticEP

from ..small_problems import KERNEL, evaluate, several_classes, two_classes
from .results import Result

MANY = 10_000


def processor_time(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


class Unit:
    """The unavoidable work at one n: the best of all times that it was measured, on one thread."""

    def __init__(self, n: int):
        self.n = n
        rng = np.random.default_rng(0)
        self.matrix = np.asfortranarray(RBF(2.0)(rng.normal(size=(n, 5))) + np.eye(n))
        self.best = {"dpotrf": np.inf, "memory": np.inf, "gemm": np.inf}
        self.copy = self.matrix.copy(order="F")

    def measure(self, least: int = 3) -> None:
        with threadpool_limits(1):
            for _ in range(least):
                self._keep("memory", lambda: np.copyto(self.copy, self.matrix))
                self._keep("dpotrf", lambda: dpotrf(self.copy, lower=1, clean=0, overwrite_a=1))

    def measure_gemm(self, rows: int = 1000) -> None:
        """Of 1000 columns, times ten."""
        other = np.ones((self.n, rows), order="F")
        with threadpool_limits(1):
            for _ in range(3):
                self._keep("gemm", lambda: dgemm(1.0, self.matrix, other), MANY / rows)

    def _keep(self, name: str, work, factor: float = 1.0) -> None:
        self.best[name] = min(self.best[name], factor * processor_time(work))

    def multiples(self, result: Result) -> dict[str, float]:
        out = {}
        if result.cpu_seconds is not None:
            out = {name: result.cpu_seconds / self.best[name] for name in ("dpotrf", "memory")}
        if result.predict_many_seconds is not None:
            self.measure_gemm()
            out["gemm, 10,000 rows"] = result.predict_many_seconds / self.best["gemm"]
        return out


# growth ----------------------------------------------------------------------------------------------------------------

Series = dict[str, list[tuple[int, float]]]  # name -> (size, processor seconds)


def growth(quick: bool = True) -> dict[str, Series]:
    """Costs against n, M and C, engines and unavoidable work interleaved; the best of two."""
    sizes = (250, 500, 1000, 2000)
    with threadpool_limits(1):
        return {
            "n": _series(sizes, _dense_cases),
            "n of inducing points": _series((2000, 4000, 8000) if quick else (2000, 4000, 8000, 16000), _rows_cases),
            "M": _series((50, 100, 200, 400), _inducing_cases),
            "C": _series((3, 6, 12), _class_cases),
        }


def _series(sizes, cases_of, repeats: int = 2) -> Series:
    out: Series = {}
    for size in sizes:
        cases = cases_of(size)
        best = dict.fromkeys(cases, np.inf)
        for _ in range(repeats):
            for name, work in cases.items():
                best[name] = min(best[name], processor_time(work))
        for name, seconds in best.items():
            out.setdefault(name, []).append((size, seconds))
    return out


def _dense_cases(n: int) -> dict[str, Callable]:
    X, y = two_classes(n)
    A = np.asfortranarray(KERNEL(X) + np.eye(n))
    cases = {type(e).__name__: lambda e=e: evaluate(X, y, e, Probit()) for e in (Laplace(), EP(), KL())}
    if n <= 1000:
        cases["NestedEP, C = 3"] = _nested(n, 3)
    return {**cases, "dpotrf": lambda: dpotrf(A.copy(order="F"), lower=1, clean=0, overwrite_a=1)}


def _nested(n: int, C: int) -> Callable:
    X, y = several_classes(n, C)

    def work():
        K = KERNEL(X)
        KERNEL.pullback(X, NestedEP().fit(K, y, MultinomialProbit(C)).evidence_gradient(), value=K)

    return work


def _passes(n: int, M: int, C: int, batch: int) -> dict[str, Callable]:
    """One pass over the rows in minibatches, after the first one."""
    X, y = several_classes(n, C)
    engines = {
        "ScalableEP": (ScalableEP(), MultinomialProbit),
        "StochasticEP": (StochasticEP(), MultinomialProbit),
        "SVGP, softmax": (SVGP(), Softmax),
    }
    cases = {}
    for name, (engine, likelihood) in engines.items():
        training = Training(n_inducing=M, batch_size=batch, inputs="random")
        run, source = begin_training(Arrays(X, y), RBF(3.0, 4.0), likelihood(C), engine, training)
        cases[name] = lambda run=run, source=source: run.run(source, epochs=1)
    wide, square = np.ones((n, M), order="F"), np.ones((M, M), order="F")

    def products():  # K_fu times a matrix for each class
        for _ in range(C):
            dgemm(1.0, wide, square)

    return {**cases, "gemm, one for each class": products}


def _rows_cases(n: int) -> dict[str, Callable]:
    return _passes(n, 100, 3, 500)


def _inducing_cases(M: int) -> dict[str, Callable]:
    return _passes(2000, M, 3, 1000)


def _class_cases(C: int) -> dict[str, Callable]:
    return {"NestedEP, n = 300": _nested(300, C), **_passes(2000, 100, C, 500)}


def as_results(growths: dict[str, Series], stamp: dict[str, str]) -> Iterator[Result]:
    for what, series in growths.items():
        for name, points in series.items():
            library = "bare" if name.startswith(("dpotrf", "gemm")) else "gpclass"
            for size, seconds in points:
                yield Result("growth", what, library, name, size, **stamp, cpu_seconds=seconds)


def exponent(points: list[tuple[int, float]]) -> float:
    """Slope of log seconds over log size, by least squares."""
    size, seconds = np.log(np.array(points)).T
    return float(np.polyfit(size, seconds, 1)[0])


def draw(growths: dict[str, Series], file: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    titles = {
        "n": ("all rows: evidence and gradient", "rows n"),
        "n of inducing points": ("M = 100, C = 3: one pass in minibatches of 500", "rows n"),
        "M": ("n = 2000, C = 3: one pass in minibatches of 1000", "inducing points M"),
        "C": ("one pass, n = 2000, M = 100; NestedEP: one evaluation", "classes C"),
    }
    fig, axes = plt.subplots(2, 2, figsize=(12, 9), layout="constrained")
    for ax, (what, series) in zip(axes.flat, growths.items(), strict=True):
        for place, (name, points) in enumerate(series.items()):
            bare = name.startswith(("dpotrf", "gemm"))
            style = {"color": "0.4", "linestyle": "--"} if bare else {"color": f"C{place}"}
            ax.loglog(*np.transpose(points), "o", linestyle=style.pop("linestyle", "-"), **style,
                      label=f"{name}: exponent {exponent(points):.2f}")  # fmt: skip
        title, label = titles[what]
        ax.set(title=title, xlabel=label, ylabel="seconds of the processor")
        sizes = [size for size, _ in next(iter(series.values()))]
        ax.set_xticks(sizes, labels=[str(s) for s in sizes])
        ax.minorticks_off()
        ax.grid(alpha=0.25)
        low, high = ax.get_ylim()
        ax.set_ylim(low, high * (high / low) ** 0.45)  # room for the legend
        ax.legend(frameon=False, fontsize="small", loc="upper left")
    file.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(file, dpi=110)
    plt.close(fig)
