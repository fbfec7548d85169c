"""Engines on inducing points with several classes: coupled scalable EP beside its rivals, at equal M or in equal time.

    python benchmarks/coupled.py                       wine, glass, vehicle, segmentation; M = 20 and 50, three splits
    python benchmarks/coupled.py usps_resampled --inducing 50 --splits 1 --seconds 60
    python benchmarks/coupled.py mnist --inducing 50 --splits 1 --seconds 300
    python benchmarks/coupled.py --summary

For each table, split and engine: log evidence for each training row (comparable between nested EP and coupled scalable EP
only), test error, test NLPD, calibration error, and processor seconds. `--seconds` gives each engine the same time of
training on minibatches instead of a default number of passes: the number of passes is chosen from runs of one and three
passes. Nested EP uses all training rows up to 800, and a random 800 of more.

The data come from GPCLASS_DATA, or from OpenML. Results are in results/coupled.jsonl, the summary in results/coupled.md.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split

from gpclass import GPClassifier, datasets
from gpclass.assess import expected_calibration_error, nlpd
from gpclass.inference import NestedEP
from gpclass.sparse import SVGP, CoupledScalableEP, ScalableEP
from scoreboard.results import commit

RESULTS = Path(__file__).parent / "results"
STORED = RESULTS / "coupled.jsonl"
ENGINES = {
    "scalable-ep": ScalableEP(),
    "scalable-ep, joint": ScalableEP(factors="joint"),
    "coupled-scalable-ep": CoupledScalableEP(),
    "svgp": SVGP(),
}
MOST = 800  # rows of nested EP
BATCH = 500  # rows of a minibatch, in equal time


def timed(engine, X, y, calibrate):
    """Return the fitted classifier and processor seconds."""
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        clf = GPClassifier(inference=engine, random_state=0, calibrate=calibrate).fit(X, y)
    return clf, time.process_time() - began


def measure(engine, train, test, calibrate, seconds) -> dict:
    """Return the scores of one fit."""
    X, y = train
    if seconds is not None and hasattr(engine, "epochs"):
        engine = replace(engine, search="minibatches", batch_size=BATCH)
        first, further = (timed(replace(engine, epochs=passes), X, y, calibrate)[1] for passes in (1, 3))
        engine = replace(engine, epochs=max(1, 1 + int((seconds - first) / max(0.5 * (further - first), 1e-3))))
    clf, spent = timed(engine, X, y, calibrate)
    p = clf.predict_proba(test[0])
    codes = np.searchsorted(clf.classes_, test[1])
    return {
        "evidence": clf.log_evidence_ / len(y),
        "error": 100 * float(np.mean(p.argmax(1) != codes)),
        "nlpd": float(nlpd(codes, p)),
        "ece": float(expected_calibration_error(codes, p)),
        "seconds": spent,
    }


def run(table: str, split: int, given) -> None:
    """Measure all engines on one split of a table, and store each result."""
    data = datasets.load(table)
    X, y = np.asarray(data.X, float), np.asarray(data.y)
    Xa, Xb, ya, yb = train_test_split(X, y, test_size=0.4, random_state=split, stratify=y)
    engines = list(product(given.inducing, (name for name in ENGINES if name in given.engines)))
    for M, name in [(None, "nested-ep")] * ("nested-ep" in given.engines) + engines:
        rows = np.random.default_rng(split).permutation(len(ya))[: MOST if M is None else None]
        engine = NestedEP() if M is None else replace(ENGINES[name], n_inducing=M)
        limit = None if M is None else given.seconds
        scores = measure(engine, (Xa[rows], ya[rows]), (Xb, yb), "loo" if given.calibrate else None, limit)
        result = {"table": table, "split": split, "engine": name, "M": M, "n_train": len(rows), "limit": limit}
        result |= {"calibrated": given.calibrate, **scores, "commit": commit()}
        print(result, flush=True)
        with STORED.open("a") as file:
            file.write(json.dumps(result) + "\n")


def summary() -> str:
    """Return a table of the means of the stored results over splits."""
    stored = [json.loads(line) for line in STORED.read_text().splitlines()]
    groups: dict[tuple, dict[int, dict]] = {}
    for r in stored:
        case = tuple(r[key] for key in ("table", "n_train", "M", "limit", "calibrated", "engine"))
        groups.setdefault(case, {})[r["split"]] = r  # the last of a split counts
    lines = [
        "# Coupled scalable EP beside its rivals",
        "",
        "`python benchmarks/coupled.py`, one thread, processor seconds of a fit beside other work; means over splits. A",
        "time limit is one of training on minibatches of 500 rows. Log evidence for each row is comparable between",
        "nested EP and coupled scalable EP only.",
        "",
        "| table | rows | M | limit | engine | splits | log evidence | error | NLPD | calibration error | seconds |",
        "|---|---:|---:|---:|---|---:|---:|---:|---:|---:|---:|",
    ]
    for (table, n, M, limit, calibrated, engine), of_case in groups.items():
        mean = {key: np.mean([r[key] for r in of_case.values()]) for key in ("evidence", "error", "nlpd", "ece", "seconds")}
        start = [table, n, M or "", f"{limit:g} s" if limit else "", engine + ", calibrated" * calibrated, len(of_case)]
        scores = [f"{mean['evidence']:.3f}", f"{mean['error']:.2f} %", f"{mean['nlpd']:.4f}", f"{mean['ece']:.4f}"]
        lines.append(f"| {' | '.join(map(str, [*start, *scores]))} | {mean['seconds']:.1f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", default=["wine", "glass", "vehicle", "segmentation"])
    parser.add_argument("--inducing", type=int, nargs="+", default=[20, 50])
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--calibrate", action="store_true", help="the default calibration instead of none")
    parser.add_argument("--engines", nargs="+", default=["nested-ep", *ENGINES])
    parser.add_argument("--summary", action="store_true", help="run nothing")
    given = parser.parse_args()
    for table, split in () if given.summary else product(given.tables, range(given.splits)):
        run(table, split, given)
    (RESULTS / "coupled.md").write_text(summary())


if __name__ == "__main__":
    main()
