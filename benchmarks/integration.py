"""Hyperparameters integrated, at their mode and sampled: class probabilities, test NLPD and time.

For each table and split, 80 rows train and at most 1000 others test, columns as they are. The test NLPD of `hyper="mode"`
and `hyper="integrate"` is compared, without and with calibration, with one lengthscale and with one per column. On tables
of `--mcmc`, with one lengthscale, their probabilities are compared with those of `inference="mcmc"`.

The data come from GPCLASS_DATA or --data.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np

from gpclass import GPClassifier, datasets

ROWS, MOST = 80, 1000
TABLES = ("banana", "crabs", "glass", "ionosphere", "iris", "new_thyroid", "pima", "ripley", "vehicle", "wdbc", "wine")
KERNELS = ("rbf", "matern32-ard")


def split(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return training inputs and labels, test inputs and labels of classes that occur among the training rows."""
    data = datasets.load(name)
    order = np.random.default_rng(seed).permutation(len(data.y))
    train, test = order[:ROWS], order[ROWS : ROWS + MOST]
    test = test[np.isin(data.y[test], data.y[train])]
    return data.X[train], data.y[train], data.X[test], data.y[test]


def fitted(X: np.ndarray, y: np.ndarray, **settings: object) -> tuple[GPClassifier, float]:
    """Return a fitted classifier and its processor seconds."""
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = GPClassifier(random_state=0, **settings).fit(X, y)
    return model, time.process_time() - began


def nlpd(model: GPClassifier, X: np.ndarray, y: np.ndarray) -> float:
    codes = np.searchsorted(model.classes_, y)
    return -float(np.mean(model.predict_log_proba(X)[np.arange(len(y)), codes]))


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder of the data sets; overrides GPCLASS_DATA")
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--mcmc", nargs="*", default=["crabs", "pima"], help="tables that are also sampled")
    args = parser.parse_args(arguments)
    if args.data:
        os.environ[datasets.VARIABLE] = str(args.data)
    print("| kernel | table | NLPD, mode | integrated | calibrated: mode | integrated | time ratio |")
    print("|---|---|---|---|---|---|---|")
    gains: dict[tuple[str, bool], list[float]] = {}
    ratios: dict[str, list[float]] = {}
    for kernel in KERNELS:
        for name in TABLES:
            figures, ratio = [], []
            for seed in range(args.splits):
                X, y, X_test, y_test = split(name, seed)
                row = []
                for calibrate in (None, "loo"):
                    at_mode, one = fitted(X, y, kernel=kernel, calibrate=calibrate)
                    averaged, other = fitted(X, y, kernel=kernel, calibrate=calibrate, hyper="integrate")
                    row += [nlpd(at_mode, X_test, y_test), nlpd(averaged, X_test, y_test)]
                    ratio.append(other / one)
                figures.append(row)
            mean = np.mean(figures, axis=0)
            for calibrated in (False, True):
                gains.setdefault((kernel, calibrated), []).append(mean[1 + 2 * calibrated] - mean[2 * calibrated])
            ratios.setdefault(kernel, []).extend(ratio)
            shown = " | ".join(f"{v:.4f}" for v in mean)
            print(f"| {kernel} | {name} | {shown} | {np.median(ratio):.1f} |", flush=True)
    print()
    for (kernel, calibrated), each in gains.items():
        error = np.std(each, ddof=1) / np.sqrt(len(each))
        how = "calibrated" if calibrated else "uncalibrated"
        print(f"{kernel}, {how}: {np.mean(each):+.4f} ± {error:.4f}; median time ratio {np.median(ratios[kernel]):.1f}")
    for name in args.mcmc:
        X, y, X_test, _ = split(name, 0)
        sampled, seconds = fitted(X, y, kernel="rbf", calibrate=None, inference="mcmc")
        p = sampled.predict_proba(X_test[:200])
        for hyper in ("mode", "integrate"):
            model, own = fitted(X, y, kernel="rbf", calibrate=None, hyper=hyper)
            gap = np.abs(model.predict_proba(X_test[:200]) - p)
            errors = f"from mcmc by {gap.mean():.4f} on average, {gap.max():.3f} at most"
            print(f"{name}, {hyper}: {errors}; {own:.2f} s, mcmc {seconds:.0f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
