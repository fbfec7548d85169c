"""Engines on inducing points with several classes: coupled scalable EP beside its rivals, at equal M.

    python benchmarks/coupled.py                       wine, glass, vehicle, segmentation; M = 20 and 50, three splits
    python benchmarks/coupled.py satimage --inducing 100 --splits 1
    python benchmarks/coupled.py mnist --inducing 100 --splits 1 --seconds 300

For each table, split and engine: log evidence for each training row (comparable between nested EP and coupled scalable EP
only), test error, test NLPD, calibration error, and processor seconds. `--seconds` gives each engine the same time instead
of a default number of passes: the number of passes is chosen from a first run of one pass. Nested EP uses all training rows
up to 800, and a random 800 of more.

The data come from GPCLASS_DATA, or from OpenML.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import replace

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from gpclass import GPClassifier, datasets
from gpclass.assess import expected_calibration_error, nlpd
from gpclass.inference import NestedEP
from gpclass.sparse import SVGP, CoupledScalableEP, ScalableEP

ENGINES = {"scalable-ep": ScalableEP, "coupled-scalable-ep": CoupledScalableEP, "svgp": SVGP}
MOST = 800  # rows of nested EP


def timed(engine, X, y, calibrate):
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        clf = GPClassifier(inference=engine, random_state=0, calibrate=calibrate).fit(X, y)
    return clf, time.process_time() - began


def row(name, engine, train, test, calibrate, seconds=None):
    X, y = train
    if seconds is not None and hasattr(engine, "epochs"):
        engine = replace(engine, search="minibatches")
        spent = timed(replace(engine, epochs=1), X, y, calibrate)[1]
        engine = replace(engine, epochs=max(1, int(seconds / spent)))
    clf, spent = timed(engine, X, y, calibrate)
    p = clf.predict_proba(test[0])
    error = np.mean(clf.classes_[p.argmax(1)] != test[1])
    codes = np.searchsorted(clf.classes_, test[1])
    quality = nlpd(codes, p), expected_calibration_error(codes, p)
    scores = clf.log_evidence_ / len(y), 100 * error, *quality, spent
    print(f"{name:24s}" + "{:10.3f}{:8.2f}{:9.4f}{:9.4f}{:9.1f}".format(*scores), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", default=["wine", "glass", "vehicle", "segmentation"])
    parser.add_argument("--inducing", type=int, nargs="+", default=[20, 50])
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--calibrate", action="store_true", help="the default calibration instead of none")
    parser.add_argument("--engines", nargs="+", default=["nested-ep", *ENGINES])
    given = parser.parse_args()
    calibrate = "loo" if given.calibrate else None
    for table in given.tables:
        data = datasets.load(table)
        X, y = data.X, data.y
        for split in range(given.splits):
            Xa, Xb, ya, yb = train_test_split(X, y, test_size=0.4, random_state=split, stratify=y)
            scaler = StandardScaler().fit(Xa)
            train, test = (scaler.transform(Xa), ya), (scaler.transform(Xb), yb)
            print(f"\n{table}, {len(ya)} rows, split {split}\n{'engine':24s}  evidence   error     nlpd      ece  seconds")
            if "nested-ep" in given.engines:
                some = np.random.default_rng(split).permutation(len(ya))[:MOST]
                row("nested-ep", NestedEP(), tuple(part[some] for part in train), test, calibrate)
            for M in given.inducing:
                for name in [name for name in ENGINES if name in given.engines]:
                    row(f"{name}, M = {M}", ENGINES[name](n_inducing=M), train, test, calibrate, given.seconds)


if __name__ == "__main__":
    main()
