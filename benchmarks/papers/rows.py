"""One figure of a paper's table, ours and theirs, and the verdict that follows from the numbers.

"reproduced": at most two standard errors of the difference apart. "better": more, to the good side. "differs": more, with
how far. A statement of the text is reproduced if it holds. Rows go to results/tables_<paper>.jsonl, where a table that is
run again replaces its earlier rows of the same form.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from math import sqrt
from pathlib import Path
from typing import Any

from scoreboard.results import number

from .names import TITLES, paper_of
from .pieces import RESULTS, Piece, Pieces

DIRECTIONS = ("lower", "higher", "near")
KINDS = ("reproduced", "better", "differs")
FORMS = ("reduced", "full")


@dataclass(frozen=True)
class Row:
    """One figure of a table; or a statement, whose measure is "holds" and whose `ours` is 1 if it holds and 0 if not."""

    table: str
    row: str
    measure: str
    ours: float
    theirs: float
    standard_error: float  # of the difference
    better: str  # "lower", "higher", or "near" for what should be neither
    why: str = ""  # reason for a difference, if there is one
    splits: int = 0  # that ours is a mean over; 0 if that makes no sense
    size: str = ""  # what was smaller than in the paper; empty if nothing
    form: str = "reduced"
    date: str = ""
    commit: str = ""
    machine: str = ""
    command: str = ""
    seconds: float = 0.0  # that the whole table took

    def __post_init__(self):
        if self.better not in DIRECTIONS:
            raise ValueError(f"better must be one of {', '.join(DIRECTIONS)}, but is {self.better!r}")

    @property
    def is_claim(self) -> bool:
        return self.measure == "holds"

    @property
    def verdict(self) -> str:
        if self.is_claim:
            said = "reproduced" if self.ours else "differs: does not hold"
        else:
            said = verdict(self.ours, self.theirs, self.standard_error, self.better)
        return f"{said}; {self.why}" if self.why and said.startswith("differs") else said

    @property
    def kind(self) -> str:
        """One of KINDS."""
        return self.verdict.split(":")[0]


def verdict(ours: float, theirs: float, standard_error: float, better: str = "lower") -> str:
    """ "reproduced", "better", or "differs: ..." with how far ours is from theirs."""
    gap = ours - theirs
    if abs(gap) <= 2 * standard_error:
        return "reproduced"
    if (better == "lower" and gap < 0) or (better == "higher" and gap > 0):
        return "better"
    side = "above" if gap > 0 else "below"
    apart = f", {abs(gap) / standard_error:.1f} standard errors" if standard_error else ""
    return f"differs: {number(abs(gap), 2)} {side}{apart}"


def of_splits(deviation: float, ours: int, theirs: int) -> float:
    """Standard error of a difference of means over so many splits, from a standard deviation over splits."""
    return deviation * sqrt(1 / ours + 1 / theirs)


class Keeper:
    """Collects the rows of one table, and computes and stores the pieces that they are made of."""

    def __init__(self, table: str, pieces: Pieces | None = None):
        self.table, self.pieces = table, pieces
        self.rows: list[Row] = []
        self.used: list[Piece] = []

    def __call__(
        self, row: str, measure: str, ours: float, theirs: float, standard_error: float, better: str = "lower", **more: Any
    ) -> None:
        """Keep a figure; `more` may have `why`, `splits` and `size`."""
        self.rows.append(Row(self.table, row, measure, float(ours), float(theirs), float(standard_error), better, **more))

    def claim(self, text: str, holds: bool, **more: Any) -> None:
        """Keep a statement of the paper that holds or not."""
        self.rows.append(Row(self.table, text, "holds", float(holds), 1.0, 0.0, "near", **more))

    def take(self, key: str, compute: Callable[[], Mapping[str, Any]], size: str = "") -> Piece | None:
        """A piece of this table, as `Pieces.take`; the key gets the table's name in front."""
        return self.take_all({key: compute}, size).get(key)

    def take_all(
        self, work: Mapping[str, Callable[[], Mapping[str, Any]]], size: str = "", table: str = ""
    ) -> dict[str, Piece]:
        """Pieces of this or another table, as `Pieces.take_all`; those that there was no time for are left out."""
        if self.pieces is None:
            raise ValueError("this keeper stores no pieces")
        owner = table or self.table
        found = self.pieces.take_all({f"{owner}/{key}": compute for key, compute in work.items()}, size)
        self.used += found.values()
        return {key.removeprefix(f"{owner}/"): piece for key, piece in found.items()}

    def marked(self, marks: Mapping[str, Any]) -> list[Row]:
        """The rows with date, commit and so on: those of the pieces that were used, otherwise `marks`."""
        if self.used:
            names = ("commit", "machine", "command")
            several = {name: ", ".join(dict.fromkeys(getattr(p, name) for p in self.used)) for name in names}
            spent = {"date": max(p.date for p in self.used), "seconds": round(sum(p.seconds for p in self.used), 1)}
            marks = {**marks, **several, **spent}
        return [replace(row, **marks) for row in self.rows]


# files -----------------------------------------------------------------------------------------------------------------


def file_of(paper: str, folder: Path = RESULTS) -> Path:
    return folder / f"tables_{paper}.jsonl"


def read(file: Path) -> list[Row]:
    if not file.exists():
        return []
    return [Row(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]


def write(folder: Path, rows: Iterable[Row]) -> None:
    """Rows of one table, in place of its earlier rows of the same form."""
    rows = list(rows)
    anew = {(row.table, row.form) for row in rows}
    [paper] = {paper_of(row.table) for row in rows}
    file, order = file_of(paper, folder), list(TITLES)
    kept = [row for row in read(file) if (row.table, row.form) not in anew] + rows
    kept.sort(key=lambda row: (order.index(row.table), FORMS.index(row.form)))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in kept), encoding="utf-8")


def shown(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Rows by table, in full form where there is one: one verdict for each figure, on every page."""
    tables: dict[str, list[Row]] = {}
    for row in rows:
        before = tables.get(row.table)
        if before is None or FORMS.index(row.form) > FORMS.index(before[0].form):
            tables[row.table] = [row]
        elif row.form == before[0].form:
            before.append(row)
    return dict(sorted(tables.items(), key=lambda item: list(TITLES).index(item[0])))
