"""Which kernel and which priors should be the default: test NLPD and time of candidates on many tables.

For each table and each random split, 60 % of the rows (at most 400 with two classes and 250 with more) train, and at most
2000 of the others test. Columns are standardised with the training rows. The test NLPD is measured without calibration, and
after that of `GPClassifier(calibrate="loo")`. Differences from the first candidate without calibration are paired; their
standard errors are over tables. Candidates with one lengthscale per column are left out above 100 columns.

The data come from GPCLASS_DATA or --data; sets that cannot be loaded are named and left out. Cells that --results contains
are not measured again. All candidates on all tables take about half an hour of processor time.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from pathlib import Path

import numpy as np

from gpclass import GPClassifier, datasets
from gpclass.learning import Calibration, LeftOut, Relative

MOST = {2: 400}  # largest number of training rows; 250 with more classes
TABLES = (
    "banana", "breast", "crabs", "digits", "glass", "ionosphere", "iris", "new_thyroid", "pima", "ripley", "satimage",
    "segmentation", "sonar", "svmguide2", "tae", "usps_resampled", "vehicle", "vowel", "wdbc", "wine",
)  # fmt: skip
MOST_COLUMNS = 100  # with one lengthscale per column


def relative(sd: float) -> dict[str, object]:
    return {"lengthscale": Relative(sd), "variance": "weak"}


CANDIDATES = {
    "rbf": ("rbf", "weak"),
    "matern32": ("matern32", "weak"),
    "linear": ("linear", "weak"),
    "rbf + linear": ("rbf + linear", "weak"),
    "rbf-ard": ("rbf-ard", "weak"),
    "rbf-ard, relative 0.5": ("rbf-ard", relative(0.5)),
    "rational-quadratic-ard, relative 0.5": ("rational-quadratic-ard", relative(0.5)),
    "matern32-ard, relative 0.3": ("matern32-ard", relative(0.3)),
    "matern32-ard, relative 0.5": ("matern32-ard", relative(0.5)),
    "rbf-ard + linear, relative 0.3": ("rbf-ard + linear", relative(0.3)),
    "matern52-ard + linear, relative 0.5": ("matern52-ard + linear", relative(0.5)),
    "matern32-ard + linear, relative 0.3": ("matern32-ard + linear", relative(0.3)),
    "matern32-ard + linear, relative 0.5": ("matern32-ard + linear", relative(0.5)),
}


def split(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return training inputs and labels, test inputs and labels."""
    data = datasets.load(name)
    X, y = np.asarray(data.X, float), data.y
    order = np.random.default_rng(seed).permutation(len(y))
    n = min(int(0.6 * len(y)), MOST.get(len(np.unique(y)), 250))
    train, test = order[:n], order[n : n + 2000]
    keep = X[train].std(0) > 0
    X = (X[:, keep] - X[train][:, keep].mean(0)) / X[train][:, keep].std(0)
    seen = np.isin(y[test], y[train])
    return X[train], y[train], X[test][seen], y[test][seen]


def nlpd(log_p: np.ndarray, codes: np.ndarray) -> float:
    return -float(np.mean(np.maximum(log_p[np.arange(len(codes)), codes], np.log(1e-15))))


def cell(name: str, seed: int, candidate: str) -> dict[str, object]:
    """Fit one candidate to one split of one table."""
    text, priors = CANDIDATES[candidate]
    X, y, X_test, y_test = split(name, seed)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = GPClassifier(text, priors=priors, calibrate=None, random_state=0).fit(X, y)
    seconds = time.process_time() - began
    codes, test = (np.searchsorted(model.classes_, part) for part in (y, y_test))
    log_p, left_out = model.predict_log_proba(X_test), LeftOut(np.log(np.maximum(model.loo(), 1e-300)), codes)
    after = Calibration.fitted(left_out).log_probabilities(log_p)
    answers = {"raw": nlpd(log_p, test), "calibrated": nlpd(after, test), "seconds": seconds}
    return {"table": name, "split": seed, "candidate": candidate, **answers}


def report(cells: list[dict], names: tuple[str, ...], title: str) -> str:
    """Return a table in Markdown: means, paired differences from the first candidate, and time ratios."""
    first = next(iter(CANDIDATES))
    by = {(c["candidate"], c["table"], c["split"]): c for c in cells if c["table"] in names}
    lines = [
        f"## {title}\n",
        "| candidate | tables | NLPD | calibrated | difference | better / worse | calibrated | better / worse | time |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for candidate in CANDIDATES:
        keys = [key for key in by if key[0] == candidate and (first, *key[1:]) in by]
        tables = sorted({table for _, table, _ in keys})
        if not tables:
            continue
        row = [
            candidate,
            str(len(tables)),
            *(f"{np.mean([by[k][what] for k in keys]):.4f}" for what in ("raw", "calibrated")),
        ]
        for what in ("raw", "calibrated"):
            d = {k: by[k][what] - by[(first, *k[1:])]["raw"] for k in keys}
            each = [np.mean([d[k] for k in keys if k[1] == table]) for table in tables]
            error = np.std(each, ddof=1) / np.sqrt(len(each)) if len(each) > 1 else np.nan
            row += [
                f"{np.mean(each):+.4f} ± {error:.4f}",
                f"{sum(v < -1e-3 for v in d.values())} / {sum(v > 1e-3 for v in d.values())}",
            ]
        row.append(f"{np.exp(np.mean([np.log(by[k]['seconds'] / by[(first, *k[1:])]['seconds']) for k in keys])):.2f}")
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder of the data sets; overrides GPCLASS_DATA")
    parser.add_argument("--sets", nargs="+", default=list(TABLES), help="data sets to use")
    parser.add_argument("--candidates", nargs="+", default=list(CANDIDATES), choices=list(CANDIDATES))
    parser.add_argument("--splits", type=int, default=2, help="random splits of each (default 2)")
    parser.add_argument("--results", type=Path, default=Path("defaults.jsonl"), help="file of measured cells, one per line")
    args = parser.parse_args(arguments)
    if args.data:
        os.environ[datasets.VARIABLE] = str(args.data)
    cells = [json.loads(line) for line in args.results.read_text().splitlines()] if args.results.exists() else []
    done = {(c["table"], c["split"], c["candidate"]) for c in cells}
    wide = []
    for name in args.sets:
        try:
            if datasets.load(name).X.shape[1] > MOST_COLUMNS:
                wide.append(name)
        except (FileNotFoundError, ValueError) as error:
            print(f"left out: {name} ({error})")
            continue
        for seed in range(args.splits):
            for candidate in args.candidates:
                if (name, seed, candidate) not in done and not (name in wide and "ard" in candidate):
                    cells.append(cell(name, seed, candidate))
                    with args.results.open("a") as file:
                        file.write(json.dumps(cells[-1]) + "\n")
    narrow = tuple(name for name in TABLES if name not in wide)
    print(report(cells, narrow, f"Tables of at most {MOST_COLUMNS} columns"))
    print(report(cells, tuple(wide), "Tables of more columns"))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
