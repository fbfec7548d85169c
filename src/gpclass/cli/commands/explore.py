"""Open a page in which the hyperparameters of a model are dragged."""

from __future__ import annotations

from typing import Annotated

import typer

from ...progress import begin
from ..application import app
from ..console import EXIT_CODES, Output, command, short_warnings
from ..options import Drop, Engine, Id, ImputeOption, KernelText, Likelihood, Quiet, Seed, Tables, TargetColumn
from ..reading_options import Given, reads_training_tables


@app.command(epilog=EXIT_CODES)
@command
@reads_training_tables
def explore(
    data: Tables,
    target: TargetColumn,
    engine: Engine = "auto",
    likelihood: Likelihood = "auto",
    kernel: KernelText = None,
    impute: ImputeOption = None,
    drop: Drop = "",
    id: Id = None,
    rows: Annotated[int, typer.Option(min=10, help="Largest number of rows. Of a larger table, a sample is shown.")] = 1000,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the page; 0 takes any free one.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    seed: Seed = 0,
    quiet: Quiet = False,
    *,
    given: Given,
) -> None:
    """Open a page in which you drag lengthscale and scale and see the model change. Ctrl-C ends it.

    The page shows the decision map, reliability, leave-one-out scores and log evidence of a table, for any engine, kernel
    and likelihood that use all rows, and the Python code of the model. It is served on 127.0.0.1 only: other machines cannot
    open it, and other pages do not know the token in its address.
    """
    begin(f"reading {data}")
    from .. import explore as exploring

    out = Output(quiet=quiet)
    with short_warnings(out):
        exploring.explore(
            data,
            given.columns(target, drop, id, impute),
            engine=engine.lower(),
            kernel=kernel,
            likelihood=likelihood.lower(),
            given=given,
            most=rows,
            port=port,
            browser=browser,
            seed=seed,
            out=out,
        )
