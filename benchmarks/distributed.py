"""Training on the workers of a Dask cluster: speed, memory, accuracy, a model of the time of a step, five million rows.

    python benchmarks/distributed.py             all, about twenty minutes on two idle cores; writes results/distributed.md
    python benchmarks/distributed.py speed       one part: speed, memory, accuracy, model or flights; writes nothing

Workers are processes of this machine with one thread each. Rows are synthetic flights: eight columns of numbers and three
classes of arrival delay, as in nycflights13 (the part `flights` has a text column too, and reads a folder of Parquet files).
M = 200 inducing points.
"""

# ruff: noqa: E402

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

# this file has the name of one of Dask's packages, which a script's own folder would hide
sys.path[:] = [place for place in sys.path if place != str(Path(__file__).parent)]

import dask
import numpy as np
from dask.distributed import Client, LocalCluster
from scipy.optimize import nnls

from gpclass import GPClassifier
from gpclass.distributed.dask_crew import DaskCrew
from gpclass.kernels import RBF
from gpclass.learning import Arrays, begin_training
from gpclass.learning.crew import Partition
from gpclass.learning.crew.rows import CrewRows
from gpclass.learning.crew.store import part_of_step
from gpclass.likelihoods import MultinomialProbit
from gpclass.sparse import SVGP, ScalableEP

RESULTS = Path(__file__).parent / "results" / "distributed.md"
M, COLUMNS = 200, ["month", "day", "departure", "arrival", "scheduled", "air_time", "distance", "age"]
CLASSES = np.array(["early", "late", "on time"])
CARRIERS = np.array(["AA", "B6", "DL", "EV", "UA", "WN"])
CORES = os.cpu_count() or 1
REPEATS = 5  # of one and two workers in turns; figures are medians


# rows --------------------------------------------------------------------------------------------------------------------


