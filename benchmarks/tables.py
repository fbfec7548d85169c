"""The papers' tables, ours beside theirs, with a verdict for each row: `make tables`.

    python benchmarks/tables.py                  all of them, reduced: half an hour on one core
    python benchmarks/tables.py chai-3 chai-4    some of them
    python benchmarks/tables.py --full           at the papers' sizes: overnight

Each table is run by the script of its paper. Rows go to results/tables.jsonl (tables_full.jsonl), where a table that is run
again replaces its earlier rows, and from there to a Markdown file beside it. A row is "same" if ours and theirs are at most
two standard errors apart, "better" or "worse" if more; a statement without figures holds ("same") or fails ("worse").

The data come from GPCLASS_DATA or --data; tables whose data are not there are named and left out.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

import chai
import chai_sparse
import ivm
import nickisch_rasmussen as nickisch
import riihimaki
from gpclass import datasets
from gpclass.assess.metrics import error_rate, information_score
from gpclass.inference import EP, KL, VB, Laplace
from gpclass.kernels import RBF
from gpclass.likelihoods import Logit
from gpclass.sampling import HMC
from scoreboard.results import commit, machine, number, stamp, table

HERE = Path(__file__).resolve().parent
VERDICTS = ("better", "same", "worse")


@dataclass(frozen=True)
class Row:
    """One figure of a table; or a statement, whose `ours` is 1 if it holds and 0 if not."""

    table: str
    row: str
    measure: str
    ours: float
    theirs: float
    standard_error: float  # of the difference
    verdict: str
    form: str = "reduced"
    date: str = ""
    commit: str = ""
    machine: str = ""
    seconds: float = 0.0  # that the whole table took


def verdict(ours: float, theirs: float, standard_error: float, better: str = "lower") -> str:
    """Two standard errors apart or not; `better` is "lower", "higher", or "near" for what should be neither."""
    if better not in ("lower", "higher", "near"):
        raise ValueError(f"better must be 'lower', 'higher' or 'near', but is {better!r}")
    gap = (ours - theirs) * (-1 if better == "lower" else 1)
    if abs(gap) <= 2 * standard_error:
        return "same"
    return "better" if gap > 0 and better != "near" else "worse"


class Keeper:
    """Collects the rows of one table."""

    def __init__(self, name: str):
        self.name, self.rows = name, []

    def __call__(self, row: str, measure: str, ours, theirs, standard_error, better: str = "lower") -> None:
        judged = verdict(ours, theirs, standard_error, better)
        self.rows.append(Row(self.name, row, measure, float(ours), float(theirs), float(standard_error), judged))

    def claim(self, text: str, holds: bool) -> None:
        self.rows.append(Row(self.name, text, "holds", float(holds), 1.0, 0.0, "same" if holds else "worse"))


# the tables ------------------------------------------------------------------------------------------------------------


def nickisch_counts(keep: Keeper, full: bool) -> None:
    """Section 12.3: in how many of 96 trials a method's information is below the mean and the median of all."""
    names = found(nickisch.DATA)
    trials = nickisch.run(names, None if full else 60, 16 if full else 4, jobs=2, seed=0)
    best = np.array([t.best for t in trials])
    counts = {"mean": nickisch.below(best, np.mean), "median": nickisch.below(best, np.median)}
    for summary, theirs in nickisch.PAPER.items():
        for method, ours, paper in zip(nickisch.METHODS, counts[summary], theirs, strict=True):
            share = (ours / len(trials) + paper / 96) / 2
            spread = np.sqrt(share * (1 - share) * (1 / len(trials) + 1 / 96))
            keep(method, f"below the {summary}, %", 100 * ours / len(trials), 100 * paper / 96, 100 * spread)


