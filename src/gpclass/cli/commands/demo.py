"""A demonstration on an included data set."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from ..application import app
from ..console import EXIT_CODES, command
from ..options import Force, Seed


@app.command(epilog=EXIT_CODES)
@command
def demo(
    folder: Annotated[Path | None, typer.Option(help="Folder for the files. By default a temporary folder.")] = None,
    seed: Seed = 0,
    force: Force = False,
) -> None:
    """Compare engines, fit a model and predict new rows on an included data set."""
    from .. import demo as demonstration
    from ..outputs import check_output

    def execute(*words: object) -> None:
        code = app([str(word) for word in words], standalone_mode=False)
        if code:
            raise typer.Exit(code)

    def say(text: str) -> None:
        print(text, flush=True)

    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, kind in demonstration.FILES.items():
            check_output(folder / name, kind, force=force)
        demonstration.run(folder, seed, say, execute)
        return
    with tempfile.TemporaryDirectory(prefix="gpclass-demo-") as temporary:
        demonstration.run(Path(temporary), seed, say, execute)
