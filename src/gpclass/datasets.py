"""Data sets of the papers and of scikit-learn: `load("sonar")`.

wdbc, digits, iris, iris_fisher and wine come from scikit-learn and are always available. The others are read from the
folder in the environment variable GPCLASS_DATA (one `.npz` file per set, see `_read_npz`), or fetched from OpenML if it has
a similar set (a `Twin`). `Dataset.source` says where the data come from, and how a twin differs from the paper's file.

Note that "breast" is the papers' older set with 9 inputs, while "wdbc" (or "breast_cancer") is scikit-learn's with 30.
"iris" is the UCI table that the papers used; "iris_fisher" is scikit-learn's, where three entries follow Fisher's article.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn import datasets as shipped

from .data_catalogue import ALIASES, CATALOGUE, Entry, Twin
from .spelling import did_you_mean

VARIABLE = "GPCLASS_DATA"
NO_PAPER = 0.75  # share of training rows if no paper gives one

Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Inputs and labels as in their source: not scaled, rows in the original order."""

    name: str
    X: np.ndarray  # (n, D) float64; the training rows of a fixed split come first
    y: np.ndarray  # (n,) class names (strings); floats for a regression set
    feature_names: tuple[str, ...]
    class_names: tuple[str, ...]  # in the source's order; empty for a regression set
    source: str  # origin of the data
    n_train: int | None = None  # training rows of the fixed split, None if there is none
    train_share: float = NO_PAPER  # share of training rows of a random split

    @property
    def X_train(self) -> np.ndarray:
        """Training inputs of the fixed split."""
        return self.X[: self._fixed("X_train")]

    @property
    def y_train(self) -> np.ndarray:
        """Training labels of the fixed split."""
        return self.y[: self._fixed("y_train")]

    @property
    def X_test(self) -> np.ndarray:
        """Test inputs of the fixed split."""
        return self.X[self._fixed("X_test") :]

    @property
    def y_test(self) -> np.ndarray:
        """Test labels of the fixed split."""
        return self.y[self._fixed("y_test") :]

    def split(self, seed: int = 0) -> Split:
        """Return X_train, y_train, X_test and y_test.

        A fixed split does not depend on the seed. Random splits have the sizes of a paper and are not stratified; the
        papers' own random splits were not published.
        """
        if self.n_train is not None:
            return self.X_train, self.y_train, self.X_test, self.y_test
        order = np.random.default_rng(seed).permutation(len(self.y))
        train, test = np.split(order, [round(self.train_share * len(order))])
        return self.X[train], self.y[train], self.X[test], self.y[test]

    def _fixed(self, asked: str) -> int:
        if self.n_train is None:
            raise AttributeError(f"{self.name} has no fixed split and so no {asked}; use split(seed).")
        return self.n_train


def load(name: str, classes: Sequence[Any] | None = None) -> Dataset:
    """Load a data set.

    Parameters
    ----------
    name : str
        One of `names()`.
    classes : sequence, optional
        Keep only the rows of these classes: `load("usps", classes=("3", "5"))`.

    Returns
    -------
    Dataset
        Inputs, labels and their description.

    Raises
    ------
    ValueError
        If there is no such data set or no such class.
    FileNotFoundError
        If the data set is neither in the GPCLASS_DATA folder nor available from OpenML.
    """
    name = ALIASES.get(name, name)
    if name not in names():
        hint = did_you_mean(name, [*names(), *ALIASES])
        raise ValueError(f"There is no data set {name!r}.{hint} There are: {', '.join(names())}.")
    entry = CATALOGUE.get(name, Entry("the user's own"))
    data = _load(name, entry)
    if entry.sizes:
        data = replace(data, train_share=entry.sizes[0] / sum(entry.sizes))
    return data if classes is None else _only(data, classes)


def names() -> list[str]:
    """Return all names that `load` accepts, including files in the GPCLASS_DATA folder; `describe` says their origin."""
    folder = _folder()
    found = {file.stem for file in folder.glob("*.npz")} if folder else set()
    return sorted(found | set(CATALOGUE))


def describe() -> str:
    """Return a table as text: name, where `load` finds the data set, description."""
    rows = [(name, _origin(name), CATALOGUE[name].about if name in CATALOGUE else "(your file)") for name in names()]
    rows += [(alias, "", f"another name of {name}") for alias, name in ALIASES.items()]
    return "\n".join(f"{name:<15} {origin:<13} {about}".rstrip() for name, origin, about in rows)


def _origin(name: str) -> str:
    entry, folder = CATALOGUE.get(name, Entry("")), _folder()
    if entry.sklearn:
        return "scikit-learn"
    if folder and (folder / f"{name}.npz").exists():
        return VARIABLE
    return f"OpenML {entry.openml.data_id}" if entry.openml else "not here"


def _folder() -> Path | None:
    return Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None


def _load(name: str, entry: Entry) -> Dataset:
    if entry.sklearn:
        return _from_sklearn(name, entry.sklearn())
    folder = _folder()
    if folder and (folder / f"{name}.npz").exists():
        return _read_npz(name, folder / f"{name}.npz")
    if entry.openml is None:
        raise _not_found(name, entry, "no similar set on OpenML is known")
    return _from_openml(name, entry.openml, _fetch(name, entry, entry.openml))


