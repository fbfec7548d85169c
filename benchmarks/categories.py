"""Categories as inputs: test NLPD of four encodings.

    python benchmarks/categories.py --tables FOLDER [--splits 5] [--rows 250] [--markdown results/categories.md]

    levels     one 0/1 column for each level, each with its own lengthscale and spread
    shared     the same columns, with one lengthscale and one spread for all levels of a category
    product    Matern32 of the numbers times Categorical of the categories, with one lengthscale per column
    number     codes in the order of the levels as one number (what happens if categories are given as numbers)

The kernel of the first two is the default one, matern32-ard. FOLDER has the tables NAME.csv with the labels in the column
"class": credit-g, breast-cancer and vote (UCI, as distributed with Weka) and titanic (seaborn's table, rows with missing
values removed). tae comes from GPCLASS_DATA. Tables that are not found are named and left out; the synthetic ones are
generated: "many" has a category of 20 levels with random effects and two numbers, "mixed" three categories whose effects
interact with a number, "noise" one useful category and five that are useless.

Each split takes --rows rows, at most 60 %, for training and the others, at most 500, for the test. Differences are paired by
split, relative to "levels": mean and standard error.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from gpclass import GPClassifier, datasets
from gpclass.kernels import Categorical, Matern32, Standardized
from gpclass.kernels.base import MatrixKernel
from gpclass.numerics.columns import column_units, typical_distance
from gpclass.tables import TableEncoder

FILES = ("credit-g", "breast-cancer", "vote", "titanic")
SYNTHETIC = ("many", "mixed", "noise")
VARIANTS = ("levels", "shared", "product", "number")
SHARE, MOST_TESTED = 0.6, 500
FAR = 1e9  # a lengthscale at which a column has no effect
VARIANCE = 4.0


class Tied(MatrixKernel):
    """A kernel with one lengthscale per column, of which those of a group of columns are equal.

    Parameters
    ----------
    kernel : Kernel
        The kernel. theta has the lengthscales of all columns, then the variance.
    groups : ndarray of shape (D,)
        The number of the group of each column.
    """

    def __init__(self, kernel, groups):
        self.__dict__.update(kernel=kernel, groups=np.append(groups, groups.max() + 1), first=None)
        self.__dict__["first"] = np.unique(self.groups, return_index=True)[1]

    @property
    def theta(self):
        return self.kernel.theta[self.first]

    @property
    def names(self):
        return [self.kernel.names[i] for i in self.first]

    @property
    def bounds(self):
        return self.kernel.bounds[self.first]

    @property
    def lengthscale(self):
        return self.kernel.lengthscale

    def with_theta(self, theta):
        return Tied(self.kernel.with_theta(np.asarray(theta)[self.groups]), self.groups[:-1])

    def fix(self, *names):
        raise ValueError("the parameters of this kernel are free")

    free = fix

    def _matrix(self, X, Z):
        return self.kernel._matrix(X, Z)

    def _diagonal(self, X):
        return self.kernel._diagonal(X)

    def _pullback(self, X, Z, G, inputs, value):
        dtheta, dX = self.kernel._pullback(X, Z, G, inputs, value)
        return np.bincount(self.groups, dtheta), dX

    def _pullback_diagonal(self, X, g):
        dtheta, dX = self.kernel._pullback_diagonal(X, g)
        return np.bincount(self.groups, dtheta), dX

    def __hash__(self):
        return hash(self.kernel)

    def __repr__(self):
        return f"Tied({self.kernel!r})"


def synthetic(name: str, n: int = 800) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table with categories, and its labels."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(n, 2))
    frame = pd.DataFrame({"x0": x[:, 0], "x1": x[:, 1]})
    if name == "many":
        level = rng.integers(0, 20, n)
        frame["category"] = [f"level{i:02d}" for i in level]
        score = 1.5 * rng.normal(size=20)[level] + np.sin(2 * x[:, 0])
    elif name == "mixed":
        levels = rng.integers(0, [3, 4, 5], (n, 3))
        for j in range(3):
            frame[f"category{j}"] = [f"level{i}" for i in levels[:, j]]
        slopes, offsets = rng.normal(size=(3, 4)), rng.normal(size=5)
        score = 1.5 * slopes[levels[:, 0], levels[:, 1]] * x[:, 0] + offsets[levels[:, 2]]
    else:
        levels = rng.integers(0, 6, (n, 6))
        for j in range(6):
            frame[f"category{j}"] = [f"level{i}" for i in levels[:, j]]
        score = 1.5 * rng.normal(size=6)[levels[:, 0]] + x[:, 0]
    return frame, np.where(score + 0.5 * rng.logistic(size=n) > np.median(score), "yes", "no")


def table(name: str, folder: Path | None) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the inputs and labels of a table, or raise FileNotFoundError."""
    if name in SYNTHETIC:
        return synthetic(name)
    if name == "tae":
        data = datasets.load("tae")
        frame = pd.DataFrame(data.X, columns=[f"x{d}" for d in range(data.X.shape[1])])
        return frame.astype({c: str for c in frame.columns[:4]}), data.y
    if folder is None:
        raise FileNotFoundError(name)
    frame = pd.read_csv(folder / f"{name}.csv")
    return frame.drop(columns="class"), frame["class"].to_numpy()


