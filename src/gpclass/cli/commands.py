"""The commands and their options.

Modules that import NumPy or other large packages are imported inside the commands, so that --help and --version are fast.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._version import __version__
from .console import EXIT_CODES, NoCluster, NoTraining, Output, command, facts, grid, number, short_warnings
from .names import ENGINES, KERNELS, SAMPLERS

if TYPE_CHECKING:
    import numpy as np

    from .models import Rows, Standing

app = typer.Typer(
    name="gpclass",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Gaussian process classification of tables, with calibrated class probabilities and reports on their quality.",
    epilog=EXIT_CODES,
)


class Impute(str, Enum):
    """Values of the option --impute."""

    median = "median"
    indicator = "indicator"


Data = Annotated[Path, typer.Argument(help="Table with a header: .csv, .tsv (also .gz) or .parquet.")]
Tables = Annotated[
    Path,
    typer.Argument(help='Table with a header: .csv, .tsv (also .gz) or .parquet; or several in a folder or "a-*.csv".'),
]
ModelFile = Annotated[Path, typer.Argument(help="A model file written by `gpclass fit`.")]
TargetColumn = Annotated[str, typer.Option("--target", "-t", help="Name of the column of labels.")]
OtherTarget = Annotated[
    str | None, typer.Option("--target", "-t", help="Name of the column of labels, if different from the training data.")
]
Engine = Annotated[str, typer.Option("--engine", "-e", help=f"auto, {', '.join(ENGINES)}.")]
Engines = Annotated[str | None, typer.Option("--engines", help="Names separated by commas, such as ep,laplace.")]
Likelihood = Annotated[str, typer.Option(help="auto, probit, logit; softmax, multinomial-probit, robust-max; ordinal.")]
Categories = Annotated[
    str, typer.Option(help="All labels in their order, separated by commas, such as low,medium,high. By default sorted.")
]
KernelText = Annotated[
    str | None,
    typer.Option("--kernel", "-k", help=f'Sums and products of kernels, such as "rbf-ard + linear": {", ".join(KERNELS)}.'),
]
ImputeOption = Annotated[
    Impute | None, typer.Option(help="Fill empty cells with medians of the training data. By default they are an error.")
]
Drop = Annotated[str, typer.Option(help="Columns to leave out, separated by commas.")]
Id = Annotated[
    str | None,
    typer.Option("--id", help="Column that identifies rows. It is not an input. It is shown with the line of the row."),
]
Cluster = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Use the workers of a Dask scheduler, such as tcp://scheduler:8786."),
]
Workers = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Start N worker processes on this machine and use them (Dask).")
]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing file of another kind.")]
Seed = Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Seed of all random numbers.")]
Json = Annotated[bool, typer.Option("--json", help="Print the results as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors (and JSON).")]


def _version(asked: bool) -> None:
    if asked:
        print(f"gpclass {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    pass


@app.command(epilog=EXIT_CODES)
@command
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
) -> None:
    """Learn to predict a column of labels from the other columns and write the model to a file.

    Without --kernel, small tables are fitted with several kernels, which are averaged with weights by their leave-one-out
    probabilities (--kernel auto), and larger ones with the default kernel of GPClassifier. Text columns become one input per
    level. The kernel measures each input in units of its spread. The model file can be
    loaded in Python too: gpclass.load(file).predict_proba(data_frame).

    Several files must have the same columns and are one table. With --cluster or --workers, the workers read the files and
    keep the rows: the engine is then one of scalable-ep (the default), stochastic-ep, svgp, gfitc and ivm. All workers must
    see the files under the same names. Without them, files of more than ten million cells in all are read as a stream,
    again and again, if all inputs are numbers.
    """
    from ..persist import save
    from . import models, training
    from .outputs import check_output

    out = Output(as_json, quiet)
    engine, likelihood = engine.lower(), likelihood.lower()
    check_output(output, "model", [data, checkpoint], force)
    if jobs is not None and (cluster is not None or workers is not None):
        raise ValueError("--jobs is for tables that are read in one process: leave it out with --cluster and --workers")
    columns = training.Columns.of(target, drop, id)
    with _client(cluster, workers) as client, short_warnings(out):
        data = data if cluster is None else data.absolute()  # its workers run in other folders
        rows = training.read_training(data, columns, engine, impute is not None, client)
        default = None
        if rows.y is not None:
            default = models.default_kernel(rows.n_rows, len(rows.counts), engine, likelihood)
        saving = None
        if checkpoint is not None:
            saving = training.engine_with_checkpoint(engine, rows, likelihood, checkpoint)
            default = None  # a run on minibatches has one kernel
        pipeline = models.make_pipeline(
            target,
            engine=engine if saving is None else saving,
            likelihood=likelihood,
            categories=training.ordered_labels(categories, list(rows.counts)),
            kernel=kernel if kernel is not None else default,
            impute=impute.value if impute else None,
            restarts=restarts,
            seed=seed,
            verbose=int(out.reports if engine in SAMPLERS else out.interactive),
            id=id,
            jobs=jobs,
        )
        began = time.perf_counter()
        with _goes_on(checkpoint, out):
            pipeline = training.fitted(pipeline, rows)
        seconds = time.perf_counter() - began
        classifier = pipeline.steps[-1][1].set_params(verbose=0, n_jobs=None)
        save(pipeline, output)
        outcome = {**models.fit_figures(classifier, rows.names, rows.counts), "seconds": seconds}
        if client is not None:
            outcome["workers"] = len(client.nthreads())
    out.result({"model": str(output), **outcome}, facts(_fit_facts(outcome, models.described(outcome["kernel"]), output)))


@contextmanager
def _client(cluster: str | None, workers: int | None) -> Iterator[Any]:
    """Yield a Dask client as --cluster and --workers say, or None; the client is closed at the end, also after errors."""
    if cluster is None and workers is None:
        yield None
        return
    if cluster is not None and workers is not None:
        raise ValueError("--cluster uses the workers of a cluster, and --workers starts some on this machine: choose one")
    from ..distributed.clusters import connected
    from ..learning.crew import CrewLost

    try:
        with connected(cluster, workers) as client:
            yield client
    except CrewLost as error:
        raise NoCluster(str(error)) from error


@contextmanager
def _goes_on(checkpoint: Path | None, out: Output) -> Iterator[None]:
    """Say what Ctrl-C leaves of a run with a checkpoint."""
    try:
        yield
    except KeyboardInterrupt:
        if checkpoint is not None and checkpoint.exists():
            out.remark(f"interrupted; the run is saved in {checkpoint}, and the same command continues it")
        raise


def _fit_facts(outcome: dict[str, Any], kernel: str, output: Path) -> list[tuple[str, str]]:
    from ..assess.summaries import calibration_in_words

    classes = ", ".join(f"{label} {count}" for label, count in outcome["classes"].items())
    rows = [
        ("data", f"{outcome['rows']} rows, {len(outcome['columns'])} columns, {outcome['inputs']} inputs{_where(outcome)}"),
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
    return [*rows, ("time", f"{outcome['seconds']:.1f} s"), ("model", str(output))]


def _where(outcome: dict[str, Any]) -> str:
    count = outcome.get("workers")
    return "" if count is None else f" on {count} worker{'s' * (count > 1)}"


@app.command(epilog=EXIT_CODES)
@command
def predict(
    model: ModelFile,
    data: Tables,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Table to write, or a folder (a name without extension). By default stdout."),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Also write the columns of the input.")] = False,
    id: Id = None,
    cluster: Cluster = None,
    workers: Workers = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Predict the rows of a table. The output has one row for each row of the table.

    row: line in the data file, header not counted. prediction: the most probable class. p(<label>): probability of each
    class. latent_variance: variance of the latent function (with three or more classes, of the differences between
    classes). variance_left: latent variance divided by prior variance, from 0 (determined by the training data) to 1
    (unknown). far: true if the row is far from all training rows, measured by the correlation under the kernel and
    compared with the distances between training rows; predictions there are unreliable. in_training: true if a training
    row has the same inputs. Predictions of such rows come from the model that has seen them; if the table has labels,
    they are scored by leave-one-out. It is empty if the model was fitted on a cluster: such models do not recognise
    training rows.

    Predictions of several files, and those by the workers of a cluster, are written to a folder: one file
    part-00000.parquet for each input file, or for each row group of a large Parquet file, with one more column, file. One
    part at a time is in memory. All workers must see the files and the folder under the same names.
    """
    from ..tables import csv_text, write_table
    from . import models, training
    from .outputs import check_output

    out = Output(as_json, quiet)
    if training.several_files(data) or cluster or workers or (output is not None and not output.suffix):
        _predict_files(model, data, output, keep, id, cluster, workers, force, out)
        return
    if output is not None:
        check_output(output, "table", [model, data], force)
    fitted = models.read_model(model)
    rows = models.read_for(fitted, data, id)
    with short_warnings(out):
        target, y = _labels_if_any(fitted, rows.frame, out)
        judged, standing = models.judged_rows(fitted, rows, y)
        table = models.predictions(fitted, rows, judged)
    shown = models.beside(rows, table) if keep else table
    if output is not None:
        write_table(shown, output)
    found = table["prediction"].value_counts()
    outcome = _predicted(fitted, {k: int(found[k]) for k in found.index}, int(table["far"].sum()), standing)
    remark = models.seen_in_words(fitted, standing, scored=y is not None and output is not None, listed=True)
    if output is None and not as_json:
        print(csv_text(shown), end="")
        if remark:
            out.remark(f"note: {remark if standing.recognises else f'{models.IN_TRAINING} is {remark}'}")
        return
    if output is None:
        out.result({**outcome, "predictions": models.records(table)})
    else:
        told = facts(_predict_facts(outcome, remark, target, output))
        out.result({"output": str(output), **outcome}, told)


