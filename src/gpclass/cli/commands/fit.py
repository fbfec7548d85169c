"""Fit a model to a table and write it to a file."""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from ...progress import Interruption, begin, keeping_best
from ..application import app
from ..clusters import client_of
from ..console import EXIT_CODES, INTERRUPTED, Output, command, facts, number, short_warnings
from ..options import (
    Categories,
    Cluster,
    Drop,
    Engine,
    Force,
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
def fit(
    data: Tables,
    target: TargetColumn,
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file to write.")] = Path("model.gpclass"),
    engine: Engine = "auto",
    likelihood: Likelihood = "auto",
    categories: Categories = "",
    kernel: KernelText = None,
    impute: ImputeOption = None,
    drop: Drop = "",
    id: Id = None,
    restarts: Annotated[int, typer.Option(min=0, help="Additional searches for hyperparameters from random starts.")] = 0,
    jobs: Annotated[
        int | None, typer.Option(min=-1, metavar="N", help="Processes for restarts and kernels; -1 uses all processors.")
    ] = None,
    cluster: Cluster = None,
    workers: Workers = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="File for the state of training on minibatches. The same command continues from it.")
    ] = None,
    seed: Seed = 0,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
    *,
    given: Given,
) -> None:
    """Learn to predict a column of labels from the other columns and write the model to a file.

    Without --kernel, small tables are fitted with several kernels, which are averaged with weights by their leave-one-out
    probabilities (--kernel auto), and larger ones with the default kernel of GPClassifier. Text columns become one input per
    level. The kernel measures each input in units of its spread. The model file can be loaded in Python too:
    gpclass.load(file).predict_proba(data_frame).

    Several files must have the same columns and are one table. With --cluster or --workers, the workers read the files
    and keep the rows: the engine is then one of scalable-ep (the default), coupled-scalable-ep, stochastic-ep, svgp,
    gfitc and ivm. All workers must see the files under the same names. Without them, files of more than ten million
    cells in all are read as a stream, once in each pass, if all inputs are numbers.
    """
    begin(f"reading {data}")  # before the imports, which take a second or more
    from ...persist import save
    from .. import models, remedies, training
    from ..cautions import cautions
    from ..outputs import check_output

    out = Output(as_json, quiet)
    engine, likelihood = engine.lower(), likelihood.lower()
    check_output(output, "model", [data, checkpoint], force)
    if jobs is not None and (cluster is not None or workers is not None):
        raise ValueError("--jobs is for tables that are read in one process: leave it out with --cluster and --workers")
    columns = given.columns(target, drop, id, impute)
    with client_of(cluster, workers) as client, short_warnings(out):
        data = data if cluster is None else data.absolute()  # its workers run in other folders
        rows = remedies.diagnosed(lambda some: training.read_training(data, some, engine, client), columns, given)
        for caution in cautions(rows):
            out.remark(f"warning: {caution}")
        default = None
        if rows.y is not None:
            default = models.default_kernel(rows.n_rows, len(rows.counts), engine, likelihood)
        saving = None
        if checkpoint is not None:
            saving = training.engine_with_checkpoint(engine, rows, likelihood, checkpoint)
            default = None  # a run on minibatches has one kernel
        pipeline = models.make_pipeline(
            columns.encoder(),
            engine=engine if saving is None else saving,
            likelihood=likelihood,
            categories=training.ordered_labels(categories, list(rows.counts)),
            kernel=kernel if kernel is not None else default,
            restarts=restarts,
            seed=seed,
            jobs=jobs,
            calibrate="held-out",
        )
        begun = time.perf_counter()
        begin("fit")
        # with a checkpoint the same command continues; without, what was learned is all that remains
        with keeping_best() if checkpoint is None else nullcontext(Interruption()) as interruption:
            try:
                pipeline = training.fitted(pipeline, rows)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(_after_ctrl_c(checkpoint)) from None
        seconds = time.perf_counter() - begun
        begin(f"writing {output}")
        classifier = pipeline.steps[-1][1].set_params(n_jobs=None)
        save(pipeline, output)
        begin("scores of the training rows")
        outcome = {**models.fit_figures(classifier, rows.names, rows.counts), "seconds": seconds}
        outcome["interrupted"] = interruption.after if interruption.happened else None
        if client is not None:
            outcome["workers"] = len(client.nthreads())
    out.result({"model": str(output), **outcome}, facts(_fit_facts(outcome, models.described(outcome["kernel"]), output)))
    if interruption.happened:
        out.remark(_what_is_left(classifier, interruption.after, output))
        raise typer.Exit(INTERRUPTED)


def _after_ctrl_c(checkpoint: Path | None) -> str:
    """Return what Ctrl-C leaves of a run that was not finished."""
    if checkpoint is not None and checkpoint.exists():
        return f"interrupted; the run is saved in {checkpoint}, and the same command continues it"
    return "interrupted; no model was written"


def _what_is_left(classifier: Any, after: str, output: Path) -> str:
    """Return where the model of an interrupted fit is, and how to continue next time."""
    text = f"interrupted after {after}: the model of what was learned so far is in {output}"
    if not classifier.calibration_.n_rows and classifier.calibrate is not None:
        text += "; it is not calibrated"
    return f"{text}; add --checkpoint FILE to be able to continue" if classifier.inference_.minibatches else text


def _fit_facts(outcome: dict[str, Any], kernel: str, output: Path) -> list[tuple[str, str]]:
    from ...assess.summaries import calibration_in_words

    classes = ", ".join(f"{label} {count}" for label, count in outcome["classes"].items())
    inputs = _of(outcome["inputs"], "input")
    rows = [
        ("data", f"{outcome['rows']} rows, {_of(len(outcome['columns']), 'column')}, {inputs}{_where(outcome)}"),
        ("classes", classes),
        ("engine", f"{outcome['engine']} with {outcome['likelihood']}"),
        ("kernel", kernel),
    ]
    if len(outcome["kernels"]) > 1:
        parts = [f"{100 * weight:.0f} % {name}" for name, weight in outcome["kernels"].items()]
        rows[-1] = ("kernels", "\n".join(parts))
    if outcome["log_evidence"] is not None:
        remark = "" if outcome["evidence_is_comparable"] else " (not comparable with other engines)"
        rows.append(("log evidence", number(outcome["log_evidence"], 2) + remark))
    if outcome["calibration"] is not None:
        rows.append(("calibration", calibration_in_words(outcome["calibration"])))
    if outcome["loo_nlpd"] is not None:
        text = f"error {100 * outcome['loo_error']:.1f} %, NLPD {outcome['loo_nlpd']:.3f} nats"
        if "loo_ranked_probability_score" in outcome:
            text += f", ranked probability score {outcome['loo_ranked_probability_score']:.3f}"
        rows.append(("leave-one-out", text))
    elif outcome["quality"] is not None:
        rows.append((outcome["quality"]["how"], _quality_in_words(outcome["quality"])))
    return [*rows, ("time", f"{outcome['seconds']:.1f} s"), ("model", str(output))]


def _of(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def _where(outcome: dict[str, Any]) -> str:
    count = outcome.get("workers")
    return "" if count is None else f" on {count} worker{'s' * (count > 1)}"


def _quality_in_words(found: dict[str, Any]) -> str:
    text = f"error {100 * found['error']:.1f} %, NLPD {found['nlpd']:.3f} nats, calibration error "
    text += f"{found['calibration_error']:.3f} ({found['calibration_error_before']:.3f} before) on {found['rows']} rows"
    return f"{text}; too good, because inducing inputs were learned from these rows" if found["optimistic"] else text
