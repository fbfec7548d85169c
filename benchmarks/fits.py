"""Where the time of whole fits goes: processor seconds, evaluations and sweeps of each phase of GPClassifier().fit.

    python -m benchmarks.fits                     all tables, default settings
    python -m benchmarks.fits iris "digits 600"   some of them
    python -m benchmarks.fits --kernel auto

`near` is how many evaluations of the last search were within 1, 0.1, 0.01 and 0.001 nats of its best value: what a better
rule for stopping could save. The data come from GPCLASS_DATA.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter, defaultdict
from contextlib import contextmanager

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from gpclass import GPClassifier
from gpclass.learning.objective import Objective
from gpclass.progress import Listener, listening

from .scoreboard.tasks import split

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


def main(arguments=None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tables", nargs="*", default=[""], help="only tables whose names contain one of these words")
    parser.add_argument("--kernel", help="the kernel, as text")
    args = parser.parse_args(arguments)
    settings = {} if args.kernel is None else {"kernel": args.kernel}
    for name, rows in TABLES:
        if any(word in f"{name} {rows}" for word in args.tables):
            report(name, rows, settings)


if __name__ == "__main__":
    main()
