"""Times of engines and of whole fits now, and at the commit that first had them: what profiling and mending has brought.

    python benchmarks/progress.py                  each since its first commit; results/progress.md
    python benchmarks/progress.py --since COMMIT   all of them since one commit, printed

Both versions run on one thread, in turns, the older one from a worktree of git; best of several, in processor seconds.
A version that cannot do a task is shown with its error.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
# first commits of engines, of the classifier, and of classifiers on inducing points
DENSE, CLASSIFIER, SAMPLING, SEVERAL = "6280c5a", "fe9ef49", "838a228", "6ebfe1f"
INDEPENDENT, SPARSE, INDUCING = "2fa82cc", "cb52fef", "52982a3"

# what is measured: only names that have been there since the first commit ------------------------------------------------


def evaluation(engine: str, n: int) -> Callable[[], object]:
    """Evidence and gradient, two classes."""
    from gpclass import inference
    from gpclass.likelihoods import Probit
    from small_problems import KERNEL, two_classes

    X, y = two_classes(n)
    make = getattr(inference, engine)

    def run():
        K = KERNEL(X)
        return KERNEL.pullback(X, make().fit(K, y, Probit()).evidence_gradient())

    return run


def several(engine: str, likelihood: str, n: int, C: int = 3) -> Callable[[], object]:
    """Evidence and gradient, several classes."""
    from gpclass import inference, likelihoods
    from small_problems import KERNEL, several_classes

    X, y = several_classes(n, C)
    make, model = getattr(inference, engine), getattr(likelihoods, likelihood)(C)

    def run():
        return KERNEL.pullback(X, make().fit(KERNEL(X), y, model).evidence_gradient())

    return run


def draws(sampler: str, n: int = 200, **settings) -> Callable[[], object]:
    from gpclass import sampling
    from gpclass.likelihoods import Probit
    from small_problems import KERNEL, two_classes

    X, y = two_classes(n)
    return lambda: getattr(sampling, sampler)(random_state=0, **settings).fit(KERNEL(X), y, Probit())


def sparse(engine: str, n: int, C: int, **settings) -> Callable[[], object]:
    """A classifier on chosen rows or inducing points, the kernel held."""
    import gpclass.sparse
    from gpclass import GPClassifier
    from small_problems import KERNEL, several_classes

    X, y = several_classes(n, C)
    made = getattr(gpclass.sparse, engine)(**settings)
    return lambda: GPClassifier(KERNEL, inference=made, optimizer=None, random_state=0).fit(X, y)


def table(name: str, rows: int):
    import numpy as np
    from sklearn import datasets
    from sklearn.preprocessing import StandardScaler

    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))[:rows]
    return StandardScaler().fit_transform(X[order]), y[order]


def whole_fit(name: str, rows: int) -> Callable[[], object]:
    """Hyperparameters learned, default settings."""
    from gpclass import GPClassifier

    return partial(GPClassifier().fit, *table(name, rows))


def prediction(name: str, rows: int, new: int, **settings) -> Callable[[], object]:
    """Probabilities of so many new rows."""
    import numpy as np

    from gpclass import GPClassifier

    X, y = table(name, rows)
    model = GPClassifier(max_iter=3, **settings).fit(X, y)
    return partial(model.predict_proba, X[np.arange(new) % len(X)] + 0.1)


TWO_CLASSES = ("Laplace", "EP", "KL", "VB", "TAP", "TAPNaive", "FV", "LabelRegression")
TASKS: dict[str, tuple[str, Callable[[], Callable[[], object]]]] = {
    **{f"{engine}, n = 1000": (DENSE, partial(evaluation, engine, 1000)) for engine in TWO_CLASSES},
    "Laplace, softmax, n = 500, C = 3": (SEVERAL, partial(several, "Laplace", "Softmax", 500)),
    "NestedEP, n = 500, C = 3": (SEVERAL, partial(several, "NestedEP", "MultinomialProbit", 500)),
    "NestedEP, n = 300, C = 10": (SEVERAL, partial(several, "NestedEP", "MultinomialProbit", 300, 10)),
    "IndependentEP, n = 500, C = 3": (INDEPENDENT, partial(several, "IndependentEP", "MultinomialProbit", 500)),
    "MeanFieldProbit, n = 500, C = 3": (INDEPENDENT, partial(several, "MeanFieldProbit", "MultinomialProbit", 500)),
    "QuadratureEP, n = 300, C = 3": (INDEPENDENT, partial(several, "QuadratureEP", "MultinomialProbit", 300)),
    "VariationalMNL, n = 150, C = 3": (SPARSE, partial(several, "VariationalMNL", "Softmax", 150)),
    "HMC, n = 200": (SAMPLING, partial(draws, "HMC")),
    "EllipticalSlice, n = 200": (SAMPLING, partial(draws, "EllipticalSlice")),
    "Gibbs, n = 200": (SAMPLING, partial(draws, "Gibbs")),
    "IVM, n = 10,000, 200 active": (SPARSE, partial(sparse, "IVM", 10_000, 2, active=200)),
    "IVM, n = 3000, C = 4, 300 active": (SPARSE, partial(sparse, "IVM", 3000, 4, active=300)),
    "SparseVariationalMNL, n = 1000, C = 3": (INDUCING, partial(sparse, "SparseVariationalMNL", 1000, 3)),
    "ScalableEP, n = 1000, C = 3, M = 50": (INDUCING, partial(sparse, "ScalableEP", 1000, 3, n_inducing=50)),
    "StochasticEP, n = 1000, C = 3, M = 50": (INDUCING, partial(sparse, "StochasticEP", 1000, 3, n_inducing=50)),
    "SVGP, n = 500, C = 3, M = 50": (INDUCING, partial(sparse, "SVGP", 500, 3, n_inducing=50)),
    "GFITC, n = 1000, M = 50": (INDUCING, partial(sparse, "GFITC", 1000, 2, n_inducing=50)),
    "fit breast cancer 400": (CLASSIFIER, partial(whole_fit, "breast_cancer", 400)),
    "fit iris 90": (SEVERAL, partial(whole_fit, "iris", 90)),
    "fit wine 106": (SEVERAL, partial(whole_fit, "wine", 106)),
    "fit digits 300": (SEVERAL, partial(whole_fit, "digits", 300)),
    "predict 1 row, breast cancer": (CLASSIFIER, partial(prediction, "breast_cancer", 400, 1)),
    "predict 1 row, iris": (SEVERAL, partial(prediction, "iris", 90, 1)),
    "predict 1 row, digits": (SEVERAL, partial(prediction, "digits", 300, 1)),
    "predict 10,000 rows, iris": (SEVERAL, partial(prediction, "iris", 90, 10_000)),
    "predict 10,000 rows, digits": (SEVERAL, partial(prediction, "digits", 300, 10_000)),
    "predict 10,000 rows, iris, Laplace": (SEVERAL, partial(prediction, "iris", 90, 10_000, inference="laplace")),
}

# how it is measured -------------------------------------------------------------------------------------------------------


def measure(name: str, repeats: int = 5, budget: float = 8.0) -> dict:
    """Best of a few repetitions; what takes long is done less often."""
    try:
        warnings.simplefilter("ignore")
        action = TASKS[name][1]()
        action()
        seconds, began = [], time.process_time()
        while len(seconds) < repeats and (not seconds or time.process_time() - began < budget):
            before = time.process_time()
            action()
            seconds.append(time.process_time() - before)
        return {"seconds": min(seconds)}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def measured_in(source: Path, name: str) -> dict:
    """The same in a process of its own, with the package that stands in `source`."""
    environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join([str(source / "src"), str(HERE)])}
    command = [sys.executable, str(Path(__file__).resolve()), "--worker", name]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True)
    return json.loads(ended.stdout.splitlines()[-1]) if ended.returncode == 0 else {"error": ended.stderr[-200:]}


class Versions:
    """Worktrees of earlier commits."""

    def __init__(self, folder: Path):
        self.folder = folder

    def __getitem__(self, commit: str) -> Path:
        path = self.folder / commit
        if not path.exists():
            git("worktree", "add", "--detach", str(path), commit)
        return path

    def remove(self) -> None:
        for path in self.folder.iterdir():
            git("worktree", "remove", "--force", str(path))


def git(*words: str) -> None:
    subprocess.run(["git", "-C", str(HERE), *words], check=True, capture_output=True)


def both(name: str, commit: str, versions: Versions, rounds: int = 2) -> tuple[dict, dict]:
    """Before and now, in turns; the best of the rounds."""
    pairs = [(measured_in(versions[commit], name), measured_in(HERE.parent, name)) for _ in range(rounds)]
    before, now = (min(part, key=lambda m: m.get("seconds", float("inf"))) for part in zip(*pairs, strict=True))
    return before, now


def compared(before: dict, now: dict) -> list[str]:
    from scoreboard.results import number

    texts = [number(m["seconds"]) if "seconds" in m else m["error"] for m in (before, now)]
    return [*texts, number(before["seconds"] / now["seconds"], 2) if "seconds" in before and "seconds" in now else "–"]


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--since", metavar="COMMIT", help="compare with this commit, and write no file")
    parser.add_argument("--tasks", nargs="+", default=[""], help="only those whose names contain one of these words")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if args.worker:
        print(json.dumps(measure(args.worker)))
        return 0
    from scoreboard.results import commit, machine
    from scoreboard.results import table as markdown

    rows, failed = [], 0
    with tempfile.TemporaryDirectory() as folder:
        versions = Versions(Path(folder))
        try:
            for name, (first, _) in TASKS.items():
                if not any(word in name for word in args.tasks):
                    continue
                since = args.since or first
                before, now = both(name, since, versions)
                failed += "error" in now
                rows.append([name, since, *compared(before, now)])
                print(*rows[-1], sep="  ", flush=True)
        finally:
            versions.remove()
    text = markdown(["", "since", "before, s", "now, s", "times faster"], rows)
    if args.since is None and args.tasks == [""]:
        title = f"# Before and after\n\n`python benchmarks/progress.py`, commit {commit()}, {machine()}\n\n{NOTE}\n\n"
        (HERE / "results" / "progress.md").write_text(title + text, encoding="utf-8")
    return 1 if failed else 0


NOTE = "Processor seconds; one evaluation of evidence and gradient, draws of a sampler, or what the row says."

if __name__ == "__main__":
    sys.exit(main())
