"""What the cells come to: scores of each method beside a reference, for held-out and known tables apart.

Splits of a table are averaged first, and standard errors are over tables. A method is compared with the reference on the
splits that both have; its level on a table is the reference's mean plus their mean difference, which is its own mean if it
has all splits of the reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ..scoreboard.results import machine, number, table
from .cells import SCORES, Cell
from .methods import OURS

Values = dict[str, dict[str, dict[int, float]]]  # by method, table and split


def values(cells: Iterable[Cell], score: str) -> Values:
    """One score of all cells that have it; those of methods that failed have none."""
    found: Values = {}
    for cell in cells:
        if not cell.message:
            found.setdefault(cell.method, {}).setdefault(cell.table, {})[cell.split] = getattr(cell, score)
    return found


def differences(theirs: dict[int, float], ours: dict[int, float]) -> np.ndarray:
    """On the splits that both have."""
    return np.array([theirs[split] - ours[split] for split in sorted(theirs.keys() & ours.keys())])


def levels(found: Values, reference: str) -> dict[str, dict[str, float]]:
    """By method and table, where both the method and the reference have a split."""
    ours = found[reference]
    means = {name: float(np.mean(list(splits.values()))) for name, splits in ours.items()}
    return {
        method: {
            name: means[name] + float(gaps.mean())
            for name, splits in rows.items()
            if name in ours and len(gaps := differences(splits, ours[name]))
        }
        for method, rows in found.items()
    }


def mean_and_error(numbers: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """The mean and its standard error; NaN where there are too few."""
    x = np.asarray(numbers, dtype=float)
    mean = x.mean() if len(x) else np.nan
    return float(mean), float(x.std(ddof=1) / np.sqrt(len(x))) if len(x) > 1 else np.nan


def ranks(by_method: dict[str, dict[str, float]]) -> dict[str, float]:
    """Mean rank of each method over tables; all must have the same ones. 1 is the smallest value, and ties are shared."""
    tables = next(iter(by_method.values())).keys()
    if any(rows.keys() != tables for rows in by_method.values()):
        raise ValueError("methods with different tables cannot be ranked")
    x = np.array([[rows[name] for name in tables] for rows in by_method.values()])
    below = (x[None] < x[:, None]).sum(1)
    same = (x[None] == x[:, None]).sum(1)
    return dict(zip(by_method, (below + (same + 1) / 2).mean(1).tolist(), strict=True))


def verdicts(theirs: dict[str, dict[int, float]], ours: dict[str, dict[int, float]]) -> tuple[int, int]:
    """Tables on which theirs is smaller, and larger, by more than two standard errors over at least three common splits."""
    smaller = larger = 0
    for name in theirs.keys() & ours.keys():
        gaps = differences(theirs[name], ours[name])
        if len(gaps) > 2:
            mean, error = mean_and_error(gaps)
            smaller += mean < -2 * error
            larger += mean > 2 * error
    return smaller, larger


# tables -------------------------------------------------------------------------------------------------------------------


def report(cells: Sequence[Cell], reference: str, order: Sequence[str]) -> str:
    """The whole file; tables come in the given order."""
    if reference not in (methods := dict.fromkeys(cell.method for cell in cells)):
        raise ValueError(f"no cell is of {reference!r}, which the others are compared with; there are {', '.join(methods)}")
    cells = sorted(cells, key=lambda cell: (order.index(cell.table), cell.method, cell.split))
    held, known = [c for c in cells if c.held_out], [c for c in cells if not c.held_out]
    parts = [f"# Users' alternatives\n\n`make tables-of-others`; {machine()}\n\n{NOTE.format(reference=reference)}\n"]
    for title, some in (("Held-out tables", held), ("Tables of the papers and of scikit-learn", known), ("All", cells)):
        if any(cell.method == reference for cell in some):
            parts.append(f"## {title}\n\n{methods_table(some, reference)}")
    for title, some in (("held-out tables", held), ("tables of the papers and of scikit-learn", known)):
        if any(cell.method == reference for cell in some):
            parts.append(f"## NLPD: {title}\n\n{matrix(some, reference)}")
    if failures := [f"- {c.table}, split {c.split}, {c.method}: {c.message}" for c in cells if c.message]:
        parts.append("## Failures\n\n" + "\n".join(failures) + "\n")
    return "\n".join(parts)


NOTE = """NLPD in nats, Brier score, share of errors, expected calibration error of the most probable class (15 bins) and in
brackets what it would be by chance, if labels were drawn from the probabilities; processor seconds of a fit and its
predictions. Splits are averaged first; differences are from {reference}, above zero if the method is worse, with standard
errors over tables. "Better" and "worse" count the tables on which the method's NLPD is smaller or larger than that of
{reference} by more than two standard errors over at least three splits. A method that lacks splits is compared on those it
has.