def _predict_files(
    model: Path,
    data: Path,
    output: Path | None,
    keep: bool,
    id: str | None,
    cluster: str | None,
    workers: int | None,
    force: bool,
    out: Output,
) -> None:
    """Predict several files, or one on a cluster, and write a folder."""
    from ..tables import check_table_path
    from . import folders, models

    if output is None or output.suffix:
        named = "" if output is None else f", but {output} has the extension of a file"
        raise ValueError(
            f"predictions of several files, and those of a cluster, are written to a folder: name it with -o{named}"
        )
    if cluster is not None:
        data, output = data.absolute(), output.absolute()  # its workers run in other folders
    jobs = folders.jobs_of(data, output, id, keep)
    check_table_path(Path(jobs[0].output))
    folders.check_folder(output, [model], jobs, force)
    fitted = models.read_model(model)
    with _client(cluster, workers) as client, short_warnings(out), out.progress() as bar:
        folders.prepare_folder(output)
        task = bar.add_task("files", total=len(jobs))
        done = folders.predict_files(fitted, jobs, client, lambda: bar.update(task, advance=1))
        for text in done.warned:
            warnings.warn(text, UserWarning, stacklevel=1)
    if done.unscored:
        out.remark(f"not scored: {done.unscored}")
    outcome = {**_predicted(fitted, done.predicted, done.far, done.standing), "files": len(jobs)}
    remark = models.seen_in_words(fitted, done.standing, scored=done.scored, listed=True)
    told = facts(_predict_facts(outcome, remark, fitted.steps[0][1].target, output))
    out.result({"output": str(output), **outcome}, told)


