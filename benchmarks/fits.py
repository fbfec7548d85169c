"""Where the time of whole fits goes: processor seconds, evaluations and sweeps of each phase of GPClassifier().fit.

    python -m benchmarks.fits                     all tables, default settings
    python -m benchmarks.fits iris "digits 600"   some of them
    python -m benchmarks.fits --kernel auto
    python -m benchmarks.fits --beside            beside scikit-learn, in turns in one process
    python -m benchmarks.fits --beside COMMIT     and beside gpclass at that commit

`near` is how many evaluations of the last search were within 1, 0.1, 0.01 and 0.001 nats of its best value: what a better
rule for stopping could save. The data come from GPCLASS_DATA.

With --beside times are medians of processor seconds, after a first fit of each. scikit-learn's kernel is 1.0 * RBF, which
starts at the median distance between rows.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF

from gpclass import GPClassifier
from gpclass.learning.objective import Objective
from gpclass.progress import Listener, listening

from .progress import Versions
from .scoreboard.tasks import split, start

TABLES = [
    ("iris", 90), ("wine", 106), ("glass", 128), ("wdbc", 400), ("digits", 300), ("satimage", 300), ("digits", 600),
    ("satimage", 1000),
]  # fmt: skip
NEAR = (1.0, 0.1, 0.01, 0.001)


class Phases(Listener):
    """Adds up processor time by phase, of each phase without the phases inside it."""

    def __init__(self):
        super().__init__()
        self.seconds: dict[str, float] = defaultdict(float)
        self.counts: dict[str, Counter] = defaultdict(Counter)
        self.since = time.process_time()

    @property
    def name(self) -> str:
        """The current phase; the first evaluation is a part of its search."""
        names = [name for name in self.path if name != "first evaluation"]
        return " / ".join(names[-2:]) if names else "rest"

    def _book(self):
        now = time.process_time()
        self.seconds[self.name] += now - self.since
        self.since = now

    def enter(self, name, total=None, exact=True):
        self._book()
        super().enter(name, total, exact)

    def leave(self, depth):
        self._book()
        super().leave(depth)


@contextmanager
def counted(phases: Phases):
    """Count fits, gradients and sweeps of objectives in the current phase."""
    fit, gradient = Objective.fit, Objective.with_gradient

    def counting_fit(self, *args, **settings):
        found = fit(self, *args, **settings)
        phases.counts[phases.name].update(fits=1, sweeps=found.fit.n_iter)
        return found

    def counting_gradient(self, found):
        phases.counts[phases.name].update(gradients=1)
        return gradient(self, found)

    Objective.fit, Objective.with_gradient = counting_fit, counting_gradient
    try:
        yield
    finally:
        Objective.fit, Objective.with_gradient = fit, gradient


def report(name: str, rows: int, settings: dict) -> None:
    """Print the phases of one fit, the end of its search, and the quality of its predictions."""
    data = split(name, rows)
    GPClassifier(optimizer=None, random_state=0).fit(data["X"][:60], data["y"][:60])  # imports
    phases = Phases()
    began = time.process_time()
    with warnings.catch_warnings(), listening(phases), counted(phases):
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = GPClassifier(random_state=0, **settings).fit(data["X"], data["y"])
        phases._book()
    spent = time.process_time() - began
    log_p = model.predict_log_proba(data["X_test"])
    nlpd = -np.mean(log_p[np.arange(len(log_p)), data["y_test"]])
    values = np.array([step.objective for step in model.history_])
    near = " ".join(f"{np.sum(values < np.nanmax(values) - gap)}" for gap in NEAR)
    print(f"\n{name} {rows}: {spent:.3f} s, NLPD {nlpd:.4f}, objective {np.nanmax(values):.4f}, "
          f"evaluations before the last {NEAR} nats: {near} of {len(values)}")  # fmt: skip
    for phase, seconds in phases.seconds.items():
        count = phases.counts[phase]
        counts = f"{count['fits']:4d} fits {count['gradients']:4d} gradients {count['sweeps']:5d} sweeps"
        print(f"  {seconds:8.3f} s  {counts}  {phase}")


# beside scikit-learn and beside an earlier version ------------------------------------------------------------------------


class Version:
    """Context in which `import gpclass` means the package in the folder `source`; its modules are kept between uses."""

    def __init__(self, source: Path):
        self.source, self.modules = str(source), {}

    def __enter__(self):
        for name in self._loaded():
            del sys.modules[name]
        sys.modules.update(self.modules)
        sys.path.insert(0, self.source)

    def __exit__(self, *error):
        self.modules = {name: sys.modules[name] for name in self._loaded()}
        sys.path.remove(self.source)

    @staticmethod
    def _loaded() -> list[str]:
        return [name for name in sys.modules if name.split(".")[0] == "gpclass"]

    def fit(self, data: dict, settings: dict):
        """Return processor seconds and the fitted model."""
        with self:
            model = importlib.import_module("gpclass").GPClassifier(random_state=0, **settings)
            return seconds_of(model, data), model

    def described(self, model, data: dict) -> str:
        with self:
            log_p = model.predict_log_proba(data["X_test"])
        nlpd = -np.mean(log_p[np.arange(len(log_p)), data["y_test"]])
        steps = model.history_
        return (f"{len(steps)} evaluations, {sum(step.sweeps for step in steps)} sweeps of the last search, objective "
                f"{np.nanmax([step.objective for step in steps]):.4f}, NLPD {nlpd:.4f}")  # fmt: skip


class Peer:
    """scikit-learn's classifier."""

    def fit(self, data: dict, settings: dict):
        model = GaussianProcessClassifier(1.0 * RBF(start(data["X"])["lengthscale"]))
        return seconds_of(model, data), model

    def described(self, model, data: dict) -> str:
        p = model.predict_proba(data["X_test"])[np.arange(len(data["y_test"])), data["y_test"]]
        return f"NLPD {-np.mean(np.log(p)):.4f}"


