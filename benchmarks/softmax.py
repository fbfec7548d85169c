"""Engines that support softmax: NLPD of test rows and processor time with learned hyperparameters.

    python benchmarks/softmax.py [--tables iris wine] [--engines laplace variational-mnl] [--sampler]

Each split takes 60 % of the rows, at most --rows, for training, and at most 250 of the others as test rows. Columns are
standardised by the training rows; the kernel is the default, an RBF with one lengthscale. A fit with its predictions that
takes more than --limit processor seconds is stopped and shown as ">". --sampler compares the probabilities of Laplace and of
variational MNL with those of HMC at the same hyperparameters: the mean and the largest absolute error, and the standard
error of the sampler. The data come from GPCLASS_DATA or --data; sets that cannot be loaded are named and left out.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from gpclass import GPClassifier, datasets
from gpclass.choose import engine_named
from gpclass.inference import Laplace
from gpclass.sampling import HMC

TABLES = (
    "iris",
    "wine",
    "new_thyroid",
    "tae",
    "svmguide2",
    "glass",
    "vehicle",
    "segmentation",
    "satimage",
    "digits",
    "vowel",
)
ENGINES = (
    "laplace",
    "laplace, corrected",
    "variational-mnl",
    "svgp",
    "scalable-ep",
    "stochastic-ep",
    "gfitc",
    "ivm",
    "sparse-mnl",
)
COMPARED = ("laplace", "variational-mnl")  # with a sampler
MOST_TESTED, SHARE = 250, 0.6
SAMPLER = HMC(n_draws=1000, n_warmup=300, n_chains=4, enough=1000)


class TooLong(Exception):
    pass


def made(name):
    return Laplace(correction="tierney-kadane") if name == "laplace, corrected" else engine_named(name)


def table(name):
    """X and y of all rows."""
    if name == "digits":
        return load_digits(return_X_y=True)
    data = datasets.load(name)
    return data.X, data.y


def split(name, seed, most):
    """Standardised training and test rows; segmentation without repeated rows."""
    X, y = table(name)
    _, first = np.unique(np.column_stack([X, np.unique(y, return_inverse=True)[1]]), axis=0, return_index=True)
    order = np.random.default_rng(seed).permutation(np.sort(first))
    n = min(most, int(SHARE * len(order)))
    train, test = order[:n], order[n : n + MOST_TESTED]
    test = test[np.isin(y[test], y[train])]
    scale = StandardScaler().fit(X[train])
    return scale.transform(X[train]), y[train], scale.transform(X[test]), y[test]


def limited(seconds, work):
    """Return work(), or raise TooLong after so much processor time."""

    def stop(*_):
        raise TooLong

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return work()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def nlpd(model, log_p, y):
    return float(-np.mean(log_p[np.arange(len(y)), np.searchsorted(model.classes_, y)]))


def measured(engine, data, limit):
    """NLPD and processor seconds of fit and predictions, and the fitted model."""
    X, y, X_test, y_test = data
    model = GPClassifier(likelihood="softmax", inference=engine, random_state=0)
    began = time.process_time()
    log_p = limited(limit, lambda: model.fit(X, y).predict_log_proba(X_test))
    return nlpd(model, log_p, y_test), time.process_time() - began, model


def against_sampler(model, data):
    """Errors of the model's probabilities: HMC at the same hyperparameters is taken for the truth."""
    X, y, X_test, y_test = data
    runs = []
    for seed in (0, 1):
        sampler = replace(SAMPLER, random_state=seed)
        exact = GPClassifier(model.kernel_, model.likelihood_, sampler, optimizer=None).fit(X, y)
        runs.append(exact.predict_proba(X_test))
    p = np.mean(runs, axis=0)
    error = np.abs(model.predict_proba(X_test) - p)
    return {
        "mean error": float(error.mean()),
        "largest error": float(error.max()),
        "sampler nlpd": nlpd(exact, np.log(p), y_test),
        "standard error": float(np.sqrt(np.mean((runs[0] - runs[1]) ** 2))) / 2,
    }


def measurements(tables, engines, seeds, most, limit, sampler):
    for name in tables:
        try:
            table(name)
        except (FileNotFoundError, KeyError) as error:
            print(f"{name}: left out, {error}")
            continue
        stopped = set()
        for seed in range(seeds):
            data = split(name, seed, most)
            size = {"table": name, "split": seed, "rows": len(data[1]), "classes": len(np.unique(data[1]))}
            for engine in engines:
                if engine in stopped:
                    continue
                try:
                    score, seconds, model = measured(made(engine), data, limit)
                except TooLong:
                    stopped.add(engine)
                    yield {**size, "engine": engine, "nlpd": None, "seconds": limit}
                    continue
                line = {**size, "engine": engine, "nlpd": score, "seconds": seconds}
                if sampler and engine in COMPARED:
                    line.update(against_sampler(model, data))
                yield line


def cell(lines):
    if not lines:
        return "–"
    if any(line["nlpd"] is None for line in lines):
        return f"> {max(line['seconds'] for line in lines):.0f} s"
    return f"{np.mean([line['nlpd'] for line in lines]):.3f} ({np.mean([line['seconds'] for line in lines]):.1f} s)"


def markdown(lines):
    """A table of NLPD and seconds: a row for each table, a column for each engine."""
    engines = [name for name in ENGINES if any(line["engine"] == name for line in lines)]
    text = ["| table | rows | classes | " + " | ".join(engines) + " |", "|---" * (3 + len(engines)) + "|"]
    for name in dict.fromkeys(line["table"] for line in lines):
        own = [line for line in lines if line["table"] == name]
        cells = [cell([line for line in own if line["engine"] == engine]) for engine in engines]
        text.append(f"| {name} | {own[0]['rows']} | {own[0]['classes']} | " + " | ".join(cells) + " |")
    return "\n".join(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=TABLES)
    parser.add_argument("--engines", nargs="+", default=ENGINES)
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--rows", type=int, default=250)
    parser.add_argument("--limit", type=float, default=120.0, help="processor seconds of a fit with its predictions")
    parser.add_argument("--sampler", action="store_true")
    parser.add_argument("--data", type=Path, help="folder of the data sets; overrides GPCLASS_DATA")
    parser.add_argument("--out", type=Path, help="a file to which each measurement is added as a line of JSON")
    args = parser.parse_args()
    if args.data:
        os.environ["GPCLASS_DATA"] = str(args.data)
    lines = []
    with threadpool_limits(1, "blas"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for line in measurements(args.tables, args.engines, args.splits, args.rows, args.limit, args.sampler):
            lines.append(line)
            print(json.dumps(line), flush=True)
            if args.out:
                with args.out.open("a") as file:
                    file.write(json.dumps(line) + "\n")
    print(markdown(lines))


if __name__ == "__main__":
    main()