def _predicted(fitted: Any, counts: dict[Any, int], far: int, standing: Standing) -> dict[str, Any]:
    """Return what is told of predictions: numbers of rows and scores. `counts` are those of the predicted classes."""
    predicted = {str(label): counts[label] for label in fitted.steps[-1][1].classes_.tolist() if label in counts}
    return {"rows": standing.rows, "predicted": predicted, "far": far, **standing.figures(fitted)}


def _predict_facts(outcome: dict[str, Any], remark: str, target: str, output: Path) -> list[tuple[str, str]]:
    from .models import IN_TRAINING

    told = [("rows", str(outcome["rows"]))]
    if "files" in outcome:
        told[0] = ("rows", f"{outcome['rows']} in {outcome['files']} file{'s' * (outcome['files'] > 1)}")
    told.append(("predicted", ", ".join(f"{k} {v}" for k, v in outcome["predicted"].items())))
    told.append(("far", f"{outcome['far']} rows are far from all training rows"))
    if remark:
        told.append((IN_TRAINING, remark))
    if "error" in outcome:
        told.append(("labels", f"{target} is in the table: {_scores_in_words(outcome)}"))
    return [*told, ("output", str(output))]


def _scores_in_words(outcome: dict[str, Any]) -> str:
    ranked = outcome.get("ranked_probability_score")
    more = "" if ranked is None else f", ranked probability score {ranked:.3f}"
    return f"error {100 * outcome['error']:.1f} %, NLPD {outcome['nlpd']:.3f} nats{more} on {outcome['scored']} rows"


