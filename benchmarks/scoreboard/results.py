"""One measurement, files of them (JSON lines), what several repetitions come to, and Markdown tables.

A file holds every repetition as a line of its own, failures included, so that files of several runs can be joined. Tables
show medians over the repetitions. Ratios are of processor time, peer / gpclass: above one, gpclass is faster.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

STATES = ("ok", "failed", "timeout", "skipped")
MEASURED = (
    "seconds",
    "cpu_seconds",
    "nlpd",
    "nlpd_gap",
    "nlpd_gap_error",
    "error",
    "calibration_error",
    "peak_mib",
    "log_evidence",
    "predict_one_seconds",
    "predict_many_seconds",
)


@dataclass(frozen=True)
class Result:
    """One repetition of one task by one method of one library. What was not measured is None."""

    kind: str  # "evidence", "fit", "curve", "growth"; "missing" tells what could not even be tried
    task: str
    library: str
    method: str
    n: int
    date: str = ""
    commit: str = ""
    machine: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    repeat: int = 0
    status: str = "ok"
    message: str = ""  # the error, or why it was skipped
    seconds: float | None = None  # wall clock
    cpu_seconds: float | None = None  # of the processor, all threads
    nlpd: float | None = None  # mean negative log predictive density of the test rows, in nats
    nlpd_gap: float | None = None  # the same minus that of gpclass with its default settings, row by row
    nlpd_gap_error: float | None = None  # standard error of this difference
    error: float | None = None  # share of test rows with another most probable class
    calibration_error: float | None = None  # expected calibration error, ten bins
    peak_mib: float | None = None  # highest resident memory of the process, the library itself included
    log_evidence: float | None = None  # or its bound, at the hyperparameters given or learned
    predict_one_seconds: float | None = None
    predict_many_seconds: float | None = None  # of 10,000 rows
    multiples: dict[str, float] = field(default_factory=dict)  # processor time in units of unavoidable work

    def __post_init__(self):
        if self.status not in STATES:
            raise ValueError(f"status must be one of {', '.join(STATES)}, but is {self.status!r}")

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.kind, self.task, self.library, self.method


@dataclass(frozen=True)
class Summary:
    """All repetitions of one key: medians, and how far the processor times lie apart."""

    kind: str
    task: str
    library: str
    method: str
    n: int
    repeats: int  # that succeeded
    status: str
    message: str
    values: dict[str, float]  # medians of what was measured, by the names of MEASURED
    spread: float  # (largest - smallest) / median of the processor time; 0 for one repetition
    multiples: dict[str, float]

    def __getitem__(self, name: str) -> float | None:
        return self.values.get(name)


def append(path: Path, results: Iterable[Result]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(_without_gaps(asdict(r)), ensure_ascii=False) + "\n" for r in results)


def _without_gaps(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if value not in (None, "", {})}


def read(*paths: Path) -> list[Result]:
    """All measurements in some files; a line that is none tells where it is."""
    known, found = {f.name for f in fields(Result)}, []
    for path in paths:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
                if unknown := set(record) - known:
                    raise ValueError(f"unknown entries {', '.join(sorted(unknown))}")
                found.append(Result(**record))
            except (ValueError, TypeError) as error:
                raise ValueError(f"{path}, line {number} is no measurement: {error}") from error
    return found


def merge(results: Iterable[Result]) -> list[Summary]:
    """One summary for each kind, task, library and method, in the order of their first lines."""
    groups: dict[tuple[str, str, str, str], list[Result]] = {}
    for result in results:
        groups.setdefault(result.key, []).append(result)
    return [_summary(group) for group in groups.values()]


def _summary(group: Sequence[Result]) -> Summary:
    good = [r for r in group if r.status == "ok"]
    values = {}
    for name in MEASURED:
        some = [v for r in good if (v := getattr(r, name)) is not None]
        if some:
            values[name] = float(np.median(some))
    times = [r.cpu_seconds for r in good if r.cpu_seconds is not None]
    spread = (max(times) - min(times)) / float(np.median(times)) if times else 0.0
    units = {name for r in good for name in r.multiples}
    multiples = {u: float(np.median([r.multiples[u] for r in good if u in r.multiples])) for u in sorted(units)}
    bad = next((r for r in group if r.status != "ok"), None)
    # one failure in three counts as a failure that is told, but what did succeed is shown
    status, message = (bad.status, bad.message) if bad and not good else ("ok", bad.message if bad else "")
    first = group[0]
    return Summary(*first.key, first.n, len(good), status, message, values, spread, multiples)


def ratio(peer: Summary, ours: Summary | None) -> float | None:
    """Processor time of a peer over that of gpclass; None where one of them has none."""
    theirs, own = peer["cpu_seconds"], ours["cpu_seconds"] if ours else None
    return theirs / own if theirs is not None and own else None


def stamp() -> dict[str, str]:
    """Date, commit and machine, for `Result`."""
    return {"date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M"), "commit": commit(), "machine": machine()}


def commit() -> str:
    """Short name of the commit, with a + if code differs from it (not results or pages); empty outside a repository."""
    here = Path(__file__).parents[2]
    code = ("--", "src", "benchmarks", ":!benchmarks/results")
    try:
        name, changed = (
            subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, check=True).stdout.strip()
            for words in (["rev-parse", "--short", "HEAD"], ["status", "--porcelain", "-uno", *code])
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return name + ("+" if changed else "")


def machine() -> str:
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), name)
    except OSError:
        pass
    return f"{name}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}, one thread"


def shown(program: str, words: Sequence[str]) -> str:
    """A command line for a file of results, without folders of the machine that it ran on."""
    kept, skip = [], False
    for word in words:
        skip, skipped = word in ("--to", "--data"), skip
        if not (skip or skipped or word.startswith(("--to=", "--data="))):
            kept.append(word)
    return f"{program} {shlex.join(kept)}".strip()


# tables ----------------------------------------------------------------------------------------------------------------


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Markdown; the first column is text, the others are numbers."""
    lines = [list(header), ["---"] + ["---:"] * (len(header) - 1), *map(list, rows)]
    if any(len(line) != len(header) for line in lines):
        raise ValueError(f"every row needs the {len(header)} cells of the header")
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def number(value: float | None, digits: int = 3) -> str:
    """So many significant digits, and a dash for nothing."""
    if value is None:
        return "–"
    if value == 0 or not np.isfinite(value):
        return f"{value:g}"
    decimals = max(0, digits - 1 - int(np.floor(np.log10(abs(value)))))
    return f"{value:.{min(decimals, 6)}f}"


def times(value: float | None) -> str:
    return "–" if value is None else f"{number(value, 2)} ×"