def seconds_of(model, data: dict) -> float:
    began = time.process_time()
    model.fit(data["X"], data["y"])
    return time.process_time() - began


def beside(name: str, rows: int, methods: dict, settings: dict, repeats: int) -> None:
    """Print the median seconds of each method, fitted in turns."""
    data = split(name, rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        models = {method: one.fit(data, settings)[1] for method, one in methods.items()}
        times = [[one.fit(data, settings)[0] for one in methods.values()] for _ in range(repeats)]
    medians = dict(zip(methods, np.median(times, axis=0), strict=True))
    print(
        f"\n{name} {rows}", *(f"{method} {t:.4f} s ({t / medians['now']:.2f} x)" for method, t in medians.items()), sep="  "
    )
    for method, one in methods.items():
        print(f"  {method}: {one.described(models[method], data)}", flush=True)


def main(arguments=None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tables", nargs="*", default=[""], help="only tables whose names contain one of these words")
    parser.add_argument("--kernel", help="the kernel, as text")
    parser.add_argument(
        "--beside", nargs="?", const="", metavar="COMMIT", help="beside scikit-learn, and an earlier version"
    )
    parser.add_argument("--repeats", type=int, default=11, help="fits of each method with --beside")
    args = parser.parse_args(arguments)
    settings = {} if args.kernel is None else {"kernel": args.kernel}
    chosen = [(name, rows) for name, rows in TABLES if any(word in f"{name} {rows}" for word in args.tables)]
    if args.beside is None:
        for name, rows in chosen:
            report(name, rows, settings)
        return
    with tempfile.TemporaryDirectory() as folder:
        versions = Versions(Path(folder))
        try:
            earlier = {"before": Version(versions[args.beside] / "src")} if args.beside else {}
            now = Version(Path(__file__).resolve().parents[1] / "src")
            for name, rows in chosen:
                beside(name, rows, {**earlier, "now": now, "scikit-learn": Peer()}, settings, args.repeats)
        finally:
            versions.remove()


if __name__ == "__main__":
    main()
