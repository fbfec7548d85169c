"""Asks the workers in turn: each round goes over all methods of all libraries, so that noise of the machine hits all alike.

A worker is a process that stays, so that imports are paid once and not timed. One that answers too late is ended and started
anew. What was slow in the first round is not repeated, and larger problems that would take too long are skipped; the results
tell it.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gpclass.assess.metrics import error_rate, expected_calibration_error, nlpd

from . import limits
from .environments import interpreter
from .results import Result, stamp
from .tasks import SLOW, Arrays, Task, counterpart, start

WORKERS = Path(__file__).parent / "workers"
SCRIPTS = {"scikit-learn": "sklearn_worker.py"}  # of the others, by their names
ONE_THREAD = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"),
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
    "CUDA_VISIBLE_DEVICES": "",
    "PYTHONUNBUFFERED": "1",
}
STARTING = 180  # seconds that a library may take to be imported
PATIENCE = 10  # seconds of the clock to one of the processor that a worker may need on a busy machine


def processor_seconds(process: int) -> float:
    """What a process has spent so far; the clock where that cannot be known."""
    try:
        words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return time.perf_counter()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


class WorkerFailed(RuntimeError):
    """A worker that could not be started, ended early or answered too late."""


class Worker:
    """A process that runs one library."""

    def __init__(self, library: str, python: Path, script: Path | None = None):
        self.library, self.python = library, python
        self.script = script or WORKERS / SCRIPTS.get(library, f"{library.lower()}_worker.py")
        self.process: subprocess.Popen | None = None
        self.versions: dict[str, str] = {}
        self.log = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - lives as long as the worker

    def begin(self) -> None:
        words, env = [str(self.python), str(self.script)], {**os.environ, **ONE_THREAD}
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, env=env)
        self.versions = self._answer(STARTING)["versions"]

    def ask(self, job: dict, seconds: float) -> dict:
        """The answer to a job; `WorkerFailed` if there is none in time."""
        if self.process is None:
            self.begin()
        self.process.stdin.write((json.dumps(job) + "\n").encode())
        self.process.stdin.flush()
        return self._answer(seconds)

    def _answer(self, seconds: float) -> dict:
        """Waits for so many seconds of the worker's processor time: others may be at work on the machine."""
        begun, patience = processor_seconds(self.process.pid), time.perf_counter() + PATIENCE * seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while not selector.select(0.5):
                spent = processor_seconds(self.process.pid) - begun
                if spent > seconds or time.perf_counter() > patience:
                    self.end()
                    raise TimeoutError(f"no answer within {seconds:.0f} s")
        line = self.process.stdout.readline()
        if not line:
            code = self.process.wait()
            self.end()
            raise WorkerFailed(f"the worker ended with code {code}: {self._last_words()}")
        return json.loads(line)

    def _last_words(self) -> str:
        self.log.seek(0)
        lines = self.log.read().strip().splitlines()
        return lines[-1][:300] if lines else "it said nothing"

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process.stdin.close(), self.process.stdout.close()
            self.process = None


@dataclass(frozen=True)
class Plan:
    """How long and how often."""

    rounds: int = 3
    slow: float = 8.0  # processor seconds: what takes longer in the first round is not repeated
    limit: float = 30.0  # processor seconds: what takes longer is ended
    rows: int = limits.MANY  # of the longer prediction
    full: bool = False  # with what is slow
    methods: tuple[str, ...] = ("",)  # words of which a method's name must have one


def run(tasks: list[Task], libraries: list[str], plan: Plan, tell: Callable[[str], None] = print) -> Iterator[Result]:
    """All measurements; libraries without an environment have been left out by the caller."""
    workers = {library: Worker(library, interpreter(library)) for library in libraries}
    mark = stamp()
    before: dict[tuple[str, str], tuple[int, float]] = {}  # n and seconds of the evidence at the last size
    try:
        with tempfile.TemporaryDirectory() as folder:
            for task in tasks:
                try:
                    arrays = task.make()
                except FileNotFoundError as error:
                    tell(f"left out: {error}")
                    gap = Result("missing", f"{task.kind} {task.name}", "all", "all", 0, **mark)
                    yield replace(gap, status="skipped", message="the data are not here; see gpclass.datasets")
                    continue
                began = time.perf_counter()
                yield from run_task(task, arrays, workers, plan, Path(folder), before, mark)
                tell(f"{task.kind} {task.name}: {time.perf_counter() - began:.0f} s")
    finally:
        for worker in workers.values():
            worker.end()


