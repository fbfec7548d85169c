"""Compare engines on a table."""

from __future__ import annotations

from typing import Annotated

import typer

from ..app import app
from ..clusters import client_of
from ..console import EXIT_CODES, Output, command, grid, number, short_warnings
from ..options import (
    Categories,
    Cluster,
    Drop,
    Engines,
    Id,
    ImputeOption,
    Json,
    KernelText,
    Likelihood,
    Quiet,
    Seed,
    Tables,
    TargetColumn,
    Workers,
)
from ..reading_options import Given, reads_training_tables


@app.command(epilog=EXIT_CODES)
@command
@reads_training_tables
def compare(
    data: Tables,
    target: TargetColumn,
    engines: Engines = None,
    likelihood: Likelihood = "auto",
    categories: Categories = "",
    kernel: KernelText = None,
    folds: Annotated[int, typer.Option(min=2, max=1000, help="Number of folds of the cross-validation.")] = 5,
    impute: ImputeOption = None,
    drop: Drop = "",
    id: Id = None,
    jobs: Annotated[
        int | None,
        typer.Option(min=-1, metavar="N", help="Fits at the same time; -1 uses all processors. A cluster uses all workers."),
    ] = None,
    cluster: Cluster = None,
    workers: Workers = None,
    seed: Seed = 0,
    as_json: Json = False,
    quiet: Quiet = False,
    *,
    given: Given,
) -> None:
    """Compare engines on one table by cross-validation. The best engine comes first.

    Engines are sorted by k-fold NLPD, the mean negative log probability of the true labels. The log evidence is shown if it
    is comparable between engines; samplers, label regression and engines with inducing points or active sets have a dash.
    """
    from .. import compare as comparing
    from .. import models, remedies, training

    out = Output(as_json, quiet)
    columns = given.columns(target, drop, id, impute)
    with short_warnings(out):
        X, y = remedies.diagnosed(lambda some: training.training_table(data, some), columns, given)
    labels = list(dict.fromkeys(y.tolist()))
    names = comparing.chosen_engines(engines, len(y), len(labels), likelihood.lower())
    with client_of(cluster, workers) as client, short_warnings(out):
        pipeline = models.make_pipeline(
            columns.encoder(),
            likelihood=likelihood.lower(),
            categories=training.ordered_labels(categories, labels),
            kernel=kernel,
            seed=seed,
        )
        with out.progress() as bar:
            folds = min(folds, len(y))
            task = bar.add_task("fits", total=len(names) * (1 + folds))

            def done(engine: str) -> None:
                bar.update(task, advance=1, description=engine)

            with comparing.on_workers(client):
                rows = comparing.compare(pipeline, X, y, names, folds, seed, done, None if client is not None else jobs or 1)
    outcome = {"rows": len(y), "folds": folds, "engines": [row.as_dict() for row in rows]}
    header = ("engine", "log evidence", "LOO NLPD", f"{folds}-fold NLPD", "error %", "ECE", "seconds")
    cells = [
        (
            row.engine,
            number(row.log_evidence, 2),
            number(row.loo_nlpd),
            number(row.kfold_nlpd),
            number(None if row.kfold_error is None else 100 * row.kfold_error, 1),
            number(row.kfold_calibration),
            number(row.seconds, 2),
        )
        for row in rows
    ]
    notes = [f"{row.engine}: {models.described(row.note, 200)}" for row in rows if row.note]
    if any(row.log_evidence is None and row.kfold_nlpd is not None for row in rows):
        notes.append("–: this engine has no log evidence that can be compared with other engines.")
    notes.append(
        "NLPD (nats), error, calibration error (ECE): smaller is better. Log evidence: larger is better. Seconds: one fit."
    )
    out.result(outcome, grid(header, cells), *notes)
    if all(row.kfold_nlpd is None for row in rows):
        raise ValueError(f"all engines failed; {rows[0].engine} {rows[0].note}")
