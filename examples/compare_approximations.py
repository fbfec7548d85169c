"""Compare all binary approximations on one data set with the same hyperparameters: `make demo`.

The data are scikit-learn's breast cancer data; the kernel is RBF and the likelihood logistic. Lengthscale and latent scale
are chosen once, by EP's evidence on a coarse grid. The script prints a table with an explanation and draws
out/compare_approximations.png.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpclass import datasets
from gpclass.assess.metrics import scores
from gpclass.assess.surface import evidence_surface
from gpclass.inference import EP, FV, KL, TAP, VB, Fit, LabelRegression, Laplace, TAPNaive
from gpclass.kernels import RBF
from gpclass.likelihoods import Logit

ENGINES = {
    "Laplace": Laplace(),
    "EP": EP(),
    "TAP": TAP(),
    "TAPNaive": TAPNaive(),
    "KL": KL(),
    "VB": VB(),
    "FV": FV(),
    "LabelRegression": LabelRegression(),
}


@dataclass(frozen=True)
class Row:
    """Results of one approximation."""

    fit: Fit
    p: np.ndarray  # (m,) test probabilities of the second class
    scores: dict[str, float]
    milliseconds: float


def split(rows: int, seed: int = 0):
    """Return standardised training inputs and labels, and test inputs and labels; +1 is benign."""
    data = datasets.load("wdbc")
    order = np.random.default_rng(seed).permutation(len(data.y))
    train, test = order[:rows], order[rows:]
    centre, width = data.X[train].mean(axis=0), data.X[train].std(axis=0)
    X, y = (data.X - centre) / width, np.where(data.y == data.class_names[1], 1, -1)
    return X[train], y[train], X[test], y[test]


def choose(X, y, likelihood) -> RBF:
    """Return the kernel with the largest EP evidence on a coarse grid."""
    surface = evidence_surface(X, y, RBF, likelihood, EP(), np.linspace(0.5, 4.0, 8), np.linspace(-1.0, 4.0, 6))
    lengthscale, scale = surface.best()
    return RBF(lengthscale, scale**2)


def say(text: str) -> None:
    """Print what is being computed, at once and apart from the results."""
    print(text, file=sys.stderr, flush=True)


def compare(X, y, X_test, y_test, kernel, likelihood) -> dict[str, Row]:
    """Fit every engine and return its results."""
    K, Ks, kd = kernel(X), kernel(X, X_test), kernel.diag(X_test)
    rows = {}
    say(f"fitting {', '.join(ENGINES)} …")
    for name, engine in ENGINES.items():
        began = time.perf_counter()
        fit = engine.fit(K, y, likelihood)
        spent = 1000 * (time.perf_counter() - began)
        p = likelihood.predictive(*fit.predict(Ks, kd))
        rows[name] = Row(fit, p, scores(y_test, p, y), spent)
    return rows


def table(rows: dict[str, Row]) -> str:
    """Return the results as a table."""
    columns = ("log evidence", "Jensen bound", "error %", "NLPD", "bits", "ECE", "sweeps", "ms")
    lines = [f"{'':<16}" + "".join(f"{c:>14}" for c in columns[:2]) + "".join(f"{c:>9}" for c in columns[2:])]
    for name, row in rows.items():
        s = row.scores
        lines.append(
            f"{name:<16}{row.fit.log_evidence:>14.2f}{row.fit.jensen_bound():>14.2f}{100 * s['error_rate']:>9.1f}"
            f"{s['nlpd']:>9.4f}{s['information_score']:>9.3f}{s['expected_calibration_error']:>9.3f}"
            f"{row.fit.n_iter:>9d}{row.milliseconds:>9.1f}" + ("" if row.fit.converged else "  not converged")
        )
    return "\n".join(lines)


def reading(rows: dict[str, Row]) -> str:
    """Return a paragraph that explains the table, made from its numbers."""
    ep = rows["EP"]
    gap = {name: float(np.max(np.abs(row.p - ep.p))) for name, row in rows.items() if name != "EP"}
    nlpd = {name: row.scores["nlpd"] for name, row in rows.items()}
    errors = {name: 100 * row.scores["error_rate"] for name, row in rows.items()}
    regression = errors.pop("LabelRegression")
    bound = {name: row.fit.jensen_bound() for name, row in rows.items()}
    farthest = sorted(gap, key=gap.__getitem__, reverse=True)[:3]
    text = (
        f"EP's log evidence is {ep.fit.log_evidence:.2f}. TAP solves the same equations, and its probabilities agree with "
        f"EP's to {gap['TAP']:.0e}. KL has the best Jensen bound of all Gaussians, {bound['KL']:.2f}, so the true log "
        f"evidence is larger. VB's own bound is lower by {bound['KL'] - rows['VB'].fit.log_evidence:.2f} nats, and FV's, "
        f"which ignores correlations, by {bound['KL'] - rows['FV'].fit.log_evidence:.2f}. LabelRegression's evidence is a "
        f"density of real numbers and cannot be compared with the others. Errors range from {min(errors.values()):.1f} to "
        f"{max(errors.values()):.1f} %; LabelRegression has {regression:.1f} %. Probabilities differ more: the largest "
        f"differences from EP are {', '.join(f'{gap[name]:.2f} ({name})' for name in farthest)}. Laplace centres its "
        f"Gaussian at the mode; its probabilities are {_timidity(rows['Laplace'].p, ep.p)} than EP's. The order by NLPD is "
        f"{', '.join(sorted(nlpd, key=nlpd.__getitem__))}. One split of one data set cannot separate neighbours in this "
        "list."
    )
    return textwrap.fill(text, 100)


def _timidity(p, reference) -> str:
    difference = np.mean(np.abs(p - 0.5)) - np.mean(np.abs(reference - 0.5))
    return "nearer to 0.5" if difference < 0 else "farther from 0.5"


def draw(rows: dict[str, Row], file: Path) -> None:
    """Draw probabilities against those of EP, and evidence with Jensen bound, to a file."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from gpclass.assess.plots import COLOURS

    fig = plt.figure(figsize=(13, 5.4), layout="constrained")
    left, right = fig.subfigures(1, 2, width_ratios=(1.45, 1), wspace=0.03)
    panels = left.subplots(2, 3, sharex=True, sharey=True)
    others = [name for name in rows if name not in ("EP", "TAP")]
    for name, ax in zip(others, panels.flat, strict=True):
        ax.plot([0, 1], [0, 1], color="0.7", lw=1, zorder=0)
        ax.plot(rows["EP"].p, rows[name].p, "o", ms=3.5, color=COLOURS[0], alpha=0.5, mew=0)
        ax.set(title=name, xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal", xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
    left.supxlabel("p(benign) by EP", fontsize="medium")
    left.supylabel("p(benign) by the other methods", fontsize="medium")
    ax = right.subplots()
    shown = [name for name in rows if name != "LabelRegression"]  # its evidence is that of regression
    places = np.arange(len(rows))[::-1]
    bounds = [row.fit.jensen_bound() for row in rows.values()]
    own = [row.fit.log_evidence if name in shown else np.nan for name, row in rows.items()]
    ax.hlines(places, own, bounds, color="0.7", lw=2, zorder=0)
    ax.plot(own, places, "o", ms=8, color=COLOURS[0], label="log evidence of the method")
    ax.plot(bounds, places, "D", ms=7, mfc="none", mew=1.6, color=COLOURS[1], label="Jensen bound of its Gaussian")
    ax.axvline(rows["EP"].fit.log_evidence, color=COLOURS[0], lw=0.8, ls=":")
    ax.set(yticks=places, yticklabels=rows, xlabel="nats", title="Evidence and Jensen bound")
    ax.grid(axis="x", color="0.92")
    ax.set_axisbelow(True)
    right.legend(loc="outside lower center", ncols=2, frameon=False, fontsize="small")
    fig.savefig(file, dpi=110)
    plt.close(fig)


def main(arguments=None) -> dict[str, Row]:
    """Run the comparison and return the results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure (default: out)")
    parser.add_argument("--rows", type=int, default=200, help="training rows; all other rows are test rows (default: 200)")
    args = parser.parse_args(arguments)
    if not 20 <= args.rows <= 500:
        parser.error(f"--rows must be from 20 to 500, so that enough test rows remain; got {args.rows}")

    likelihood = Logit()
    say("breast cancer data: EP's evidence on a grid chooses the kernel, which is the same for all approximations …")
    X, y, X_test, y_test = split(args.rows)
    kernel = choose(X, y, likelihood)
    print(f"breast cancer: {len(y)} training rows, {len(y_test)} test rows, {X.shape[1]} inputs")
    print(f"{kernel!r}, chosen by EP's evidence; logistic likelihood\n")
    rows = compare(X, y, X_test, y_test, kernel, likelihood)
    print(table(rows))
    print(f"\n{reading(rows)}\n")
    args.out.mkdir(parents=True, exist_ok=True)
    file = args.out / "compare_approximations.png"
    try:
        draw(rows, file)
        print(f"figure: {file}")
    except ImportError as error:
        print(f"no figure, because matplotlib is missing ({error}): pip install gpclass[plot]")
    return rows


if __name__ == "__main__":
    main()
