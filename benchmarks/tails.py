"""Where should far values be compressed (`gpclass.units.COMPRESSED_FROM`)? The default classifier with other values of it.

    python -m benchmarks.tails                        what is not in the file yet, then the summary
    python -m benchmarks.tails --tables held-out --tails inf 3

Tables and splits are those of `benchmarks.others`. The held-out tables need its environment, which `make tables-of-others`
makes. Results are in benchmarks/results/tails.jsonl, a line for each table, split and value; tails.md is their summary.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from gpclass import units

from .others import cells, methods, tables
from .scoreboard.results import commit

FILE = Path(__file__).resolve().parent / "results" / "tails.jsonl"
INTRODUCTION = """# Compressed tails

`python -m benchmarks.tails`. The default kernel measures columns in spreads from their centres. Beyond a distance of `tail`
spreads, values grow with the logarithm only (`gpclass.kernels.Standardized`). Differences of the NLPD are from tail = ∞,
paired, with standard errors over tables; splits are averaged first. The value 3 was chosen on the known tables; the held-out
tables were looked at once, afterwards.
"""


def main(arguments=None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", choices=("known", "held-out"), nargs="+", default=["known"])
    parser.add_argument("--tails", type=float, nargs="+", default=[np.inf, 3.0, 2.0])
    parser.add_argument("--splits", type=int, nargs="+", default=[0, 1])
    args = parser.parse_args(arguments)
    done = {(r["table"], r["split"], r["tail"]) for r in stored()}
    now = commit()
    for name in [n for group in args.tables for n in (tables.KNOWN if group == "known" else tables.HELD_OUT)]:
        table = tables.load(name)
        for split in args.splits:
            for tail in args.tails:
                if (name, split, str(tail)) not in done:
                    units.COMPRESSED_FROM = tail
                    cell = cells.measure(table, split, methods.OURS, methods.ours, now)
                    store({"table": name, "split": split, "tail": str(tail), "held_out": table.held_out, "nlpd": cell.nlpd,
                           "ece": cell.ece, "seconds": cell.fit_seconds, "commit": now})  # fmt: skip
    (FILE.with_suffix(".md")).write_text(summary(stored()), encoding="utf-8")


def stored() -> list[dict]:
    return [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()] if FILE.exists() else []


def store(record: dict) -> None:
    with FILE.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(record) + "\n")


def summary(records: list[dict]) -> str:
    text = INTRODUCTION
    for held_out, title in ((False, "Known tables"), (True, "Held-out tables")):
        of_group = [r for r in records if r["held_out"] == held_out]
        text += f"\n## {title}\n\n| tail | tables | NLPD | difference | calibration error | smallest | largest |\n"
        text += "|---|---|---|---|---|---|---|\n"
        for tail in sorted({r["tail"] for r in of_group}, key=float, reverse=True):
            text += line(of_group, tail)
    return text


def line(records: list[dict], tail: str) -> str:
    """A line of the summary, over the tables and splits that both `tail` and no compression have."""
    plain, other = ({(r["table"], r["split"]): r for r in records if r["tail"] == t} for t in ("inf", tail))
    both = sorted(plain.keys() & other.keys())
    names = sorted({table for table, _ in both})
    difference = np.array(
        [np.mean([other[k]["nlpd"] - plain[k]["nlpd"] for k in both if k[0] == name]) for name in names]
    )
    error = difference.std(ddof=1) / np.sqrt(len(names))
    extremes = (f"{names[i]} {difference[i]:+.4f}" for i in (difference.argmin(), difference.argmax()))
    nlpd, ece = (np.mean([other[k][score] for k in both]) for score in ("nlpd", "ece"))
    change = f"{difference.mean():+.4f} ± {error:.4f}"
    row = ("∞" if tail == "inf" else tail, str(len(names)), f"{nlpd:.4f}", change, f"{ece:.3f}", *extremes)
    return f"| {' | '.join(row)} |\n"


if __name__ == "__main__":
    main()