def nickisch_figures(keep: Keeper, full: bool) -> None:
    """Figures 6 and 9: USPS 3 against 5, logistic likelihood. What the text says of them."""
    found(("usps",))
    X, labels, X_test, y_test = datasets.load("usps", classes=("3", "5")).split(0)
    place, error = "figure 9, LA at ln ℓ = 2, ln σ = 4", partial(error_rate, y_test, classes=("3", "5"))
    p = _probabilities(Laplace(), (2.0, 4.0), X, labels, X_test)
    keep(place, "errors, %", 100 * error(p), 100 * 16 / len(p), ivm.share_error(100 * error(p), len(p)))
    # read off a surface known on a grid of 0.27 × 0.4, steep here: half a step of each counts as its error
    around = [(2 - 0.13, 4.0), (2 + 0.13, 4.0), (2.0, 4 - 0.2), (2.0, 4 + 0.2)]
    a, b, c, d = (information_score(y_test, _probabilities(Laplace(), at, X, labels, X_test), labels) for at in around)
    keep(place, "information, bits", information_score(y_test, p, labels), 0.25, np.hypot(a - b, c - d) / 2, "near")
    if not full:
        X, labels = X[:250], labels[:250]
    step = 0.25 if full else 1.0
    grid = [(a, b) for a in np.arange(1.0, 5.1, step) for b in np.arange(0.0, 5.1, step)]
    peaks = [
        max(information_score(y_test, _probabilities(engine, at, X, labels, X_test), labels) for at in grid)
        for engine in (EP(), KL())
    ]
    above = peaks[1] - peaks[0]
    claim = f"figure 9: the peak of KL is slightly above that of EP ({above:.3f} bits; the paper: 0.01)"
    keep.claim(claim, 0 <= above < 0.05)
    sampler = HMC(n_chains=4, n_draws=1000 if full else 250, n_warmup=200, random_state=0)
    fits = {
        name: method.fit(_kernel(2.25, 4.25)(X), np.where(labels == "5", 1.0, -1.0), Logit())
        for name, method in {"MCMC": sampler, "LA": Laplace(), "EP": EP(), "VB": VB(), "KL": KL()}.items()
    }
    truth = fits.pop("MCMC")
    off = {name: np.abs(fit.mean - truth.mean).mean() for name, fit in fits.items()}
    size = {name: np.abs(fit.mean).mean() / np.abs(truth.mean).mean() for name, fit in fits.items()}
    spread = {name: np.mean(fit.var / truth.var) for name, fit in fits.items()}
    keep.claim("figure 6: of LA, EP, VB and KL, EP's means are the nearest to MCMC", off["EP"] == min(off.values()))
    keep.claim("figure 6: LA's means are far too small", size["LA"] < 0.7)
    keep.claim("figure 6: the means of KL are too large, those of VB larger", 1 < size["KL"] < size["VB"])
    keep.claim("figure 6: the variances of KL are too small, those of VB smaller", spread["VB"] < spread["KL"] < 1)


def _kernel(log_lengthscale: float, log_scale: float) -> RBF:
    return RBF(np.exp(log_lengthscale), np.exp(2 * log_scale))


def _probabilities(engine, place, X, labels, X_test) -> np.ndarray:
    """(m,) of the second class, at one place of the figure."""
    kernel = _kernel(*place)
    fit = engine.fit(kernel(X), np.where(labels == "5", 1.0, -1.0), Logit())
    return Logit().predictive(*fit.predict(kernel(X, X_test), kernel.diag(X_test)))


def riihimaki_moments(keep: Keeper, full: bool) -> None:
    """Table 1: how far EP and IEP, nested and by quadrature, are from Gibbs sampling."""
    settings = Namespace(seed=0, full=full, jobs=2, gibbs=1000 if full else 150)
    for name in found(("glass", "usps") if full else ("glass",)):
        riihimaki.run_table(name, settings, keep)


def riihimaki_predictive(keep: Keeper, full: bool) -> None:
    """Section 5.5: differences from EP in log predictive density, of which the paper has pictures and words."""
    names = found(riihimaki.SETS if full else ("wine", "new_thyroid"))
    settings = Namespace(seed=0, full=full, jobs=2, folds=10 if full else 3, starts=3 if full else 1, mcmc=0)
    results = riihimaki.run_sets(names, settings)
    for claim, holds in riihimaki.predictive_claims(results).items():
        keep.claim(claim, holds)


def chai_3(keep: Keeper, full: bool) -> None:
    """Table 3: evidence, errors and log probabilities of the full model with a kernel of variance one."""
    splits = 50 if full else 3
    for name, values in chai.collect(chai.table_3, found(chai.DATA), splits, 2, 100_000 if full else 0).items():
        for measure, ours, theirs in zip(chai.ROWS_3, values.T, chai.TABLE_3[name], strict=True):
            if not np.isnan(ours).all():
                keep(name, measure, ours.mean(), theirs[0], _splits_error(ours, theirs), _direction(measure))


