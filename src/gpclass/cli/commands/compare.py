"""Compare engines on a table."""

from __future__ import annotations

from typing import Annotated

import typer

from ...progress import begin
from ..application import app
from ..clusters import client_of
from ..console import EXIT_CODES, LONGEST, Output, command, grid, number, short_warnings, with_options
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
    begin(f"reading {data}")
    from ...assess import compare as cross_validated
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
        begin("comparison")
        folds = min(folds, len(y))
        with comparing.on_workers(client):
            n_jobs = None if client is not None else jobs or 1
            table = cross_validated(pipeline, X, y, names, folds=folds, random_state=seed, n_jobs=n_jobs)
    outcome = {"rows": len(y), "folds": folds, "engines": table.reset_index().to_dict(orient="records")}
    header = ("engine", "log evidence", "LOO NLPD", f"{folds}-fold NLPD", "error %", "ECE", "seconds")
    cells = [
        (
            row.Index,
            number(row.log_evidence, 2),
            number(row.loo_nlpd),
            number(row.kfold_nlpd),
            number(100 * row.kfold_error, 1),
            number(row.kfold_calibration),
            number(row.seconds, 2),
        )
        for row in table.itertuples()
    ]
    notes = [f"{engine}: {models.described(with_options(note), LONGEST)}" for engine, note in table["note"].items() if note]
    if any(table["log_evidence"].isna() & table["kfold_nlpd"].notna()):
        notes.append("–: this engine has no log evidence that can be compared with other engines.")
    if (table["kfold_nlpd"] == float("inf")).any():
        notes.append(f"– under {folds}-fold NLPD: it is infinite, because {comparing.impossible_labels(y, folds, seed)}.")
    notes.append(
        "NLPD (nats), error, calibration error (ECE): smaller is better. Log evidence: larger is better. Seconds: one fit."
    )
    out.result(outcome, grid(header, cells), *notes)
    if table["kfold_nlpd"].isna().all():
        raise ValueError(f"all engines failed; {table.index[0]} {table['note'].iloc[0]}")
