"""Results of long runs, stored one by one as JSON lines, so that a run can be taken up again where it ended.

A piece has a key, which names everything that its result depends on (table, data set, method, split, size), and values:
numbers, texts, lists or dicts of them. It is appended to the file as soon as it is computed. A later line of the same key
replaces an earlier one. A line that was cut off by the end of a process is removed when the file is opened.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from scoreboard.results import stamp

RESULTS = Path(__file__).resolve().parents[1] / "results"
DIGITS = 6  # significant digits of stored numbers


@dataclass(frozen=True)
class Piece:
    """One stored result."""

    key: str
    values: dict[str, Any]
    seconds: float = 0.0  # of the processor
    size: str = ""  # what was smaller than in the paper; empty if nothing
    command: str = ""
    date: str = ""
    commit: str = ""
    machine: str = ""

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def array(self, name: str) -> np.ndarray:
        return np.asarray(self.values[name], dtype=float)


@dataclass
class Pieces:
    """The pieces in a file.

    With `resume`, a piece that is stored is not computed again. New pieces are begun during the first `minutes` only.
    """

    file: Path
    resume: bool = True
    minutes: float = math.inf
    command: str = ""
    marks: dict[str, str] = field(default_factory=stamp)  # date, commit and machine, as they are at the beginning

    def __post_init__(self):
        self.began = time.monotonic()
        self.stored = {piece.key: piece for piece in read(self.file)}
        self.fresh: set[str] = set()  # stored by this run

    def done(self, key: str) -> bool:
        """Whether the result can be taken from the file."""
        return key in self.fresh or (self.resume and key in self.stored)

    @property
    def late(self) -> bool:
        return time.monotonic() - self.began >= 60 * self.minutes

    def get(self, key: str) -> Piece:
        if key not in self.stored:
            raise KeyError(f"{self.file.name} has no piece {key!r}")
        return self.stored[key]

    def store(self, key: str, values: Mapping[str, Any], seconds: float, size: str = "") -> Piece:
        """Append a result to the file."""
        piece = Piece(key, plain(values), round(seconds, 3), size, self.command, **self.marks)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(piece), ensure_ascii=False) + "\n")
        self.stored[key] = piece
        self.fresh.add(key)
        return piece

    def take(self, key: str, compute: Callable[[], Mapping[str, Any]], size: str = "") -> Piece | None:
        """Return the stored piece, or compute and store it; None if it is not stored and the time is up."""
        if self.done(key) or (self.late and key in self.stored):
            return self.stored[key]
        if self.late:
            return None
        began = time.process_time()
        values = compute()
        return self.store(key, values, time.process_time() - began, size)

    def take_all(self, work: Mapping[str, Callable[[], Mapping[str, Any]]], size: str = "") -> dict[str, Piece]:
        """Return those of several pieces that are stored or can be computed in time, in the given order."""
        found = ((key, self.take(key, compute, size)) for key, compute in work.items())
        return {key: piece for key, piece in found if piece is not None}


def read(file: Path) -> list[Piece]:
    """All pieces of a file, the last one of each key; a last line that was cut off is removed from the file."""
    if not file.exists():
        return []
    text = file.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        file.write_text(whole, encoding="utf-8")
    found: dict[str, Piece] = {}
    for number, line in enumerate(whole.splitlines(), 1):
        if line.strip():
            try:
                piece = Piece(**json.loads(line))
            except (ValueError, TypeError) as error:
                raise ValueError(f"{file}, line {number} is no piece: {error}") from error
            found[piece.key] = piece
    return list(found.values())


def matching(pieces: Iterable[Piece], pattern: str) -> list[Piece]:
    """Pieces whose key matches a pattern with *."""
    return [piece for piece in pieces if fnmatchcase(piece.key, pattern)]


def plain(value: Any) -> Any:
    """Arrays as lists, numbers rounded to DIGITS significant digits."""
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.{DIGITS}g}")
    return value


def file_of(paper: str, folder: Path = RESULTS) -> Path:
    return folder / f"pieces_{paper}.jsonl"
