"""What the order of categories is worth: `GPClassifier(likelihood="ordinal")` against the default, which ignores the order.

tae: teaching evaluated as low, medium, high. flights: arrivals early, on time, late. diabetes and pumadyn: a measurement cut
into five categories of equal frequency. Five random splits, the same for both models. A difference is that of the mean test
scores of a split, ordinal minus nominal, with the standard error of its mean over the splits: below zero, the order helps.
"Lost" counts the splits in which a model found no relation: its NLPD is that of the class frequencies, or worse.

    GPCLASS_DATA=folder python benchmarks/ordinal.py      measure, write results/ordinal.md
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_diabetes
from threadpoolctl import threadpool_limits

from gpclass import GPClassifier, datasets
from gpclass.assess import error_rate, nlpd, ranked_probability_score

SPLITS, MOST_TEST = 5, 1000
LOST = 0.005  # nats below class frequencies at which a model has found no relation
TRAIN = {"tae": 100, "diabetes": 250, "flights": 250, "pumadyn": 250}
FILE = Path(__file__).parent / "results" / "ordinal.md"
SCORES = ("NLPD", "error", "MAE", "RPS")


def table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and categories 0 … R - 1."""
    if name == "diabetes":
        X, target = load_diabetes(return_X_y=True)
        return X, in_fifths(target)
    data = datasets.load({"flights": "nycflights13", "pumadyn": "pumadyn32nm"}.get(name, name))
    if not data.class_names:
        return data.X, in_fifths(data.y)
    place = {label: number for number, label in enumerate(data.class_names)}  # in their order
    return data.X, np.array([place[label] for label in data.y.tolist()])


def in_fifths(target: np.ndarray) -> np.ndarray:
    return np.digitize(target, np.quantile(target, [0.2, 0.4, 0.6, 0.8]))


def measure(model: GPClassifier, X, y, train, test) -> np.ndarray:
    """Return the scores on the test rows, whether they are no better than class frequencies, and the seconds of a fit."""
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X[train], y[train])
    seconds = time.perf_counter() - began
    p, classes = model.predict_proba(X[test]), model.classes_
    off = np.abs(model.predict(X[test]) - y[test]).mean()
    found = nlpd(y[test], p, classes), error_rate(y[test], p, classes), off, ranked_probability_score(y[test], p, classes)
    frequency = np.bincount(y[train], minlength=len(classes)) / len(train)
    guess = -np.mean(np.log(frequency[y[test]]))
    return np.array([*found, found[0] > guess - LOST, seconds])


def rows_of(name: str) -> list[str]:
    """Return the lines of the report about one table."""
    X, y = table(name)
    found = []
    for seed in range(SPLITS):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = order[: TRAIN[name]], order[TRAIN[name] :][:MOST_TEST]
        models = GPClassifier(random_state=0), GPClassifier(likelihood="ordinal", random_state=0)
        found.append([measure(model, X, y, train, test) for model in models])
        print(name, seed, np.round(found[-1], 3).tolist(), flush=True)
    nominal, ordinal = np.mean(found, axis=0)
    lost = np.sum(found, axis=0)[:, 4]
    gain = np.array(found)[:, 1, :4] - np.array(found)[:, 0, :4]
    error = gain.std(axis=0, ddof=1) / np.sqrt(SPLITS)
    size = f"{name} ({TRAIN[name]}, {X.shape[1]}, {y.max() + 1})"
    return [
        f"| {size} | nominal | {_cells(nominal[:4])} | {lost[0]:.0f} | {nominal[5]:.1f} |",
        f"| | ordinal | {_cells(ordinal[:4])} | {lost[1]:.0f} | {ordinal[5]:.1f} |",
        f"| | difference | {' | '.join(f'{g:+.3f} ± {e:.3f}' for g, e in zip(gain.mean(axis=0), error, strict=True))} | | |",
    ]


def _cells(values) -> str:
    return " | ".join(f"{value:.3f}" for value in values)


def main() -> None:
    began = time.perf_counter()
    with threadpool_limits(1):
        lines = [line for name in TRAIN for line in rows_of(name)]
    head = [
        "# Ordered categories",
        "",
        f"{__doc__.split('    GPCLASS_DATA')[0].strip()}",
        "",
        "Table (training rows, inputs, categories). MAE: mean distance of the predicted from the true category. RPS: ranked",
        "probability score. Seconds: one fit, on one core.",
        "",
        f"| table | model | {' | '.join(SCORES)} | lost | seconds |",
        "|---|---|" + "---|" * (len(SCORES) + 2),
    ]
    FILE.write_text("\n".join([*head, *lines, ""]))
    print(FILE.read_text(), f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