def kernel_of(variant: str, encoder: TableEncoder, X: np.ndarray):
    """Return the starting kernel of a variant for training rows X in its encoding."""
    centre, spread = column_units(X)
    widths = [c.width for c in encoder.columns_]
    first = np.cumsum([0, *widths[:-1]])
    if variant == "shared":
        groups = np.repeat(np.arange(len(widths)), widths)
        for a, c in zip(first, encoder.columns_, strict=True):
            block = slice(a, a + c.width)
            if c.levels:
                spread[block] = np.sqrt(np.sum(np.var(X[:, block], axis=0))) or 1.0
    distance = typical_distance(X, np.random.default_rng(0), lambda rows: (rows - centre) / spread)
    if variant in ("levels", "number"):
        return Standardized(Matern32([distance] * X.shape[1], VARIANCE), centre, spread)
    if variant == "shared":
        return Standardized(Tied(Matern32([distance] * X.shape[1], VARIANCE), groups), centre, spread)
    text = np.array([bool(c.levels) for c in encoder.columns_])
    apart = Categorical(np.where(text, max(1.0, 0.5 * text.sum()), FAR), VARIANCE)
    apart = apart.fix(*[f"lengthscale[{d}]" for d in np.flatnonzero(~text)])
    if text.all():
        return apart
    smooth = Matern32(np.where(text, FAR, distance), 1.0).fix(
        "variance", *[f"lengthscale[{d}]" for d in np.flatnonzero(text)]
    )
    return apart * Standardized(smooth, centre, spread)


def encoded(variant: str, encoder: TableEncoder, frame: pd.DataFrame) -> np.ndarray:
    """Return the rows of a frame in the encoding of a variant."""
    X = encoder.transform(frame)
    if variant in ("levels", "shared"):
        return X
    ends = np.cumsum([c.width for c in encoder.columns_])
    blocks = np.split(X, ends[:-1], axis=1)
    # a level that is new has code -1
    columns = [
        np.where(b.any(axis=1), b.argmax(axis=1), -1) if c.levels else b[:, 0]
        for b, c in zip(blocks, encoder.columns_, strict=True)
    ]
    return np.column_stack(columns).astype(float)


def run(name: str, frame: pd.DataFrame, y: np.ndarray, split: int, rows: int) -> dict[str, tuple[float, float]]:
    """Return NLPD and processor time of each variant on one split."""
    order = np.random.default_rng(split).permutation(len(y))
    n = min(rows, int(SHARE * len(y)))
    train, test = order[:n], order[n : n + MOST_TESTED]
    encoder = TableEncoder().fit(frame.iloc[train])
    found = {}
    for variant in VARIANTS:
        begin = time.process_time()
        X = encoded(variant, encoder, frame.iloc[train])
        clf = GPClassifier(kernel_of(variant, encoder, X), random_state=0).fit(X, y[train])
        p = clf.predict_proba(encoded(variant, encoder, frame.iloc[test]))
        truth = np.searchsorted(clf.classes_, y[test])
        nlpd = -np.mean(np.log(p[np.arange(len(truth)), truth]))
        found[variant] = float(nlpd), time.process_time() - begin
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=Path, help="folder of CSV files")
    parser.add_argument("--names", nargs="+", default=[*FILES, "tae", *SYNTHETIC])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--rows", type=int, default=250)
    parser.add_argument("--markdown", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    head = "| table | NLPD of levels | " + " | ".join(f"{v} − levels" for v in VARIANTS[1:]) + " | seconds per fit |"
    lines = [head, "|---" * (3 + len(VARIANTS[1:])) + "|"]
    gains: dict[str, list[float]] = {v: [] for v in VARIANTS[1:]}
    with threadpool_limits(1):
        for name in args.names:
            try:
                frame, y = table(name, args.tables)
            except (FileNotFoundError, KeyError):
                print(f"{name} is not there")
                continue
            runs = [run(name, frame, y, split, args.rows) for split in range(args.splits)]
            base = np.array([r["levels"][0] for r in runs])
            cells = []
            for v in VARIANTS[1:]:
                d = np.array([r[v][0] for r in runs]) - base
                gains[v].append(float(np.mean(d)))
                cells.append(f"{np.mean(d):+.4f} ± {np.std(d, ddof=1) / np.sqrt(len(d)):.4f}")
            times = ", ".join(f"{np.mean([r[v][1] for r in runs]):.1f}" for v in VARIANTS)
            lines.append(f"| {name} | {np.mean(base):.4f} | " + " | ".join(cells) + f" | {times} |")
            print(lines[-1], flush=True)
    means = [f"{np.mean(g):+.4f} ± {np.std(g, ddof=1) / np.sqrt(len(g)):.4f}" for g in gains.values()]
    lines.append("| **mean over tables** | | " + " | ".join(means) + " | |")
    print(lines[-1])
    if args.markdown:
        args.markdown.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