def chai_4(keep: Keeper, full: bool) -> None:
    """Table 4: errors of the full model, lengthscale and variance learned."""
    for name, values in chai.collect(chai.table_4, found(chai.DATA), 50 if full else 3, 2).items():
        theirs = chai.TABLE_4[name]
        keep(name, "errors", values[:, 0].mean(), theirs[0], _splits_error(values[:, 0], theirs))


def chai_5(keep: Keeper, full: bool) -> None:
    """Table 5: errors with as many inducing variables as the paper had, chosen its way and ours."""
    splits = 50 if full else 2
    names = found(chai.DATA if full else ("iris", "wine"))
    for name, values in chai.collect(chai_sparse.table_5, names, splits, 2, splits).items():
        theirs = chai_sparse.TABLE_5[name][0]
        for column, way in ((0, "its way"), (2, "own way")):
            keep(f"{name}, {way}", "errors", values[:, column].mean(), theirs[0], _splits_error(values[:, column], theirs))


def _direction(measure: str) -> str:
    return "lower" if measure == "errors" else "higher"


def _splits_error(ours: np.ndarray, theirs: tuple[float, float], their_splits: int = 50) -> float:
    """Of the difference of two means over random splits; theirs come with a standard deviation, which serves for both."""
    return float(theirs[1] * np.sqrt(1 / len(ours) + 1 / their_splits))


def seeger(part: str, data: str, keep: Keeper, full: bool) -> None:
    """A part of the script of the informative vector machine."""
    found((data,))
    ivm.PARTS[part](full, keep)


def thesis(keep: Keeper, full: bool) -> None:
    """Tables 6.2 and 6.3: errors and losses of engines on inducing points."""
    sets = () if full else ("--sets", "new-thyroid", "wine", "--methods", "EP", "SEP", "VI", "--iterations", "150")
    size = ("--splits", "20", "--percent", "5", "10", "20") if full else ("--splits", "2")
    text = script("inducing.py", "tables", *size, *sets)
    rows = list(thesis_rows(text))
    if not rows:
        raise ValueError(f"no figure found in what inducing.py printed:\n{text}")
    for row, error, their_error, loss, their_loss, splits in rows:
        name, method, _ = row.split(", ")
        for measure, ours, theirs, deviations in (
            ("error", error, their_error, ERROR_DEVIATIONS),
            ("negative log probability", loss, their_loss, LOSS_DEVIATIONS),
        ):
            deviation = deviations[name][THESIS_METHODS.index(method)]
            rounding = 0.01 / np.sqrt(6)  # of two figures with two decimals
            keep(row, measure, ours, theirs, np.hypot(deviation * np.sqrt(1 / splits + 1 / 20), rounding))