def flights(seed: int, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return inputs in single precision, labels, and the probabilities that the labels were drawn from."""
    rng = np.random.default_rng(seed)
    distance = rng.gamma(2.0, 500.0, rows) + 100
    air_time = distance / 7.5 + rng.normal(0, 12, rows) + 20
    departure = np.clip(rng.normal(13, 4.5, rows), 5, 23)
    X = np.column_stack(
        [
            rng.integers(1, 13, rows),
            rng.integers(1, 32, rows),
            departure,
            (departure + air_time / 60 + rng.normal(0, 0.3, rows)) % 24,
            departure - np.abs(rng.normal(0, 0.2, rows)),
            air_time,
            distance,
            rng.integers(0, 30, rows),
        ]
    ).astype(np.float32)
    season = np.cos(2 * np.pi * (X[:, 0] - 7) / 12)
    slow = (air_time - distance / 7.5 - 20) / 12
    late = 0.35 * (departure - 13) + 0.6 * season + 0.8 * slow - 0.7
    early = -0.25 * (departure - 13) - 0.5 * slow + 0.6
    f = np.column_stack([early, late, np.zeros(rows)])
    p = np.exp(f - f.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    place = (rng.random(rows)[:, None] > np.cumsum(p, axis=1)).sum(1)
    return X, CLASSES[place], p


def part(seed: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    return flights(seed, rows)[:2]


def loader(raw, name: str) -> Partition:
    return Partition.of(*raw, None, name)


class Cluster:
    """A cluster of processes of one thread, with rows in partitions of 50,000 or fewer."""

    def __init__(self, workers: int, rows: int):
        self.cluster = LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0
        )
        self.client = Client(self.cluster)
        size = min(50_000, -(-rows // (4 * workers)))
        sizes = [size] * (rows // size) + ([rows % size] if rows % size else [])
        pieces = [dask.delayed(part)(k, count) for k, count in enumerate(sizes)]
        self.crew = DaskCrew.of(self.client, pieces, [f"partition {k}" for k in range(len(sizes))], loader)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.crew.close()
        self.client.close()
        self.cluster.close()


def begun(source, engine):
    """Return a run with the lengthscales of the problem, and its source."""
    spread = np.array([3.5, 9.0, 4.5, 5.0, 4.5, 80.0, 700.0, 9.0])
    return begin_training(source, RBF(3 * spread, 4.0), MultinomialProbit(3), engine)


# speed -------------------------------------------------------------------------------------------------------------------


class Timed:
    """Sums of a step, and the longest time that a worker computed."""

    def __init__(self, sums, seconds):
        self.sums, self.seconds = sums, seconds

    def __add__(self, other):
        return Timed(self.sums + other.sums, max(self.seconds, other.seconds))


def timed_part(shard, *arguments) -> Timed:
    began = time.perf_counter()
    sums = part_of_step(shard, *arguments)
    return Timed(sums, time.perf_counter() - began)


class TimedCrew:
    """A crew that also measures how long its workers compute in a step."""

    def __init__(self, crew):
        self.crew, self.times, self.calls = crew, [], []

    def __getattr__(self, name):
        return getattr(self.crew, name)

    def sum(self, function, *arguments, meanwhile=None):
        if function is not part_of_step:
            return self.crew.sum(function, *arguments, meanwhile=meanwhile)
        began = time.perf_counter()
        found = self.crew.sum(timed_part, *arguments, meanwhile=meanwhile)
        self.calls.append(time.perf_counter() - began)
        self.times.append(found.seconds)
        return found.sums


def step_times(workers: int, rows: int, engine, batch: int, steps: int = 40) -> tuple[float, float, float]:
    """Return median seconds of a step, of the call to the workers, and of what the slowest of them computes.

    Minibatches have `batch` rows for each worker.
    """
    with Cluster(workers, rows) as cluster:
        total = batch * workers
        crew = TimedCrew(cluster.crew)
        run, source = begun(CrewRows(crew), engine(n_inducing=M, batch_size=total, epochs=1))
        batches = list(source.batches(total, (0, 0)))
        times = []
        for k in range(steps + 5):
            began = time.perf_counter()
            run.step(batches[k % len(batches)])
            times.append(time.perf_counter() - began)
        return tuple(float(np.median(some[5:])) for some in (times, crew.calls, crew.times))


def speed(rows: int = 1_000_000) -> list[str]:
    lines = [
        f"{rows:,} rows, batches of 2,000 rows a worker, three classes, M = {M}.",
        "",
        "| engine | workers | step, ms | slowest worker | communication | driver alone | rows a second | ratio |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for engine in (ScalableEP, SVGP):
        found = [{workers: step_times(workers, rows, engine, 2000) for workers in (1, 2)} for _ in range(REPEATS)]
        first = None
        for workers in (1, 2):
            step, call, compute = np.median([times[workers] for times in found], axis=0)
            pace = 2000 * workers / step
            first = first or pace
            shares = [100 * part / step for part in (compute, call - compute, step - call)]
            told = " | ".join(f"{share:.0f} %" for share in shares)
            lines.append(f"| {engine.__name__} | {workers} | {1e3 * step:.1f} | {told} | {pace:,.0f} | {pace / first:.2f} |")
    return lines


# memory ------------------------------------------------------------------------------------------------------------------


def resident() -> float:
    """Return the memory of this process, now, in MB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


def largest() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def partitions(shard) -> float:
    return sum(part.X.nbytes + part.place.nbytes for part in shard.parts) / 1e6


def memory_of(rows: int, engine) -> dict[str, float]:
    """Return memory in MB after a few hundred steps on two workers."""
    with Cluster(2, rows) as cluster:
        run, source = begun(CrewRows(cluster.crew), engine(n_inducing=M, batch_size=4000, epochs=1))
        for batch in list(source.batches(4000, (0, 0)))[:50]:
            run.step(batch)
        own = max(cluster.crew.each(partitions))
        found = {"partitions": own, "worker": max(cluster.client.run(resident).values())}
        return {**found, "worker, largest": max(cluster.client.run(largest).values()), "driver": resident()}


def memory() -> list[str]:
    lines = [
        "Two workers, each with half of the rows in single precision; MB. ScalableEP keeps 12 numbers for each row (three "
        "classes), SVGP none.",
        "",
        "| engine | rows | partitions of a worker | worker now | more than its partitions | worker at most | driver |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in ("SVGP", "ScalableEP"):
        for rows in (100_000, 1_000_000, 4_000_000):
            command = [sys.executable, __file__, "memory-of", "--rows", str(rows), "--engine", name]
            found = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout.splitlines()[-1])
            more = found["worker"] - found["partitions"]
            cells = [found["partitions"], found["worker"], more, found["worker, largest"], found["driver"]]
            lines.append(f"| {name} | {rows:,} | " + " | ".join(f"{cell:.0f}" for cell in cells) + " |")
    return lines


# accuracy ----------------------------------------------------------------------------------------------------------------


def nlpd(run, X, y) -> float:
    log_p = run.model().log_class_probabilities(X.astype(float))
    return -float(np.mean(log_p[np.arange(len(y)), np.searchsorted(CLASSES, y)]))


def accuracy(rows: int = 400_000) -> list[str]:
    X, y, p = flights(10**6, 100_000)
    best = -float(np.mean(np.log(p[np.arange(len(y)), np.searchsorted(CLASSES, y)])))
    lines = [
        f"{rows:,} rows, two passes, 2,000 rows a worker; loss (NLPD, nats) on 100,000 other rows. The probabilities that "
        f"labels were drawn from have {best:.4f}.",
        "",
        "| engine | one process | one worker | two workers | two workers - one process |",
        "|---|---|---|---|---|",
    ]
    for engine in (ScalableEP, SVGP):
        found = []
        size = min(50_000, rows // 8)
        whole = [part(k, size) for k in range(rows // size)]
        arrays = Arrays(*(np.concatenate(each) for each in zip(*whole, strict=True)))
        run, source = begun(arrays, engine(n_inducing=M, batch_size=2000, epochs=2))
        found.append(nlpd(run.run(source), X, y))
        for workers in (1, 2):
            with Cluster(workers, rows) as cluster:
                run, source = begun(CrewRows(cluster.crew), engine(n_inducing=M, batch_size=2000 * workers, epochs=2))
                found.append(nlpd(run.run(source), X, y))
        lines.append(f"| {engine.__name__} | " + " | ".join(f"{x:.4f}" for x in found) + f" | {found[2] - found[0]:+.4f} |")
    return lines


# a model of the time of a step -------------------------------------------------------------------------------------------


def terms(workers: int, batch: int) -> list[float]:
    """Return what the time of a step is linear in. Workers beyond the number of cores wait for each other."""
    turns = max(1.0, workers / CORES)
    return [batch * turns, turns, 1.0, workers]


def model(rows: int = 200_000) -> list[str]:
    fitted = [(w, b) for w in (1, 2, 4) for b in (500, 1000, 2000, 4000)]
    checked = [(3, 3000), (2, 8000), (1, 6000)]
    times = {(w, b): min(step_times(w, rows, SVGP, b, 15)[0] for _ in range(2)) for w, b in fitted + checked}
    A = np.array([terms(w, b) for w, b in fitted])
    t = np.array([times[key] for key in fitted])
    row, fixed, latency, worker = nnls(A / t[:, None], np.ones(len(t)))[0]  # relative errors
    lines = [
        f"SVGP, three classes, M = {M}; seconds of a step with b rows for each of W workers on {CORES} cores:",
        "",
        "    t = (row × b + fixed) × max(1, W / cores) + latency + worker × W",
        "",
        f"row = {1e6 * row:.2f} µs, fixed = {1e3 * fixed:.2f} ms, latency = {1e3 * latency:.2f} ms, worker = "
        f"{1e3 * worker:.2f} ms",
        "",
        "| W | b | measured, ms | model, ms | error | |",
        "|---|---|---|---|---|---|",
    ]
    for key in fitted + checked:
        found = float(np.dot(terms(*key), [row, fixed, latency, worker]))
        note = "not used in the fit" if key in checked else ""
        error = found / times[key] - 1
        lines.append(f"| {key[0]} | {key[1]} | {1e3 * times[key]:.1f} | {1e3 * found:.1f} | {100 * error:+.0f} % | {note} |")
    return lines


# five million rows -------------------------------------------------------------------------------------------------------


def write_file(folder: str, k: int, rows: int) -> None:
    import pandas as pd

    X, y, _ = flights(k, rows)
    carrier = CARRIERS[np.random.default_rng(k + 10**6).integers(0, len(CARRIERS), rows)]
    pd.DataFrame(X, columns=COLUMNS).assign(carrier=carrier, delay=y).to_parquet(f"{folder}/part-{k:03d}.parquet")


def end_to_end(rows: int = 5_000_000) -> list[str]:
    import dask.dataframe as dd

    lines = ["| | seconds |", "|---|---|"]
    with tempfile.TemporaryDirectory() as folder, LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0
    ) as cluster, Client(cluster) as client:
        files = 50
        began = time.perf_counter()
        client.gather([client.submit(write_file, folder, k, rows // files) for k in range(files + 2)])
        lines.append(f"| {files} Parquet files of {rows // files:,} rows written | {time.perf_counter() - began:.0f} |")
        frame = dd.read_parquet([f"{folder}/part-{k:03d}.parquet" for k in range(files)])
        test = dd.read_parquet([f"{folder}/part-{k:03d}.parquet" for k in range(files, files + 2)])
        began = time.perf_counter()
        engine = SVGP(n_inducing=M, batch_size=2000, epochs=1)
        clf = GPClassifier(inference=engine, random_state=0).fit(frame.drop(columns="delay"), frame["delay"])
        seconds = time.perf_counter() - began
        lines.append(f"| fit, one pass: reading, encoding of a text column, training, calibration | {seconds:.0f} |")
        began = time.perf_counter()
        p = clf.predict_proba(test.drop(columns="delay"))
        lines.append(f"| predictions of {2 * rows // files:,} rows | {_computed(p, began):.0f} |")
        loss = _loss(clf, test)
        true = [flights(k, rows // files) for k in range(files, files + 2)]
        best = -np.mean([np.log(q[np.arange(len(y)), np.searchsorted(CLASSES, y)]) for _, y, q in true])
        driver, workers = resident(), max(client.run(largest).values())
    told = f"Loss on other rows {loss:.4f} nats; the probabilities that labels were drawn from have {best:.4f}, class "
    told += f"frequencies {_guess(true):.4f}. Driver {driver:.0f} MB, a worker at most {workers:.0f} MB."
    return [*lines, "", told]


def _computed(p, began: float) -> float:
    p.mean().compute()
    return time.perf_counter() - began


def _loss(clf, test) -> float:
    from gpclass.assess import scores

    return scores(test["delay"], clf.predict_proba(test.drop(columns="delay")), classes=clf.classes_)["nlpd"]


def _guess(true) -> float:
    y = np.concatenate([labels for _, labels, _ in true])
    share = np.unique(y, return_counts=True)[1] / len(y)
    return -float(np.sum(share * np.log(share)))


PARTS = {"speed": speed, "memory": memory, "accuracy": accuracy, "model": model, "flights": end_to_end}
TITLES = {
    "speed": "Rows a second",
    "memory": "Memory",
    "accuracy": "Accuracy after the same number of rows",
    "model": "A model of the time of a step",
    "flights": "Five million rows from a folder of Parquet files",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", nargs="?", default="all", choices=["all", "memory-of", *PARTS])
    parser.add_argument("--rows", type=int)
    parser.add_argument("--engine", default="SVGP", choices=["SVGP", "ScalableEP"])
    given = parser.parse_args()
    if given.part == "memory-of":
        print(json.dumps(memory_of(given.rows, {"SVGP": SVGP, "ScalableEP": ScalableEP}[given.engine])))
        return
    text = ["# Training on a cluster", "", f"`python benchmarks/distributed.py`, {CORES} cores.", ""]
    for name in PARTS if given.part == "all" else [given.part]:
        lines = PARTS[name](*([] if given.rows is None else [given.rows]))
        text += [f"## {TITLES[name]}", "", *lines, ""]
        print("\n".join(text[-len(lines) - 3 :]), flush=True)
    if given.part == "all":
        RESULTS.write_text("\n".join(text))


if __name__ == "__main__":
    main()
