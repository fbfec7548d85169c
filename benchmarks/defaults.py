"""Which kernel and which priors should be the default: test NLPD and time of candidates on many tables.

For each table and each random split, 60 % of the rows (at most 400 with two classes and 250 with more) train, and at most
2000 of the others test. Columns are standardised with the training rows. The test NLPD is measured as it is, and after a
calibration by leave-one-out: p ∝ p^T, then (1 - ε) p + ε / C, with log T ~ N(0, 0.5²) and logit ε ~ N(-5, 1.5²), fitted to
the leave-one-out probabilities of the training labels. Half of the tables choose between the candidates, the others
report. Differences from the first candidate are paired; their standard errors are over tables.

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
from scipy.optimize import minimize
from scipy.special import expit, log_softmax

from gpclass import GPClassifier, datasets
from gpclass.expressions import parse_kernel
from gpclass.learning import Relative, typical_distance

MOST = {2: 400}  # largest number of training rows; 250 with more classes
TABLES = (
    "banana", "breast", "crabs", "digits", "glass", "ionosphere", "iris", "new_thyroid", "pima", "ripley", "satimage",
    "segmentation", "sonar", "svmguide2", "tae", "usps_resampled", "vehicle", "vowel", "wdbc", "wine",
)  # fmt: skip
CHOOSING, REPORTING = TABLES[0::2], TABLES[1::2]  # in alphabetical order, by turns


def relative(sd: float) -> dict[str, object]:
    return {"lengthscale": Relative(sd), "variance": "weak"}


CANDIDATES = {
    "rbf": ("rbf", "weak"),
    "matern52": ("matern52", "weak"),
    "matern32": ("matern32", "weak"),
    "rbf + linear": ("rbf + linear", "weak"),
    "matern52 + linear": ("matern52 + linear", "weak"),
    "matern32 + linear": ("matern32 + linear", "weak"),
    "rbf-ard": ("rbf-ard", "weak"),
    "rbf-ard, relative 0.3": ("rbf-ard", relative(0.3)),
    "rbf-ard, relative 0.5": ("rbf-ard", relative(0.5)),
    "rbf-ard, relative 1": ("rbf-ard", relative(1.0)),
    "rbf-ard + linear, relative 0.3": ("rbf-ard + linear", relative(0.3)),
    "rbf-ard + linear, relative 0.5": ("rbf-ard + linear", relative(0.5)),
    "rbf-ard + linear, relative 1": ("rbf-ard + linear", relative(1.0)),
    "matern52-ard + linear, relative 0.5": ("matern52-ard + linear", relative(0.5)),
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


def calibrated(loo: np.ndarray, codes: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Return test probabilities after a calibration fitted to leave-one-out probabilities."""

    def moved(p, parameters):
        log_t, logit = parameters
        share = expit(logit)
        sharp = np.exp(log_softmax(np.exp(log_t) * np.log(np.maximum(p, 1e-300)), axis=1))
        return (1 - share) * sharp + share / p.shape[1]

    def loss(parameters):
        prior = 0.5 * (parameters[0] / 0.5) ** 2 + 0.5 * ((parameters[1] + 5) / 1.5) ** 2
        return len(codes) * nlpd(moved(loo, parameters), codes) + prior

    return moved(test, minimize(loss, [0.0, -5.0], method="Nelder-Mead").x)


def nlpd(p: np.ndarray, codes: np.ndarray) -> float:
    return -float(np.mean(np.log(np.maximum(p[np.arange(len(codes)), codes], 1e-300))))


def cell(name: str, seed: int, candidate: str) -> dict[str, object]:
    """Fit one candidate to one split of one table."""
    text, priors = CANDIDATES[candidate]
    X, y, X_test, y_test = split(name, seed)
    kernel = parse_kernel(text, X.shape[1], typical_distance(X, np.random.default_rng(0)))
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = GPClassifier(kernel, priors=priors, random_state=0).fit(X, y)
    seconds = time.process_time() - began
    codes, test = (np.searchsorted(model.classes_, part) for part in (y, y_test))
    p = model.predict_proba(X_test)
    answers = {"raw": nlpd(p, test), "calibrated": nlpd(calibrated(model.loo(), codes, p), test), "seconds": seconds}
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
            d = {k: by[k][what] - by[(first, *k[1:])][what] for k in keys}
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
    for name in args.sets:
        try:
            datasets.load(name)
        except (FileNotFoundError, ValueError) as error:
            print(f"left out: {name} ({error})")
            continue
        for seed in range(args.splits):
            for candidate in args.candidates:
                if (name, seed, candidate) not in done:
                    cells.append(cell(name, seed, candidate))
                    with args.results.open("a") as file:
                        file.write(json.dumps(cells[-1]) + "\n")
    print(report(cells, CHOOSING, "Tables that choose"))
    print(report(cells, REPORTING, "Tables that report"))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
