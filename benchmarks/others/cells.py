"""One cell: a method on a split of a table. A file has one line for each, in a fixed order."""

from __future__ import annotations

import csv
import fcntl
import time
import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

from gpclass.assess.metrics import brier, error_rate, expected_calibration_error, nlpd
from gpclass.files import replacing

from .methods import Maker
from .tables import Table

LEAST = 1e-15  # probabilities below count as this one, for all methods alike
BINS, DRAWS = 15, 100
SCORES = ("nlpd", "brier", "error", "ece", "ece_by_chance")


@dataclass(frozen=True)
class Cell:
    table: str
    method: str
    split: int
    held_out: bool
    n_train: int
    n_test: int
    columns: int
    classes: int
    nlpd: float = np.nan  # nats a test row
    brier: float = np.nan
    error: float = np.nan
    ece: float = np.nan  # expected calibration error of the most probable class
    ece_by_chance: float = np.nan  # what it would be if the labels were drawn from the probabilities
    fit_seconds: float = np.nan  # of the processor
    predict_seconds: float = np.nan
    commit: str = ""
    message: str = ""  # the error, if there was one

    @property
    def key(self) -> tuple[str, str, int]:
        return self.table, self.method, self.split


def measure(table: Table, number: int, method: str, make: Maker, commit: str = "") -> Cell:
    train, test = table.split(number)
    about = (table.name, method, number, table.held_out, len(train), len(test), table.X.shape[1], table.n_classes)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            began = time.process_time()
            model = make(table.X.shape[1], table.n_classes).fit(table.X[train], table.y[train])
            fitted = time.process_time()
            p = np.asarray(model.predict_proba(table.X[test]), dtype=float)
            ended = time.process_time()
        found = scores(table.y[test], p, table.n_classes)
    except Exception as error:  # the other cells are still wanted
        return Cell(*about, commit=commit, message=f"{type(error).__name__}: {error}"[:200])
    return Cell(*about, **found, fit_seconds=fitted - began, predict_seconds=ended - fitted, commit=commit)


def scores(y: np.ndarray, p: np.ndarray, n_classes: int) -> dict[str, float]:
    classes = np.arange(n_classes)
    return {
        "nlpd": nlpd(y, np.clip(p, LEAST, 1.0), classes),
        "brier": brier(y, p, classes),
        "error": error_rate(y, p, classes),
        "ece": expected_calibration_error(y, p, BINS, classes),
        "ece_by_chance": error_by_chance(p),
    }


def error_by_chance(p: np.ndarray, draws: int = DRAWS, seed: int = 0) -> float:
    """The mean calibration error of labels drawn from p (n, C): that of a perfect forecast of as many rows."""
    rng, classes, below = np.random.default_rng(seed), np.arange(p.shape[1]), np.cumsum(p, axis=1)
    below /= below[:, -1:]  # float32 probabilities add up to one only nearly
    drawn = ((rng.random((len(p), 1)) > below).sum(1) for _ in range(draws))
    return float(np.mean([expected_calibration_error(y, p, BINS, classes) for y in drawn]))


# the file -----------------------------------------------------------------------------------------------------------------


def read(file: Path) -> list[Cell]:
    if not file.exists():
        return []
    with file.open(encoding="utf-8", newline="") as lines:
        return [_cell(row) for row in csv.DictReader(lines)]


def _cell(row: dict[str, str]) -> Cell:
    kinds = {"int": int, "float": float, "str": str, "bool": lambda text: text == "True"}
    return Cell(**{f.name: kinds[str(f.type)](row[f.name]) for f in fields(Cell)})


def keep(file: Path, cells: Iterable[Cell]) -> None:
    """Put cells into the file, in place of earlier ones of the same key; other processes may do so at the same time."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = {cell.key: cell for cell in [*read(file), *cells]}
        with replacing(file, "w", encoding="utf-8", newline="") as lines:
            writer = csv.DictWriter(lines, [f.name for f in fields(Cell)], lineterminator="\n")
            writer.writeheader()
            for key in sorted(known):
                writer.writerow({name: _short(value) for name, value in asdict(known[key]).items()})


def _short(value):
    return f"{value:.6g}" if isinstance(value, float) else value