# standard deviations over 20 splits that the thesis prints for M = 10 %; they serve for all M, and for ours
THESIS_METHODS = ("GFITC", "EP", "EP outer", "REP", "SEP", "VI")
ERROR_DEVIATIONS = {
    "glass": (0.07, 0.09, 0.08, 0.09, 0.08, 0.10),
    "new-thyroid": (0.02, 0.02, 0.02, 0.03, 0.03, 0.03),
    "satellite": (0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    "svmguide2": (0.07, 0.07, 0.06, 0.07, 0.08, 0.06),
    "vehicle": (0.04, 0.03, 0.03, 0.04, 0.04, 0.04),
    "vowel": (0.03, 0.03, 0.02, 0.03, 0.03, 0.02),
    "waveform": (0.01, 0.01, 0.01, 0.01, 0.01, 0.01),
    "wine": (0.04, 0.03, 0.03, 0.02, 0.03, 0.03),
}
LOSS_DEVIATIONS = {
    "glass": (0.22, 0.26, 0.19, 0.15, 0.23, 0.66),
    "new-thyroid": (0.05, 0.04, 0.03, 0.05, 0.04, 0.05),
    "satellite": (0.02, 0.01, 0.01, 0.01, 0.01, 0.04),
    "svmguide2": (0.25, 0.28, 0.24, 0.21, 0.23, 0.44),
    "vehicle": (0.07, 0.08, 0.07, 0.06, 0.08, 0.19),
    "vowel": (0.05, 0.05, 0.04, 0.04, 0.05, 0.20),
    "waveform": (0.04, 0.03, 0.02, 0.02, 0.03, 0.06),
    "wine": (0.06, 0.05, 0.04, 0.05, 0.05, 0.07),
}  # VI on glass: those for M = 5 %, the others are not in the print


def thesis_rows(text: str) -> Iterator[tuple[str, float, float, float, float, int]]:
    """Row, error, theirs, loss, theirs, splits; from the tables that inducing.py prints."""
    percent, splits, methods = "", 0, []
    for line in text.splitlines():
        if begin := re.match(r"M = (\d+) %.*ours over (\d+) splits", line):
            percent, splits, methods = begin[1], int(begin[2]), []
        elif percent and not methods:
            methods = re.split(r"\s{2,}", line.strip())
        elif methods and (name := line[:12].strip()):
            cells = re.findall(r"(failed|[\d.]+ [\d.]+) *(?:\(([\d.]+) ([\d.]+)\))? *[\d.]+ s", line[12:])
            for method, (ours, their_error, their_loss) in zip(methods, cells, strict=True):
                if ours != "failed" and their_error:
                    error, loss = map(float, ours.split())
                    yield f"{name}, {method}, M = {percent} %", error, float(their_error), loss, float(their_loss), splits


def thesis_mnist(keep: Keeper, full: bool) -> None:
    """Figure 6.3: on MNIST all methods end alike, and EP's kind is there before VI."""
    found(("mnist",))
    seconds = 1800 if full else 60
    names = ("EP", "SEP", "VI")
    text = script("inducing.py", "curve", "mnist", "--engines", *names, "--seconds", str(seconds), "--processor")
    losses: dict[str, list[float]] = {}
    for line in text.splitlines():
        if begin := re.match(r"([\w-]+) on mnist", line):
            current = losses.setdefault(begin[1], [])
        elif point := re.search(r"error ([\d.]+)  loss ([\d.]+)", line):
            current.append(float(point[2]))
    if set(losses) != set(names) or not all(losses.values()):
        raise ValueError(f"no curve found in what inducing.py printed:\n{text}")
    first = {name: values[0] for name, values in losses.items()}
    last = {name: values[-1] for name, values in losses.items()}
    keep.claim("EP and SEP have a smaller loss than VI at the first mark", max(first["EP"], first["SEP"]) < first["VI"])
    keep.claim(f"all losses are within 0.1 after {seconds} s", max(last.values()) - min(last.values()) < 0.1)


def script(name: str, *words: str) -> str:
    """What another script prints; its complaints go to ours."""
    return subprocess.run([sys.executable, str(HERE / name), *words], check=True, stdout=subprocess.PIPE, text=True).stdout


TABLES: dict[str, Callable[[Keeper, bool], None]] = {
    "nickisch": nickisch_counts,
    "nickisch-figures": nickisch_figures,
    "riihimaki-1": riihimaki_moments,
    "riihimaki-5.5": riihimaki_predictive,
    "chai-3": chai_3,
    "chai-4": chai_4,
    "chai-5": chai_5,
    "seeger-1": partial(seeger, "usps", "usps_original"),
    "seeger-1-strategies": partial(seeger, "strategies", "usps_original"),
    "seeger-2": partial(seeger, "mnist", "mnist"),
    "seeger-3": partial(seeger, "satimage", "satimage"),
    "seeger-4": partial(seeger, "virtual", "usps_original"),
    "seeger-pumadyn": partial(seeger, "pumadyn", "pumadyn32nm"),
    "thesis": thesis,
    "thesis-mnist": thesis_mnist,
}
TITLES = {
    "nickisch": "Nickisch & Rasmussen 2008, section 12.3",
    "nickisch-figures": "Nickisch & Rasmussen 2008, figures 6 and 9",
    "riihimaki-1": "Riihimäki, Jylänki & Vehtari 2013, table 1: mean and largest differences from Gibbs sampling",
    "riihimaki-5.5": "Riihimäki, Jylänki & Vehtari 2013, section 5.5",
    "chai-3": "Chai 2012, table 3",
    "chai-4": "Chai 2012, table 4",
    "chai-5": "Chai 2012, table 5",
    "seeger-1": "Seeger, Lawrence & Herbrich, table 1: USPS",
    "seeger-1-strategies": "Seeger, Lawrence & Herbrich, section 6.1.1",
    "seeger-2": "Seeger, Lawrence & Herbrich, table 2: MNIST",
    "seeger-3": "Seeger, Lawrence & Herbrich, table 3: satimage",
    "seeger-4": "Seeger, Lawrence & Herbrich, table 4: virtual informative vectors",
    "seeger-pumadyn": "Seeger, Lawrence & Herbrich, section 6.3: pumadyn",
    "thesis": "Villacampa-Calvo 2017, tables 6.2 and 6.3",
    "thesis-mnist": "Villacampa-Calvo 2017, figure 6.3: MNIST",
}


class NoData(FileNotFoundError):
    """None of a table's data sets can be loaded."""


def found(names) -> list[str]:
    """Those of some data sets that can be loaded; the others are named."""
    some = []
    for name in names:
        try:
            datasets.load(name)
            some.append(name)
        except FileNotFoundError as error:
            print(f"left out: {error}", file=sys.stderr)
    if not some:
        raise NoData(f"none of {', '.join(names)} is available")
    return some


# keeping and showing ---------------------------------------------------------------------------------------------------


def run(name: str, full: bool) -> list[Row]:
    keep, began = Keeper(name), time.perf_counter()
    TABLES[name](keep, full)
    marks = {**stamp(), "form": "full" if full else "reduced", "seconds": round(time.perf_counter() - began, 1)}
    return [replace(row, **marks) for row in keep.rows]


def read(file: Path) -> list[Row]:
    if not file.exists():
        return []
    return [Row(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]


def write(file: Path, rows: list[Row]) -> None:
    """In place of the earlier rows of the same tables."""
    anew = {row.table for row in rows}
    kept = sorted([r for r in read(file) if r.table not in anew] + rows, key=lambda r: list(TABLES).index(r.table))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(asdict(r), ensure_ascii=False) + "\n" for r in kept), encoding="utf-8")