def run_task(task: Task, arrays: Arrays, workers, plan: Plan, folder: Path, before, mark) -> Iterator[Result]:
    n, classes = len(arrays["X"]), len(np.unique(arrays["y"]))
    data = folder / f"{task.kind} {task.name}.npz"
    np.savez(data, **arrays)
    job = {"kind": task.kind, "data": str(data), "probabilities": str(folder / "probabilities.npy")}
    job |= start(arrays["X"]) if task.kind != "evidence" else {}
    job |= task.settings
    cases = [(w, method) for library, w in workers.items() for method in task.methods(library, classes)]
    cases = [(w, method) for w, method in cases if any(word in method for word in plan.methods)]
    once, standard = set(), Standard(arrays)
    for round_ in range(1 if task.kind == "curve" else plan.rounds):
        unit = limits.Unit(task.settings.get("inducing", n))  # the largest matrix that is factorised
        for worker, method in cases:
            if (worker.library, method) in once:
                continue
            blank = Result(task.kind, task.name, worker.library, method, n, **mark, repeat=round_)
            key = worker.library, method
            why = "only in the full form, for it is slow" if key in SLOW and not plan.full else ""
            if task.kind == "evidence" and not why:
                why = too_late(before.get(key), n, plan.limit)
            if why:
                once.add(key)
                yield replace(blank, status="skipped", message=why)
                continue
            unit.measure()
            result, *more = ask(
                worker, blank, {**job, "method": method, "latency": plan.rows * (round_ == 0)}, arrays, plan, unit
            )
            if task.kind == "fit" and result.status == "ok":
                result = standard.compared(result, job["probabilities"])
            yield result
            yield from more
            if result.status != "ok" or (result.cpu_seconds or 0.0) > plan.slow:
                once.add(key)
            # an answer that came too late or not at all would do so at larger sizes
            before[key] = n, result.cpu_seconds if result.status == "ok" else np.inf if result.status == "timeout" else 0.0


def too_late(before: tuple[int, float] | None, n: int, limit: float) -> str:
    """Why a size is skipped: what the size before took, growing with the cube, is above the limit."""
    if before is None or (expected := before[1] * (n / before[0]) ** 3) <= limit:
        return ""
    if np.isinf(expected):
        return f"took longer than {limit:.0f} s at n = {before[0]}"
    return f"some {expected:.0f} s expected after {before[1]:.1f} s at n = {before[0]}; the limit is {limit:.0f} s"


def ask(worker: Worker, blank: Result, job: dict, arrays: Arrays, plan: Plan, unit: limits.Unit) -> list[Result]:
    """One measurement; of a curve, one for each of its points."""
    # predictions come on top of what is timed, and a curve takes as long as it is meant to
    allowed = 10 * plan.limit + 2 * job["marks"][-1] if job["kind"] == "curve" else 1.5 * plan.limit
    try:
        answer = worker.ask(job, allowed)
    except TimeoutError as error:
        return [replace(blank, status="timeout", message=str(error), versions=worker.versions)]
    except (WorkerFailed, BrokenPipeError) as error:
        worker.end()
        return [replace(blank, status="failed", message=str(error), versions=worker.versions)]
    blank = replace(blank, versions=worker.versions)
    points = answer.pop("points", None)
    if points is not None:
        files = [(p["seconds"], p["probabilities"]) for p in points]
        return [
            replace(blank, task=f"{blank.task}, {s:g} s", cpu_seconds=s, peak_mib=answer["peak_mib"], **judged(arrays, file))
            for s, file in files
        ]
    result = replace(blank, **answer)
    if result.status == "ok" and job["kind"] == "fit":
        result = replace(result, **judged(arrays, job["probabilities"]))
    if result.status == "ok" and worker.library == "gpclass":
        result = replace(result, multiples=unit.multiples(result))
    return [result]


class Standard:
    """Losses of the test rows with gpclass's default settings, which those of other fits are compared with row by row."""

    def __init__(self, arrays: Arrays):
        self.arrays, self.losses = arrays, None

    def compared(self, result: Result, file: str) -> Result:
        losses = -np.log(probabilities(file)[np.arange(len(self.arrays["y_test"])), self.arrays["y_test"].astype(int)])
        if result.library == "gpclass" and result.method == counterpart("fit", result.method):
            self.losses = losses
        if self.losses is None:
            return result
        gap = losses - self.losses
        return replace(result, nlpd_gap=float(gap.mean()), nlpd_gap_error=float(gap.std(ddof=1) / np.sqrt(len(gap))))


def probabilities(file: str) -> np.ndarray:
    """A probability of 0 would make one NLPD infinite, and rows miss a sum of one by rounding."""
    p = np.clip(np.load(file), 1e-300, 1)
    return p / p.sum(axis=1, keepdims=True)


def judged(arrays: Arrays, file: str) -> dict[str, float]:
    p, y = probabilities(file), arrays["y_test"]
    classes = np.arange(p.shape[1])
    return {
        "nlpd": nlpd(y, p, classes),
        "error": error_rate(y, p, classes),
        "calibration_error": expected_calibration_error(y, p, classes=classes),
    }
