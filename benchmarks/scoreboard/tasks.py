"""What is measured: data sets and sizes, and what each library is asked to do with them.

Every library gets the same arrays, standardised by the training rows (MNIST: divided by 255), and the same kernel: an RBF
with one lengthscale and a variance, held in `evidence` tasks, in `fit` tasks the start of learning ('RBF + linear' of
gpclass is what its users can do more).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from sklearn.metrics import pairwise_distances

from gpclass import datasets

from ..small_problems import KERNEL, two_classes

Arrays = dict[str, np.ndarray]
LINEAR = "RBF + linear"  # a method of gpclass

# of each library, its methods by kind; `several` is fit with more than two classes
METHODS: dict[str, dict[str, list[str]]] = {
    "gpclass": {
        "evidence": ["Laplace, logit", "Laplace, probit", "EP, probit", "KL, probit"],
        "fit": ["default", LINEAR, "Laplace, logit"],
        "several": ["default", LINEAR, "Laplace"],
        "curve": ["ScalableEP", "SVGP, softmax"],
    },
    "scikit-learn": {"evidence": ["Laplace, logit"], "fit": ["Laplace, logit"], "several": ["Laplace, logit"]},
    "GPy": {"evidence": ["Laplace, probit", "EP, probit"], "fit": ["EP, probit", "EP nested, probit", "Laplace, probit"]},
    "GPflow": {
        "evidence": ["VGP, probit, natural gradient 0.5", "VGP, probit, natural gradient 0.1"],
        "fit": ["VGP, L-BFGS"],
        "several": ["VGP, L-BFGS"],
        "curve": ["SVGP, robust-max"],
    },
    "GPyTorch": {
        "evidence": ["variational, probit, natural gradient 0.5"],
        "fit": ["variational, probit, Adam, 200 steps"],
        "several": ["Dirichlet regression, Adam, 50 steps", "Dirichlet regression, Adam, 200 steps"],
        "curve": ["SVGP, softmax"],
    },
    "GPJax": {"evidence": ["variational, probit, natural gradient 0.5"], "fit": ["variational, probit, Adam, 300 steps"]},
}

# only asked in the full form
SLOW = {
    ("GPflow", "VGP, probit, natural gradient 0.1"),  # 0.5 is faster, but failed at times in earlier versions
    ("GPJax", "variational, probit, Adam, 300 steps"),  # more than a second for each step
}


def counterpart(kind: str, method: str) -> str:
    """The method of gpclass that a peer's time is divided by: the same approximation, in fits whatever is the default."""
    if kind == "evidence":
        own = METHODS["gpclass"]["evidence"]
        return method if method in own else "KL, probit"
    return "default" if kind == "fit" else "ScalableEP"


@dataclass(frozen=True)
class Task:
    kind: str  # evidence, fit or curve
    name: str
    make: Callable[[], Arrays]  # X, y, and X_test, y_test but for evidence; FileNotFoundError where the data are not here
    settings: dict = field(default_factory=dict)

    def methods(self, library: str, classes: int) -> list[str]:
        known = METHODS[library]
        return known.get("several" if self.kind == "fit" and classes > 2 else self.kind, [])


def chosen(full: bool) -> list[Task]:
    """The tasks of the reduced or the full form."""
    tasks = [evidence(n) for n in (250, 500, 1000, 2000)]
    tasks += [fit("wdbc", 400), fit("iris", 90), fit("wine", 106), fit("glass", 128)]
    tasks += [fit("digits", 1200), fit("satimage", 1000)] if full else [fit("digits", 300), fit("satimage", 300)]
    if full:
        return [*tasks, curve("satimage", 100, [10, 60, 240, 600]), curve("mnist", 200, [10, 60, 240, 600])]
    return [*tasks, curve("satimage", 100, [5, 15])]


def evidence(n: int) -> Task:
    settings = {"lengthscale": float(KERNEL.lengthscale), "variance": float(KERNEL.variance)}
    return Task("evidence", f"n = {n}", lambda: dict(zip(("X", "y"), two_classes(n), strict=True)), settings)


def fit(name: str, rows: int) -> Task:
    return Task("fit", f"{name} {rows}", partial(split, name, rows))


def curve(name: str, inducing: int, marks: list[float]) -> Task:
    """Minibatches of 200; the test rows are predicted at each mark, in seconds."""
    settings = {"marks": marks, "inducing": inducing, "batch": 200}
    return Task("curve", f"{name}, minibatches", partial(split, name, None), settings)


def split(name: str, rows: int | None, most_tested: int = 2000) -> Arrays:
    """Random training rows, the others for testing; of a fixed split, rows of its training part. Labels are 0 … C-1."""
    data = datasets.load(name)
    codes = {label: c for c, label in enumerate(sorted(set(data.y)))}
    y = np.array([codes[label] for label in data.y])
    order = np.random.default_rng(0).permutation(len(y))
    if data.n_train is None:
        train, test = order[:rows], order[rows:]
    else:
        train, test = order[order < data.n_train][:rows], np.arange(data.n_train, len(y))
    X, X_test = data.X[train], data.X[test[: None if rows is None else most_tested]]
    if name == "mnist":
        return {"X": X / 255, "y": y[train], "X_test": X_test / 255, "y_test": y[test]}
    centre, width = X.mean(axis=0), X.std(axis=0)
    width[width == 0] = 1.0
    y_test = y[test[: None if rows is None else most_tested]]
    return {"X": (X - centre) / width, "y": y[train], "X_test": (X_test - centre) / width, "y_test": y_test}


def start(X: np.ndarray) -> dict[str, float]:
    """Where gpclass starts: the median distance between rows (of the first 1000), and variance 4."""
    distances = pairwise_distances(X[:1000])
    return {"lengthscale": float(np.median(distances[np.triu_indices_from(distances, 1)])), "variance": 4.0}
