"""Processor time of weighted rows, of equal rows with and without merging, and of soft labels.

    python benchmarks/weights.py            all, some minutes; writes results/weights.md
    python benchmarks/weights.py --quick    fewer rows, writes nothing

One BLAS thread; each pair of figures is from the same run, in turns. Equal rows are fitted at fixed hyperparameters, since a
search on all of them would take hours.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from sklearn.datasets import make_classification

from gpclass import GPClassifier
from gpclass.inference import EP
from gpclass.kernels import RBF

RESULTS = Path(__file__).parent / "results" / "weights.md"


class Apart(EP):
    """EP that does not see equal rows, for comparison."""

    weights = "none"


def seconds(make, X, y, repeats: int = 3, **more) -> float:
    """Return the least processor time of some fits."""
    times = []
    for _ in range(repeats):
        begun = time.process_time()
        make().fit(X, y, **more)
        times.append(time.process_time() - begun)
    return min(times)


def weighted(rows: int) -> list[str]:
    lines = ["| engine, rows | plain, s | weights from 1 to 1.2 | weights from 0.2 to 1 |", "|---|---|---|---|"]
    rng = np.random.default_rng(0)
    for name, n_classes, n in (("ep", 2, rows), ("ep", 2, 2 * rows), ("laplace", 2, rows), ("nested-ep", 3, rows // 2)):
        X, y = make_classification(n, 6, n_informative=4, n_classes=n_classes, n_clusters_per_class=1, random_state=0)

        def make(name=name):
            return GPClassifier(inference=name, random_state=0, optimizer=None)

        plain = seconds(make, X, y)
        above = seconds(make, X, y, sample_weight=rng.uniform(1, 1.2, n))
        below = seconds(make, X, y, sample_weight=rng.uniform(0.2, 1, n))
        lines.append(f"| {name}, {n} × {n_classes} classes | {plain:.3f} | {above / plain:.2f} × | {below / plain:.2f} × |")
    return lines


def repeated(places: int, times: int) -> list[str]:
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(places, 4))
    index = np.repeat(np.arange(places), times)
    y = Z[index, 0] + np.sin(2 * Z[index, 1]) + rng.normal(size=len(index)) > 0
    settings = {"kernel": RBF(2.0, 4.0), "optimizer": None, "random_state": 0}
    found = []
    for engine in ("ep", Apart()):
        begun = time.process_time()
        clf = GPClassifier(inference=engine, **settings).fit(Z[index], y)
        found.append((time.process_time() - begun, clf))
    (merged, a), (apart, b) = found
    gap = float(np.max(np.abs(a.predict_proba(Z) - b.predict_proba(Z))))
    return [
        "| rows, places | merged, s | not merged, s | ratio | difference of log evidences | of probabilities |",
        "|---|---|---|---|---|---|",
        f"| {len(index)}, {places} | {merged:.2f} | {apart:.1f} | {apart / merged:.0f} | "
        f"{abs(a.log_evidence_ - b.log_evidence_):.0e} | {gap:.0e} |",
    ]


def soft(rows: int) -> list[str]:
    X, y = make_classification(
        rows, 6, n_informative=5, n_redundant=0, n_classes=5, n_clusters_per_class=1, random_state=0
    )
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(5, 0.3), rows) + 2 * np.eye(5)[y]
    votes = rng.multinomial(5, p / p.sum(1, keepdims=True))
    hard = seconds(lambda: GPClassifier(random_state=0), X, y, 1)
    lines = ["| labels of 5 classes | seconds | against one label for each row |", "|---|---|---|"]
    lines.append(f"| one for each of {rows} rows | {hard:.2f} | |")
    for name, labels in (("probabilities", p / p.sum(1, keepdims=True)), ("five votes for each row", votes)):
        found = seconds(lambda: GPClassifier(random_state=0), X, labels, 1)
        lines.append(f"| {name} | {found:.2f} | {found / hard:.2f} × |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rows; nothing is written")
    quick = parser.parse_args().quick
    parts = {
        "Weights": weighted(150 if quick else 500),
        "Equal rows": repeated(40, 10) if quick else repeated(500, 10),
        "Soft labels": soft(100 if quick else 500),
    }
    text = "# Weights, equal rows and soft labels\n\nProcessor time, one BLAS thread (`python benchmarks/weights.py`).\n"
    text += "".join(f"\n## {name}\n\n" + "\n".join(lines) + "\n" for name, lines in parts.items())
    print(text)
    if not quick:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
