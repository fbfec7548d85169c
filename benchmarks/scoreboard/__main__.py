"""Runs the scoreboard, and writes measurements (JSON lines), tables (Markdown) and the picture of growth."""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

from . import environments, limits, measure, results, tasks
from .report import report

PARTS = ("peers", "growth")


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scoreboard", description=__doc__)
    parser.add_argument("--environments", action="store_true", help="make the peers' environments that are not there yet")
    parser.add_argument("--full", action="store_true", help="all sizes, and minibatches on MNIST: hours")
    parser.add_argument("--libraries", nargs="+", default=list(tasks.METHODS), choices=list(tasks.METHODS))
    parser.add_argument("--tasks", nargs="+", help="only tasks whose names contain one of these words, such as 'wdbc'")
    parser.add_argument("--methods", nargs="+", default=[""], help="only methods whose names contain one of these words")
    parser.add_argument("--rounds", type=int, default=3, help="repetitions (default 3)")
    parser.add_argument(
        "--slow", type=float, default=5, help="what takes more processor seconds is not repeated (default 5)"
    )
    parser.add_argument("--limit", type=float, help="what takes more processor seconds is ended (default 30; full: 3600)")
    parser.add_argument("--marks", type=float, nargs="+", help="seconds at which training on minibatches is looked at")
    parser.add_argument("--parts", nargs="*", default=PARTS, choices=PARTS, help="what to run (default both; none: show)")
    parser.add_argument("--data", type=Path, help="folder of the data sets; overrides GPCLASS_DATA")
    parser.add_argument("--to", type=Path, default=environments.HERE / "results", help="folder of the results")
    parser.add_argument("--append", action="store_true", help="keep what the file of results holds, and show all of it")
    parser.add_argument("--name", default="", help="of the files in it (default scoreboard, or scoreboard_full)")
    args = parser.parse_args(arguments)
    if args.data:
        os.environ["GPCLASS_DATA"] = str(args.data)
    name = args.name or ("scoreboard_full" if args.full else "scoreboard")
    wanted = [t for t in tasks.chosen(args.full) if not args.tasks or any(word in t.name for word in args.tasks)]
    if not wanted:
        parser.error(f"no task has one of {args.tasks} in its name: {', '.join(t.name for t in tasks.chosen(args.full))}")
    if args.marks:
        wanted = [replace(t, settings={**t.settings, "marks": args.marks}) if t.kind == "curve" else t for t in wanted]
    began = time.perf_counter()
    plan = measure.Plan(
        args.rounds, args.slow, args.limit or (3600 if args.full else 30), full=args.full, methods=tuple(args.methods)
    )
    if args.environments:
        environments.make_all(set(args.libraries) & set(environments.PEERS))
    present = [library for library in args.libraries if environments.interpreter(library)]
    file = args.to / f"{name}.jsonl"
    if args.parts and not args.append:
        file.unlink(missing_ok=True)
    if "peers" in args.parts:
        results.append(file, [without_environment(library) for library in args.libraries if library not in present])
        for result in measure.run(wanted, present, plan, tell):
            results.append(file, [result])  # at once: a run that is ended leaves what it has
    if "growth" in args.parts:
        growths = limits.growth(quick=not args.full)
        results.append(file, limits.as_results(growths, results.stamp()))
        limits.draw(growths, args.to / f"{name}_growth.png")
    words = sys.argv[1:] if arguments is None else arguments
    text = report(results.read(file), results.shown("python -m benchmarks.scoreboard", words))
    (args.to / f"{name}.md").write_text(text, encoding="utf-8")
    print(text)
    tell(f"{time.perf_counter() - began:.0f} s; written to {file}")
    return 0


def without_environment(library: str) -> results.Result:
    message = "it has no environment; --environments makes it"
    tell(f"left out: {library}: {message}")
    return results.Result("missing", "all tasks", library, "all", 0, **results.stamp(), status="skipped", message=message)


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
