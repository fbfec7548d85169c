"""The papers' tables, ours beside theirs, with a verdict for each row: `make tables`.

    python benchmarks/tables.py                     all of them, reduced: half an hour on one core
    python benchmarks/tables.py chai-3 chai-4       some of them
    python benchmarks/tables.py --full              at the papers' sizes: overnight
    python benchmarks/tables.py --full --resume     the same, from where an earlier run ended
    python benchmarks/tables.py --full --resume --minutes 20 nickisch-12.3      as much as can be begun in 20 minutes
    python benchmarks/tables.py --full --minutes 0 nickisch-12.3                what is stored, without computing more

What is run for the tables of a paper is in papers/<paper>_tables.py. Long tables store their results piece by piece in
results/pieces_<paper>.jsonl; rows with verdicts go to results/tables_<paper>.jsonl (papers/pieces.py, papers/rows.py). With
--resume tables that have rows are left alone unless they are named, and stored pieces are not computed again.

The data come from GPCLASS_DATA or --data; tables whose data are not there are named and left out.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from gpclass import datasets
from papers import chai_tables, nickisch_tables, riihimaki_tables, rows, seeger_tables, show, villacampa_tables
from papers.data import NoData
from papers.names import PAPERS, TITLES, paper_of, title_of
from papers.pieces import RESULTS, Pieces, file_of
from papers.rows import Keeper, Row
from scoreboard.results import shown, stamp

TABLES: dict[str, Callable[[Keeper, bool], None]] = {
    **nickisch_tables.TABLES,
    **riihimaki_tables.TABLES,
    **chai_tables.TABLES,
    **seeger_tables.TABLES,
    **villacampa_tables.TABLES,
}


def run(name: str, full: bool, pieces: Pieces | None = None, command: str = "") -> list[Row]:
    keep, began = Keeper(name, pieces), time.process_time()
    marks = {**stamp(), "form": "full" if full else "reduced", "command": command}
    TABLES[name](keep, full)
    return keep.marked({**marks, "seconds": round(time.process_time() - began, 1)})


def stored(folder: Path) -> list[Row]:
    return [row for paper in PAPERS for row in rows.read(rows.file_of(paper, folder))]


def wanted(names: list[str], full: bool, resume: bool, folder: Path) -> list[str]:
    """Tables to run: those named; with `resume` and no names, those without rows."""
    have = {row.table for row in stored(folder) if row.form == ("full" if full else "reduced")} if resume else set()
    return names or [name for name in TABLES if name not in have]


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="table", help=f"some of {', '.join(TABLES)}")
    parser.add_argument("--full", action="store_true", help="at the papers' sizes: overnight")
    parser.add_argument("--resume", action="store_true", help="go on where an earlier run ended")
    parser.add_argument("--minutes", type=float, default=math.inf, help="after so many, stored pieces have to do")
    parser.add_argument("--data", type=Path, help="folder of the data sets; overrides GPCLASS_DATA")
    parser.add_argument("--to", type=Path, default=RESULTS, help="folder of the results")
    args = parser.parse_args(arguments)
    if unknown := set(args.names) - set(TABLES):
        parser.error(f"no such table: {', '.join(sorted(unknown))}; there are {', '.join(TABLES)}")
    if args.data:
        os.environ[datasets.VARIABLE] = str(args.data)
    command = shown("python benchmarks/tables.py", sys.argv[1:] if arguments is None else arguments)
    stores: dict[str, Pieces] = {}
    failed = 0
    for name in wanted(args.names, args.full, args.resume, args.to):
        print(f"\n=== {title_of(name)} ({name})", flush=True)
        paper = paper_of(name)
        if paper not in stores:
            stores[paper] = Pieces(file_of(paper, args.to), args.resume, args.minutes, command)
        try:
            made = run(name, args.full, stores[paper], command)
            if not made:
                raise ValueError("no piece is stored, and there was no time to compute one")
            rows.write(args.to, made)
            print(show.one_table(made), flush=True)
        except NoData as error:
            print(f"{name} left out: {error}", file=sys.stderr)
        except Exception as error:  # the other tables are still wanted
            failed += 1
            print(f"{name} FAILED: {type(error).__name__}: {error}", file=sys.stderr)
    have = stored(args.to)
    if not have:
        print("none of the tables could be made", file=sys.stderr)
        return 2
    print("\n" + show.summary(rows.shown(have)) + f"\nwritten to {args.to}")
    return 1 if failed else 0


assert set(TITLES) == set(TABLES), "papers/names.py has a title for each table"

if __name__ == "__main__":
    sys.exit(main())