def _labels_if_any(fitted: Any, frame: Any, out: Output) -> tuple[str, np.ndarray | None]:
    """Return the name and the labels of the target column; if these cannot be used, print why and return no labels."""
    from .models import known_labels

    try:
        return known_labels(fitted, frame, None)
    except ValueError as error:
        out.remark(f"not scored: {error}")
        return "", None


@app.command(epilog=EXIT_CODES)
@command
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
) -> None:
    """Compare engines on one table by cross-validation. The best engine comes first.

    Engines are sorted by k-fold NLPD, the mean negative log probability of the true labels. The log evidence is shown if it
    is comparable between engines; samplers, label regression and engines with inducing points or active sets have a dash.
    """
    from ..assess import compare as cross_validated
    from . import compare as comparing
    from . import models, training

    out = Output(as_json, quiet)
    X, y = training.training_table(data, training.Columns.of(target, drop, id))
    labels = list(dict.fromkeys(y.tolist()))
    names = comparing.chosen_engines(engines, len(y), len(labels), likelihood.lower())
    with _client(cluster, workers) as client, short_warnings(out):
        pipeline = models.make_pipeline(
            target,
            likelihood=likelihood.lower(),
            categories=training.ordered_labels(categories, labels),
            kernel=kernel,
            impute=impute.value if impute else None,
            seed=seed,
        )
        pipeline.steps[0][1].fit_transform(X)  # reports bad cells before any work
        with out.progress() as bar:
            folds = min(folds, len(y))
            task = bar.add_task("fits", total=len(names) * (1 + folds))

            def done(engine: str) -> None:
                bar.update(task, advance=1, description=engine)

            with comparing.on_workers(client):
                n_jobs = None if client is not None else jobs or 1
                table = cross_validated(pipeline, X, y, names, folds=folds, random_state=seed, n_jobs=n_jobs, done=done)
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
    notes = [f"{engine}: {models.described(note, 200)}" for engine, note in table["note"].items() if note]
    if any(table["log_evidence"].isna() & table["kfold_nlpd"].notna()):
        notes.append("–: this engine has no log evidence that can be compared with other engines.")
    notes.append(
        "NLPD (nats), error, calibration error (ECE): smaller is better. Log evidence: larger is better. Seconds: one fit."
    )
    out.result(outcome, grid(header, cells), *notes)
    if table["kfold_nlpd"].isna().all():
        raise ValueError(f"all engines failed; {table.index[0]} {table['note'].iloc[0]}")