At most 400 training rows with two classes and 250 with more. Probabilities below 1e-15 count as 1e-15. Trees get columns as
they are, the others standardised. "Calibrated" is CalibratedClassifierCV (sigmoid, five folds). CatBoost has 1000 rounds,
its default, but 200 with several classes if columns × classes are more than 1000 or if it is calibrated. SVC has C and gamma
from a grid of nine by cross-validation, and libsvm's probabilities; logistic regression has its penalty from
cross-validation."""
BEST = "\nThe best other method of a table is chosen by these very figures, so the last column is on the high side.\n"
HEADER = [
    "",
    "tables",
    "cells",
    "NLPD",
    "rank",
    "difference ± s.e.",
    "better",
    "worse",
    "Brier",
    "error",
    "calibration error (by chance)",
    "seconds",
]


def methods_table(cells: Sequence[Cell], reference: str) -> str:
    """One line for each method, the smallest mean NLPD first."""
    losses = values(cells, "nlpd")
    level = {name: levels(values(cells, name), reference) for name in SCORES}
    seconds = values(cells, "fit_seconds"), values(cells, "predict_seconds")
    everything = len(losses[reference])
    rank = ranks({method: rows for method, rows in level["nlpd"].items() if len(rows) == everything})
    lines = []
    for method, rows in level["nlpd"].items():
        if not rows:
            continue
        mean = {name: float(np.mean(list(by_method[method].values()))) for name, by_method in level.items()}
        gap, error = mean_and_error([rows[name] - level["nlpd"][reference][name] for name in rows])
        smaller, larger = verdicts(losses[method], losses[reference])
        time = sum(np.mean([np.mean(list(splits.values())) for splits in part[method].values()]) for part in seconds)
        own = method == reference
        shown = [
            f"**{method}**" if own else method,
            str(len(rows)),
            str(sum(map(len, losses[method].values()))),
            f"{mean['nlpd']:.4f}" + ("" if len(rows) == everything else " *"),
            f"{rank[method]:.1f}" if method in rank else "–",
            "" if own else f"{gap:+.4f} ± {error:.4f}",
            "" if own else str(smaller),
            "" if own else str(larger),
            f"{mean['brier']:.4f}",
            f"{mean['error']:.4f}",
            f"{mean['ece']:.3f} ({mean['ece_by_chance']:.3f})",
            number(time, 2),
        ]
        lines.append((mean["nlpd"], shown))
    starred = any(line[3].endswith("*") for _, line in lines)
    note = "\n\\* Not all tables: only its difference can be compared, and it is not ranked.\n" if starred else ""
    return table(HEADER, [line for _, line in sorted(lines)]) + note


def matrix(cells: Sequence[Cell], reference: str) -> str:
    """NLPD by table and method, the smallest of a table bold, and how far the reference is behind the best other method."""
    losses = values(cells, "nlpd")
    level = levels(losses, reference)
    methods = [reference, *sorted(level.keys() - {reference})]
    about = {cell.table: f"{cell.table} ({cell.n_train} × {cell.columns}, {cell.classes})" for cell in cells}
    lines = []
    for name, shown in about.items():
        row = {method: level[method][name] for method in methods if name in level[method]}
        if reference not in row:
            continue
        best = min(row.values())
        line = ["–" if m not in row else f"**{row[m]:.3f}**" if row[m] == best else f"{row[m]:.3f}" for m in methods]
        others = {m: v for m, v in row.items() if not m.startswith(OURS)}
        behind = "–"
        if others:
            rival = min(others, key=others.__getitem__)
            gap, error = mean_and_error(-differences(losses[rival][name], losses[reference][name]))
            behind = f"{gap:+.3f} ± {error:.3f}" if np.isfinite(error) else f"{gap:+.3f}"  # one split has no error
        lines.append([shown, *line, behind])
    return table(["training rows × columns, classes", *methods, "behind the best other"], lines) + BEST
