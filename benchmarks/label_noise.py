"""What learned label noise is worth: test NLPD with and without it, with some training labels flipped.

Ten tables, 60 % of the rows (at most 250) for training, inputs standardised, labels of the test rows as they are. A flipped
label is one of the other classes, at random. "plain" is `GPClassifier()`: EP with Probit, NestedEP with MultinomialProbit.
"noise" has epsilon=0.05 as the start of learning: EP, or QuadratureEP(coupled=False) with several classes. "independent" is
the latter without noise. "true" is the model of "noise", asked for the true label: (p - ε/C)/(1 - ε).

    python benchmarks/label_noise.py                 measure, write results/label_noise.jsonl, print the table
    python benchmarks/label_noise.py --report        print the table of the file
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from gpclass import GPClassifier, datasets
from gpclass.inference import QuadratureEP
from gpclass.likelihoods import MultinomialProbit, Probit

TABLES = ("breast", "crabs", "ionosphere", "pima", "sonar", "wdbc", "iris", "wine", "new_thyroid", "svmguide2")
FLIPPED = (0.0, 0.05, 0.1)
SPLITS, SHARE, MOST = 2, 0.6, 250
START = 0.05  # of ε
FILE = Path(__file__).parent / "results" / "label_noise.jsonl"


def split(name: str, seed: int):
    """Return training and test rows, inputs standardised by the training rows, labels as codes."""
    data = datasets.load(name)
    codes = np.unique(data.y, return_inverse=True)[1]
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(codes))
    train, test = np.split(order, [min(int(SHARE * len(order)), MOST)])
    scale = StandardScaler().fit(data.X[train])
    return scale.transform(data.X[train]), codes[train], scale.transform(data.X[test]), codes[test], rng


def flipped(y: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """Return y with this share of labels replaced by others."""
    y, C = y.copy(), y.max() + 1
    some = rng.choice(len(y), round(share * len(y)), replace=False)
    y[some] = (y[some] + rng.integers(1, C, size=len(some))) % C
    return y


def models(C: int) -> dict[str, GPClassifier]:
    if C == 2:
        return {
            "plain": GPClassifier(random_state=0),
            "noise": GPClassifier(likelihood=Probit(epsilon=START), random_state=0),
        }
    return {
        "plain": GPClassifier(random_state=0),
        "independent": GPClassifier(inference=QuadratureEP(coupled=False), random_state=0),
        "noise": GPClassifier(likelihood=MultinomialProbit(C, epsilon=START), random_state=0),
    }


def scores(p: np.ndarray, y: np.ndarray) -> dict[str, float]:
    chosen = np.maximum(p[np.arange(len(y)), y], np.finfo(float).tiny)
    return {"nlpd": float(-np.mean(np.log(chosen))), "error": float(np.mean(p.argmax(1) != y))}


def measure(name: str, seed: int, share: float):
    """Yield a line for each model."""
    X, y, X_test, y_test, rng = split(name, seed)
    C, noisy = int(y.max()) + 1, flipped(y, share, rng)
    for model, clf in models(C).items():
        began = time.process_time()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            p = clf.fit(X, noisy).predict_proba(X_test)
        epsilon = getattr(clf.likelihood_, "epsilon", 0.0)
        line = {"table": name, "split": seed, "flipped": share, "n": len(y), "classes": C, "epsilon": epsilon}
        line |= {"seconds": time.process_time() - began, "evidence": float(clf.log_evidence_)}
        line["warnings"] = sorted({type(w.message).__name__ for w in said})
        yield {**line, "model": model, **scores(p, y_test)}
        if model == "noise":
            yield {**line, "model": "true", **scores((p - epsilon / C) / (1 - epsilon), y_test)}


def paired(lines: list[dict], model: str, base: str, share: float, several: bool, what: str = "nlpd") -> str:
    """Return the mean difference and its standard error over tables and splits."""
    by = {
        (x["model"], x["table"], x["split"]): x[what]
        for x in lines
        if x["flipped"] == share and (x["classes"] > 2) == several
    }
    d = [v - by[base, t, s] for (m, t, s), v in by.items() if m == model]
    return f"{np.mean(d):+.3f} ± {np.std(d, ddof=1) / np.sqrt(len(d)):.3f}"


def ratio(lines: list[dict], base: str, several: bool) -> float:
    """Return the processor time of "noise" divided by that of `base`."""
    spent = {
        m: sum(x["seconds"] for x in lines if x["model"] == m and (x["classes"] > 2) == several) for m in ("noise", base)
    }
    return spent["noise"] / spent[base]


def report(lines: list[dict]) -> str:
    """Return the tables in Markdown."""
    rows = ["| classes | flipped | model | NLPD minus plain's | error minus plain's |", "|---|---|---|---|---|"]
    for several in (False, True):
        for share in FLIPPED:
            for model in ("noise", "true", *(("independent",) if several else ())):
                cells = [paired(lines, model, "plain", share, several, what) for what in ("nlpd", "error")]
                rows.append(f"| {'3' if several else '2'} | {share:.0%} | {model} | {cells[0]} | {cells[1]} |")
            if several:
                cell = paired(lines, "noise", "independent", share, several)
                rows.append(f"| 3 | {share:.0%} | noise, minus independent's | {cell} | |")
    rows += ["", "NLPD plain / noise / true, and ε, means of the splits:", ""]
    rows += ["| table | n | " + " | ".join(f"{share:.0%}" for share in FLIPPED) + " |", "|---|---|" + "---|" * len(FLIPPED)]
    for name in TABLES:
        cells = []
        for share in FLIPPED:
            of = [x for x in lines if x["table"] == name and x["flipped"] == share]
            mean = {m: np.mean([x["nlpd"] for x in of if x["model"] == m]) for m in ("plain", "noise", "true")}
            epsilon = np.mean([x["epsilon"] for x in of if x["model"] == "noise"])
            cells.append(" / ".join(f"{v:.3f}" for v in mean.values()) + f", {epsilon:.3f}")
        rows.append(f"| {name} | {of[0]['n']} | " + " | ".join(cells) + " |")
    noisy = [x for x in lines if x["model"] == "noise"]
    rows += ["", f"Fits with noise that warned: {sum(bool(x['warnings']) for x in noisy)} of {len(noisy)}. Processor time:"]
    rows[-1] += f" {ratio(lines, 'plain', False):.1f} times plain's with two classes,"
    rows[-1] += f" {ratio(lines, 'plain', True):.0f} times plain's and {ratio(lines, 'independent', True):.1f} times"
    rows[-1] += " independent's with three."
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", action="store_true")
    args = parser.parse_args()
    if not args.report:
        with threadpool_limits(1), FILE.open("w") as out:
            for seed in range(SPLITS):
                for name in TABLES:
                    for share in FLIPPED:
                        for line in measure(name, seed, share):
                            out.write(json.dumps(line) + "\n")
                            out.flush()
    print(report([json.loads(line) for line in FILE.read_text().splitlines()]))


if __name__ == "__main__":
    main()