def markdown(rows: list[Row], command: str) -> str:
    parts = [f"# The papers' tables\n\n`{command}`\n", summary(rows)]
    for name in dict.fromkeys(r.table for r in rows):
        some = [r for r in rows if r.table == name]
        first = some[0]
        parts.append(
            f"## {TITLES[name]}\n\n{name}, {first.form}, {first.date}, commit {first.commit}, {first.seconds:.0f} s\n"
        )
        figures = [r for r in some if r.measure != "holds"]
        if figures:
            cells = (
                [r.row, r.measure, number(r.ours), number(r.theirs), number(r.standard_error, 2), r.verdict] for r in figures
            )
            parts.append(table(["", "measure", "ours", "theirs", "standard error", "verdict"], cells))
        claims = [f"- {'holds' if r.ours else 'FAILS'}: {r.row}" for r in some if r.measure == "holds"]
        parts.append("\n".join(claims) + "\n" if claims else "")
    return "\n".join(part for part in parts if part)


def summary(rows: list[Row]) -> str:
    counted = [
        [TITLES[name], *(str(sum(r.table == name and r.verdict == v for r in rows)) for v in VERDICTS)]
        for name in dict.fromkeys(r.table for r in rows)
    ]
    return table(["", *VERDICTS], counted)


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="table", help=f"some of {', '.join(TABLES)}")
    parser.add_argument("--full", action="store_true", help="at the papers' sizes: overnight")
    parser.add_argument("--data", type=Path, help="folder of the data sets; overrides GPCLASS_DATA")
    parser.add_argument("--to", type=Path, default=HERE / "results", help="folder of the results")
    args = parser.parse_args(arguments)
    if unknown := set(args.names) - set(TABLES):
        parser.error(f"no such table: {', '.join(sorted(unknown))}; there are {', '.join(TABLES)}")
    if args.data:
        os.environ[datasets.VARIABLE] = str(args.data)
    file = args.to / ("tables_full.jsonl" if args.full else "tables.jsonl")
    failed = 0
    for name in args.names or TABLES:
        print(f"\n=== {TITLES[name]} ({name})", flush=True)
        try:
            write(file, run(name, args.full))
        except NoData as error:
            print(f"{name} left out: {error}", file=sys.stderr)
        except Exception as error:  # the other tables are still wanted
            failed += 1
            print(f"{name} FAILED: {type(error).__name__}: {error}", file=sys.stderr)
    rows = read(file)
    if not rows:
        print("none of the tables could be made", file=sys.stderr)
        return 2
    command = "python benchmarks/tables.py" + " --full" * args.full + " NAME"  # tables of several runs are together here
    file.with_suffix(".md").write_text(markdown(rows, command), encoding="utf-8")
    print("\n" + summary(rows) + f"\n{commit()}, {machine()}; written to {file}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
