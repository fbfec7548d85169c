"""List data sets, or write one of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..application import app
from ..console import EXIT_CODES, Output, command, grid
from ..options import Force, Json, Quiet


@app.command(epilog=EXIT_CODES)
@command
def datasets(
    name: Annotated[str | None, typer.Argument(help="Name of a data set. By default all are listed.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Table to write. By default stdout.")] = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """List the included data sets and those that can be loaded by name, or write one of them as a table."""
    from ... import datasets as collections
    from ...tables import csv_text, write_table
    from ..demo import as_frame
    from ..outputs import check_output

    out = Output(as_json, quiet)
    if name is None:
        if output is not None:
            raise ValueError("name the data set to write; `gpclass datasets` lists them")
        # included data sets first
        entries = sorted(collections.CATALOGUE.items(), key=lambda pair: (pair[1].sklearn is None, pair[0]))
        rows = [(key, "included" if e.sklearn else collections._origin(key), e.about) for key, e in entries]
        listed = [{"name": a, "source": b, "about": c} for a, b, c in rows]
        out.result({"datasets": listed}, grid(("name", "source", "about"), rows, left=3))
        return
    if output is not None:
        check_output(output, "table", force=force)
    frame, target = as_frame(collections.load(name))
    if output is None:
        print(csv_text(frame), end="")
        return
    write_table(frame, output)
    text = f"{output}: {len(frame)} rows, {frame.shape[1] - 1} inputs; the column of labels is {target!r}"
    out.result({"output": str(output), "rows": len(frame), "target": target}, text)