@app.command(epilog=EXIT_CODES)
@command
def audit(
    model: ModelFile,
    data: Annotated[
        Path | None, typer.Argument(help="Table of rows at which probabilities are compared. By default the training rows.")
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure the error of the approximation by comparison with samplers, which are exact in the limit.

    The comparison shows how accurate the computation is, not how good the model is. The quality of the model is shown by
    the leave-one-out scores of the training rows, and by the scores on DATA if it has labels.
    """
    from ..sampling import audit as run_audit
    from . import models

    out = Output(as_json, quiet)
    fitted = models.read_model(model)
    rows = None if data is None else models.read_for(fitted, data)
    with short_warnings(out):
        try:
            at = None if rows is None else rows.frame
            result = run_audit(fitted, at, random_state=seed, verbose=int(out.interactive))
        except TypeError as error:
            raise NoTraining(str(error)) from error
        figures, told = _audited_rows(fitted, rows, out)
    quantities = [
        {"quantity": quantity, "value": value, "error": error, "remark": remark}
        for quantity, value, error, remark in result.rows()
    ]
    cells = [
        (quantity, remark, "–" if value is None else f"{value:.4g}", "" if error is None else f"± {error:.2g}")
        for quantity, value, error, remark in result.rows()
    ]
    heading = f"{result.engine} with {result.likelihood} on {result.n_points} rows: [bold]{result.verdict}[/bold]."
    outcome = {"engine": result.engine, "likelihood": result.likelihood, "verdict": result.verdict, **figures}
    outcome["quantities"] = quantities
    out.result(outcome, heading, grid(("quantity", "", "value", "error"), cells, left=2), facts(told))


def _audited_rows(fitted: Any, rows: Rows | None, out: Output) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return the rows at which class probabilities were compared, and scores of the model, as data and as text."""
    from ..assess.summaries import loo_scores
    from . import models

    classifier = fitted.steps[-1][1]
    loo = loo_scores(classifier)
    told = []
    if loo["loo_error"] is not None:
        shown = f"error {100 * loo['loo_error']:.1f} %, NLPD {number(loo['loo_nlpd'])} nats"
        told.append(("leave-one-out", f"{shown} on the {len(classifier.row_fingerprints_)} training rows"))
    if rows is None:
        return {"compared_at": "training rows", **loo}, [("compared at", "the training rows"), *told]
    target, y = _labels_if_any(fitted, rows.frame, out)
    _, standing = models.judged_rows(fitted, rows, y)
    figures = standing.figures(fitted)
    known = models.seen_in_words(fitted, standing, scored=y is not None)
    told.insert(0, ("compared at", known or f"{len(rows.lines)} rows, none of which was used for training"))
    if "error" in figures:
        told.append(("labels", f"{target} is in the table: {_scores_in_words(figures)}"))
    return {"compared_at": "rows of the table", "rows": len(rows.lines), **figures, **loo}, told


@app.command(epilog=EXIT_CODES)
@command
def report(
    model: ModelFile,
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")] = Path("report.html"),
    target: OtherTarget = None,
    train: Annotated[
        Path | None, typer.Option(help="The table that the model was fitted to, for a comparison of engines.")
    ] = None,
    engines: Engines = None,
    title: Annotated[str | None, typer.Option(help="Heading of the report.")] = None,
    id: Id = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a report on a model as one HTML file. The model is scored on a table of rows with labels.

    Training rows in the table are recognised and scored by leave-one-out; engines that do not offer leave-one-out are not
    scored on such rows. With --train the report also compares engines.
    """
    from ..assess.report import write_report
    from . import compare as comparing
    from . import models
    from .outputs import check_output

    out = Output(as_json, quiet)
    check_output(output, "report", [model, data, train], force)
    fitted = models.read_model(model)
    rows = models.read_for(fitted, data, id, target)
    frame = rows.frame
    name, y = models.known_labels(fitted, frame, target)
    if y is None:
        raise ValueError(f"a report needs labels, but {data} has no column {name!r}; name another with --target")
    classifier = fitted.steps[-1][1]
    asked = len(y), len(classifier.classes_), classifier.likelihood
    names = None if engines is None else comparing.chosen_engines(engines, *asked)
    if names is not None and train is None:
        raise ValueError("--engines needs --train, the table that the model was fitted to")
    train_rows = None if train is None else models.training_rows(fitted, train, id)
    with short_warnings(out):
        write_report(fitted, frame.drop(columns=name), y, output, data=train_rows, engines=names, title=title)
        _, standing = models.judged_rows(fitted, rows, y)
    figures = standing.figures(fitted)
    remark, size = models.seen_in_words(fitted, standing), output.stat().st_size
    remark = remark if standing.recognises else f"{models.IN_TRAINING}: {remark}"
    shown = [f"{output} ({size / 1024:.0f} kB)", *([remark] if remark else [])]
    out.result({"report": str(output), "rows": len(y), "bytes": size, **figures}, *shown)


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
    from .. import datasets as collections
    from ..tables import csv_text, write_table
    from .demo import as_frame
    from .outputs import check_output

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


@app.command(epilog=EXIT_CODES)
@command
def demo(
    folder: Annotated[Path | None, typer.Option(help="Folder for the files. By default a temporary folder.")] = None,
    seed: Seed = 0,
    force: Force = False,
) -> None:
    """Compare engines, fit a model and predict new rows on an included data set."""
    from . import demo as demonstration
    from .outputs import check_output

    commands = {"compare": compare, "fit": fit, "predict": predict}

    def say(text: str) -> None:
        print(text, flush=True)

    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, kind in demonstration.FILES.items():
            check_output(folder / name, kind, force=force)
        demonstration.run(folder, seed, say, commands)
        return
    with tempfile.TemporaryDirectory(prefix="gpclass-demo-") as temporary:
        demonstration.run(Path(temporary), seed, say, commands)