def _fetch(name: str, entry: Entry, twin: Twin) -> Any:
    print(f"gpclass: fetching {name} from {twin.source}", file=sys.stderr)
    try:
        # liac-arff does not need pandas and returns nominal inputs as numbers
        return shipped.fetch_openml(data_id=twin.data_id, as_frame=False, parser="liac-arff")
    except (OSError, HTTPException, ValueError) as error:  # errors of OpenML are ValueErrors
        reason = f"OpenML data id {twin.data_id} ({type(error).__name__}: {error})"
        raise _not_found(name, entry, reason) from error


def _not_found(name: str, entry: Entry, openml: str) -> FileNotFoundError:
    folder = _folder()
    local = f"{VARIABLE} ({f'no {name}.npz in {folder}' if folder else 'not set'})"
    online = ", or try again online" if entry.openml else ""
    return FileNotFoundError(
        f"Data set {name!r} ({entry.about}) was not found. Tried: {local}; {openml}. "
        f"Set {VARIABLE} to a folder that contains {name}.npz{online}."
    )


def _from_sklearn(name: str, bunch: Any) -> Dataset:
    class_names = tuple(str(c) for c in bunch.target_names)
    y = np.array(class_names)[bunch.target]
    features = tuple(str(f) for f in bunch.feature_names)
    return Dataset(name, np.array(bunch.data, dtype=float), y, features, class_names, "scikit-learn")


def _read_npz(name: str, file: Path) -> Dataset:
    """Read a data set from an .npz file.

    The arrays are X (n, D), y (n,) and optionally is_test (n,), or X_train, y_train, X_test, y_test; class_names (C,) if y
    contains class numbers 0 .. C-1; optionally feature_names (D,). Without class_names, floats are regression targets and
    all other types are labels.
    """
    with np.load(file, allow_pickle=False) as stored:
        arrays = {key: stored[key] for key in stored.files}
    parts = ("X", "y") if "X" in arrays else ("X_train", "y_train", "X_test", "y_test")
    if missing := [part for part in parts if part not in arrays]:
        raise ValueError(f"{file} lacks {', '.join(missing)}: X and y are needed, or X_train, y_train, X_test, y_test.")
    X, y = (np.concatenate([arrays[part] for part in parts[i::2]]) for i in (0, 1))
    is_test = arrays.get("is_test") if "X" in arrays else np.arange(len(y)) >= len(arrays["y_train"])
    if is_test is not None:
        order = np.argsort(is_test, kind="stable")
        X, y = X[order], y[order]
    y, class_names = _named(y, arrays.get("class_names"))
    features = tuple(str(f) for f in arrays.get("feature_names", [f"x{j}" for j in range(X.shape[1])]))
    n_train = None if is_test is None else int(np.sum(~is_test.astype(bool)))
    return Dataset(name, X.astype(float), y, features, class_names, str(file), n_train)


def _named(y: np.ndarray, class_names: np.ndarray | None) -> tuple[np.ndarray, tuple[str, ...]]:
    if class_names is not None:
        return class_names.astype(str)[y], tuple(str(c) for c in class_names)
    if y.dtype.kind == "f":
        return y.astype(float), ()
    return y.astype(str), tuple(str(c) for c in np.unique(y))


def _from_openml(name: str, twin: Twin, bunch: Any) -> Dataset:
    kept = [j for j, feature in enumerate(bunch.feature_names) if twin.keep(feature)]
    table = bunch.data.toarray() if issparse(bunch.data) else bunch.data
    X, y = np.asarray(table, dtype=float)[:, kept], np.asarray(bunch.target).astype(str)
    complete = np.isfinite(X).all(axis=1)
    source = twin.source + (f"; {np.sum(~complete)} rows with missing values dropped" if not complete.all() else "")
    class_names = np.unique(y).tolist()
    if twin.labels and set(class_names) <= set(twin.labels):  # translating only some labels would mix two codings
        y = np.array([twin.labels[label] for label in y])
        class_names = [label for label in twin.labels.values() if label in y]
    features = tuple(bunch.feature_names[j] for j in kept)
    return Dataset(name, X[complete], y[complete], features, tuple(class_names), source, twin.n_train)


def _only(data: Dataset, classes: Sequence[Any]) -> Dataset:
    wanted = tuple(str(c) for c in classes)
    if len(wanted) < 2 or len(set(wanted)) < len(wanted) or not set(wanted) <= set(data.class_names):
        raise ValueError(
            f"classes={wanted} must be two or more different classes of {data.name}, "
            f"which has {', '.join(data.class_names) or 'none: it is a regression set'}."
        )
    keep = np.isin(data.y, wanted)
    n_train = None if data.n_train is None else int(np.sum(keep[: data.n_train]))
    return replace(data, X=data.X[keep], y=data.y[keep], class_names=wanted, n_train=n_train)
